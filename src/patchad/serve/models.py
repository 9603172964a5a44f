"""Models in force: what people accept or confirm, and new files, tried on the recent past before they take over."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from patchad.data.table import Table, to_table
from patchad.detectors.base import Detector
from patchad.detectors.registry import load
from patchad.detectors.saving import fingerprint
from patchad.errors import InputError, ModelFileError
from patchad.live.config import Configuration
from patchad.live.history import Rows
from patchad.live.records import Records, StoredModel
from patchad.live.store import Step, Store
from patchad.live.streams import Batch
from patchad.live.takeover import try_model
from patchad.serve.measures import Measures
from patchad.serve.problems import Problem
from patchad.serve.settings import Limits
from patchad.serve.station import Station

CONTEXT = 4
"""Windows before an event by which it is seen as it was."""
LEAST_CONTEXT = 200


def stored_model(detector: Detector, given: str, why: str) -> StoredModel:
    """Return a detector as it is stored."""
    with tempfile.TemporaryDirectory() as folder:
        file = detector.save(Path(folder) / "model.safetensors").read_bytes()
    return StoredModel(fingerprint(detector), given, why, file=file)


def detector_of(file: bytes) -> Detector:
    """Read a model file from its bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(file)
        try:
            return load(path)
        except ModelFileError as error:
            raise ModelFileError(str(error).replace(repr(str(path)), "the file")) from None


def judge_event(station: Station, event: Mapping[str, Any], *, accepted: bool) -> Detector:
    """Return the model that has learned from an event; its rows are those that are stored."""
    detector = station.detector
    before = context_rows(detector)
    first, stop = int(event["start"]), int(event["stop"])
    with station.records() as records:
        rows = records.rows(event["key"], last=station.streams.count(event["key"]) - first + before)
    inside = np.flatnonzero(rows.index < stop + before)
    if not len(inside) or int(rows.index[0]) > first:
        raise Problem(409, "the rows of this event are no longer stored; judge a later event of the same kind")
    offset = int(rows.index[0])
    wiser = copy.copy(detector)
    table = table_of(rows, detector)
    judge = wiser.accept if accepted else wiser.confirm
    judge(table.take(slice(0, len(inside))), start=first - offset, stop=min(stop - offset, len(inside)))
    return wiser


def context_rows(detector: Detector) -> int:
    """Return how many rows before and after an event are taken with it."""
    return max(CONTEXT * int(getattr(detector, "window_", 1)), LEAST_CONTEXT)


def table_of(rows: Rows, detector: Detector) -> Table:
    """Return stored rows as a table."""
    import pandas as pd

    columns = {name: rows.numbers.get(name, rows.texts.get(name)) for name in (*rows.numbers, *rows.texts)}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))
    if any(time is None for time in rows.times):
        return to_table(frame) if detector.named_ else to_table(frame.to_numpy(dtype=float))
    name = "time"
    while name in frame:
        name += "_"
    frame.insert(0, name, pd.Series(list(rows.times), index=frame.index))
    return to_table(frame, time=name)


def swap(station: Station, detector: Detector, why: str, given: str | None = None) -> None:
    """Let the streams go on with another model; in the thread of the station, or before it starts."""
    batch = Batch()
    if given is None:
        now = station.store.model()
        given = "" if now is None else now.given
    moved = station.streams.move(detector, batch)
    before, station.streams = station.streams, moved
    try:
        station.commit(batch, stored_model(detector, given, why))
    except BaseException:
        station.streams = before
        station.reload()
        raise
    station.detector = detector


def try_out(detector: Detector, records: Records) -> dict[str, Any]:
    """Try a model on the newest rows that are stored, as `watch` does; raise `Problem` if it alarms too much.

    Returns
    -------
    How many rows it was tried on, how many events it found there of which nobody was told, and how many are allowed.
    """
    found = try_model(detector, records)
    trial = {"rows": found.rows, "new_events": found.events, "allowed": found.bound, "new_alarm_rows": found.alarms}
    if not found.passed:
        raise Problem(
            409, f"the model alarms too much: {found}. The one in force stays; fit it on newer rows", trial=trial
        )
    return trial


def open_station(
    detector: Detector, store: Store, limits: Limits, measures: Measures, configuration: Configuration | None = None
) -> Station:
    """Return a station that goes on with the model in force.

    What was accepted, confirmed or uploaded is in force as long as the same model file is given; another one takes over
    where it fits the streams.
    """
    given, known = fingerprint(detector), store.model()
    if known is None or not store.keys():
        if store.meta("model") not in (None, given) and store.keys():
            raise InputError("the state belongs to another model; give that one, or another --state")
        store.commit(Step(model=stored_model(detector, given, "start")))
        return Station(detector, store, limits, measures, configuration)
    station = Station(detector_of(known.file), store, limits, measures, configuration)
    if given == known.given:
        return station
    try:
        station.reload()
        swap(station, detector, "start", given)
    except InputError as error:
        raise InputError(
            f"the state {str(store.path)!r} belongs to another model: {error}; name another file"
        ) from None
    return station

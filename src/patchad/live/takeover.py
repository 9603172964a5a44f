"""Takeover: a state goes on with another model, which is tried on the stored rows first."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import poisson

from patchad.data.table import BoolArray
from patchad.errors import InputError, listed
from patchad.live.history import Rows
from patchad.live.records import LIVING, Records
from patchad.live.store import Step, Store
from patchad.live.streams import Batch, LiveStreams, moments_of
from patchad.thresholds.promise import PROMISE_ROWS

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

logger = logging.getLogger(__name__)

REPLAYED = 5_000
"""Newest rows of a stream that another model begins with."""
TRIED = 10_000
"""Newest rows of a stream that a new model is tried on."""
TRIED_STREAMS = 50
KNOWN = 0.5
"""Share of its rows from which on an event is one that was told of."""
ALARMING = 0.1
"""Share of rows that may alarm where no event was told of."""
BOUND = 0.95
"""Of the Poisson distribution of false events that the promise allows."""


def resume(streams: LiveStreams, store: Store) -> None:
    """Let stored streams go on, also where they were stored with another model.

    A stream is carried over where the shapes of the models allow it, else it begins anew with its newest stored rows.
    """
    checksum, shape = streams.identity
    facts = {"model": checksum, "shape": shape}
    if store.meta("model") in (None, checksum) and _restored(streams, store):
        store.note(**facts)
        return
    batch = Batch()
    for one in store.streams():
        same = store.meta("shape") == shape
        if not same or not _adopted(streams, one):
            rows = store.rows(one.key, last=REPLAYED)
            _check_columns(rows, streams.columns.channels)
            silent = one.extra.get("silent") or {}
            living = [event for event in store.living() if event["key"] == one.key and event["id"] != silent.get("id")]
            streams.replay(one, rows, living, batch)
            how = f"begins anew with its newest {len(rows):,} rows"
        else:
            how = "is carried over"
        batch.touched[one.key] = None
        logger.info("stream %r %s", one.key, how)
    step = streams.step(batch, {})
    store.commit(Step(streams=step.streams, lines=step.lines, verdicts=step.verdicts, events=step.events, facts=facts))
    if batch.touched:
        logger.warning("the model, or its settings, are others than before; %d streams go on", len(batch.touched))


def _restored(streams: LiveStreams, store: Store) -> bool:
    try:
        streams.restore(store.streams())
    except InputError:  # a service may have gone on with another model
        return False
    return True


def _adopted(streams: LiveStreams, one: Any) -> bool:
    try:
        streams.adopt(one)
    except InputError:
        return False
    return True


def _check_columns(rows: Rows, columns: Sequence[str]) -> None:
    kept = {*rows.numbers, *rows.texts}
    missing = [name for name in columns if name not in kept]
    if len(rows) and missing:
        raise InputError(
            f"the state belongs to another model: its rows have {listed(sorted(kept))} and this one needs "
            f"{listed(missing)} too; load the model that it was begun with, or name another state"
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """What a new model says of stored rows."""

    rows: int
    events: int
    """Events that it finds where none was told of."""
    bound: int
    """So many false ones the promise allows, with a probability of 95 %."""
    alarms: int
    """Rows that alarm where no event was told of: one event may be very long."""

    @property
    def passed(self) -> bool:
        """Whether the model may be used."""
        return self.events <= self.bound and self.alarms <= ALARMING * self.rows

    def __str__(self) -> str:
        return (
            f"{self.events} new events and {self.alarms:,} new rows that alarm in {self.rows:,} stored rows; "
            f"{self.bound} and {int(ALARMING * self.rows):,} are allowed"
        )


def try_model(detector: Detector, records: Records) -> Trial:
    """Let a model judge the newest stored rows of each stream."""
    rows = events = alarms = 0
    for key in records.keys()[:TRIED_STREAMS]:
        kept = records.rows(key, last=TRIED)
        if not len(kept):
            continue
        _check_columns(kept, detector.columns_ or detector.channels_)
        found, told = detector.detect(frame_of(kept, detector)), _told(key, kept, records)
        rows += len(kept)
        events += sum(told[event.start : event.stop].mean() < KNOWN for event in found.events)
        alarms += int((found.alarms & ~told).sum())
    expected = detector.false_alarms * rows / PROMISE_ROWS
    return Trial(rows, int(events), int(poisson.ppf(BOUND, expected)) if rows else 0, alarms)


def _told(key: Any, rows: Rows, records: Records) -> BoolArray:
    """Mark the rows that lie in an event that was told of."""
    marked: BoolArray = np.zeros(len(rows), dtype=bool)
    first = int(rows.index[0])
    for event in records.events(key):
        if event["state"] != "withdrawn":
            stop = len(rows) if event["state"] in LIVING else max(event["stop"] - first, 0)
            marked[max(event["start"] - first, 0) : stop] = True
    return marked


def frame_of(rows: Rows, detector: Detector) -> Any:
    """Return stored rows as a detector takes them: a frame indexed by times, or an array where it knows no names."""
    import pandas as pd

    names = detector.columns_ or detector.channels_
    missing: Any = np.full(len(rows), np.nan)
    columns = {name: rows.texts.get(name, rows.numbers.get(name, missing)) for name in names}
    if not detector.named_:
        return np.column_stack([columns[name] for name in names])
    times = moments_of(rows)
    index = None
    if times is not None:
        dates = not isinstance(times[0], int | float)
        index = pd.to_datetime(times, utc=True, format="ISO8601") if dates else pd.Index(times, dtype=float)
    return pd.DataFrame(columns, index=index)

"""History: curves of a stream over hours or days, thinned out so that a page can draw them, and csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad.live.history import Rows
from patchad.live.records import Records
from patchad.live.rows import Key
from patchad.report.packing import min_max_rows
from patchad.serve.problems import Problem
from patchad.serve.views import numbers, shown

if TYPE_CHECKING:
    from patchad.serve.station import Station

MOST_ROWS = 200_000
"""Rows that a curve is drawn of, the newest."""
CHANNELS = 4
"""Channels that are drawn where none are chosen."""


def curves_of(
    station: Station,
    records: Records,
    key: Key,
    since: float | None,
    until: float | None,
    channels: Sequence[str],
    points: int,
    last: int = MOST_ROWS,
) -> dict[str, Any]:
    """Return scores with levels, and channels with the range that is usual for them."""
    check_stream(station, records, key)
    rows = records.rows(key, since, until, last=last)
    verdicts = records.verdicts(key, float(rows.at[0]) if len(rows) else since, until, last=last)
    names = [name for name in channels if name in station.detector.channels_] or _worst(station, records, key, since)
    at, index, score, level, alarm = _scores(verdicts)
    ahead = station.outlooks.look_at(key)
    first, end = (float(rows.at[0]), float(rows.at[-1])) if len(rows) else (-np.inf, np.inf)
    known = float(at[-1]) if len(at) else -np.inf
    more = [one for one in tuple(ahead.undecided) if one[0] > known and first <= one[0] <= end]
    if more:
        extra = np.array(more)
        places = int(rows.index[0]) + np.searchsorted(rows.at, extra[:, 0]) if len(rows) else np.arange(len(more))
        at, score, level = (np.concatenate([one, extra[:, n]]) for n, one in enumerate((at, score, level)))
        index, alarm = np.concatenate([index, places]), np.concatenate([alarm, np.zeros(len(more))])
    chosen = min_max_rows(score, points)
    known = float(at[-1]) if len(at) else -np.inf
    said = [one for one in tuple(ahead.said) if one[0] > known and first <= one[0] <= end]
    return {
        "key": shown(key),
        "rows": station.streams.count(key),
        "score": {
            "at": numbers(at[chosen]),
            "index": index[chosen].tolist(),
            "score": numbers(score[chosen]),
            "level": numbers(level[chosen]),
            "alarm": [bool(one) for one in alarm[chosen]],
        },
        "outlook": {"at": [one[0] for one in said], "score": [one[1] for one in said]},
        "channels": [_channel(station, rows, name, points) for name in names],
        "first_at": _first_at(records, key),
    }


def _scores(verdicts: Rows) -> tuple[Any, Any, Any, Any, Any]:
    """Return where verdicts are, their numbers, scores, levels and alarms."""
    if not len(verdicts):
        return np.empty(0), np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0)
    score, level, alarm = (verdicts.numbers[name] for name in ("score", "level", "alarm"))
    return verdicts.at, verdicts.index, score, level, alarm


def check_stream(station: Station, records: Records, key: Key) -> None:
    """Refuse a stream that there is none of."""
    if key not in station.streams and key not in records.keys():  # noqa: SIM118 - a method of its own
        raise Problem(404, f"there is no stream {shown(key)!r}; GET /v1/streams lists them")


def _channel(station: Station, rows: Rows, name: str, points: int) -> dict[str, Any]:
    values = rows.numbers.get(name)
    low, high = usual_range(station.detector, name)
    if values is None:
        return {"name": name, "at": [], "value": [], "low": low, "high": high}
    chosen = min_max_rows(values, points)
    return {"name": name, "at": numbers(rows.at[chosen]), "value": numbers(values[chosen]), "low": low, "high": high}


def usual_range(detector: Any, name: str) -> tuple[float | None, float | None]:
    """Return the range that a channel had in train, as the rules of sensors know it."""
    place = detector.channels_.index(name)
    sensors = detector.alarm_rules_.sensors
    low, high = (float(getattr(sensors, side)[place]) for side in ("low", "high"))
    return (low if abs(low) < 1e300 else None), (high if abs(high) < 1e300 else None)


def _worst(station: Station, records: Records, key: Key, since: float | None) -> list[str]:
    """Return the channels most to blame for the newest events, then the first of the model."""
    blame: dict[str, float] = {}
    events = [*records.events(key, since), *station.current.get(key, ())]
    for event in events[-10:]:
        for name, share in event["channels"]:
            blame[name] = blame.get(name, 0.0) + share
    ranked = sorted(blame, key=lambda name: -blame[name])
    return list(dict.fromkeys([*ranked, *station.detector.channels_]))[:CHANNELS]


def _first_at(records: Records, key: Key) -> float | None:
    first = records.first_at(key)
    return None if first is None or not np.isfinite(first) else first


def export_csv(
    station: Station, records: Records, key: Key, since: float | None, until: float | None, last: int = MOST_ROWS
) -> bytes:
    """Return rows with their verdicts as csv."""
    check_stream(station, records, key)
    rows = records.rows(key, since, until, last=last)
    verdicts = records.verdicts(key, since, until, last=last)
    columns = [name for name in station.streams.columns.channels if name in rows.numbers or name in rows.texts]
    said = {index: place for place, index in enumerate(verdicts.index.tolist())}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "time", *columns, "score", "level", "alarm"])
    for index, time, row in zip(rows.index.tolist(), rows.times, rows, strict=True):
        place = said.get(index)
        verdict = ["", "", ""] if place is None else _verdict(verdicts, place)
        cells = ["" if row.get(name) is None else row[name] for name in columns]
        writer.writerow([index, "" if time is None else time, *cells, *verdict])
    return text.getvalue().encode()


def _verdict(verdicts: Rows, place: int) -> list[Any]:
    score, level, alarm = (float(verdicts.numbers[name][place]) for name in ("score", "level", "alarm"))
    return ["" if score != score else score, "" if level != level else level, int(alarm)]

"""What is seen: stored rows of a stream with what was said of them as a detection, for the report and expected values.

Scores, levels and events are those that callers were told; only expected values are computed anew, by the model in
force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad.detectors.base import Detector
from patchad.detectors.listing import expectations_of
from patchad.detectors.reading import read
from patchad.live.history import Rows
from patchad.live.records import Records
from patchad.live.rows import Key
from patchad.report.page import Chapter, render_page
from patchad.results.detection import MAX_DRAWN_ROWS, MAX_MARGIN, Detection, Event, surroundings
from patchad.serve.history import check_stream
from patchad.serve.models import context_rows, table_of
from patchad.serve.problems import Problem
from patchad.serve.views import events_of, find_event, numbers, shown

if TYPE_CHECKING:
    from patchad.serve.station import Station


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows of a stream, and what was said of them."""

    key: Key
    rows: Rows
    verdicts: Rows
    events: Sequence[Mapping[str, Any]]


def seen_of(station: Station, records: Records, key: Key, since: float | None, until: float | None, last: int) -> Seen:
    """Return the rows of a stream over a time, with their verdicts and events."""
    check_stream(station, records, key)
    rows = records.rows(key, since, until, last=last)
    if not len(rows):
        raise Problem(404, f"the stream {shown(key)!r} has no rows there; ask for another time")
    verdicts = records.verdicts(key, since, until, last=last)
    return Seen(key, rows, verdicts, events_of(station, records, key))


def detection_of(seen: Seen, detector: Detector) -> Detection:
    """Return what is seen as a detection; row numbers count from its first row."""
    first, length = int(seen.rows.index[0]), len(seen.rows)
    known = read(detector, table_of(seen.rows, detector))
    index = known.table.times
    scores, levels, alarms = (np.full(length, np.nan) for _ in range(3))
    places = np.flatnonzero((seen.verdicts.index >= first) & (seen.verdicts.index < first + length))
    for name, column in (("score", scores), ("level", levels), ("alarm", alarms)):
        if len(places):
            column[seen.verdicts.index[places] - first] = seen.verdicts.numbers[name][places]
    found = [_moved(event, first, length, index) for event in seen.events]
    events = tuple(event for event in found if event is not None)
    shares = np.zeros((length, len(detector.channels_)))
    for event in events:
        for name, share in event.channels:
            shares[event.start : event.stop, detector.channels_.index(name)] = share
    return Detection(
        scores=scores,
        levels=levels,
        alarms=alarms > 0,
        events=events,
        channels=detector.channels_,
        index=index,
        contributions=shares,
        notes=tuple(_notes(seen)),
        observed=known.table if detector.named_ else replace(known.table, channels=None),
        expected=expectations_of(detector, known, events),
    )


def report_of(seen: Seen, detector: Detector) -> bytes:
    """Return what is seen as the report of the package."""
    name = shown(seen.key)
    return render_page([Chapter.of("", detection_of(seen, detector))], title=f"PatchAD report of {name}")


def around_event(station: Station, records: Records, key: Key, name: str) -> tuple[Seen, Event]:
    """Return the rows around an event, and the event as one of them."""
    event = find_event(station, records, name, shown(key))
    return _around(station, records, key, event)


def around_view(
    station: Station, records: Records, key: Key, channel: str, since: float | None, until: float | None
) -> tuple[Seen, Event]:
    """Return the newest rows of a view, and them as an event of one channel."""
    check_stream(station, records, key)
    if channel not in station.detector.channels_:
        raise Problem(404, f"there is no channel {channel!r}; GET /v1/model lists them")
    rows = records.rows(key, since, until, last=MAX_DRAWN_ROWS - 2 * MAX_MARGIN)
    if not len(rows):
        raise Problem(404, f"the stream {shown(key)!r} has no rows there; ask for another time")
    first, last = int(rows.index[0]), int(rows.index[-1])
    return _around(
        station, records, key, {"start": first, "stop": last + 1, "peak": last, "channels": [(channel, 1.0)]}
    )


def _around(station: Station, records: Records, key: Key, event: Mapping[str, Any]) -> tuple[Seen, Event]:
    """Return rows around an event, with as many before as it takes to see it as it was, and the event in them."""
    count, before = station.streams.count(key), context_rows(station.detector)
    whole = _moved(event, 0, count, None)
    drawn = slice(0, 0) if whole is None else surroundings(whole, count)
    rows = records.rows(key, last=count - max(drawn.start - before, 0))
    rows = rows.take(np.flatnonzero(rows.index < drawn.stop + before))
    moved = _moved(event, int(rows.index[0]), len(rows), None) if len(rows) else None
    if moved is None:
        raise Problem(409, "the rows of this event are no longer stored; look at a later one")
    return Seen(key, rows, rows, ()), moved


def expected_of(around: tuple[Seen, Event], detector: Detector) -> dict[str, Any]:
    """Return observed and expected values of the channels most to blame, and how far from there is normal."""
    seen, event = around
    known = read(detector, table_of(seen.rows, detector))
    found = expectations_of(detector, known, [event])
    channels: list[dict[str, Any]] = []
    for one in found:
        rows = slice(one.start, one.start + len(one.values))
        for column, name in enumerate(one.channels):
            observed = known.matched.values[rows, detector.channels_.index(name)]
            values = np.where(np.isnan(observed), np.nan, one.values[:, column])
            reach = one.reach[:, column]
            channels.append(
                {
                    "name": name,
                    "at": numbers(seen.rows.at[rows]),
                    "observed": numbers(observed),
                    "expected": numbers(values),
                    "low": numbers(values - reach),
                    "high": numbers(values + reach),
                }
            )
    return {"key": shown(seen.key), "channels": channels}


def _moved(event: Mapping[str, Any], first: int, length: int, index: Any) -> Event | None:
    """Return an event by the numbers of the rows that are seen; None where none of them is its own."""
    start, stop = max(event["start"] - first, 0), min(event["stop"] - first, length)
    if start >= stop:
        return None
    return Event(
        start=start,
        stop=stop,
        peak=min(max(event["peak"] - first, start), stop - 1),
        peak_score=float(event.get("peak_score") or 0.0),
        severity=float(event.get("severity") or 0.0),
        channels=tuple((name, share) for name, share in event["channels"]),
        start_time=None if index is None else index[start],
        stop_time=None if index is None else index[stop - 1],
        kind=event.get("kind", "anomaly"),
        repeats=int(event.get("repeats", 0)),
        id=event.get("id", ""),
        state=event.get("state", "closed"),
    )


def _notes(seen: Seen) -> list[str]:
    """Say where this is from, and what people said of the events in it."""
    first, last = int(seen.rows.index[0]), int(seen.rows.index[-1])
    told = [f"stream {shown(seen.key)}, rows {first:,} to {last:,}; the first is row 0 here"]
    for event in seen.events:
        if event["start"] <= last and event["stop"] > first:
            for one in event["remarks"]:
                author, text = (
                    (f" by {one['author']}" if one["author"] else ""),
                    (f": {one['text']}" if one["text"] else ""),
                )
                told.append(f"event from row {event['start'] - first:,}: {one['kind']}{author}{text}")
    return told

"""Detections to the numbers that a page draws: thinned so that no spike disappears, packed to keep the file small.

Numbers travel as base64 of little-endian arrays; a place on the time axis is milliseconds since 1970, seconds of a
duration, the number that the index has, or the row.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import BoolArray, FloatArray
from patchad.results.detection import Detection, Event, alarm_runs, surroundings

LANES = 60
"""Channels at most that get a lane: those blamed most."""
CARD_CHANNELS = 3
"""Channels at most that an event's card draws: those blamed most."""
LANE_COLUMNS = 24
"""Parts at most that an event is cut into, each coloured by its own shares."""
CARD_POINTS = 400
"""Points at most of a curve on a card."""
SHARE_STEPS = 200
"""A share of the blame is stored in steps of half a percent."""
LONG_STEP = 10
"""A step of over so many usual steps breaks a line."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of one detection is drawn; several on one page share it."""

    overview: int = 20_000
    """Points of the whole curve of scores."""
    detail: int = 100_000
    """Rows near events that are kept one by one."""
    events: int = 300
    """Events that are listed, each with a card: the most severe ones."""
    curves: int = 100
    """Cards with curves."""
    bands: int = 20_000
    """Events that the timeline shades."""

    def shared_by(self, series: int) -> Budget:
        """Give the part of each of several series."""
        return Budget(*(max(getattr(self, name) // series, 10) for name in Budget.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Where the rows stand in time."""

    kind: str
    """`date`, `seconds`, `number` or `row`."""
    places: FloatArray
    """(time,), float64."""
    step: float
    """The usual distance of two rows."""

    @classmethod
    def of(cls, index: NDArray[np.generic] | None, rows: int) -> Axis:
        """Read an index; without one, rows are counted.

        Examples
        --------
        >>> axis = Axis.of(np.array(["1970-01-01T00:00:01", "1970-01-01T00:00:03"], "datetime64[s]"), 2)
        >>> axis.kind, axis.places.tolist(), axis.step
        ('date', [1000.0, 3000.0], 2000.0)
        """
        if index is None:
            kind, places = "row", np.arange(rows, dtype=np.float64)
        elif index.dtype.kind == "M":
            kind, places = "date", index.astype("datetime64[us]").astype(np.int64) / 1e3
        elif index.dtype.kind == "m":
            kind, places = "seconds", index.astype("timedelta64[us]").astype(np.int64) / 1e6
        else:
            kind, places = "number", index.astype(np.float64)
        return cls(kind, places, float(np.median(np.diff(places))) if rows > 1 else 1.0)

    def span(self, start: int, stop: int) -> tuple[float, float]:
        """Give where rows `start` to `stop - 1` begin and end, half a step around them."""
        return float(self.places[start] - self.step / 2), float(self.places[stop - 1] + self.step / 2)


def spikes(values: FloatArray, points: int) -> NDArray[np.intp]:
    """Choose about `points` rows to draw: of every stretch the lowest and the highest value, and both ends.

    Rows without a value are not chosen.

    Examples
    --------
    >>> values = np.zeros(100_000)
    >>> values[777] = 5.0
    >>> rows = spikes(values, 100)
    >>> len(rows) <= 102, 777 in rows
    (True, True)
    """
    from tsdownsample import MinMaxDownsampler

    known = np.flatnonzero(np.isfinite(values))
    if len(known) <= points:
        return known
    kept = np.ascontiguousarray(values) if len(known) == len(values) else values[known]
    thinner = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    chosen = thinner.downsample(kept, n_out=max(points // 2 * 2, 2)).astype(np.intp)
    return np.asarray(known[np.unique(np.concatenate([[0], chosen, [len(known) - 1]]))])


def pack(values: Any, dtype: str) -> str:
    """Write numbers as base64: `f4`, `f8` or `u1`."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<" + dtype).tobytes()).decode()


def timeline(detection: Detection, axis: Axis, listed: Sequence[int], budget: Budget) -> dict[str, Any]:
    """Give what the timeline draws: scores, levels, all events as bands, and lanes of the listed ones."""
    rows = _score_rows(detection, listed, budget)
    places, scores, levels = axis.places[rows], detection.scores[rows], detection.levels[rows]
    breaks = _breaks(detection.scores, axis, rows)
    order = np.argsort(np.concatenate([places, breaks]), kind="stable")
    blank = np.full(len(breaks), np.nan)
    lanes = _lane_order(detection, listed)
    return {
        "axis": axis.kind,
        "step": axis.step,
        "x": pack(np.concatenate([places, breaks])[order], "f8"),
        "score": pack(np.concatenate([scores, blank])[order], "f4"),
        "level": pack(np.concatenate([levels, blank])[order], "f4"),
        "whole": axis.span(0, len(detection.scores)),
        "low": _low(detection),
        "top": _top(detection),
        "bands": pack(_bands([(event.start, event.stop) for event in detection.events], axis, budget.bands), "f8"),
        "lanes": [detection.channels[i] for i in lanes],
        "events": [_event(detection, axis, number, lanes) for number in listed],
    }


def card(detection: Detection, axis: Axis, number: int) -> dict[str, Any] | None:
    """Give the curves of one event: what was observed of the channels blamed most and, where known, expected."""
    event = detection.events[number]
    expected = next((one for one in detection.expected if one.event == number), None)
    names = [name for name, _ in event.channels[:CARD_CHANNELS]]
    table = detection.observed
    if table is None or not names:
        return None
    columns = detection.channels if table.channels is None else table.channels
    shown = surroundings(event, len(detection.scores))
    curves = []
    for name in names:
        seen = table.values[shown, columns.index(name)]
        rows = spikes(seen, CARD_POINTS)
        curve: dict[str, Any] = {
            "name": name,
            "x": pack(axis.places[shown][rows], "f8"),
            "seen": pack(seen[rows], "f8"),
        }
        if expected is not None and name in expected.channels:
            column = expected.channels.index(name)
            middle, reach = expected.values[rows, column], expected.reach[rows, column]
            curve |= {"expected": pack(middle, "f8"), "reach": pack(reach, "f4")}
        curves.append(curve)
    inside = max(event.start, shown.start), min(event.stop, shown.stop)
    return {"curves": curves, "span": axis.span(*inside), "view": axis.span(shown.start, shown.stop)}


def bands(runs: Sequence[tuple[int, int]], axis: Axis, most: int) -> str:
    """Pack half-open runs of rows as places where each begins and ends; where there are too many, near ones join."""
    return pack(_bands(runs, axis, most), "f8")


def _score_rows(detection: Detection, listed: Sequence[int], budget: Budget) -> NDArray[np.intp]:
    """Choose rows for the curve of scores: an overview of all, and every row near the listed events."""
    length = len(detection.scores)
    chosen = [spikes(detection.scores, budget.overview)]
    if len(np.unique(detection.levels[chosen[0]])) > 1:
        chosen.append(spikes(detection.levels, budget.overview))
    left = budget.detail
    for number in listed:
        near = surroundings(detection.events[number], length)
        left -= near.stop - near.start
        if left < 0:
            break
        chosen.append(np.arange(near.start, near.stop))
    rows = np.unique(np.concatenate(chosen))
    return np.asarray(rows[np.isfinite(detection.scores[rows])])


def _breaks(scores: FloatArray, axis: Axis, rows: NDArray[np.intp]) -> FloatArray:
    """Give places where the line must not go on: long gaps in time, and stretches without a score."""
    if len(rows) < 2:
        return np.empty(0)
    unknown = np.concatenate([[0], np.cumsum(np.isnan(scores))])
    silent = unknown[rows[1:]] - unknown[rows[:-1]] > LONG_STEP
    # Between two kept rows there may be thousands of others: what counts is the longest step among the rows.
    far = np.flatnonzero(np.diff(axis.places) > LONG_STEP * axis.step)
    gap = np.searchsorted(rows, far, side="right") - 1
    cut = silent.copy()
    cut[gap[(gap >= 0) & (gap < len(cut))]] = True
    ends = axis.places[rows]
    return np.asarray((ends[:-1] + ends[1:])[cut] / 2)


def _event(detection: Detection, axis: Axis, number: int, lanes: Sequence[int]) -> dict[str, Any]:
    event = detection.events[number]
    near = surroundings(event, len(detection.scores))
    start, stop = min(near.start, event.start), max(near.stop, event.stop)
    shares = _shares_by_part(detection, event)[:, lanes]
    return {
        "span": axis.span(event.start, event.stop),
        "view": axis.span(start, stop),
        "parts": len(shares),
        "shares": pack(np.round(shares * SHARE_STEPS), "u1"),
    }


def _shares_by_part(detection: Detection, event: Event) -> FloatArray:
    """Give the shares of the blame in consecutive parts of an event, `(part, channel)`; 0 where there is no alarm."""
    bounds = np.linspace(event.start, event.stop, min(len(event), LANE_COLUMNS) + 1).astype(int)
    shares = np.zeros((len(bounds) - 1, len(detection.channels)))
    for part, (start, stop) in enumerate(pairwise(bounds)):
        rows = slice(start, stop)
        over = np.where(detection.alarms[rows], detection.scores[rows] - detection.levels[rows], 0)
        blame = over.astype(detection.contributions.dtype) @ detection.contributions[rows]
        if blame.sum() > 0:
            shares[part] = blame / blame.sum()
    return shares


def _lane_order(detection: Detection, listed: Sequence[int]) -> list[int]:
    """Give the channels that get a lane, most blamed first."""
    blame = dict.fromkeys(detection.channels, 0.0)
    for number in listed:
        for name, share in detection.events[number].channels:
            blame[name] += share
    order = sorted(range(len(detection.channels)), key=lambda i: -blame[detection.channels[i]])
    return order[:LANES] if listed else []


def _bands(runs: Sequence[tuple[int, int]], axis: Axis, most: int) -> FloatArray:
    if len(runs) > most:
        covered: BoolArray = np.zeros(len(axis.places) * most // len(runs) + 1, dtype=bool)
        size = -(-len(axis.places) // len(covered))
        for start, stop in runs:
            covered[start // size : (stop - 1) // size + 1] = True
        runs = [(a * size, min(b * size, len(axis.places))) for a, b in alarm_runs(covered)]
    return np.array([axis.span(start, stop) for start, stop in runs]).reshape(-1, 2)


def _low(detection: Detection) -> float:
    scores = detection.scores[np.isfinite(detection.scores)]
    return float(scores.min()) if len(scores) else 0.0


def _top(detection: Detection) -> float:
    """Give the top of the whole timeline: one huge score must not flatten all others."""
    low = _low(detection)
    levels = detection.levels[np.isfinite(detection.levels)]
    level = float(levels.max()) if len(levels) else low
    scores = detection.scores[np.isfinite(detection.scores)]
    highest = float(scores.max()) if len(scores) else low
    return max(min(highest, low + 6 * (level - low)), level + 0.2 * abs(level - low), low + 1e-9)

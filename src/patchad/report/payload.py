"""The numbers that the page's JavaScript draws: thinned so that no spike disappears, packed to keep the file small.

Arrays are base64 of little-endian numbers; time is given as positions on the section's axis.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchad.data.table import BoolArray, FloatArray
from patchad.report.section import Axis, Section
from patchad.results.detection import Detection, Event, alarm_runs, surroundings

LANES = 60
"""Maximum number of channels with a lane: those blamed most."""
CARD_CHANNELS = 3
"""Maximum number of channels drawn on a card: those blamed most."""
LANE_SLICES = 24
"""Maximum number of slices of an event in a lane, each coloured by its own share."""
CARD_POINTS = 400
"""Maximum number of points of a curve on a card."""
SHARE_STEPS = 200
"""Shares of the blame are stored in steps of half a percent."""
LONG_STEP = 10
"""A time step longer than this many median steps breaks the line."""


def section_payload(section: Section) -> dict[str, Any]:
    """Return what is drawn of one series: scores, levels, events as bands, lanes, cards and labels."""
    detection, axis, budget = section.detection, section.axis, section.budget
    lanes = _lane_order(section)
    payload = {
        "axis": axis.kind,
        "step": axis.step,
        **_curve(section),
        "whole": axis.span(0, len(detection.scores)),
        "low": _low(detection),
        "top": _top(detection),
        "bands": _bands([(event.start, event.stop) for event in detection.events], axis, budget.bands),
        "lanes": [detection.channels[i] for i in lanes],
        "events": [_event(section, number, lanes) for number in section.listed],
        "cards": [_card(section, number) for number in section.listed[: budget.curves]],
    }
    if section.comparison is not None:
        payload["labels"] = _bands(section.comparison.anomalies, axis, budget.bands)
    return payload


def min_max_rows(values: FloatArray, points: int) -> NDArray[np.intp]:
    """Choose about `points` rows to draw: the lowest and highest value of every bucket of rows, and both ends.

    Rows without a value are not chosen.

    Examples
    --------
    >>> values = np.zeros(100_000)
    >>> values[777] = 5.0
    >>> rows = min_max_rows(values, 100)
    >>> len(rows) <= 102, 777 in rows
    (True, True)
    """
    from tsdownsample import MinMaxDownsampler

    known = np.flatnonzero(np.isfinite(values))
    if len(known) <= points:
        return known
    kept = np.ascontiguousarray(values) if len(known) == len(values) else values[known]
    downsampler = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    chosen = downsampler.downsample(kept, n_out=max(points // 2 * 2, 2)).astype(np.intp)
    return np.asarray(known[np.unique(np.concatenate([[0], chosen, [len(known) - 1]]))])


def pack(values: ArrayLike, dtype: str) -> str:
    """Return numbers as base64, stored as `f4`, `f8` or `u1`."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<" + dtype).tobytes()).decode()


# -- the timeline ------------------------------------------------------------------------------------------------------


def _curve(section: Section) -> dict[str, str]:
    """Return the curves of score and level, with a NaN where the line breaks."""
    detection, rows = section.detection, _score_rows(section)
    positions, scores, levels = section.axis.positions[rows], detection.scores[rows], detection.levels[rows]
    breaks = _breaks(detection.scores, section.axis, rows)
    x, blank = np.concatenate([positions, breaks]), np.full(len(breaks), np.nan)
    order = np.argsort(x, kind="stable")
    return {
        "x": pack(x[order], "f8"),
        "score": pack(np.concatenate([scores, blank])[order], "f4"),
        "level": pack(np.concatenate([levels, blank])[order], "f4"),
    }


def _score_rows(section: Section) -> NDArray[np.intp]:
    """Choose rows for the score curve: an overview of all, and every row near the listed events."""
    detection, budget = section.detection, section.budget
    chosen = [min_max_rows(detection.scores, budget.overview)]
    if len(np.unique(detection.levels[chosen[0]])) > 1:
        chosen.append(min_max_rows(detection.levels, budget.overview))
    left = budget.detail
    for number in section.listed:
        near = surroundings(detection.events[number], len(detection.scores))
        left -= near.stop - near.start
        if left < 0:
            break
        chosen.append(np.arange(near.start, near.stop))
    rows = np.unique(np.concatenate(chosen))
    return np.asarray(rows[np.isfinite(detection.scores[rows])])


def _breaks(scores: FloatArray, axis: Axis, rows: NDArray[np.intp]) -> FloatArray:
    """Return positions where the line must break: long gaps in time, and long runs without a score."""
    if len(rows) < 2:
        return np.empty(0)
    unscored = np.concatenate([[0], np.cumsum(np.isnan(scores))])
    cut = unscored[rows[1:]] - unscored[rows[:-1]] > LONG_STEP
    # Thousands of rows may lie between two kept ones: what counts is the longest step among all rows.
    far = np.flatnonzero(np.diff(axis.positions) > LONG_STEP * axis.step)
    gap = np.searchsorted(rows, far, side="right") - 1
    cut[gap[(gap >= 0) & (gap < len(cut))]] = True
    ends = axis.positions[rows]
    return np.asarray((ends[:-1] + ends[1:])[cut] / 2)


def _bands(runs: Sequence[tuple[int, int]], axis: Axis, most: int) -> str:
    """Pack half-open runs of rows as start and end positions; if they are more than `most`, neighbours are joined."""
    rows = len(axis.positions)
    if len(runs) > most:
        covered: BoolArray = np.zeros(rows * most // len(runs) + 1, dtype=bool)
        size = -(-rows // len(covered))
        for start, stop in runs:
            covered[start // size : (stop - 1) // size + 1] = True
        runs = [(a * size, min(b * size, rows)) for a, b in alarm_runs(covered)]
    return pack([axis.span(start, stop) for start, stop in runs], "f8")


def _low(detection: Detection) -> float:
    scores = detection.scores[np.isfinite(detection.scores)]
    return float(scores.min()) if len(scores) else 0.0


def _top(detection: Detection) -> float:
    """Return the top of the whole timeline, bounded so that one huge score does not flatten all others."""
    low = _low(detection)
    levels = detection.levels[np.isfinite(detection.levels)]
    level = float(levels.max()) if len(levels) else low
    scores = detection.scores[np.isfinite(detection.scores)]
    highest = float(scores.max()) if len(scores) else low
    return max(min(highest, low + 6 * (level - low)), level + 0.2 * abs(level - low), low + 1e-9)


# -- lanes and cards ---------------------------------------------------------------------------------------------------


def _lane_order(section: Section) -> list[int]:
    """Return the channels that get a lane, most blamed first."""
    detection = section.detection
    blame = dict.fromkeys(detection.channels, 0.0)
    for number in section.listed:
        for name, share in detection.events[number].channels:
            blame[name] += share
    order = sorted(range(len(detection.channels)), key=lambda i: -blame[detection.channels[i]])
    return order[:LANES] if section.listed else []


def _event(section: Section, number: int, lanes: Sequence[int]) -> dict[str, Any]:
    """Return where an event lies, what to zoom to, and its shares of the blame by slice and lane."""
    detection, axis = section.detection, section.axis
    event = detection.events[number]
    near = surroundings(event, len(detection.scores))
    shares = _shares_by_slice(detection, event)[:, lanes]
    return {
        "span": axis.span(event.start, event.stop),
        "view": axis.span(min(near.start, event.start), max(near.stop, event.stop)),
        "slices": len(shares),
        "shares": pack(np.round(shares * SHARE_STEPS), "u1"),
    }


def _shares_by_slice(detection: Detection, event: Event) -> FloatArray:
    """Return the shares of the blame in consecutive slices of an event, `(slice, channel)`; 0 without an alarm."""
    bounds = np.linspace(event.start, event.stop, min(len(event), LANE_SLICES) + 1).astype(int)
    shares = np.zeros((len(bounds) - 1, len(detection.channels)))
    for number, (start, stop) in enumerate(pairwise(bounds)):
        rows = slice(start, stop)
        alarms = detection.alarms[rows]
        excess = np.where(alarms, np.maximum(np.nan_to_num(detection.scores[rows] - detection.levels[rows]), 0), 0)
        # An event also has rows under its level: between its peaks, and where a sensor is broken.
        weights = excess if excess.any() else alarms
        weighted = weights.astype(detection.contributions.dtype) @ detection.contributions[rows]
        if weighted.sum() > 0:
            shares[number] = weighted / weighted.sum()
    return shares


def _card(section: Section, number: int) -> dict[str, Any] | None:
    """Return the curves of one event: observed and, where known, expected values of the channels blamed most."""
    detection, axis = section.detection, section.axis
    event, table = detection.events[number], detection.observed
    if table is None:
        return None
    columns = detection.channels if table.channels is None else table.channels
    names = [name for name, _ in event.channels[:CARD_CHANNELS] if name in columns]
    if not names:
        return None
    expected = next((one for one in detection.expected if one.event == number), None)
    shown = surroundings(event, len(detection.scores))
    curves = []
    for name in names:
        observed = table.values[shown, columns.index(name)]
        rows = min_max_rows(observed, CARD_POINTS)
        curve: dict[str, Any] = {
            "name": name,
            "x": pack(axis.positions[shown][rows], "f8"),
            "observed": pack(observed[rows], "f8"),
        }
        if expected is not None and name in expected.channels:
            column = expected.channels.index(name)
            curve["expected"] = pack(expected.values[rows, column], "f8")
            curve["half_width"] = pack(expected.reach[rows, column], "f4")
        curves.append(curve)
    inside = max(event.start, shown.start), min(event.stop, shown.stop)
    return {"curves": curves, "span": axis.span(*inside), "view": axis.span(shown.start, shown.stop)}

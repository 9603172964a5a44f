"""The numbers that the page's JavaScript draws: the timeline and the cards; `lanes` has the lanes.

Arrays are base64 of little-endian numbers; time is given as positions on the section's axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.names import visible
from patchad.data.table import BoolArray
from patchad.report.lanes import event_in_lanes, lane, lane_channels
from patchad.report.packing import breaks, min_max_rows, pack
from patchad.report.section import Axis, Section
from patchad.results.detection import Detection, alarm_runs, surroundings

CARD_CHANNELS = 3
"""Maximum number of channels drawn on a card: those blamed most."""
LANE_POINTS = 2000
"""Maximum number of points of the raw values in a lane, those near events not counted."""


def section_payload(section: Section) -> dict[str, Any]:
    """Return what is drawn of one series: scores, levels, events as bands, lanes, cards and labels."""
    detection, axis, budget = section.detection, section.axis, section.budget
    channels = lane_channels(section)
    points = min(budget.lanes // max(len(channels), 1), LANE_POINTS)
    payload = {
        "axis": axis.kind,
        "step": axis.step,
        "zone": axis.zone,
        "offsets": axis.offsets,
        **_curve(section),
        "whole": axis.span(0, len(detection.scores)),
        "low": _low(detection),
        "top": _top(detection),
        "bands": _bands([(event.start, event.stop) for event in detection.events], axis, budget.bands),
        "lanes": [lane(section, channel, points) for channel in channels],
        "events": [event_in_lanes(section, number, channels) for number in section.listed],
        "cards": [_card(section, number) for number in section.listed[: budget.curves]],
    }
    if section.comparison is not None:
        payload["labels"] = _bands(section.comparison.anomalies, axis, budget.bands)
    return payload


# -- the timeline ------------------------------------------------------------------------------------------------------


def _curve(section: Section) -> dict[str, str]:
    """Return the curves of score and level, with a NaN where the line breaks."""
    detection, rows = section.detection, _score_rows(section)
    positions, scores, levels = section.axis.positions[rows], detection.scores[rows], detection.levels[rows]
    gaps = breaks(detection.scores, section.axis, rows)
    x, blank = np.concatenate([positions, gaps]), np.full(len(gaps), np.nan)
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


def _bands(runs: Sequence[tuple[int, int]], axis: Axis, most: int) -> str:
    """Pack half-open runs of rows as start and end positions; if they are more than `most`, neighbours are joined."""
    rows = len(axis.positions)
    if len(runs) > most:
        covered: BoolArray = np.zeros(rows * most // len(runs) + 1, dtype=bool)
        size = -(-rows // len(covered))
        for start, stop in runs:
            covered[start // size : (stop - 1) // size + 1] = True
        runs = [(a * size, min(b * size, rows)) for a, b in alarm_runs(covered)]
    return pack([axis.edges(start, stop) for start, stop in runs], "f8")


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


# -- the cards ---------------------------------------------------------------------------------------------------------


def _card(section: Section, number: int) -> dict[str, Any] | None:
    """Return the curves of one event: observed and, where known, expected values of the channels blamed most."""
    detection, axis = section.detection, section.axis
    event = detection.events[number]
    shown = surroundings(event, len(detection.scores))
    expected = next((one for one in detection.expected if one.event == number), None)
    curves: list[dict[str, Any]] = []
    for name, _ in event.channels[:CARD_CHANNELS]:
        observed = section.raw_values(name)
        if observed is None:
            continue
        curve = {"name": visible(name), "observed": pack(observed[shown], "f8")}
        if expected is not None and name in expected.channels:
            column = expected.channels.index(name)
            # The net saw the last value held where one is missing: what it expects there says nothing.
            known = np.where(np.isnan(observed[shown]), np.nan, expected.values[:, column])
            curve["expected"] = pack(known, "f8")
            curve["reach"] = pack(expected.reach[:, column], "f8")
        curves.append(curve)
    if not curves:
        return None
    inside = max(event.start, shown.start), min(event.stop, shown.stop)
    return {
        "x": pack(axis.positions[shown], "f8"),
        "curves": curves,
        "edges": axis.edges(*inside),
        "view": axis.span(shown.start, shown.stop),
    }

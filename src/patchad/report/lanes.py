"""The lanes under the timeline: the channels that lead an event, each with its raw values and its part of the blame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from patchad.data.names import visible
from patchad.data.table import FloatArray
from patchad.report.packing import breaks, min_max_rows, pack
from patchad.report.section import Section
from patchad.results.detection import Detection, Event, surroundings

QUIET_LANES = 6
"""Lanes of a series without events: its first channels."""
NEAR_POINTS = 200
"""Points of the raw values near an event, in the lane of the channel that leads it."""
SLICES = 24
"""Maximum number of slices of an event in a lane, each coloured by its own share."""
SHARE_STEPS = 200
"""Shares of the blame are stored in steps of half a percent."""
HEIGHT_STEPS = 250
"""Raw values are stored in so many steps over the height of a lane."""
BLANK = 255
"""Stands for no value, where the line of the raw values breaks."""
SAMPLE = 20_000
"""Most rows that the height of a lane is taken from."""
SPARE = 0.25
"""Room above and below what 99 % of the values span, in spans; what is farther away is cut off."""


def lane_channels(section: Section) -> list[int]:
    """Return the channels that lead a listed event, by the severity of the worst one; without events the first few."""
    detection = section.detection
    if not section.listed:
        return list(range(min(len(detection.channels), QUIET_LANES)))
    events = (detection.events[number] for number in section.listed)
    leads = dict.fromkeys(event.channels[0][0] for event in events if event.channels)
    return [detection.channels.index(name) for name in leads]


def lane(section: Section, channel: int, points: int) -> dict[str, Any]:
    """Return the name of a channel and its raw values, drawn with about this many points."""
    detection = section.detection
    drawn: dict[str, Any] = {"name": visible(detection.channels[channel])}
    values = section.raw_values(detection.channels[channel])
    if values is None or not np.isfinite(values).any():
        return drawn
    values = np.ascontiguousarray(values)  # read several times
    chosen = [min_max_rows(values, points)]
    for number in section.listed:
        event = detection.events[number]
        if event.channels and event.channels[0][0] == detection.channels[channel]:
            near = surroundings(event, len(values))
            chosen.append(near.start + min_max_rows(values[near], NEAR_POINTS))
    rows = np.unique(np.concatenate(chosen))
    gaps = breaks(values, section.axis, rows)
    x = np.concatenate([section.axis.positions[rows], gaps])
    heights = np.concatenate([_heights(values, values[rows]), np.full(len(gaps), BLANK)])
    order = np.argsort(x, kind="stable")
    return drawn | {"x": pack(x[order], "f8"), "heights": pack(heights[order], "u1")}


def _heights(values: FloatArray, shown: FloatArray) -> FloatArray:
    """Return where these values lie in the height of a lane that suits all values."""
    sample = values[:: -(-len(values) // SAMPLE)]
    sample = sample[np.isfinite(sample)]
    sample = sample if len(sample) else shown
    size = float(np.abs(sample).max()) or 1.0  # the span of numbers near the largest float would overflow
    low, high = np.percentile(sample / size, [0.5, 99.5])
    middle, reach = float(low + high) / 2, (0.5 + SPARE) * float(high - low) or 1.0
    inside = np.clip(shown, (middle - reach) * size, (middle + reach) * size)
    return np.asarray(np.round((0.5 + (inside / size - middle) / (2 * reach)) * HEIGHT_STEPS))


def event_in_lanes(section: Section, number: int, channels: list[int]) -> dict[str, Any]:
    """Return where an event lies, what to zoom to, which lane leads, and its shares of the blame by slice and lane."""
    detection, axis = section.detection, section.axis
    event = detection.events[number]
    near = surroundings(event, len(detection.scores))
    shares = shares_by_slice(detection, event)
    return {
        "edges": axis.edges(event.start, event.stop),
        "view": axis.span(min(near.start, event.start), max(near.stop, event.stop)),
        "lead": channels.index(detection.channels.index(event.channels[0][0])) if event.channels else None,
        "slices": len(shares),
        "shares": pack(np.round(shares[:, channels] * SHARE_STEPS), "u1"),
        "largest": pack(np.round(shares.max(axis=1) * SHARE_STEPS), "u1"),
    }


def shares_by_slice(detection: Detection, event: Event) -> FloatArray:
    """Return the shares of the blame in consecutive slices of an event, `(slice, channel)`.

    Where the scores blame nothing, and in an event that the rule for a single sensor found, the shares are the event's.
    """
    bounds = np.linspace(event.start, event.stop, min(len(event), SLICES) + 1).astype(int)
    own = dict(event.channels)
    shares = np.tile([own.get(name, 0.0) for name in detection.channels], (len(bounds) - 1, 1))
    if event.kind not in ("anomaly", "regime"):
        return shares
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

"""One event in words and numbers, for a reader that sees no page: what happened, where, and how unusual it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from patchad.data.names import visible
from patchad.data.table import FloatArray
from patchad.report.panels import KINDS
from patchad.results.detection import Detection, Event, Expectation, surroundings, time_text

CURVE_POINTS = 40
"""Rows of a curve; of more, evenly spread ones."""
EXPLAINED_CHANNELS = 3
"""Channels whose values are told; of the others only the share."""


def explain_event(detection: Detection, number: int) -> dict[str, Any]:
    """Return what is known of an event of a detection, as JSON knows it."""
    event = detection.events[number]
    expectation = next((one for one in detection.expected if one.event == number), None)
    led = [name for name, _ in event.channels[:EXPLAINED_CHANNELS]]
    return {
        "summary": summarize(detection, event),
        "event": event.to_dict(),
        "level_at_peak": number_of(detection.levels[event.peak]),
        "channels": [_channel(detection, event, name, expectation) for name in led],
    }


def summarize(detection: Detection, event: Event) -> str:
    """Return an event in a few sentences."""
    since, until = (
        f"row {row}" if detection.index is None else str(time_text(detection.index[row]))
        for row in (event.start, event.stop - 1)
    )
    blamed = ", ".join(f"{visible(name)} {share:.0%}" for name, share in event.channels[:EXPLAINED_CHANNELS])
    sentences = [
        f"{len(event):,} rows from {since} to {until}, severity {event.severity:.0f} of 100",
        f"the highest score is {event.peak_score:.4g}, the level there {detection.levels[event.peak]:.4g}",
        f"to blame, most first: {blamed}" if blamed else "no single channel is to blame",
    ]
    told = KINDS[event.kind][1].rstrip(".")
    if told:
        sentences.append(f"kind {event.kind}: {told[0].lower()}{told[1:]}")
    if event.repeats:
        sentences.append(f"{event.repeats} like events followed and are not listed")
    return "; ".join(sentences)


def _channel(detection: Detection, event: Event, name: str, expectation: Expectation | None) -> dict[str, Any]:
    """Return a channel's values before and in an event, what was expected there, and the curve of both."""
    told: dict[str, Any] = {"channel": visible(name), "share": round(dict(event.channels)[name], 4)}
    values = detection.observed_values(name)
    if values is None:
        return told
    around = surroundings(event, len(values))
    inside = values[event.start : event.stop]
    told["before"] = spread(values[around.start : event.start])
    told["inside"] = spread(inside)
    rows = np.unique(np.linspace(around.start, around.stop - 1, CURVE_POINTS).astype(int))
    told["curve"] = {"rows": rows.tolist(), "observed": [number_of(values[row]) for row in rows]}
    if detection.index is not None:
        told["curve"]["times"] = [time_text(detection.index[row]) for row in rows]
    if expectation is not None and name in expectation.channels:
        told |= _expected(expectation, name, event, rows, told["curve"])
    return told


def _expected(
    expectation: Expectation, name: str, event: Event, rows: Any, curve: dict[str, Any]
) -> dict[str, dict[str, float | None]]:
    column, first = expectation.channels.index(name), expectation.start
    values, reach = expectation.values[:, column], expectation.reach[:, column]
    places = [row - first if 0 <= row - first < len(values) else None for row in rows.tolist()]
    curve["expected"] = [None if place is None else number_of(values[place]) for place in places]
    curve["normal_deviation"] = [None if place is None else number_of(reach[place]) for place in places]
    return {"expected_inside": spread(values[max(event.start - first, 0) : max(event.stop - first, 0)])}


def spread(values: FloatArray) -> dict[str, float | None]:
    """Return the least value, the median and the most; None where there is no value.

    Examples
    --------
    >>> spread(np.array([1.0, np.nan, 4.0, 2.0]))
    {'least': 1.0, 'median': 2.0, 'most': 4.0}
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return {"least": None, "median": None, "most": None}
    return {"least": number_of(known.min()), "median": number_of(np.median(known)), "most": number_of(known.max())}


def number_of(value: Any) -> float | None:
    """Return a number in six digits as JSON knows it; None for NaN.

    Examples
    --------
    >>> number_of(np.float32(1.23456789)), number_of(np.nan)
    (1.23457, None)
    """
    return float(f"{value:.6g}") if np.isfinite(value) else None

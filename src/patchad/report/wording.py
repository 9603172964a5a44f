"""Counts, times and durations in words, and a detection in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchad.results.detection import Detection, time_text

FIRST_NAMES = 8
"""Names in a list of channels; the others are counted."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def counted(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural where needed.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def headline(detection: Detection) -> str:
    """Return what was found, in one sentence."""
    base = f"{counted(len(detection.scores), 'row')} of {counted(len(detection.channels), 'channel')}"
    if not detection.events:
        return f"Nothing unusual in {base}."
    worst = max(detection.events, key=lambda event: (event.severity, event.peak_score))
    guilty = worst.channels[0][0] if worst.channels else "no single channel"
    return (
        f"{counted(len(detection.events), 'event')} in {base}; the worst, severity {worst.severity:.0f} of 100, at "
        f"{moment(worst.start_time, worst.start)}, mostly {guilty}."
    )


def channel_list(names: Sequence[str]) -> str:
    """Return how many channels there are and the first few of their names.

    >>> channel_list(["flow", "heat"])
    '2 channels (flow, heat)'
    """
    others = len(names) - FIRST_NAMES
    more = f" and {others:,} more" if others > 0 else ""
    return f"{counted(len(names), 'channel')} ({', '.join(names[:FIRST_NAMES])}{more})"


def duration(amount: float, kind: str) -> str:
    """Return a distance along an axis of this kind, durations in their two largest units.

    >>> duration(8_100_000, "date"), duration(0.25, "seconds"), duration(3, "number")
    ('2 h 15 min', '250 ms', '3')
    """
    if kind not in ("date", "seconds"):
        return f"{amount:g}"
    seconds = amount / 1e3 if kind == "date" else amount
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    parts, left = [], round(seconds)
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def moment(time: Any, row: int) -> str:
    """Return a time as text, or the row where there is no time."""
    text = time_text(time)
    if text is None:
        return f"row {row:,}"
    return text.replace("T", " ") if isinstance(text, str) else f"{text:.12g}"

"""Counts, times and durations in words, and a detection in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from patchad.data.names import visible
from patchad.results.detection import Detection, time_text

SEPARATORS = re.compile(r"(?<=[_./:|\\ -])(?=.)")
"""Where a long name may break."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def counted(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural where needed.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def headline(detection: Detection, moment_of: Callable[[int], str]) -> tuple[str, str | None]:
    """Return what was found, in one sentence, and the channel that ends it, if any; rows are told by `moment_of`."""
    base = f"{counted(len(detection.scores), 'row')} of {counted(len(detection.channels), 'channel')}"
    if not detection.events:
        return f"Nothing unusual in {base}", None
    worst = max(detection.events, key=lambda event: (event.severity, event.peak_score))
    found = (
        f"{counted(len(detection.events), 'event')} in {base}; the worst, severity {worst.severity:.0f} of 100, at "
        f"{moment_of(worst.start)}, mostly"
    )
    return (found, worst.channels[0][0]) if worst.channels else (f"{found} no single channel", None)


def breakable(name: str) -> Markup:
    """Return a name as HTML that may break after its separators, where it is longer than a line.

    >>> print(breakable("inlet_flow<1>"))
    inlet_<wbr>flow&lt;1&gt;
    """
    return Markup("<wbr>").join(SEPARATORS.split(visible(name)))


def duration(amount: float, kind: str) -> str:
    """Return a distance along an axis of this kind, durations in their two largest units.

    >>> duration(8_100_000, "date"), duration(0.25, "seconds"), duration(1.25, "seconds"), duration(3, "number")
    ('2 h 15 min', '250 ms', '1.25 s', '3')
    """
    if kind not in ("date", "seconds"):
        return f"{amount:g}"
    seconds = amount / 1e3 if kind == "date" else amount
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 10:
        return f"{seconds:.3g} s"
    parts, left = [], round(seconds)
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def moment(time: Any, row: int, *, whole_minutes: bool = False, one_offset: bool = False) -> str:
    """Return a time as text, or the row where there is no time.

    Without seconds where no row has any, and without the offset from UTC where all rows have the same.

    >>> import numpy as np
    >>> time = np.datetime64("2024-02-01T05:15")
    >>> moment(time, 7), moment(time, 7, whole_minutes=True), moment(None, 7)
    ('2024-02-01 05:15:00', '2024-02-01 05:15', 'row 7')
    """
    text = time_text(time)
    if text is None:
        return f"row {row:,}"
    if not isinstance(text, str):
        return f"{text:.12g}"
    parts = re.fullmatch(r"(.*?)(:00)?([+-]\d\d:\d\d)?", text.replace("T", " "))
    if parts is None:
        return text
    told, seconds, offset = parts.groups(default="")
    return told + ("" if whole_minutes else seconds) + ("" if one_offset else offset)


def zone_text(zone: str, offsets: Sequence[tuple[float, int]]) -> str:
    """Return a time zone and its offset from UTC, where there is only one.

    >>> zone_text("Europe/Berlin", [(0.0, 60)]), zone_text("+05:30", [(0.0, 330)]), zone_text("UTC", [(0.0, 0)])
    ('Europe/Berlin (UTC+01:00)', 'UTC+05:30', 'UTC')
    """
    if zone[0] in "+-":
        return f"UTC{zone}"
    if zone == "UTC" or len(offsets) != 1:
        return zone
    minutes = offsets[0][1]
    return f"{zone} (UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02})"

"""Repeats: a third event like the two just before it is counted on the first of them, and not listed itself."""

from __future__ import annotations

import numpy as np

from patchad.alarms.events import Finding

REPEATS_AFTER = 2
"""Like events that are listed; those after them are repeats."""
REPEAT_ROWS = 1000
"""Rows after an event in which one like it is a repeat; as many more for each repeat before it."""
REPEATS_COUNTED = 4
"""Repeats that count for that, at most."""
REPEAT_PEAK = 1.5
"""A peak this many times as high as the median of the like events before it is no repeat."""


class Repeats:
    """Tell the repeats among the events of one segment, in the order in which they are ripe.

    An event that was ripe before it closed is no repeat: it has lasted.
    """

    state = ("_listed",)

    def __init__(self) -> None:
        self._listed: list[Finding] = []
        """Listed events that may have repeats."""

    def counted_on(self, found: Finding) -> Finding | None:
        """Return the event that this one is a repeat of, and counted on; None where it is to be listed itself."""
        start, stop = found.rows
        for other in self._listed:
            if not other.peaks:
                other.peaks, other.latest = [other.peak_score], other.rows[1]
        self._listed = [other for other in self._listed if start - other.latest <= _reach(other)]
        alike = [other for other in self._listed if not found.lasted and _is_alike(found, other)]
        for other in alike:
            other.latest = stop
        if len(alike) >= REPEATS_AFTER or any(other.repeats for other in alike):
            alike[0].repeats += 1
            alike[0].peaks = [*alike[0].peaks[-19:], found.peak_score]
            return alike[0]
        if found.kind == "anomaly":
            self._listed.append(found)
        return None


def _reach(other: Finding) -> int:
    """Return the rows in which an event like this one is a repeat."""
    return REPEAT_ROWS * (1 + min(other.repeats, REPEATS_COUNTED))


def _is_alike(found: Finding, other: Finding) -> bool:
    """Return whether an event is like an earlier one: the same channel leads, and its peak is not clearly higher."""
    alike = other.lead == found.lead and found.kind == other.kind == "anomaly"
    return alike and found.peak_score <= REPEAT_PEAK * float(np.median(other.peaks))

"""Repeats: an event like those just before it is counted on the first of them, and not listed itself."""

from __future__ import annotations

import numpy as np

from patchad.alarms.events import Finding
from patchad.alarms.sensors import SensorFinding

REPEATS_AFTER = 2
"""Like events that are listed, where they are clear, as impossible values are; those after them are repeats."""
CLEAR = 3.0
"""Height over normal, in those of the level, from which on an event is clear: of others one is listed."""
REPEAT_ROWS = 1000
"""Rows after an event in which one like it is a repeat; as many more for each repeat before it."""
REPEATS_COUNTED = 4
"""Repeats that count for that, at most."""
REPEAT_PEAK = 1.75
"""A peak over this many times the median of the like events before it, in heights over normal, is no repeat."""


class Repeats:
    """Tell the repeats among the events of one segment, in the order in which they are ripe.

    An event that was ripe before it closed is no repeat: it has lasted.

    Parameters
    ----------
    base
        Median held-out score, from which heights are measured.
    """

    state = ("_base", "_listed")

    def __init__(self, base: float) -> None:
        self._base = base
        self._listed: list[Finding] = []
        """Listed events that may have repeats."""

    def counted_on(self, found: Finding) -> Finding | None:
        """Return the event that this one is a repeat of, and counted on; None where it is to be listed itself."""
        start, stop = found.rows
        for other in self._listed:
            if not other.peaks:
                other.peaks, other.latest = [other.peak_score], other.rows[1]
        self._listed = [other for other in self._listed if start - other.latest <= _reach(other)]
        alike = [other for other in self._listed if not found.lasted and self._is_alike(found, other)]
        for other in alike:
            other.latest = stop
        enough = REPEATS_AFTER if self._is_clear(found) else 1
        if len(alike) >= enough or any(other.repeats for other in alike):
            alike[0].repeats += 1
            alike[0].peaks = [*alike[0].peaks[-19:], found.peak_score]
            return alike[0]
        if found.kind == "anomaly":
            self._listed.append(found)
        return None

    def _is_alike(self, found: Finding, other: Finding) -> bool:
        """Return whether an event is like an earlier one: the same channel leads, and its peak is no higher."""
        alike = other.lead == found.lead and found.kind == other.kind == "anomaly"
        usual = float(np.median(other.peaks)) - self._base
        return alike and found.peak_score - self._base <= REPEAT_PEAK * usual

    def _is_clear(self, found: Finding) -> bool:
        return found.peak_score - self._base > CLEAR * (found.level - self._base)


class RangeRepeats:
    """Tell the repeats among short events of impossible values, in the order in which they are listed.

    Those after the second are. Values are not compared: those far outside are over the level of the score as well, and
    an event by that.
    """

    state = ("_listed",)

    def __init__(self) -> None:
        self._listed: list[SensorFinding] = []
        """Listed events that may have repeats."""

    def counted_on(self, found: SensorFinding) -> SensorFinding | None:
        """Return the event of the same channels that this one is counted on; None where it is to be listed itself."""
        self._listed = [other for other in self._listed if found.first - other.latest <= _reach(other)]
        alike = [other for other in self._listed if set(other.channels) == set(found.channels)]
        for other in [*alike, found]:
            other.latest = found.stop
        if len(alike) >= REPEATS_AFTER or any(other.repeats for other in alike):
            alike[0].repeats += 1
            return alike[0]
        self._listed.append(found)
        return None


def _reach(other: Finding | SensorFinding) -> int:
    """Return the rows in which an event like this one is a repeat."""
    return REPEAT_ROWS * (1 + min(other.repeats, REPEATS_COUNTED))

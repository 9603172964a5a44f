"""Pending rows: those whose alarm is not final, with what is known of them so far."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.events import Finding
from patchad.alarms.sensors import SensorFinding
from patchad.data.table import BoolArray, FloatArray


class PendingRows:
    """The rows from `first` on, of which `next` have a score by now.

    Examples
    --------
    >>> rows = PendingRows()
    >>> rows.add(np.array([0.0, 5.0, 5.0, 0.0]))
    >>> rows.mark(rows.alarms, 1, 3)
    >>> rows.finish(3).tolist(), rows.first, len(rows.scores)
    ([False, True, True], 3, 1)
    """

    state: ClassVar[tuple[str, ...]] = ("first", "next", "scores", "over", "alarms", "inside", "times")

    def __init__(self) -> None:
        self.first = self.next = 0
        """First row whose alarm is not final; rows with a score."""
        self.scores: FloatArray = np.empty(0)
        self.over: BoolArray = np.empty(0, dtype=bool)
        """Over the level."""
        self.alarms: BoolArray = np.empty(0, dtype=bool)
        """In an event, and alarming."""
        self.inside: BoolArray = np.empty(0, dtype=bool)
        """In an event by score."""
        self.times: NDArray[Any] | None = None

    def add_times(self, times: NDArray[Any] | None) -> None:
        """Take the times of the next rows."""
        if times is not None:
            self.times = times if self.times is None else np.concatenate([self.times, times])

    def add(self, scores: FloatArray) -> None:
        """Take the scores of the next rows, NaN where there is none."""
        none = np.zeros(len(scores), dtype=bool)
        self.next += len(scores)
        self.scores = np.concatenate([self.scores, scores])
        self.over, self.alarms, self.inside = (
            np.concatenate([one, none]) for one in (self.over, self.alarms, self.inside)
        )

    def finish(self, until: int) -> BoolArray:
        """Return the alarms of the rows before this one, and forget them."""
        alarms = self.alarms[: until - self.first]
        if len(alarms):
            kept = slice(len(alarms), None)
            self.scores, self.over = self.scores[kept], self.over[kept]
            self.alarms, self.inside = self.alarms[kept], self.inside[kept]
            self.times = None if self.times is None else self.times[kept]
            self.first = until
        return alarms

    def slice(self, start: int, stop: int) -> slice:
        """Return where the pending ones of these rows are."""
        return slice(max(start - self.first, 0), max(stop - self.first, 0))

    def mark(self, marks: BoolArray, start: int, stop: int) -> None:
        """Mark those of these rows that are pending."""
        marks[self.slice(start, stop)] = True

    def time(self, row: int) -> Any:
        """Return the time of a row; None where there are no times, or it is not pending."""
        return None if self.times is None or row < self.first else self.times[row - self.first]

    def follow(self, one: SensorFinding) -> None:
        """Find the highest score inside a finding of sensors, and the times of its edges."""
        self.set_times(one)
        first = max(one.first, self.first)
        scores = self.scores[self.slice(first, one.stop)]
        if len(scores) and not np.isnan(scores).all():
            best = int(np.nanargmax(scores))
            if (scores[best], -(first + best)) > (one.peak_score, -one.peak):
                one.peak, one.peak_score = first + best, float(scores[best])

    def set_times(self, found: Finding | SensorFinding) -> None:
        """Set the times of the edges that are pending."""
        if self.times is None:
            return
        score = found if isinstance(found, Finding) else None
        start, stop = found.rows if isinstance(found, Finding) else (found.first, found.stop)
        last = stop - 1
        if start >= self.first:
            found.start_time = self.time(start)
        if score is not None and score.edges.last >= self.first:
            score.edge_time = self.time(score.edges.last)
        if last >= self.first:
            found.stop_time = self.time(last)
        elif score is not None and last == score.edges.last:
            found.stop_time = score.edge_time

"""Marking: along a stream, compare rows with what was accepted or confirmed before events are looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from patchad.alarms.feedback import FeedbackStage, Marks, Strangeness
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray


@dataclass(slots=True, eq=False)
class Marked:
    """Rows with their scores, levels, and what feedback says of them."""

    rows: Scored
    levels: FloatArray
    muted: BoolArray
    confirmed: BoolArray

    def __getitem__(self, rows: slice) -> Marked:
        return Marked(self.rows[rows], self.levels[rows], self.muted[rows], self.confirmed[rows])


class Marking:
    """Hold rows back until it is known whether they are like rows that were judged.

    Parameters
    ----------
    make
        Makes the stage that compares the rows of one segment.
    strangeness
        Says what scores say of rows.
    """

    state = ("_stage", "_held")

    def __init__(
        self, make: Callable[[], FeedbackStage], strangeness: Callable[[Scored, FloatArray], Strangeness]
    ) -> None:
        self._make, self._strangeness = make, strangeness
        self._stage = make()
        self._held: list[Marked] = []

    def push(self, rows: Scored, levels: FloatArray, muted: BoolArray, values: FloatArray) -> list[Marked]:
        """Take the next rows, NaN where they have no score, and the values of those that have one."""
        kept = np.flatnonzero(~np.isnan(rows.scores))
        self._held.append(Marked(rows, levels, muted.copy(), np.zeros(len(rows), dtype=bool)))
        return self._released(self._stage.push(values, self._strangeness(rows[kept], levels[kept])))

    def end_segment(self) -> list[Marked]:
        """Return the rows that were held back."""
        found = self._released(self._stage.flush())
        self._stage = self._make()
        return found

    def _released(self, marks: Marks) -> list[Marked]:
        """Return the rows that these marks are of, with those between and right after them that have no score."""
        found: list[Marked] = []
        done = 0
        while self._held:
            first = self._held[0]
            kept = np.flatnonzero(~np.isnan(first.rows.scores))
            own = kept[: len(marks) - done]
            first.muted[own] |= marks.accepted[done : done + len(own)]
            first.confirmed[own] = marks.confirmed[done : done + len(own)]
            done += len(own)
            if len(own) < len(kept):
                stop = int(kept[len(own)])
                found += [first[slice(0, stop)]] if stop else []
                self._held[0] = first[slice(stop, None)]
                break
            found.append(self._held.pop(0))
        return found

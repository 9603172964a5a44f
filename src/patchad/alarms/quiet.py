"""Quiet: rows and channels of which the operator wants no events, as during maintenance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import BoolArray, FloatArray

HUSHED = 0.5
"""Share of its strange rows from which on an event is not told, where it is quiet for the channel that leads it."""


class Quiet:
    """Where it is quiet, of the newest rows of a series.

    A score beside a period rests on rows inside it: what is beside one is nearly as quiet.

    Parameters
    ----------
    channels
        Number of channels.
    before, after
        Rows by which a score reaches ahead and back.

    Examples
    --------
    >>> quiet = Quiet(1, before=0, after=1)
    >>> quiet.push(np.array([[False], [True], [False], [False]]))
    >>> quiet.stills(np.arange(4), None, np.zeros(4)).tolist()
    [False, True, True, False]
    """

    state = ("_marked", "_strange", "_first")

    def __init__(self, channels: int, *, before: int = 0, after: int = 0) -> None:
        self._before, self._after = before, after
        self._marked: BoolArray = np.zeros((0, channels), dtype=bool)
        self._strange: BoolArray = np.zeros(0, dtype=bool)
        """Rows whose local score is over the level: what is strange about them is not a period nearby."""
        self._first = 0
        """Row of the first mark."""

    def push(self, quiet: BoolArray) -> None:
        """Take the next rows: `(time, channel)`, whether they lie in a period."""
        self._marked = np.concatenate([self._marked, quiet])
        self._strange = np.concatenate([self._strange, np.zeros(len(quiet), dtype=bool)])

    def forget(self, row: int) -> None:
        """Forget rows that this one and later ones do not reach back to."""
        gone = max(row - self._after - self._first, 0)
        self._marked, self._strange, self._first = self._marked[gone:], self._strange[gone:], self._first + gone

    def stills(self, rows: NDArray[np.intp], local: FloatArray | None, levels: FloatArray) -> BoolArray:
        """Mark the rows that open no event and extend none.

        Those of a period of all channels, and those beside it, unless the local score, which rests on rows outside, is
        over the level.
        """
        if not self._marked.any():
            return np.zeros(len(rows), dtype=bool)
        whole: BoolArray = np.asarray(self._marked.all(axis=1, keepdims=True))
        still = self._near(whole, rows)[:, 0]
        if local is None:
            return still
        with np.errstate(invalid="ignore"):  # NaN is over no level
            strange = local > levels
        self._strange[rows - self._first] = strange
        return np.asarray(still & (whole[rows - self._first, 0] | ~strange))

    def hushes(self, lead: int | None, rows: Sequence[int]) -> bool:
        """Return whether it is quiet for a channel in most of these rows; None: for all channels.

        It is quiet in a period, and beside one where the local score is not over the level.
        """
        if not self._marked.any() or not len(rows):
            return False
        marked = np.asarray(self._marked.all(axis=1, keepdims=True) if lead is None else self._marked[:, [lead]])
        numbers = np.asarray(rows)
        place = np.clip(numbers - self._first, 0, len(marked) - 1)
        known = (numbers >= self._first) & (numbers < self._first + len(marked))
        apart = known & self._strange[place] & ~marked[place, 0]
        return bool((self._near(marked, numbers)[:, 0] & ~apart).mean() > HUSHED)

    def loud(self, start: int, stop: int, channels: Sequence[int]) -> int | None:
        """Return the first of these rows in which it is not quiet for all of these channels; None: there is none."""
        first = max(start, self._first)
        rows = self._marked[first - self._first : max(stop - self._first, 0)]
        loud = np.flatnonzero(~rows[:, list(channels)].all(axis=1))
        return first + int(loud[0]) if len(loud) else None

    def _near(self, marked: BoolArray, rows: NDArray[np.intp]) -> BoolArray:
        """Return whether a mark lies within reach of each row: `(row, column)`."""
        total = np.concatenate([np.zeros((1, marked.shape[1]), dtype=np.int64), marked.cumsum(axis=0)])
        low, high = np.clip([rows - self._after - self._first, rows + self._before + 1 - self._first], 0, len(marked))
        return np.asarray(total[high] > total[low])

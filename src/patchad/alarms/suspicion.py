"""Suspicion: an event that is told of before the scores of its rows are final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.edges import CLOSING, closing_level
from patchad.alarms.events import Finding
from patchad.data.table import BoolArray, FloatArray

MAX_WITHDRAWN = 100
"""Newest suspicions that proved to be none which are kept until the segment ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Rows whose scores are not final, as far as can be told."""

    numbers: NDArray[np.intp]
    """(time,), rows of the table."""
    scores: FloatArray
    """(time,), early scores in the scale of final ones."""
    level: float
    """What they are held to."""
    muted: BoolArray
    """(time,), rows that no event opens in."""
    unusual: BoolArray
    """(time,), rows that even the least strange of their windows finds unusual."""
    newest: int
    """The first row that nothing but the newest window has seen."""
    attribution: FloatArray | None = None
    """(time, channel), not negative."""


@dataclass(slots=True, eq=False)
class Suspicion:
    """Rows that seem to belong to an event."""

    opened: int
    """The first row that was over the level."""
    first: int
    """Where the run over the closing level began that it lies in."""
    start: int
    """Where the data seems to have changed."""
    last: int
    """The last row over the closing level."""
    level: float
    peak: int
    peak_score: float
    active: list[int]
    """Rows over the closing level whose scores are not final."""
    attribution: FloatArray | None
    start_time: np.generic | None = None
    stop_time: np.generic | None = None


class Suspicions:
    """Keep the one suspicion of a segment: it is confirmed by an event in its rows, or withdrawn.

    Parameters
    ----------
    base
        Median held-out score.
    apart
        Rows without anything strange that end an event.
    closing
        Height of the closing level between `base` and the level.

    Examples
    --------
    >>> suspicions = Suspicions(base=0.0, apart=5)
    >>> rows, none = np.arange(4), np.zeros(4, dtype=bool)
    >>> suspicions.look(Ahead(rows, np.array([0.0, 0.5, 3.0, 0.0]), 2.0, none, none, newest=3))
    >>> suspicions.now.opened, suspicions.now.start
    (2, 3)
    >>> suspicions.look(Ahead(rows + 1, np.array([0.2, 0.4, 0.1, 0.1]), 2.0, none, none, newest=4))
    >>> suspicions.now, [one.opened for one in suspicions.withdrawn]
    (None, [2])
    """

    state = ("now", "withdrawn", "_barred")

    def __init__(self, base: float, apart: int, closing: float = CLOSING) -> None:
        self._base, self._apart, self._closing = base, apart, closing
        self.now: Suspicion | None = None
        self.withdrawn: list[Suspicion] = []
        """Those of this segment that proved to be none, the newest ones."""
        self._barred = -1
        """The last row of those that were suspected before."""

    def look(
        self,
        ahead: Ahead,
        offset: float = 0.0,
        *,
        opens: bool = True,
        matters: Callable[[Suspicion], bool] = lambda _: True,
        times: Callable[[int], Any] = lambda _: None,
    ) -> None:
        """Look at the rows that have no final score; open a suspicion, follow it, or withdraw it.

        Parameters
        ----------
        ahead
            The rows.
        offset
            By how much scores are higher than normal in a regime.
        opens
            Whether a suspicion may be opened: not while an event is open.
        matters
            Tells whether the operator wants to know of it.
        times
            Gives the time of a row.
        """
        scores = ahead.scores - offset
        over = (scores > ahead.level) & ~ahead.muted
        active = (scores > closing_level(self._base, ahead.level, self._closing)) & ~ahead.muted
        if self.now is None:
            fresh = np.flatnonzero(over & (ahead.numbers > self._barred))
            if not opens or not len(fresh):
                return
            found = _suspicion(ahead, active, int(fresh[0]))
            if not matters(found):
                return
            self.now = found
        elif not _holds(self.now, ahead.numbers, over, active):
            self._withdraw()
            return
        else:
            _follow(self.now, ahead, active)
        self.now.start_time, self.now.stop_time = times(self.now.start), times(self.now.last)

    def confirm(self, found: Finding, name: Callable[[Suspicion], str]) -> None:
        """Let an event take the place of the suspicion if it lies in its rows; the event then knows its id."""
        one, (start, stop) = self.now, found.rows
        if one is None or found.suspected_id is not None:
            return
        if start <= one.last + self._apart and one.first < stop + self._apart:
            found.suspected_id = name(one)
            self._barred, self.now = one.last, None

    def end_segment(self) -> None:
        """Forget what was suspected: an event would have taken its place."""
        self.now, self.withdrawn = None, []

    def _withdraw(self) -> None:
        if self.now is not None:
            self.withdrawn = [*self.withdrawn, self.now][-MAX_WITHDRAWN:]
            self._barred, self.now = self.now.last, None


def _suspicion(ahead: Ahead, active: BoolArray, opened: int) -> Suspicion:
    """Begin a suspicion with this row, counted in `ahead`."""
    quiet = np.flatnonzero(~active[:opened])
    first = int(ahead.numbers[quiet[-1] + 1 if len(quiet) else 0])
    number = int(ahead.numbers[opened])
    found = Suspicion(number, first, max(number, ahead.newest), number, ahead.level, number, -np.inf, [], None)
    _follow(found, ahead, active)
    return found


def _holds(found: Suspicion, numbers: NDArray[np.intp], over: BoolArray, active: BoolArray) -> bool:
    """Return whether there is still reason to suspect: until its first row is final, a lower level will do."""
    reason = active if numbers[0] <= found.opened else over
    return bool(reason[numbers >= found.first].any())


def _follow(found: Suspicion, ahead: Ahead, active: BoolArray) -> None:
    """Tell the suspicion anew from the rows as they are now.

    The scores of rows before it rise too, by the windows that they share with it. Rows that all of their windows find
    unusual are its own; where there are none yet, those that nothing but the newest window has seen.
    """
    own = ahead.numbers >= found.first
    sharp = np.flatnonzero(ahead.unusual & own)
    if len(sharp) and ahead.numbers[0] <= found.start:
        found.start = int(ahead.numbers[sharp[0]])
    places = np.flatnonzero(active & own)
    found.active = ahead.numbers[places].tolist()
    found.last = max([found.last, found.start, *found.active[-1:], *ahead.numbers[sharp[-1:]].tolist()])
    best = int(ahead.scores[places].argmax())
    if ahead.scores[places[best]] > found.peak_score:
        found.peak, found.peak_score = found.active[best], float(ahead.scores[places[best]])
    inside = np.flatnonzero((ahead.numbers >= found.start) & (ahead.numbers <= found.last))
    if ahead.attribution is not None and len(inside):
        shares = ahead.attribution[inside].astype(np.float64)
        total = shares.sum(axis=1, keepdims=True)
        weights = ahead.scores[inside] - ahead.scores[inside].min() + 1.0
        found.attribution = weights @ np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)

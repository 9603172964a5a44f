"""Silence: when a stream whose rows had times has been quiet for too long, by the wall clock."""

from __future__ import annotations

import time as clock
from collections import deque
from dataclasses import dataclass, field

import numpy as np

SILENCE = 10.0
"""Steps between rows after which a stream is silent."""
KNOWN = 8
"""Steps that have to be known before a stream can be silent."""
PATIENCE = 3.0
"""Rows may come in bundles: a stream is silent only after so many times the longest wait for a row so far."""
SHORTEST = 1.0
"""Seconds of silence that are never told of."""


@dataclass(slots=True)
class Pace:
    """How rows of one stream come.

    Examples
    --------
    >>> pace = Pace()
    >>> for second in range(10):
    ...     pace.hear(60.0 * second, now=float(second))  # a minute between rows, which come each second
    >>> pace.is_silent(now=500.0), pace.is_silent(now=700.0)
    (False, True)
    """

    factor: float = SILENCE
    newest: float | None = None
    """Where the newest row is on the axis of times."""
    heard: float = field(default_factory=clock.monotonic)
    """When it came, by the monotonic clock."""
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    longest: float = 0.0
    """Longest wait for a row so far, silences apart."""

    def hear(self, at: float, now: float | None = None, *, silent: bool = False) -> None:
        """Take a row that came now; `silent` where the stream was silent before."""
        now = clock.monotonic() if now is None else now
        if self.newest is not None:
            if at > self.newest:
                self.steps.append(at - self.newest)
            if not silent:
                self.longest = max(self.longest, now - self.heard)
        self.newest, self.heard = at, now

    def is_silent(self, now: float | None = None) -> bool:
        """Return whether a row is overdue."""
        if self.factor <= 0 or len(self.steps) < KNOWN:
            return False
        now = clock.monotonic() if now is None else now
        step = float(np.median(list(self.steps)))
        return now - self.heard > max(self.factor * step, PATIENCE * self.longest, SHORTEST)

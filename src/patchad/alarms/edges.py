"""Edges: the level under which an event closes, and its first and last row, sharper than the rows over its level."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np

CLOSING = 0.2
"""Height of the closing level between the median held-out score and the level, where local scores tell edges."""
BLUNT_CLOSING = 0.4
"""The same where there are no local scores: under a lower level noise alone would keep events open."""
SHARPNESS = 0.25
"""Height that a row needs, as a share of the event's greatest height, to be an edge of it."""
STEPS = 8
"""Steps of height in which an unusual row doubles: few heights are stored, however long an event lasts."""


def closing_level(base: float, level: Any, closing: float) -> Any:
    """Return the level under which an event closes; a level under the median score is its own.

    Examples
    --------
    >>> float(closing_level(1.0, 6.0, 0.4)), float(closing_level(1.0, -5.0, 0.4))
    (3.0, -5.0)
    """
    return np.minimum(level, base + closing * (level - base))


@dataclass(slots=True, eq=False)
class Edges:
    """The first and last of the unusual rows of an event that are high enough for it.

    Scores smear by a window around an event. Among so many rows one is often a little unusual by chance, and would be
    taken for an edge of the greatest event. Height is on a log scale: 0 for a row that is just unusual.

    Examples
    --------
    >>> edges = Edges()
    >>> for row, unusual in enumerate([1.1, 1.0, 50.0, 20.0, 1.2]):
    ...     edges.add(row, unusual)
    >>> edges.rows
    (2, 3)
    """

    rises: list[tuple[int, int]] = field(default_factory=list)
    """Rows that were higher than all before them, with their heights; only those that are high enough still."""
    last: int = -1
    settled: bool = False
    """Whether the first row stays, however high later rows are."""

    def add(self, row: int, unusual: float) -> None:
        """Take the next unusual row: at least 1, in distances of a row that is just unusual from normal."""
        height = int(STEPS * log2(unusual))
        if self.settled and height > self.rises[0][1]:
            self.rises, self.last = [(self.rises[0][0], height)], row
        elif not self.rises or height > self.rises[-1][1]:
            self.rises = [rise for rise in self.rises if rise[1] >= SHARPNESS * height] + [(row, height)]
            self.last = row
        elif height >= SHARPNESS * self.rises[-1][1]:
            self.last = row

    def settle(self, first: int, last: int) -> None:
        """Let the first row stay as it is; where no row was unusual, these are the first and last."""
        if not self.rises:
            self.rises, self.last = [(first, 0)], last
        self.rises, self.settled = [(self.rises[0][0], self.rises[-1][1])], True

    @property
    def rows(self) -> tuple[int, int] | None:
        """First and last row; None before the first."""
        return (self.rises[0][0], self.last) if self.rises else None

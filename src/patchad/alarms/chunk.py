"""Chunk: rows that are pushed together, with what the search for events asks of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray

REGIME_ROWS = 330
"""Rows that an event has to have lasted, and its score to have been steady, before it is called a regime: a fault of
300 rows is none."""
UNSTEADY_ROWS = 1000
"""Rows after which it is called a regime whether steady or not: nobody is to be alarmed for ever by one thing."""
STEADY_SPREAD = 2.5
"""Spread of a steady score (from its 10th to its 90th percentile), as a share of its height over normal."""


class Chunk:
    """Rows that are pushed together, with what the stage asks of them."""

    def __init__(
        self,
        rows: Scored,
        levels: FloatArray,
        closing: FloatArray,
        muted: BoolArray,
        confirmed: BoolArray,
        base: float,
        edge: float,
        recent: FloatArray,
        numbers: NDArray[np.intp],
    ) -> None:
        self.scores, self.levels, self.attribution, self.numbers = rows.scores, levels, rows.attribution, numbers
        self.confirmed = confirmed
        lasting = rows.scores if rows.unadapted is None else rows.unadapted
        with np.errstate(invalid="ignore"):  # NaN is over no level
            self.active: BoolArray = ((rows.scores > closing) & ~muted) | confirmed
            self.lasting: BoolArray = (lasting > closing) & ~muted
            self.unusual: FloatArray = (
                1.0 * (rows.scores > closing) if rows.local is None else _unusual(rows.local, base, edge)
            )
        self.unusual = np.where(confirmed, np.maximum(self.unusual, 1.0), self.unusual)
        self.history = np.concatenate([recent, heights(rows)])
        self._before, self._base, self._closing, self._muted = len(recent), base, closing, muted
        self._where: NDArray[np.intp] = np.flatnonzero(self.active)

    def next_active(self, row: int) -> int:
        """Return the next row over the closing level, or the end of the chunk."""
        place = int(np.searchsorted(self._where, row))
        return int(self._where[place]) if place < len(self._where) else len(self.active)

    def is_over(self, row: int, offset: float) -> bool:
        """Return whether a score is over the level, by so much more than usual."""
        over = bool(self.scores[row] - offset > self.levels[row]) and not self._muted[row]
        return over or bool(self.confirmed[row])

    def is_active(self, row: int, offset: float) -> bool:
        """Return whether a score is over the closing level, by so much more than usual."""
        over = bool(self.scores[row] - offset > self._closing[row]) and not self._muted[row]
        return over or bool(self.confirmed[row])

    def is_steady(self, row: int) -> bool:
        """Return whether the last rows have kept their height over normal."""
        low, middle, high = np.nanquantile(self._last(row)[:, 0], [0.1, 0.5, 0.9])
        return bool(high - low < STEADY_SPREAD * (middle - self._base))

    def height(self, row: int) -> float:
        """Return by how much the highest of the newest scores is over normal."""
        return max(float(np.nanmax(self._last(row)[:, 1])) - self._base, 0.0)

    def _last(self, row: int) -> FloatArray:
        stop = self._before + row + 1
        return self.history[max(stop - REGIME_ROWS, 0) : stop]


def heights(rows: Scored) -> FloatArray:
    """Return scores before and after adaptation, `(time, 2)`."""
    return np.column_stack([rows.scores if rows.unadapted is None else rows.unadapted, rows.scores])


def _unusual(local: FloatArray, base: float, edge: float) -> FloatArray:
    """Return how unusual rows are: 0 for usual ones, others in distances of the edge from normal."""
    distance = (local - base) / (edge - base) if edge > base else np.ones(len(local))
    return np.where(local > edge, distance, 0.0)

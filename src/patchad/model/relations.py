"""Relations: channels that correlate in train, and how far a row breaks that.

The channel that cannot be reconstructed is the faulty one; its broken relations also name what it fell out with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray
from patchad.errors import InputError

PARTNERS = 3
"""Most partners of a channel, those that correlate with it most."""
LEAST_CORRELATION = 0.5
"""Absolute correlation under which two channels are no partners."""
MOST_ROWS = 20_000
"""Rows that the relations are learned from."""
SPREAD_FLOOR = 0.02
"""Least spread of the difference of two partners, in standard deviations: a smaller one is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """Pairs of correlated channels, and how far apart the two of each pair usually are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> flow, heat = rng.standard_normal((2, 500))
    >>> relations = Relations.fit(np.column_stack([flow, flow + 0.1 * rng.standard_normal(500), heat]))
    >>> relations.pairs.tolist(), relations.attribution(np.array([[1.0, -1.0, 9.0]])).round().tolist()
    ([[0, 1]], [[25.0, 25.0, 0.0]])
    """

    pairs: NDArray[np.int64]
    """(pair, 2), numbers of the two channels."""
    correlation: FloatArray
    """(pair,), of the two in train, -1 to 1."""
    apart: TailScale
    """Of the distance of the two in train, (pair,); the second is negated where the correlation is negative."""
    unit: FloatArray
    """(channel,), the deviation of each channel, by which values are divided first."""

    def __post_init__(self) -> None:
        if not ((self.apart.spread > 0).all() and (self.unit > 0).all()):
            raise InputError("the usual distances of channels, and their units, must be positive")

    @classmethod
    def fit(cls, values: FloatArray) -> Relations:
        """Find the closest partners of each channel of rows `(time, channel)`."""
        rows = values[:: max(len(values) // MOST_ROWS, 1)].astype(np.float64)
        deviation = rows.std(axis=0)
        unit = np.where(deviation > 1e-9, deviation, 1.0)
        rows /= unit
        correlation = _correlation(rows)
        closest = np.argsort(-np.abs(correlation), axis=1, kind="stable")[:, :PARTNERS]
        found = {
            (min(one, other), max(one, other))
            for one, others in enumerate(closest.tolist())
            for other in others
            if abs(correlation[one, other]) >= LEAST_CORRELATION
        }
        pairs = np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
        weights = correlation[pairs[:, 0], pairs[:, 1]]
        return cls(pairs, weights, TailScale.fit(_apart(rows, pairs, weights), SPREAD_FLOOR), unit)

    @classmethod
    def none(cls) -> Relations:
        """Return no relation at all."""
        return cls(np.empty((0, 2), np.int64), np.empty(0), TailScale(np.empty(0), np.empty(0)), np.ones(1))

    def attribution(self, values: FloatArray) -> FloatArray:
        """Return how far each channel is from its partners: scaled `(..., channel)` in, the same shape out.

        Both channels of a pair get how much further apart they are than usual, times their squared correlation.
        """
        if len(self.pairs) == 0:
            return np.zeros(values.shape)
        broken = (
            np.maximum(self.apart(_apart(values / self.unit, self.pairs, self.correlation)), 0) * self.correlation**2
        )
        members = np.zeros((len(self.pairs), values.shape[-1]))
        members[np.arange(len(self.pairs))[:, None], self.pairs] = 1
        return np.asarray(broken @ members)


def _apart(values: FloatArray, pairs: NDArray[np.int64], correlation: FloatArray) -> FloatArray:
    return np.asarray(np.abs(values[..., pairs[:, 0]] - np.sign(correlation) * values[..., pairs[:, 1]]))


def _correlation(rows: FloatArray) -> FloatArray:
    """Return `(channel, channel)` correlations; 0 for a channel that never moves, and on the diagonal."""
    centred = rows - rows.mean(axis=0)
    size = np.sqrt(np.square(centred).mean(axis=0))
    scaled = np.divide(centred, size, out=np.zeros_like(centred), where=size > 1e-9)
    correlation = scaled.T @ scaled / len(rows)
    np.fill_diagonal(correlation, 0.0)
    return np.asarray(correlation)

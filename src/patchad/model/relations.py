"""Channels that go together, and how far a row breaks that: what makes the partner of a faulty channel visible.

A net that blames the channel it cannot reconstruct is right, and says nothing of what that channel fell out with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray

PARTNERS = 3
"""Partners of each channel at most, those that go with it most closely."""
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
    >>> relations.pairs.tolist(), relations.blame(np.array([[1.0, -1.0, 9.0]])).round().tolist()
    ([[0, 1]], [[25.0, 25.0, 0.0]])
    """

    pairs: NDArray[np.int64]
    """(pair, 2), numbers of the two channels."""
    correlation: FloatArray
    """(pair,), of the two in train, -1 to 1."""
    apart: TailScale
    """Of the distance of the two in train, (pair,); the second is turned around where the correlation is negative."""
    unit: FloatArray
    """(channel,), the deviation of each channel, by which values are divided first."""

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
        """Give no relation at all."""
        return cls(np.empty((0, 2), np.int64), np.empty(0), TailScale(np.empty(0), np.empty(0)), np.ones(1))

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Give what was learned by name, for a file."""
        return {
            "relations.pairs": self.pairs,
            "relations.correlation": self.correlation,
            "relations.median": self.apart.median,
            "relations.spread": self.apart.spread,
            "relations.unit": self.unit,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Relations:
        """Take back what `to_arrays` gave; a file from before relations has none."""
        if "relations.pairs" not in arrays:
            return cls.none()
        apart = TailScale(arrays["relations.median"], arrays["relations.spread"])
        unit = arrays.get("relations.unit", np.ones(1))  # older files have z-scores, whose unit is one
        return cls(arrays["relations.pairs"].astype(np.int64), arrays["relations.correlation"], apart, unit)

    def blame(self, values: FloatArray) -> FloatArray:
        """Say how far each channel is from its partners: z-scored `(..., channel)` in, the same shape out.

        Both channels of a pair get how far they are further apart than usual, times their squared correlation.
        """
        blame = np.zeros(values.shape)
        if len(self.pairs) == 0:
            return blame
        broken = (
            np.maximum(self.apart(_apart(values / self.unit, self.pairs, self.correlation)), 0) * self.correlation**2
        )
        members = np.zeros((len(self.pairs), values.shape[-1]))
        members[np.arange(len(self.pairs))[:, None], self.pairs] = 1
        return np.asarray(broken @ members)


def _apart(values: FloatArray, pairs: NDArray[np.int64], correlation: FloatArray) -> FloatArray:
    return np.asarray(np.abs(values[..., pairs[:, 0]] - np.sign(correlation) * values[..., pairs[:, 1]]))


def _correlation(rows: FloatArray) -> FloatArray:
    """Give `(channel, channel)` correlations, 0 for a channel that never moves and for a channel with itself."""
    centred = rows - rows.mean(axis=0)
    size = np.sqrt(np.square(centred).mean(axis=0))
    scaled = np.divide(centred, size, out=np.zeros_like(centred), where=size > 1e-9)
    correlation = scaled.T @ scaled / len(rows)
    np.fill_diagonal(correlation, 0.0)
    return np.asarray(correlation)

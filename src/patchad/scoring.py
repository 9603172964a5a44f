"""From what the net says of a point to its score and to the channels to blame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from patchad.containers import FloatArray
from patchad.scaling import TailScale

Score = Literal["discrepancy", "residual", "fused"]
SCORES = ("discrepancy", "residual", "fused")

RESIDUAL_FLOOR = 0.02
"""Least spread of a residual, in standard deviations of its channel: a smaller one is rounding, not noise."""
RELATIVE_FLOOR = 0.01
"""Least spread of a distance or a sum, as a share of its usual size."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRule:
    """How residual and discrepancy become one score, with scales from held-out train.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rule = ScoreRule.fit("fused", 1, rng.random((100, 2)), rng.random((100, 2)))
    >>> calm = rule.scores(np.full((1, 2), 0.5), np.full((1, 2), 0.5))
    >>> odd = rule.scores(np.array([[0.5, 9.0]]), np.full((1, 2), 0.5))
    >>> bool(odd[0] > calm[0]), rule.blame(np.array([[0.5, 9.0]]), np.full((1, 2), 0.5)).argmax()
    (True, np.int64(1))
    """

    kind: Score
    orientation: int
    """+1: a large distance between the views is strange; -1: a small one."""
    residual: TailScale
    """Of each channel's residual, (channel,)."""
    discrepancy: TailScale
    """Of the distance between the views of each channel, (channel,), or of all, (1,)."""
    parts: TailScale
    """Of the three parts of the fused score, (part,)."""

    @classmethod
    def fit(cls, kind: Score, orientation: int, residual: FloatArray, discrepancy: FloatArray) -> ScoreRule:
        """Learn the scales from held-out points: residual `(point, channel)`, discrepancy `(point, channel or 1)`."""
        size = np.median(discrepancy, axis=0)
        residual_scale = TailScale.fit(residual, RESIDUAL_FLOOR)
        discrepancy_scale = TailScale.fit(discrepancy, np.maximum(RELATIVE_FLOOR * size, 1e-9))
        parts = _parts(residual_scale(residual), discrepancy, orientation)
        floors = np.maximum(RELATIVE_FLOOR * np.abs(np.median(parts, axis=0)), [1e-9, RELATIVE_FLOOR, RELATIVE_FLOOR])
        return cls(kind, orientation, residual_scale, discrepancy_scale, TailScale.fit(parts, floors))

    def scores(self, residual: FloatArray, discrepancy: FloatArray) -> FloatArray:
        """Score points: `(...)` from `(..., channel)` residuals and `(..., channel or 1)` distances."""
        if self.kind == "discrepancy":
            return np.asarray(self.orientation * discrepancy.mean(axis=-1, dtype=np.float64))
        parts = _parts(self.residual(residual), discrepancy, self.orientation)
        if self.kind == "residual":
            return parts[..., 1]
        return np.asarray(self.parts(parts).sum(axis=-1))

    def blame(self, residual: FloatArray, discrepancy: FloatArray) -> FloatArray:
        """Say how much each channel is out of its ordinary: `(..., channel)`, not negative."""
        blame = np.maximum(self.residual(residual), 0)
        if self.kind != "residual" and discrepancy.shape[-1] == residual.shape[-1] > 1:
            blame += np.maximum(self.orientation * self.discrepancy(discrepancy), 0)
        return blame


def _parts(residual: FloatArray, discrepancy: FloatArray, orientation: int) -> FloatArray:
    """Give distance of the views, mean and maximum of the scaled residuals: `(..., 3)`."""
    distance = orientation * discrepancy.mean(axis=-1, dtype=np.float64)
    return np.stack([distance, residual.mean(axis=-1), residual.max(axis=-1)], axis=-1)

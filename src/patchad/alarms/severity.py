"""Severity: how far an event stands out, calibrated on held-out train."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchad.data.table import FloatArray


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Median and maximum of the held-out scores, by which severity is measured."""

    middle: float
    """Median score."""
    highest: float

    @classmethod
    def fit(cls, scores: FloatArray) -> Yardstick:
        """Take both from the finite scores."""
        finite = scores[np.isfinite(scores)]
        return cls(float(np.median(finite)), float(finite.max()))

    def severity(self, score: float) -> float:
        """Return 0 to 100 for a score.

        Examples
        --------
        >>> [Yardstick(middle=1.0, highest=2.0).severity(score) for score in (1.5, 2.0, 3.0, 11.0)]
        [0.0, 0.0, 50.0, 90.0]
        """
        reach = max(self.highest - self.middle, 1e-12)
        distance = (score - self.middle) / reach
        return round(100 * (1 - 1 / distance), 6) if distance > 1 else 0.0

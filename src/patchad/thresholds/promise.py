"""Promise: the level that keeps a promised rate of false events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from patchad.data.table import FloatArray
from patchad.thresholds.base import Threshold, finite, require
from patchad.thresholds.pareto import cluster_maxima, fit_pareto

PROMISE_ROWS = 10_000
"""Rows that a promised number of false events refers to: a week of minutes."""
TAIL = 0.1
"""Share of the scores that make the tail."""
MIN_CLUSTERS = 10
"""Clusters below which a level is called extrapolated."""
MAX_SHAPE = 0.25
"""Heaviest tail of a resample: heavier ones put the level out of reach."""
RESAMPLES = 100
CONFIDENCE = 0.7
"""One-sided confidence that the rate of events stays under the promise."""


@dataclass
class Promise(Threshold):
    """The lowest level at which an upper confidence bound of the rate of false events keeps the promise.

    Neighbouring rows rise together, so the unit is the cluster: rows over the start of the tail that lie at most `gap`
    rows apart. The maxima of the clusters follow a generalised Pareto distribution; with their number it gives the
    rate of events over any level. The bound comes from resampling the clusters.
    """

    false_alarms: float = 1.0
    """Expected false events per 10,000 normal rows."""
    gap: int = 60
    """Rows under the start of the tail that end a cluster."""

    def __post_init__(self) -> None:
        require(
            self.false_alarms > 0 and np.isfinite(self.false_alarms),
            f"false_alarms={self.false_alarms:g} is out of range; it is a number of events per 10,000 rows, over 0",
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Fit the tail of held-out scores.

        Examples
        --------
        >>> scores = np.random.default_rng(0).exponential(size=20_000)
        >>> often, seldom = (Promise(rate, gap=5).fit(scores).level for rate in (10.0, 0.5))
        >>> bool(5 < often < seldom < 15)
        True
        """
        known = finite(calibration)
        start = float(np.quantile(known, 1 - TAIL))
        maxima = cluster_maxima(np.where(np.isfinite(calibration), calibration, -np.inf), start, self.gap)
        self.rows, self.clusters = len(known), len(maxima)
        allowed = self.false_alarms / PROMISE_ROWS * self.rows
        random = np.random.default_rng(0)
        counts = np.maximum(random.poisson(self.clusters, RESAMPLES), 1)
        levels = [self._level(random.choice(maxima, count) - start, start, allowed) for count in counts]
        self.level = float(np.quantile(levels, CONFIDENCE))
        return self

    @property
    def basis(self) -> Literal["measured", "extrapolated"]:
        """Whether the level rests on enough clusters."""
        return "measured" if self.clusters >= MIN_CLUSTERS else "extrapolated"

    @staticmethod
    def _level(excess: FloatArray, start: float, allowed: float) -> float:
        """Return the level that `allowed` clusters of all that were seen exceed."""
        ratio = allowed / len(excess)
        if ratio >= 1:
            return start
        shape, scale = fit_pareto(excess) if len(excess) >= MIN_CLUSTERS else (0.0, max(float(excess.mean()), 1e-150))
        shape = min(shape, MAX_SHAPE)
        if abs(shape) < 1e-8:
            return start - scale * float(np.log(ratio))
        return float(start + scale / shape * (ratio**-shape - 1))

"""Peaks over threshold, after Siffer et al. (KDD 2017).

Scores over a high quantile follow a generalised Pareto distribution, so that a level can be given for a share of rows
(`risk`) far smaller than one in the rows seen.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Self

import numpy as np

from patchad.data.table import FloatArray
from patchad.thresholds.base import Threshold, finite, require
from patchad.thresholds.pareto import cluster_maxima, fit_pareto

MIN_PEAKS = 5
"""Peaks below which the shape of the tail is not fitted but taken as exponential."""
MAX_SHAPE = 0.5
"""Heaviest tail of ours: beyond it a few high peaks of train would put the level out of reach."""


@dataclass
class PeaksOverThreshold(Threshold):
    """The level that a share of `risk` of normal scores is expected to exceed, from a Pareto tail fitted on train.

    Scores of neighbouring rows rise together, and a rise that lasts is one event, not many: the tail is fitted to the
    highest score of each rise. Fitted to all of them it would look lighter than it is, and the level would be too low.
    And what runs on shows more than the rows held out of train did, so the level keeps a margin.
    """

    risk: float = 1e-4
    tail: float = 0.1
    """Share of the scores that make the tail."""
    fewest: int = 30
    """Scores in the tail at least (but no more than half of all): a fit to fewer says nothing."""
    apart: int = 20
    """Rows under the start of the tail that end a rise."""
    margin: float = 1.5
    """How much farther from the median of the scores than fitted the level is put."""
    heaviest: float | None = MAX_SHAPE
    """Largest shape of the tail; None: as fitted."""

    def __post_init__(self) -> None:
        require(
            0 < self.risk < 1, f"risk={self.risk:g} is out of range; it is a share of rows between 0 and 1, as 1e-4"
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Fit the tail to scores in the order of their rows."""
        scores = finite(calibration)
        ordered = np.sort(scores)
        count = min(max(int(np.ceil(self.tail * len(scores))), self.fewest), max(len(scores) // 2, 1))
        self.start = float(ordered[-count - 1]) if count < len(scores) else float(ordered[0])
        self.middle = float(np.median(ordered))
        self._keep(cluster_maxima(scores, self.start, self.apart) - self.start, seen=len(scores), over=count)
        return self

    def _keep(self, peaks: FloatArray, seen: int, over: int) -> None:
        self._seen, self._over = seen, over
        self._fit_tail(peaks)
        self.level = self._level()

    def _fit_tail(self, peaks: FloatArray) -> None:
        """Fit shape and scale; from a few peaks no shape can be told, and none may promise the sky."""
        self.shape, self.scale = (
            fit_pareto(peaks) if len(peaks) >= MIN_PEAKS else (0.0, max(float(np.mean(peaks)), 1e-150))
        )
        if self.heaviest is not None:
            self.shape = min(self.shape, self.heaviest)

    def _level(self) -> float:
        return self.middle + self.margin * (self._fitted_level() - self.middle)

    def _fitted_level(self) -> float:
        ratio = self.risk * self._seen / self._over
        if ratio >= 1:  # more risk than the tail holds: its start is the highest level the tail can justify
            return self.start
        if abs(self.shape) < 1e-8:
            return self.start - self.scale * float(np.log(ratio))
        return float(self.start + self.scale / self.shape * (ratio**-self.shape - 1))


@dataclass
class SPOT(PeaksOverThreshold):
    """Peaks over threshold that goes on learning: scores in the tail but under the level refine the fit."""

    max_peaks: int | None = 1000
    """Newest peaks that are stored; None: all."""

    def _keep(self, peaks: FloatArray, seen: int, over: int) -> None:
        super()._keep(peaks, seen, over)
        self._recent: deque[float] = deque(peaks.tolist(), maxlen=self.max_peaks)
        self._calm = self.apart + 1

    def step(self, score: float) -> float:
        """Return the level for this score; then learn from it unless it alarms."""
        level = self.level
        if not np.isfinite(score) or score > level:
            return level
        self._seen += 1
        self._calm += 1
        if score > self.start:
            self._over += 1
            peak = score - self.start
            if self._calm <= self.apart and self._recent:
                self._recent[-1] = max(self._recent[-1], peak)
            else:
                self._recent.append(peak)
            self._calm = 0
            self._fit_tail(np.array(self._recent))
        self.level = self._level()
        return level


@dataclass
class PlainSPOT(SPOT):
    """SPOT as Siffer et al. have it: every score over the 98 % quantile is a peak, and the fitted level is the level.

    No declustering, no bound on the shape, no margin; all peaks are kept. Only shapes under -1/2, where the likelihood
    has no maximum, are left out. For comparisons: on scores that rise and fall in runs its level is too low.

    Examples
    --------
    >>> scores = np.random.default_rng(0).exponential(size=20_000)
    >>> bool(abs(PlainSPOT(risk=1e-4).fit(scores).level - np.log(1e4)) < 1.5)
    True
    """

    tail: float = 0.02
    fewest: int = 10
    apart: int = 0
    margin: float = 1.0
    heaviest: float | None = None
    max_peaks: int | None = None


@dataclass
class DSPOT(SPOT):
    """SPOT on the difference to the mean of the last normal scores, for scores that drift."""

    depth: int = 50
    """Normal scores in the moving mean."""

    def fit(self, calibration: FloatArray) -> Self:
        """Remove the moving mean, then fit the tail."""
        scores = finite(calibration)
        depth = max(min(self.depth, len(scores) // 2), 1)
        means = np.convolve(scores, np.full(depth, 1 / depth), mode="valid")
        self._normal: deque[float] = deque(scores[-depth:].tolist(), maxlen=depth)
        super().fit(scores[depth:] - means[:-1] if len(scores) > depth else scores - scores.mean())
        return self

    def step(self, score: float) -> float:
        """Return the level for this score; then learn from it unless it alarms."""
        mean = sum(self._normal) / len(self._normal)
        level = mean + super().step(score - mean)
        if np.isfinite(score) and score <= level:
            self._normal.append(score)
        return level

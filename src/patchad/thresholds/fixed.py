"""Levels that stay where they are fitted: numbers, quantiles, deviations, and the paper's ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from patchad.data.table import FloatArray
from patchad.errors import UnsupportedError
from patchad.thresholds.base import Threshold, finite, require


@dataclass
class Fixed(Threshold):
    """A number given by the user."""

    value: float

    def __post_init__(self) -> None:
        require(not np.isnan(self.value), "threshold nan is no level; give a number")

    def fit(self, calibration: FloatArray) -> Self:  # noqa: ARG002 - nothing to learn
        """Take the number as it is."""
        self.level = float(self.value)
        return self


@dataclass
class Quantile(Threshold):
    """The `q` quantile of the held-out scores."""

    q: float

    def __post_init__(self) -> None:
        require(
            0 <= self.q <= 1, f"quantile:{self.q:g} is out of range; q must lie between 0 and 1, as in quantile:0.999"
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Take the quantile.

        Examples
        --------
        >>> Quantile(0.5).fit(np.array([1.0, 2.0, 9.0])).level
        2.0
        """
        self.level = float(np.quantile(finite(calibration), self.q))
        return self


@dataclass
class Sigma(Threshold):
    """Mean plus `k` standard deviations of the held-out scores."""

    k: float

    def fit(self, calibration: FloatArray) -> Self:
        """Take mean and standard deviation."""
        scores = finite(calibration)
        self.level = float(scores.mean() + self.k * scores.std())
        return self


@dataclass
class Mad(Threshold):
    """Median plus `k` scaled median absolute deviations (1.4826 MAD: a standard deviation for normal scores)."""

    k: float

    def fit(self, calibration: FloatArray) -> Self:
        """Take median and median absolute deviation."""
        scores = finite(calibration)
        median = np.median(scores)
        self.level = float(median + self.k * 1.4826 * np.median(np.abs(scores - median)))
        return self


@dataclass
class Ratio(Threshold):
    """The paper's rule: the `100 - r` percentile of train and test scores together, so that r percent alarm.

    It looks at the scores it judges; use it to follow the paper's protocol, not to run a plant.
    """

    r: float
    uses_all_train: ClassVar[bool] = True
    needs_all_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(
            0 <= self.r <= 100, f"ratio:{self.r:g} is out of range; r is in percent, between 0 and 100, as in ratio:1"
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Keep the scores of train."""
        self._train = finite(calibration)
        self.level = float(np.percentile(self._train, 100 - self.r))
        return self

    def step(self, score: float) -> float:  # noqa: ARG002
        """Refuse: one row cannot know the scores of all."""
        raise UnsupportedError(
            "threshold 'ratio' needs all scores at once and cannot be used along a stream; use 'auto'"
        )

    def levels(self, scores: FloatArray) -> FloatArray:
        """Return one level, from the scores of train and of this call.

        Examples
        --------
        >>> train, test = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
        >>> Ratio(10).fit(train).levels(test).round(2).max()
        np.float64(0.91)
        """
        together = np.concatenate([self._train, scores[np.isfinite(scores)]])
        return np.full(len(scores), np.percentile(together, 100 - self.r))

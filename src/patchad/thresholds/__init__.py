"""Levels that scores are held to: fitted on held-out scores of train, never on test (but for `Ratio`, which says so).

Peaks over threshold, after Siffer et al. (KDD 2017): scores over a high quantile follow a generalised Pareto
distribution, so that a level can be given for a share of rows (`risk`) far smaller than one in the rows seen.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from patchad.data.table import FloatArray
from patchad.errors import InputError, UnsupportedError
from patchad.thresholds.pareto import fit_pareto, highest_of_each_rise

FEW_PEAKS = 5
"""Peaks under which the shape of the tail is not fitted but taken as exponential."""
MOST_SHAPE = 0.5
"""Heaviest tail: beyond it a few high peaks of train would put the level out of all reach."""


class Threshold(ABC):
    """A rule that gives the level for each score."""

    level: float
    """The level for the next score, once fitted."""
    uses_all_train: ClassVar[bool] = False
    """Whether `fit` wants the scores of all of train rather than of its held-out tail."""

    @abstractmethod
    def fit(self, calibration: FloatArray) -> Self:
        """Learn from `(time,)` scores of train."""

    def step(self, score: float) -> float:  # noqa: ARG002 - a fixed level ignores it
        """Give the level for this score, and adapt afterwards where the rule does."""
        return self.level

    def levels(self, scores: FloatArray) -> FloatArray:
        """Give the level for every score of a series, starting from the fitted state, which stays as it is.

        A row without a score (NaN) has the level that the next score would have.
        """
        return np.full(len(scores), self.level)


@dataclass
class Fixed(Threshold):
    """A number given by the user."""

    value: float

    def __post_init__(self) -> None:
        _require(not np.isnan(self.value), "threshold nan is no level; give a number")

    def fit(self, calibration: FloatArray) -> Self:  # noqa: ARG002 - nothing to learn
        """Take the number as it is."""
        self.level = float(self.value)
        return self


@dataclass
class Quantile(Threshold):
    """The `q` quantile of the held-out scores."""

    q: float

    def __post_init__(self) -> None:
        _require(
            0 <= self.q <= 1, f"quantile:{self.q:g} is out of range; q must lie between 0 and 1, as in quantile:0.999"
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Take the quantile.

        Examples
        --------
        >>> Quantile(0.5).fit(np.array([1.0, 2.0, 9.0])).level
        2.0
        """
        self.level = float(np.quantile(_finite(calibration), self.q))
        return self


@dataclass
class Sigma(Threshold):
    """Mean plus `k` standard deviations of the held-out scores."""

    k: float

    def fit(self, calibration: FloatArray) -> Self:
        """Take mean and standard deviation."""
        scores = _finite(calibration)
        self.level = float(scores.mean() + self.k * scores.std())
        return self


@dataclass
class Mad(Threshold):
    """Median plus `k` scaled median absolute deviations (1.4826 MAD: a standard deviation for normal scores)."""

    k: float

    def fit(self, calibration: FloatArray) -> Self:
        """Take median and median absolute deviation."""
        scores = _finite(calibration)
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

    def __post_init__(self) -> None:
        _require(
            0 <= self.r <= 100, f"ratio:{self.r:g} is out of range; r is in percent, between 0 and 100, as in ratio:1"
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Keep the scores of train."""
        self._train = _finite(calibration)
        self.level = float(np.percentile(self._train, 100 - self.r))
        return self

    def step(self, score: float) -> float:  # noqa: ARG002
        """Refuse: one row cannot know the scores of all."""
        raise UnsupportedError(
            "threshold 'ratio' needs all scores at once and cannot be used along a stream; use 'auto'"
        )

    def levels(self, scores: FloatArray) -> FloatArray:
        """Give one level, from the scores of train and of this call.

        Examples
        --------
        >>> train, test = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
        >>> Ratio(10).fit(train).levels(test).round(2).max()
        np.float64(0.91)
        """
        together = np.concatenate([self._train, scores[np.isfinite(scores)]])
        return np.full(len(scores), np.percentile(together, 100 - self.r))


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

    def __post_init__(self) -> None:
        _require(
            0 < self.risk < 1, f"risk={self.risk:g} is out of range; it is a share of rows between 0 and 1, as 1e-4"
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Fit the tail to scores in the order of their rows."""
        scores = _finite(calibration)
        ordered = np.sort(scores)
        count = min(max(int(np.ceil(self.tail * len(scores))), self.fewest), max(len(scores) // 2, 1))
        self.start = float(ordered[-count - 1]) if count < len(scores) else float(ordered[0])
        self.middle = float(np.median(ordered))
        self._keep(highest_of_each_rise(scores, self.start, self.apart) - self.start, seen=len(scores), over=count)
        return self

    def _keep(self, peaks: FloatArray, seen: int, over: int) -> None:
        self._seen, self._over = seen, over
        self._fit_tail(peaks)
        self.level = self._level()

    def _fit_tail(self, peaks: FloatArray) -> None:
        """Fit shape and scale; from a few peaks no shape can be told, and none may promise the sky."""
        self.shape, self.scale = (
            fit_pareto(peaks) if len(peaks) >= FEW_PEAKS else (0.0, max(float(np.mean(peaks)), 1e-150))
        )
        self.shape = min(self.shape, MOST_SHAPE)

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

    memory: int = 1000
    """Newest peaks that are kept."""

    def _keep(self, peaks: FloatArray, seen: int, over: int) -> None:
        super()._keep(peaks, seen, over)
        self._recent: deque[float] = deque(peaks.tolist(), maxlen=self.memory)
        self._calm = self.apart + 1

    def step(self, score: float) -> float:
        """Give the level for this score; then learn from it unless it alarms."""
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

    def levels(self, scores: FloatArray) -> FloatArray:
        """Walk along the scores with a copy of the fitted state."""
        walker = copy.deepcopy(self)
        return np.array([walker.step(score) for score in scores.tolist()])


@dataclass
class DSPOT(SPOT):
    """SPOT on the difference to the mean of the last normal scores, for scores that drift."""

    depth: int = 50
    """Normal scores in the moving mean."""

    def fit(self, calibration: FloatArray) -> Self:
        """Remove the moving mean, then fit the tail."""
        scores = _finite(calibration)
        depth = max(min(self.depth, len(scores) // 2), 1)
        means = np.convolve(scores, np.full(depth, 1 / depth), mode="valid")
        self._normal: deque[float] = deque(scores[-depth:].tolist(), maxlen=depth)
        super().fit(scores[depth:] - means[:-1] if len(scores) > depth else scores - scores.mean())
        return self

    def step(self, score: float) -> float:
        """Give the level for this score; then learn from it unless it alarms."""
        mean = sum(self._normal) / len(self._normal)
        level = mean + super().step(score - mean)
        if np.isfinite(score) and score <= level:
            self._normal.append(score)
        return level


NAMED: dict[str, type[Threshold]] = {
    "auto": PeaksOverThreshold,
    "spot": SPOT,
    "dspot": DSPOT,
    "quantile": Quantile,
    "sigma": Sigma,
    "mad": Mad,
    "ratio": Ratio,
    "fixed": Fixed,
}


def make_threshold(threshold: str | float | Threshold, *, risk: float) -> Threshold:
    """Make a threshold from its name, a number, or an unfitted threshold.

    Examples
    --------
    >>> make_threshold("quantile:0.999", risk=1e-4)
    Quantile(q=0.999)
    >>> make_threshold(2.5, risk=1e-4)
    Fixed(value=2.5)
    """
    if isinstance(threshold, Threshold):
        return copy.deepcopy(threshold)
    if isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool):
        return Fixed(float(threshold))
    name, _, argument = str(threshold).partition(":")
    if not argument and name in ("auto", "spot", "dspot"):
        return NAMED[name](risk=risk)  # type: ignore[call-arg]
    try:
        if name in ("quantile", "sigma", "mad", "ratio"):
            return NAMED[name](float(argument))  # type: ignore[call-arg]
        return Fixed(float(str(threshold)))
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"threshold {threshold!r} is unknown; use auto, spot, dspot, quantile:0.999, sigma:3, mad:5, ratio:1 or a "
            "number"
        ) from None


def describe(threshold: Threshold) -> dict[str, Any]:
    """Give name and settings of a threshold, for a file; `from_description` reads them."""
    for name, kind in NAMED.items():
        if type(threshold) is kind:
            return {"name": name, **asdict(threshold)}  # type: ignore[call-overload]
    raise UnsupportedError(
        f"a threshold of class {type(threshold).__name__} cannot be saved; use one of {', '.join(NAMED)}"
    )


def from_description(description: dict[str, Any]) -> Threshold:
    """Make an unfitted threshold from what `describe` gave."""
    settings = dict(description)
    return NAMED[settings.pop("name")](**settings)


def _finite(scores: FloatArray) -> FloatArray:
    kept = np.asarray(scores, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    _require(len(kept) > 0, "a threshold needs scores to be fitted on, and got none")
    return kept


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)

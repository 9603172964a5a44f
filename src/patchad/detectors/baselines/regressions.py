"""Regressions that forecast the next row from the rows before it; the forecast error is the score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.baselines.sampling import evenly_spaced
from patchad.detectors.windowed import WindowDetector
from patchad.errors import InputError

BATCH_WINDOWS = 2048
SMALLEST_DEVIATION = 1e-3
"""In standard deviations of the channel: smaller usual errors are rounding."""


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(WindowDetector):
    """A detector that forecasts the newest row of a window from the rows before it.

    The score is the mean over channels of the squared error, each in units of the channel's root mean squared error in
    train: on the rows learned from or on the held-out ones, whichever is larger. Where a channel is constant in train,
    its errors stay in its own unit. The first rows of a series, which cannot be forecast, share the first available
    score.
    """

    window: int = 11

    @abstractmethod
    def _regress(self, known: WindowSampler) -> None:
        """Learn from windows of train, not scaled yet."""

    @abstractmethod
    def _forecast(self, before: FloatArray) -> FloatArray:
        """Return the row `(b, c)` that follows scaled rows `(b, lag, c)`, oldest first."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=2)

    def _batch(self) -> int:
        return BATCH_WINDOWS

    def _batches(self, windows: WindowSampler) -> Iterator[FloatArray]:
        """Yield all windows, scaled, without one array of them all."""
        for first in range(0, len(windows), BATCH_WINDOWS):
            yield self.scaler_(windows[np.arange(first, min(first + BATCH_WINDOWS, len(windows)))])

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        windows = WindowSampler(known, self.window_, self.stride)
        self._regress(windows)
        held_out_windows = WindowSampler(held_out, self.window_)
        deviations = [self._deviation(part) for part in (windows, held_out_windows) if len(part)]
        usual = np.maximum(np.max(deviations, axis=0), SMALLEST_DEVIATION)
        extremes = [extreme for v in known if len(v) for extreme in (v.min(axis=0), v.max(axis=0))]
        self.deviation_ = np.where(np.ptp(extremes, axis=0) == 0, 1.0, usual)

    def _deviation(self, windows: WindowSampler) -> FloatArray:
        """Return the root mean squared error of each channel."""
        squares = sum(np.square(self._errors(batch)).sum(axis=0) for batch in self._batches(windows))
        return np.asarray(np.sqrt(squares / len(windows)))

    def _errors(self, windows: FloatArray) -> FloatArray:
        return windows[:, -1].astype(np.float64) - self._forecast(windows[:, :-1])

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - a window scores its newest row only
        *,
        explain: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        errors = np.square(self._errors(windows) / self.deviation_)
        return errors.mean(axis=1, keepdims=True), errors[:, None] if explain else None


@dataclass(kw_only=True, eq=False, repr=False)
class VAR(Regression):
    """Error of a vector autoregression: each channel forecast linearly from the recent rows of all channels.

    The textbook method (Lütkepohl, "New Introduction to Multiple Time Series Analysis", 2005), by least squares over
    all series of train. Ten lags, not chosen by a criterion; fewer where train has under three rows for each
    coefficient of a channel. A ridge keeps the solution stable where channels are constant or copies of each other; at
    its default the coefficients otherwise equal those of statsmodels.

    Parameters
    ----------
    window
        Lags, and the row to forecast.
    ridge
        Penalty on the squared coefficients, per row of train.
    """

    name = "var"
    learned: ClassVar[Mapping[str, Any] | None] = {"coefficients_": np.ndarray, "deviation_": np.ndarray}

    ridge: float = 1e-6

    @property
    def n_parameters_(self) -> int:
        """Coefficients."""
        return int(self.coefficients_.size)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.ridge <= 0:
            raise InputError(f"ridge={self.ridge} is out of range; it must be positive: a constant channel needs it")

    def _regress(self, known: WindowSampler) -> None:
        channels = len(self.channels_)
        lags = int(np.clip(len(known) // (3 * channels), 1, self.window_ - 1))
        products = np.zeros((lags * channels + 1,) * 2)
        targets = np.zeros((lags * channels + 1, channels))
        for windows in self._batches(known):
            inputs = _with_one(windows[:, -lags - 1 : -1].reshape(len(windows), -1))
            products += inputs.T @ inputs
            targets += inputs.T @ windows[:, -1]
        self.coefficients_ = _solve(products, targets, self.ridge * len(known))

    def _forecast(self, before: FloatArray) -> FloatArray:
        lags = len(self.coefficients_) // before.shape[2]
        return _with_one(before[:, -lags:].reshape(len(before), -1)) @ self.coefficients_


@dataclass(kw_only=True, eq=False, repr=False)
class Autoregression(VAR):
    """Error of an autoregression: each channel forecast linearly from its own recent values.

    The textbook method, as in Lai et al., "Revisiting Time Series Outlier Detection: Definitions and Benchmarks"
    (2021), by least squares over all series of train. The number of lags is ours. The ridge keeps the solution stable
    for constant channels; at its default the coefficients equal those of statsmodels' AutoReg.
    """

    name = "autoregression"

    def _regress(self, known: WindowSampler) -> None:
        lags, channels = self.window_ - 1, len(self.channels_)
        products = np.zeros((channels, lags + 1, lags + 1))
        targets = np.zeros((channels, lags + 1, 1))
        for windows in self._batches(known):
            inputs = _with_one(windows[:, :-1].transpose(2, 0, 1))  # (c, b, lag)
            products += inputs.swapaxes(1, 2) @ inputs
            targets += inputs.swapaxes(1, 2) @ windows[:, -1].T[..., None]
        self.coefficients_ = _solve(products, targets, self.ridge * len(known))

    def _forecast(self, before: FloatArray) -> FloatArray:
        return (_with_one(before.transpose(2, 0, 1)) @ self.coefficients_)[..., 0].T


@dataclass(kw_only=True, eq=False, repr=False)
class GBRT(Regression):
    """Error of a nonlinear forecast of each channel by gradient-boosted trees.

    Elsayed et al., "Do We Really Need Deep Learning Models for Time Series Forecasting?" (2021), turned into a detector
    as in Lai et al. (2021): one ensemble for each channel, by the histogram trees of scikit-learn instead of XGBoost.
    For the budget its inputs are the channel's own window and the last row of the others, not the others' windows, and
    `trees`, `leaves` and `max_windows` are small.

    Parameters
    ----------
    window
        Lags, and the row to forecast.
    trees, leaves
        Of each channel's ensemble, and of each tree.
    max_windows
        Most train windows to learn from, evenly spaced.
    """

    name = "gbrt"
    learned: ClassVar[Mapping[str, Any] | None] = None

    trees: int = 50
    leaves: int = 15
    max_windows: int = 5_000

    def _regress(self, known: WindowSampler) -> None:
        windows = self.scaler_(evenly_spaced(known, self.max_windows))
        seed = self._seed()
        self.models_ = [
            HistGradientBoostingRegressor(
                max_iter=self.trees, max_leaf_nodes=self.leaves, early_stopping=False, random_state=seed
            ).fit(_own_and_last(windows[:, :-1], channel), windows[:, -1, channel])
            for channel in range(windows.shape[2])
        ]

    def _forecast(self, before: FloatArray) -> FloatArray:
        forecasts = [model.predict(_own_and_last(before, channel)) for channel, model in enumerate(self.models_)]
        return np.stack(forecasts, axis=1)


def _with_one(inputs: FloatArray) -> FloatArray:
    """Append the constant 1 to inputs `(..., d)`, in float64."""
    return np.concatenate([inputs, np.ones((*inputs.shape[:-1], 1))], axis=-1, dtype=np.float64)


def _solve(products: FloatArray, targets: FloatArray, ridge: float) -> FloatArray:
    """Solve the normal equations with a ridge on all coefficients but the last, the intercept."""
    penalty = np.full(products.shape[-1], ridge)
    penalty[-1] = 0.0
    return np.linalg.solve(products + np.diag(penalty), targets)


def _own_and_last(before: FloatArray, channel: int) -> FloatArray:
    """Return one channel's values `(b, lag)` beside the newest values of the other channels."""
    return np.concatenate([before[:, :, channel], np.delete(before[:, -1], channel, axis=1)], axis=1)

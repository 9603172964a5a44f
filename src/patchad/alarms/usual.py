"""What is usual of a channel: a forecast from its own last rows, which goes on through a fault as if it were not there.

It tells for any detector in which direction a channel deviates, and by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from patchad.data.preparing import hold_last
from patchad.data.series import medians_of
from patchad.data.table import FloatArray

LAGS = 60
"""Rows that a forecast looks back."""
OUTLYING = 4.0
"""Forecast errors, in their standard deviation over train, from which on the forecast stands in for the value."""
GIVE_WAY = 3000
"""Rows in a row after which an outlying value is taken in all the same: by then it is usual."""
FIT_ROWS = 50_000
"""Most rows that forecasts are learned from: the newest."""
RIDGE = 1e-3
"""White noise that is added to what a forecast is learned from, as a share of its variance."""
STILL = 1e-9
"""Standard deviation, as a share of the largest value, up to which a channel never moved in train."""


@dataclass(frozen=True, slots=True, eq=False)
class Usual:
    """A linear forecast of each channel."""

    center: FloatArray  # (channel,)
    scale: FloatArray  # (channel,)
    weights: FloatArray
    """(lag, channel), of the scaled rows before, the oldest first."""
    spread: FloatArray
    """(channel,), standard deviation of the forecast errors of train, in units of the data."""

    @classmethod
    def fit(cls, series: Sequence[FloatArray]) -> Self:
        """Learn from `(time, channel)` values of train, NaN where they are missing.

        By the Yule-Walker equations: such forecasts are stable.
        """
        left, parts, initial = FIT_ROWS, [], medians_of(series)
        for values in reversed(series):
            if left > 0:
                newest = np.asarray(values[-left:], dtype=np.float64)
                parts.append(hold_last(newest, initial))
                left -= len(values)
        known = np.concatenate(parts)
        unit = np.abs(known).max(axis=0)
        unit = np.where(unit > 0, unit, 1.0)  # no square overflows, whatever the unit of a channel
        center, scale = unit * (known / unit).mean(axis=0), unit * (known / unit).std(axis=0)
        still = scale <= STILL * unit
        scale = np.where(still, unit, scale)
        weights, errors = np.zeros((LAGS, known.shape[1])), np.zeros(known.shape[1])
        for channel in np.flatnonzero(~still):
            scaled = [(part[:, channel] - center[channel]) / scale[channel] for part in parts]
            weights[:, channel], errors[channel] = _forecast(scaled)
        # what never moved in train is far from usual as soon as it does
        return cls(center, scale, weights, scale * np.where(still, STILL, errors))


def _forecast(parts: Sequence[FloatArray]) -> tuple[FloatArray, float]:
    """Return the weights of a forecast, the oldest row first, and the standard deviation of its errors."""
    rows = sum(map(len, parts))
    lagged = [
        [float(part[lag:] @ part[: len(part) - lag]) if lag < len(part) else 0.0 for part in parts]
        for lag in range(LAGS + 1)
    ]
    covariance = np.array([sum(each) / rows for each in lagged])
    first = covariance[:-1].copy()
    first[0] *= 1 + RIDGE
    newest_first = solve_toeplitz(first, covariance[1:])
    errors = np.concatenate([lfilter([1.0, *-newest_first], [1.0], part) for part in parts])
    return newest_first[::-1], float(errors.std())


class UsualStage:
    """Hold the rows of a series against their forecasts; a missing value is as expected.

    Examples
    --------
    >>> rows = np.sin(np.arange(1000) / 4)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(1000, 1))
    >>> stage = UsualStage(Usual.fit([rows]))
    >>> rows[500:520] += 2
    >>> deviations = stage.push(rows)
    >>> deviations[500:520].mean().round(), abs(deviations[600:].mean()).round()
    (np.float64(2.0), np.float64(0.0))
    """

    state = ("_before", "_seen", "_outlying")

    def __init__(self, usual: Usual) -> None:
        self._usual = usual
        self._before = np.zeros_like(usual.weights)
        """The last rows, scaled, with forecasts in place of outlying values."""
        self._seen = 0
        self._outlying = np.zeros(len(usual.center), dtype=np.int64)
        """Outlying rows in a row, until now."""

    def push(self, values: FloatArray) -> FloatArray:
        """Return the deviations of the next `(time, channel)` rows from what is usual, in units of the data."""
        usual, limit = self._usual, OUTLYING * self._usual.spread / self._usual.scale
        scaled = (values - usual.center) / usual.scale
        kept = np.concatenate([self._before, scaled])
        errors = np.empty_like(scaled)
        for row in range(len(scaled)):
            forecast = (usual.weights * kept[row : row + LAGS]).sum(axis=0)
            missing = np.isnan(scaled[row])
            errors[row] = np.where(missing, 0.0, scaled[row] - forecast)
            outlying = np.abs(errors[row]) > limit
            if self._seen + row < LAGS:  # nothing to go by yet
                outlying[:] = False
            self._outlying = np.where(outlying, self._outlying + 1, 0)
            replaced = missing | (outlying & (self._outlying <= GIVE_WAY))
            if replaced.any():
                kept[row + LAGS, replaced] = forecast[replaced]
        self._seen += len(scaled)
        self._before = kept[-LAGS:].copy()
        return np.asarray(errors * usual.scale)

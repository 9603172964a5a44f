"""Scales fitted on train only: z-scores of the input, tail scales of the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from patchad.data.table import FloatArray

CLIP = 1e3
"""Scaled values are clipped here: far beyond any level, and far from overflow in float32."""
RANGE_SPREADS = 4.0
"""Spreads at most in the range of a channel, where its range counts."""
SWITCH_WEIGHT = 0.2
"""Weight of a channel that has two values only: a switch is news, but no measured deviation."""
ROUNDING = 4
"""Neighbouring floats that count as one value."""
UNIT_OVER_ROUNDING = 100
"""Least unit of a channel that never moves, in roundings."""


@dataclass(frozen=True, slots=True, eq=False)
class ZScore:
    """`(x - mean) / spread` of each channel; a constant channel keeps its unit."""

    mean: FloatArray
    """(channel,), float64."""
    spread: FloatArray
    """(channel,), float64, positive."""
    rounding: FloatArray
    """(channel,), how far from the mean of a constant channel a value is equal to it; 0 for a channel that moves."""

    @classmethod
    def fit(cls, series: list[FloatArray]) -> ZScore:
        """Take mean and standard deviation of each channel over all series.

        Examples
        --------
        >>> scale = ZScore.fit([np.array([[1.0, 5.0], [3.0, 5.0]])])
        >>> scale(np.array([[4.0, 6.0]])).tolist()
        [[2.0, 1.0]]
        """
        # A channel at a time: (values - mean) of the whole series would be a second copy of the data.
        filled = [values for values in series if len(values)]
        scales = [_scale([values[:, c] for values in filled]) for c in range(series[0].shape[1])]
        return cls(*np.array(scales).T)

    def with_ranges(self, series: list[FloatArray]) -> ZScore:
        """Return a scale under which rare moves stay small.

        The z-score of a channel that rests and seldom jumps measures how rare a jump is, not how strange. So no spread
        is less than a fourth of the channel's range, and a switch, a channel of two values, counts a fifth.

        Examples
        --------
        >>> rare = np.array([[0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [1.0]])
        >>> ZScore.fit([rare])(rare).max().round(2), ZScore.fit([rare]).with_ranges([rare])(rare).max().round(2)
        (np.float32(3.0), np.float32(0.6))
        """
        spread = self.spread.copy()
        for channel in range(len(spread)):
            low, high, switch = channel_range([values[:, channel] for values in series])
            spread[channel] = max(spread[channel], (high - low) / RANGE_SPREADS) / (SWITCH_WEIGHT if switch else 1.0)
        return replace(self, spread=spread)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Scale `(..., channel)` values to float32, by way of float64: large offsets must not swallow small changes."""
        deviations = values - self.mean
        with np.errstate(over="ignore"):  # what overflows is clipped
            scaled = np.clip(deviations / self.spread, -CLIP, CLIP).astype(np.float32)
        if self.rounding.any():
            scaled[np.abs(deviations) <= self.rounding] = 0.0
        return scaled


def channel_range(parts: Sequence[FloatArray]) -> tuple[float, float, bool]:
    """Return minimum and maximum of a channel, and whether it has no other value: a switch.

    A channel that moves by no more than rounding does not move: its maximum is its minimum.

    Examples
    --------
    >>> channel_range([np.array([0.0, 1.0]), np.array([1.0, 1.0])])
    (0.0, 1.0, True)
    >>> channel_range([np.array([0.1, np.nextafter(0.1, 1.0)])])
    (0.1, 0.1, False)
    """
    low, high = min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)
    if high - low <= _rounding(parts, low, high):
        return low, low, False
    switch = not any(bool(((part > low) & (part < high)).any()) for part in parts)
    return low, high, switch


def _rounding(parts: Sequence[FloatArray], low: float, high: float) -> float:
    """Return what rounding alone can do to the largest value of a channel, as it is stored and after arithmetic."""
    largest = max(abs(low), abs(high))
    spacing = max(float(np.spacing(part.dtype.type(largest))) for part in parts)
    return max(ROUNDING * spacing, 1e-13 * largest)


def _scale(parts: Sequence[FloatArray]) -> tuple[float, float, float]:
    """Return mean, spread and rounding of a channel."""
    low, high, _ = channel_range(parts)
    if low == high:
        rounding = _rounding(parts, low, high)
        return low, max(1.0, UNIT_OVER_ROUNDING * rounding), rounding
    # From the minimum on: the rounding of a sum grows with its size, and must not swallow small moves.
    shifted = [part.astype(np.float64) - low for part in parts]
    offset = sum(float(part.sum()) for part in shifted) / sum(map(len, shifted))
    return low + offset, _deviation([part - offset for part in shifted]), 0.0


def _deviation(centred: Sequence[FloatArray]) -> float:
    """Return the root mean square; values are divided by the largest first, so that no square overflows."""
    largest = max(float(np.abs(values).max(initial=0.0)) for values in centred)
    squares = sum(float(np.square(values / largest).sum()) for values in centred)
    return largest * float(np.sqrt(squares / sum(map(len, centred))))


@dataclass(frozen=True, slots=True, eq=False)
class TailScale:
    """`(x - median) / spread`, where one value in a hundred is over 2.33, as for normal noise.

    The spread comes from the upper tail, not from the middle: a valve that is still nearly always and jumps now and
    then must not look like an alarm at every jump.
    """

    median: FloatArray
    spread: FloatArray

    @classmethod
    def fit(cls, values: FloatArray, floor: float | FloatArray) -> TailScale:
        """Take median and spread along the first axis; `floor` is the smallest spread that means anything.

        Examples
        --------
        >>> scale = TailScale.fit(np.linspace(0, 1, 101)[:, None], floor=1e-6)
        >>> scale.median.tolist(), scale(np.array([[0.99]])).round(2).tolist()
        ([0.5], [[2.33]])
        """
        median, high = np.quantile(values, [0.5, 0.99], axis=0)
        return cls(median, np.maximum((high - median) / 2.33, floor))

    @property
    def high(self) -> FloatArray:
        """The 99th percentile."""
        return np.asarray(self.median + 2.33 * self.spread)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Scale `(..., value)`, or the newest steps of windows `(..., step, value)` where there is a scale per step."""
        steps = slice(-values.shape[-2], None) if self.median.ndim > 1 else slice(None)
        return np.asarray((values - self.median[steps]) / self.spread[steps])

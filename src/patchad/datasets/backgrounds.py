"""Fault-free rows of five kinds: noise, waves, switches, wandering and daily patterns.

Each channel is `base + pattern + noise`. Its *residual deviation* is the standard deviation of what cannot be predicted
from the past and the pattern:

| background | pattern | residual deviation |
| --- | --- | --- |
| noise | none | of the white noise |
| waves | two sines, shared periods, a phase for each channel | of the white noise added to them |
| switches | two states, shared by all channels, each held for 30 to 60 rows | of the white noise around the states |
| wander | none that repeats: an AR(1) process with coefficient 0.98 | of the best one-row forecast's error |
| daily | a day of 288 rows with two peaks, the same every day | of the white noise added to it |

Base and residual deviation are drawn for each channel; zero lies at least 8 deviations below everything normal. The
slow part of `wander` varies by 1.3 deviations, and white noise is added to it: a lasting offset of 4 deviations stays
visible after its first row. Every background is noisy, so that a value held exactly is a fault, on `switches` too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from patchad.errors import InputError, listed

FloatArray = NDArray[np.float64]

DAY = 288
WANDER = 0.98
"""Coefficient of the AR(1) process."""
WANDER_TO_NOISE = 1.5
"""Standard deviation of the AR(1) process over that of the white noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """Fault-free rows, in units of the data."""

    base: FloatArray  # (channel,)
    deviation: FloatArray  # (channel,)
    pattern: FloatArray  # (time, channel)
    noise: FloatArray  # (time, channel)

    @property
    def values(self) -> FloatArray:
        """(time, channel)."""
        return self.base + self.pattern + self.noise


def calm(background: str, rows: int, channels: int, *, seed: int = 0, stream: int = 0) -> FloatArray:
    """Simulate fault-free rows.

    Parameters
    ----------
    background
        A name of `BACKGROUNDS`.
    rows
        Rows to simulate.
    channels
        Channels to simulate.
    seed
        Fixes the process together with `background` and `channels`: base, deviation, periods, heights.
    stream
        Seed of the rows. Stream 0 is the train part of the grid, the streams from 1 on its test parts; any other number
        gives fresh rows of the same process.

    Returns
    -------
    (time, channel)

    Examples
    --------
    >>> rows = calm("waves", 500, 5)
    >>> rows.shape, bool((rows == calm("waves", 500, 5, stream=1)).any())
    ((500, 5), False)
    """
    return simulate(background, rows, channels, seed, stream).values


def residual_deviation(background: str, channels: int, *, seed: int = 0) -> FloatArray:
    """Return the residual deviation of each channel of a process.

    Examples
    --------
    >>> rows = calm("noise", 20_000, 2)
    >>> bool(np.allclose(rows.std(axis=0), residual_deviation("noise", 2), rtol=0.03))
    True
    """
    return simulate(background, 1, channels, seed, 0).deviation


def simulate(background: str, rows: int, channels: int, seed: int, stream: int) -> Signal:
    """Simulate fault-free rows, as `calm` does, and return their parts."""
    if background not in BACKGROUNDS:
        raise InputError(f"there is no background {background!r}; use {listed(tuple(BACKGROUNDS))}")
    if rows < 1 or channels < 1:
        raise InputError(f"rows and channels must be at least 1, got {rows} and {channels}")
    process = seeded_generator(background, channels, seed, 0)
    deviation = 10 ** process.uniform(-1, 1, channels)
    # no pattern reaches further than 10 deviations, noise hardly further than 5: zero is at least 8 below both
    base = deviation * process.uniform(24, 48, channels)
    request = _Request(rows, channels, process, seeded_generator(background, channels, seed, 1, stream))
    pattern, noise = BACKGROUNDS[background].simulate(request)
    return Signal(base, deviation, deviation * pattern, deviation * noise)


def seeded_generator(background: str, channels: int, seed: int, *purpose: int) -> np.random.Generator:
    """Return the generator of one purpose: 0 the process, 1 the rows of a stream, 2 the faults of a stream."""
    return np.random.default_rng([seed, channels, *background.encode(), *purpose])


# -- the backgrounds, in residual deviations around zero ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    rows: int
    channels: int
    process: np.random.Generator  # of parameters
    stream: np.random.Generator  # of rows

    def white(self) -> FloatArray:
        return self.stream.standard_normal((self.rows, self.channels))

    def uniform(self, low: float, high: float) -> FloatArray:
        """Draw a parameter for each channel."""
        return self.process.uniform(low, high, self.channels)


@dataclass(frozen=True, slots=True)
class Background:
    """How to simulate a background."""

    simulate: Callable[[_Request], tuple[FloatArray, FloatArray]]
    """Return pattern and noise, each `(time, channel)`."""
    period: int = 0
    """Rows of the main period, at most; 0 where no pattern repeats."""


def _noise(request: _Request) -> tuple[FloatArray, FloatArray]:
    return np.zeros((request.rows, request.channels)), request.white()


def _waves(request: _Request) -> tuple[FloatArray, FloatArray]:
    time = np.arange(request.rows)[:, None] + request.stream.integers(10_000)
    fast = 2 * np.pi * time / request.process.uniform(24, 30) + request.uniform(0, 2 * np.pi)
    slow = 2 * np.pi * time / request.process.uniform(60, 100) + request.uniform(0, 2 * np.pi)
    return request.uniform(4, 7) * np.sin(fast) + request.uniform(1, 3) * np.sin(slow), request.white()


def _switches(request: _Request) -> tuple[FloatArray, FloatArray]:
    held = request.stream.integers(30, 61, size=request.rows // 30 + 4)
    state = np.repeat(np.where(np.arange(len(held)) % 2, -1.0, 1.0), held)
    first = request.stream.integers(90)  # somewhere in the first on and off
    height = request.process.choice([-1.0, 1.0], request.channels) * request.uniform(4, 7)
    return state[first : first + request.rows, None] * height, request.white()


def _wander(request: _Request) -> tuple[FloatArray, FloatArray]:
    slow = request.white()
    slow[1:] *= np.sqrt(1 - WANDER**2)  # of variance 1 from the first row on
    slow = np.asarray(lfilter([1.0], [1.0, -WANDER], slow, axis=0))
    error = np.sqrt(1 + _forecast_variance())  # in standard deviations of the noise
    return WANDER_TO_NOISE / error * slow, request.white() / error


def _forecast_variance() -> float:
    """Return the steady variance of a Kalman filter's forecast of the AR(1) process, in variances of the noise."""
    innovation = WANDER_TO_NOISE**2 * (1 - WANDER**2)
    half = (innovation - (1 - WANDER**2)) / 2  # P = WANDER^2 P / (P + 1) + innovation, solved for P
    return float(half + np.sqrt(half**2 + innovation))


def _daily(request: _Request) -> tuple[FloatArray, FloatArray]:
    time = np.arange(request.rows)[:, None] + request.stream.integers(DAY)
    day = 2 * np.pi * time / DAY + request.uniform(-0.3, 0.3)
    return request.uniform(1, 3) * np.cos(2 * day) - request.uniform(4, 7) * np.cos(day), request.white()


BACKGROUNDS: dict[str, Background] = {
    "noise": Background(_noise),
    "waves": Background(_waves, period=30),
    "switches": Background(_switches, period=90),
    "wander": Background(_wander),
    "daily": Background(_daily, period=DAY),
}

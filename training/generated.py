"""Generated channels: periodic, pulsing, switching, wandering, drifting, busy, coupled; parameters drawn for each.

They stand for families whose licence keeps them out of the weights. None is a background of `patchad.datasets`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.signal import lfilter

FloatArray = NDArray[np.float64]
Generator = np.random.Generator

ROWS = 4_000
"""Rows of a generated channel."""
CHANNELS = 160
"""Channels of each kind."""


def generate(kind: str, *, channels: int = CHANNELS, rows: int = ROWS, seed: int = 0) -> list[FloatArray]:
    """Generate channels of a kind, `(time,)` each.

    Examples
    --------
    >>> [one.shape for one in generate("periodic", channels=2, rows=300)]
    [(300,), (300,)]
    """
    random = np.random.default_rng([seed, *kind.encode()])
    return [KINDS[kind](random, rows) for _ in range(channels)]


def _between(random: Generator, low: float, high: float) -> float:
    """Draw evenly on a logarithmic scale."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def _noisy(values: FloatArray, random: Generator) -> FloatArray:
    """Add white noise of up to a third of the deviation; every fourth channel has none."""
    size = random.choice([0.0, 1.0], p=[0.25, 0.75]) * _between(random, 0.01, 0.3) * (values.std() + 1e-9)
    return values + size * random.standard_normal(len(values))


def _phase(random: Generator, rows: int, period: float) -> FloatArray:
    """Return turns done at each row, at a pace that varies a little."""
    pace = 1 + random.choice([0.0, 0.02, 0.08]) * _wave(random, rows)
    return np.cumsum(np.maximum(pace, 0.1)) / period + random.random()


def _wave(random: Generator, rows: int) -> FloatArray:
    """Return slow smooth noise of deviation 1."""
    slow = gaussian_filter1d(random.standard_normal(rows), _between(random, 10, 200), mode="wrap")
    return np.asarray(slow / (slow.std() + 1e-9))


def _shape(random: Generator) -> FloatArray:
    """Return one turn of a wave in 512 steps: a few harmonics, some of them clipped or squared."""
    turn = np.arange(512) / 512
    harmonics = np.arange(1, 1 + int(random.integers(1, 9)))
    sizes = random.standard_normal(len(harmonics)) / harmonics ** random.uniform(0.3, 1.5)
    shape = (sizes * np.sin(2 * np.pi * (turn[:, None] * harmonics + random.random(len(harmonics))))).sum(1)
    kind = random.integers(4)
    if kind == 0:
        shape = np.clip(shape, *np.quantile(shape, [random.uniform(0, 0.4), random.uniform(0.6, 1)]))
    elif kind == 1:
        shape = np.tanh(random.uniform(1, 6) * shape)
    return np.asarray(shape)


def _periodic(random: Generator, rows: int) -> FloatArray:
    period = _between(random, 8, 400)
    values = _shape(random)[(512 * (_phase(random, rows, period) % 1)).astype(int)]
    if random.random() < 0.4:  # a second period
        other = _between(random, 8, 400)
        values = values + random.uniform(0.2, 1) * _shape(random)[(512 * (_phase(random, rows, other) % 1)).astype(int)]
    if random.random() < 0.4:
        values = values * (1 + 0.3 * _wave(random, rows))
    if random.random() < 0.3:
        values = values + random.uniform(0.2, 1) * _wave(random, rows)
    return _noisy(values, random)


def _pulses(random: Generator, rows: int) -> FloatArray:
    """Return beats: a few narrow bumps in each turn and rest between them."""
    period, turn = _between(random, 20, 300), np.arange(512) / 512
    shape = np.zeros(512)
    for _ in range(int(random.integers(1, 6))):
        width = _between(random, 0.01, 0.1)
        shape += random.normal() * np.exp(-np.square((turn - random.uniform(0.15, 0.85)) / width) / 2)
    values = shape[(512 * (_phase(random, rows, period) % 1)).astype(int)]
    values = values * (1 + random.choice([0.0, 0.1, 0.3]) * _wave(random, rows))
    return _noisy(values + random.choice([0.0, 0.3]) * np.abs(shape).max() * _wave(random, rows), random)


def _switching(random: Generator, rows: int) -> FloatArray:
    """Return two or more levels that are held for a while, at times on a clock, at times reached by a ramp or a lag."""
    states = int(random.integers(2, 7))
    levels = np.sort(random.standard_normal(states))
    held = _between(random, 5, 400)
    steady = random.random() < 0.4
    lengths = np.full(rows, held) if steady else random.exponential(held, rows) + 1
    changes = np.searchsorted(np.cumsum(lengths), np.arange(rows))
    order = np.arange(rows) % states if steady else random.integers(0, states, rows)
    values = levels[order[changes]]
    if random.random() < 0.5:
        lag = np.exp(-1 / _between(random, 1, 40))
        values = np.asarray(lfilter([1 - lag], [1, -lag], values))
    return values if random.random() < 0.3 else _noisy(values, random)


def _wandering(random: Generator, rows: int) -> FloatArray:
    memory = np.exp(-1 / _between(random, 1, 300))
    values = np.asarray(lfilter([1], [1, -memory], random.standard_normal(rows)))
    if random.random() < 0.3:  # a swing of no fixed phase
        turn, keep = 2 * np.pi / _between(random, 6, 100), np.exp(-1 / _between(random, 10, 300))
        values = np.asarray(lfilter([1], [1, -2 * keep * np.cos(turn), keep**2], random.standard_normal(rows)))
    return _noisy(values, random)


def _drifting(random: Generator, rows: int) -> FloatArray:
    """Return a slope, a tank that fills and is emptied, or a slow curve, around something else."""
    time = np.arange(rows)
    kind = random.integers(3)
    if kind == 0:
        trend = random.normal() * 3 * time / rows
    elif kind == 1:
        period = _between(random, 30, 600)
        trend = (time / period + random.random()) % 1 * random.choice([-1, 1])
    else:
        trend = _wave(random, rows) * 2
    base = KINDS[str(random.choice(["periodic", "wandering", "switching"]))](random, rows)
    return trend + random.uniform(0.05, 0.6) * base / (base.std() + 1e-9)


def _busy(random: Generator, rows: int) -> FloatArray:
    """Return counts and loads: skewed, never negative, with bursts, some of them by the time of day."""
    day = _shape(random)[(512 * (_phase(random, rows, _between(random, 100, 1440)) % 1)).astype(int)]
    rate = np.exp(random.uniform(0, 1) * day / (day.std() + 1e-9) + random.uniform(0, 0.5) * _wave(random, rows))
    bursts = random.random(rows) < _between(random, 1e-3, 3e-2)
    sizes = np.where(bursts, random.exponential(_between(random, 1, 10), rows), 0.0)
    keep = np.exp(-1 / _between(random, 0.5, 20))
    load = rate + random.choice([0.0, 1.0]) * np.asarray(lfilter([1], [1, -keep], sizes))
    if random.random() < 0.5:
        return random.poisson(load * _between(random, 1, 100)).astype(np.float64)
    return load * np.exp(_between(random, 0.01, 0.4) * random.standard_normal(rows))


def _coupled(random: Generator, rows: int) -> FloatArray:
    """Return what a bent function makes of two channels of other kinds."""
    names = random.choice(["periodic", "switching", "wandering", "pulses"], size=2)
    one, other = (KINDS[str(name)](random, rows) for name in names)
    one, other = one / (one.std() + 1e-9), other / (other.std() + 1e-9)
    mixed = random.normal() * one + random.normal() * other + random.choice([0.0, 0.5]) * one * other
    bend = random.integers(3)
    return _noisy(np.square(mixed) if bend == 0 else np.tanh(mixed) if bend == 1 else np.exp(mixed / 2), random)


KINDS: Mapping[str, Callable[[Generator, int], FloatArray]] = {
    "periodic": _periodic,
    "pulses": _pulses,
    "switching": _switching,
    "wandering": _wandering,
    "drifting": _drifting,
    "busy": _busy,
    "coupled": _coupled,
}
"""Every kind of generated channel; each counts as a family."""

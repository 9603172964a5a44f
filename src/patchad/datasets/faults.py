"""A grid of plain faults: ten kinds of fault on five kinds of background, with every fault's rows and channel known.

Amplitudes are multiples of the channel's residual deviation, which `backgrounds` defines.

A fault changes one channel, drawn by seed, so that attribution can be scored. Left out of the grid:

- `large` and `faster` where no pattern repeats (noise, wander);
- `faster` for less than one period, `stuck`, `noisy` and `drift` for less than 30 rows: too short to be seen;
- `spike` and `dip` for more than 30 rows, which would be waves of their own;
- a second copy for another amplitude of `stuck`, `zero` and `faster`, which have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.backgrounds import BACKGROUNDS, Signal, calm, residual_deviation, seeded_generator, simulate
from patchad.errors import InputError, listed

FloatArray = NDArray[np.float64]

DURATIONS = (1, 10, 30, 100, 300, 1000, 1500)
"""Rows that a fault of the grid may last, where its kind and background allow them."""
FAULTS_PER_SERIES = 16


@dataclass(frozen=True, slots=True)
class GridFault:
    """One fault: rows `start` to `stop - 1` of one channel."""

    kind: str
    background: str
    channels: int
    start: int
    stop: int
    channel: int
    amplitude: float | None
    """In residual deviations of the channel; None for kinds without a size."""


@dataclass(frozen=True, slots=True, eq=False)
class FaultSeries:
    """Fault-free train rows and test rows with faults, of one process."""

    name: str
    background: str
    deviation: FloatArray
    """(channel,), residual deviation."""
    train: FloatArray
    """(time, channel); the same array in every series of one background and number of channels."""
    test: FloatArray
    """(time, channel)."""
    labels: NDArray[np.bool_]
    """(time,) of test, True inside a fault."""
    faults: tuple[GridFault, ...]
    """In order of time."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that has no rows yet."""

    kind: str
    duration: int
    amplitude: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise InputError(f"there is no fault {self.kind!r}; use {listed(tuple(FAULT_KINDS), 10)}")
        if self.duration < 1:
            raise InputError(f"a fault lasts at least 1 row, got {self.duration}")
        sized = FAULT_KINDS[self.kind].sized
        if (self.amplitude is not None) != sized:
            needed = "an amplitude" if sized else "no amplitude"
            raise InputError(f"a fault of kind {self.kind} takes {needed}, got {self.amplitude}")


def faulty(
    background: str,
    channels: int,
    faults: Sequence[PlannedFault],
    *,
    spacing: int = 1000,
    seed: int = 0,
    stream: int = 1,
    pattern_stream: int | None = None,
    noise_stream: int | None = None,
) -> tuple[FloatArray, tuple[GridFault, ...]]:
    """Simulate rows with faults, in the order given.

    Between two faults, and before the first, lie `spacing` to 1.5 `spacing` fault-free rows; after the last at least
    `spacing`, and as many as the longest fault. Outside the faults the rows equal those of `calm` for the same stream.

    Parameters
    ----------
    background, channels, seed, stream
        As for `calm`.
    faults
        What to put in.
    spacing
        Least number of fault-free rows around a fault.
    pattern_stream, noise_stream
        Take pattern and noise of the rows from these streams: the same faults once more.

    Returns
    -------
    values, faults
        `(time, channel)`, and where the faults are.

    Examples
    --------
    >>> values, (fault,) = faulty("noise", 5, [PlannedFault("stuck", 300)])
    >>> len(np.unique(values[fault.start : fault.stop, fault.channel]))
    1
    """
    if spacing < 1:
        raise InputError(f"spacing must be at least 1 row, got {spacing}")
    generator = seeded_generator(background, channels, seed, 2, stream)
    gaps = generator.integers(spacing, spacing + spacing // 2 + 1, size=len(faults))
    rows = int(gaps.sum()) + sum(f.duration for f in faults) + max([spacing, *(f.duration for f in faults)])
    signal = simulate(background, rows, channels, seed, stream if pattern_stream is None else pattern_stream)
    fresh = None
    if noise_stream is not None:
        signal = replace(signal, noise=simulate(background, rows, channels, seed, noise_stream).noise)
        fresh = seeded_generator(background, channels, seed, 2, noise_stream)
    values = signal.values
    placed = []
    stop = 0
    for planned, gap in zip(faults, gaps, strict=True):
        start, stop = stop + int(gap), stop + int(gap) + planned.duration
        channel = int(generator.integers(channels))
        size = (planned.amplitude or 0.0) * float(signal.deviation[channel])
        site = _Site(signal, channel, np.arange(start, stop), size, generator, fresh)
        values[start:stop, channel] = FAULT_KINDS[planned.kind].change(site)
        placed.append(GridFault(planned.kind, background, channels, start, stop, channel, planned.amplitude))
    return values, tuple(placed)


def fault_grid(
    *,
    channels: Sequence[int] = (1, 5, 20),
    amplitudes: Sequence[float] = (4.0, 8.0),
    train_rows: int = 6000,
    spacing: int = 1000,
    seed: int = 0,
) -> Iterator[FaultSeries]:
    """Build the grid, a series at a time.

    Every kind of fault meets every background, number of channels and amplitude twice, once with one of the shorter
    durations that it allows and once with one of the longer; which ones rotates over backgrounds and channels. The
    faults of a process are shuffled and spread over series of at most 16.

    Parameters
    ----------
    channels
        Numbers of channels.
    amplitudes
        In residual deviations, for the kinds with a size.
    train_rows
        Rows of train.
    spacing
        Least number of fault-free rows before, between and after faults.
    seed
        Of processes, rows and faults.

    Examples
    --------
    >>> series = next(fault_grid(channels=(5,)))
    >>> series.name, series.train.shape, len(series.faults)
    ('noise-5-1', (6000, 5), 14)
    >>> series.labels.sum() == sum(fault.stop - fault.start for fault in series.faults)
    np.True_
    """
    for background in BACKGROUNDS:
        for width in channels:
            train = calm(background, train_rows, width, seed=seed)
            deviation = residual_deviation(background, width, seed=seed)
            plan = _plan(background, width, amplitudes)
            order = seeded_generator(background, width, seed, 2, 0).permutation(len(plan))
            parts = np.array_split(order, -(-len(plan) // FAULTS_PER_SERIES))
            for number, part in enumerate(parts, start=1):
                test, faults = faulty(
                    background, width, [plan[i] for i in part], spacing=spacing, seed=seed, stream=number
                )
                name = f"{background}-{width}-{number}"
                yield FaultSeries(name, background, deviation, train, test, _labels(len(test), faults), faults)


def durations(kind: str, background: str) -> tuple[int, ...]:
    """List the durations that a kind of fault can have on a background; none where it makes no sense.

    Examples
    --------
    >>> durations("spike", "noise"), durations("faster", "daily"), durations("faster", "noise")
    ((1, 10, 30), (300, 1000, 1500), ())
    """
    fault, period = FAULT_KINDS[kind], BACKGROUNDS[background].period
    if fault.needs_pattern and not period:
        return ()
    shortest = max(fault.shortest, period) if kind == "faster" else fault.shortest
    return tuple(rows for rows in DURATIONS if shortest <= rows <= fault.longest)


def _plan(background: str, channels: int, amplitudes: Sequence[float]) -> list[PlannedFault]:
    """List the faults of one process."""
    turn = list(BACKGROUNDS).index(background) + channels
    plan = []
    for name, kind in FAULT_KINDS.items():
        allowed = durations(name, background)
        middle = (len(allowed) + 1) // 2
        halves = [half for half in (allowed[:middle], allowed[middle:]) if half]
        sizes: Sequence[float | None] = amplitudes if kind.sized else (None,)
        plan += [PlannedFault(name, half[turn % len(half)], size) for half in halves for size in sizes]
    return plan


def _labels(rows: int, faults: Sequence[GridFault]) -> NDArray[np.bool_]:
    labels = np.zeros(rows, dtype=bool)
    for fault in faults:
        labels[fault.start : fault.stop] = True
    return labels


# -- the faults: each returns the new values of its rows ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """The rows of one channel that a fault changes, before it does, in units of the data."""

    signal: Signal
    channel: int
    rows: NDArray[np.intp]
    size: float  # 0 for kinds without one
    generator: np.random.Generator
    fresh: np.random.Generator | None = None  # of noise, where it differs from that of the first time

    @property
    def base(self) -> float:
        return float(self.signal.base[self.channel])

    @property
    def pattern(self) -> FloatArray:
        return np.asarray(self.signal.pattern[self.rows, self.channel])

    @property
    def values(self) -> FloatArray:
        return self.at(self.rows)

    def at(self, rows: NDArray[np.intp]) -> FloatArray:
        signal = self.signal
        return np.asarray(self.base + signal.pattern[rows, self.channel] + signal.noise[rows, self.channel])

    def white(self) -> FloatArray:
        drawn = self.generator.standard_normal(len(self.rows))
        return drawn if self.fresh is None else self.fresh.standard_normal(len(self.rows))

    def sign(self) -> float:
        return float(self.generator.choice([-1.0, 1.0]))


@dataclass(frozen=True, slots=True)
class FaultKind:
    """What a kind of fault does, and where it makes sense."""

    change: Callable[[_Site], FloatArray]
    sized: bool = True
    """Whether it has an amplitude."""
    shortest: int = 1
    longest: int = DURATIONS[-1]
    needs_pattern: bool = False


def _level(site: _Site) -> FloatArray:
    """Lose the pattern: only noise, a size away from the mean, on the side where the channel was not."""
    side = -float(np.sign(site.pattern[0])) or site.sign()
    return site.values - site.pattern + side * site.size


def _offset(site: _Site) -> FloatArray:
    """Shift the signal up or down."""
    return site.values + site.sign() * site.size


def _stuck(site: _Site) -> FloatArray:
    """Hold the last value exactly."""
    return np.full(len(site.rows), site.at(site.rows[:1] - 1))


def _zero(site: _Site) -> FloatArray:
    return np.zeros(len(site.rows))


def _half_sine(site: _Site) -> FloatArray:
    """Return half a sine whose highest row is the size."""
    shape = np.sin(np.pi * (np.arange(len(site.rows)) + 0.5) / len(site.rows))
    return np.asarray(site.size * shape / shape.max())


def _spike(site: _Site) -> FloatArray:
    return site.values + _half_sine(site)


def _dip(site: _Site) -> FloatArray:
    return site.values - _half_sine(site)


def _noisy(site: _Site) -> FloatArray:
    return site.values + site.size * site.white()


def _large(site: _Site) -> FloatArray:
    """Multiply the pattern so that its furthest row moves by the size."""
    return np.asarray(site.values + site.size * site.pattern / np.abs(site.pattern).max())


def _drift(site: _Site) -> FloatArray:
    """Add a ramp, up or down, that reaches the size in the last row."""
    ramp = np.arange(1, len(site.rows) + 1) / len(site.rows)
    return site.values + site.sign() * site.size * ramp


def _faster(site: _Site) -> FloatArray:
    """Run the pattern at double speed; the noise stays."""
    fast = site.signal.pattern[2 * site.rows - site.rows[0], site.channel]
    return np.asarray(site.values - site.pattern + fast)


FAULT_KINDS: dict[str, FaultKind] = {
    "level": FaultKind(_level),
    "offset": FaultKind(_offset),
    "stuck": FaultKind(_stuck, sized=False, shortest=30),
    "zero": FaultKind(_zero, sized=False),
    "spike": FaultKind(_spike, longest=30),
    "dip": FaultKind(_dip, longest=30),
    "noisy": FaultKind(_noisy, shortest=30),
    "large": FaultKind(_large, needs_pattern=True),
    "drift": FaultKind(_drift, shortest=30),
    "faster": FaultKind(_faster, sized=False, shortest=30, needs_pattern=True),
}

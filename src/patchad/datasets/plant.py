"""A simulated pumping station with faults of known kind, time and channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from patchad.errors import InputError, listed

FloatArray = NDArray[np.float64]

CYCLE = 48
"""Rows per pumping cycle, which every load-driven channel follows."""
CHANNELS = (
    "pump_speed",
    "flow",
    "pressure",
    "motor_current",
    "motor_power",
    "vibration",
    "winding_temp",
    "bearing_temp",
    "cooling_fan",
    "ambient_temp",
    "tank_level",
    "inlet_valve",
    "inlet_flow",
    "filter_drop",
    "conductivity",
    "ph",
)
CYCLIC = ("pump_speed", "flow", "pressure", "motor_current", "motor_power")
"""Channels that follow the cycle closely, so that they can lose season, shape or correlation."""
STEADY = (*CYCLIC, "vibration", "winding_temp", "bearing_temp", "ambient_temp", "conductivity", "ph")
"""Channels that are neither switched nor reset, so that a spike is a fault."""
BOUND = (*CYCLIC, "winding_temp", "bearing_temp")
"""Channels determined by others, so that a drift is a fault; water and weather drift by themselves."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One injected fault: rows `start` to `stop - 1` of one channel."""

    kind: str
    channel: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class PlantRun:
    """Simulated rows and the faults injected into them."""

    values: FloatArray
    """(time, channel)."""
    channels: tuple[str, ...]
    times: NDArray[np.datetime64]
    """(time,), one row per minute."""
    faults: tuple[Fault, ...]

    @property
    def labels(self) -> NDArray[np.bool_]:
        """(time,), True inside a fault."""
        labels = np.zeros(len(self.values), dtype=bool)
        for fault in self.faults:
            labels[fault.start : fault.stop] = True
        return labels


def simulate_plant(rows: int, *, seed: int = 0, kinds: tuple[str, ...] = (), start: str = "2024-01-01") -> PlantRun:
    """Simulate the pumping station.

    Parameters
    ----------
    rows
        Number of rows, one per minute.
    seed
        Seed of the noise, the initial phase and the faults.
    kinds
        Kinds of the faults to inject, evenly spread in this order; names from `FAULTS`.
    start
        Time of the first row.

    Examples
    --------
    >>> run = simulate_plant(2000, seed=1, kinds=("global point",))
    >>> run.values.shape, run.faults[0].kind, int(run.labels.sum()) == run.faults[0].stop - run.faults[0].start
    ((2000, 16), 'global point', True)
    """
    unknown = [kind for kind in kinds if kind not in FAULTS]
    if unknown:
        raise InputError(f"there is no kind of fault {listed(unknown)}; use {listed(tuple(FAULTS), 10)}")
    random = np.random.default_rng(seed)
    values = _simulate(rows, random)
    times = np.datetime64(start, "s") + np.arange(rows) * np.timedelta64(60, "s")
    faults = _inject(values, kinds, random)
    return PlantRun(values, CHANNELS, times, faults)


# -- the plant ---------------------------------------------------------------------------------------------------------


def _simulate(rows: int, random: np.random.Generator) -> FloatArray:
    """Return `(time, channel)` values without faults."""
    warm = 600  # rows until lags and tank have forgotten their initial state
    t = np.arange(rows + warm) + random.integers(0, 10_000)

    def noise(size: float) -> FloatArray:
        return size * random.standard_normal(len(t))

    shift = 0.5 * np.sin(2 * np.pi * t / (10 * CYCLE))
    phase = 2 * np.pi * t / CYCLE
    demand = np.sin(phase) + 0.35 * np.sin(2 * phase + 0.8) + 0.3 * shift + _wander(random, len(t), 0.9, 0.05)
    speed = 55 + 12 * demand + noise(0.4)
    flow = 2.2 * speed - 20 + noise(1.5)
    pressure = 2 + 1.6e-4 * flow**2 + noise(0.05)
    current = 8 + 0.12 * speed + 0.01 * flow + noise(0.12)
    power = 0.038 * current * speed + noise(0.4)
    vibration = 1.5 + 0.02 * speed + 0.25 * np.abs(random.standard_normal(len(t)))
    ambient = 16 + 4 * np.sin(2 * np.pi * t / (30 * CYCLE)) + _wander(random, len(t), 0.99, 0.06)
    heat = _lag(0.9 * current**1.2, 15)
    fan = _hysteresis(heat, on=25.0, off=23.5)
    winding = ambient + heat - _lag(2.5 * fan, 8) + noise(0.15)
    bearing = 20 + _lag(0.45 * speed, 60) + 0.6 * ambient + noise(0.2)
    level, valve = _tank(flow, random)
    inlet = valve * (160 + noise(3)) + noise(0.5)
    drop = 0.3 + 0.9 * ((t % (5 * CYCLE)) / (5 * CYCLE)) + 0.002 * (flow - 100) + noise(0.02)
    conductivity = 480 + _wander(random, len(t), 0.9, 5.0)
    ph = 7.2 - 0.004 * (conductivity - 480) + noise(0.02)
    load_driven = (speed, flow, pressure, current, power, vibration, winding, bearing, fan)
    return np.column_stack([*load_driven, ambient, level, valve, inlet, drop, conductivity, ph])[warm:]


def _wander(random: np.random.Generator, rows: int, persistence: float, size: float) -> FloatArray:
    """Return autoregressive noise: each value is `persistence` times the last plus an innovation."""
    return np.asarray(lfilter([1.0], [1.0, -persistence], size * random.standard_normal(rows)))


def _lag(drive: FloatArray, rows: float) -> FloatArray:
    """Apply a first-order lag."""
    keep = np.exp(-1 / rows)
    return np.asarray(lfilter([1 - keep], [1.0, -keep], drive - drive[0]) + drive[0])


def _hysteresis(drive: FloatArray, *, on: float, off: float) -> FloatArray:
    """Switch on above one level and off below another."""
    state, states = 0.0, np.empty(len(drive))
    for row, value in enumerate(drive):
        state = 1.0 if value > on else 0.0 if value < off else state
        states[row] = state
    return states


def _tank(outflow: FloatArray, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Simulate a tank whose inlet valve opens when it runs low and closes when it is full."""
    level, valve = 55.0, 0.0
    levels, valves = np.empty(len(outflow)), np.empty(len(outflow))
    jitter = 0.1 * random.standard_normal(len(outflow))
    for row, out in enumerate(outflow):
        valve = 1.0 if level < 40 else 0.0 if level > 70 else valve
        level += 0.02 * (160 * valve - 0.55 * out)
        levels[row], valves[row] = level + jitter[row], valve
    return levels, valves


# -- the faults: each changes one channel in place and returns the rows it changed -------------------------------------


def _inject(values: FloatArray, kinds: tuple[str, ...], random: np.random.Generator) -> tuple[Fault, ...]:
    if not kinds:
        return ()
    room = len(values) // len(kinds)
    longest = 4 * CYCLE
    if room < 2 * longest:
        raise InputError(
            f"{len(values)} rows are too few for {len(kinds)} faults; {2 * longest * len(kinds)} are needed"
        )
    faults = []
    clean = values.copy()
    for number, kind in enumerate(kinds):
        change, channels = FAULTS[kind]
        channel = str(random.choice(channels))
        column = CHANNELS.index(channel)
        start = number * room + int(random.integers(longest // 2, room - longest))
        first, stop = change(values[:, column], clean[:, column], start, random)
        faults.append(Fault(kind, channel, first, stop))
    return tuple(faults)


Change = Callable[[FloatArray, FloatArray, int, np.random.Generator], tuple[int, int]]


def _global_point(column: FloatArray, clean: FloatArray, start: int, random: np.random.Generator) -> tuple[int, int]:
    """Add a spike far outside the range of the channel."""
    stop = start + int(random.integers(1, 4))
    column[start:stop] += random.choice([-1, 1]) * random.uniform(5, 8) * clean.std()
    return start, stop


def _contextual_point(
    column: FloatArray, clean: FloatArray, start: int, random: np.random.Generator
) -> tuple[int, int]:
    """Replace a few rows by values that are normal half a cycle away."""
    middle = np.median(clean)
    # Start where the mirrored value deviates most.
    start += int(np.argmax(np.abs(clean[start : start + CYCLE] - middle)))
    stop = start + int(random.integers(3, 7))
    column[start:stop] = 2 * middle - clean[start:stop]
    return start, stop


def _seasonal(column: FloatArray, clean: FloatArray, start: int, random: np.random.Generator) -> tuple[int, int]:
    """Play the cycles of the channel at another speed."""
    stop = start + int(random.integers(2 * CYCLE, 3 * CYCLE))
    pace = random.choice([0.5, 2.0])
    source = start + (np.arange(stop - start) * pace).astype(int) % (3 * CYCLE)
    column[start:stop] = clean[source]
    return start, stop


def _shapelet(column: FloatArray, clean: FloatArray, start: int, random: np.random.Generator) -> tuple[int, int]:
    """Keep the cycle and its range, but turn its shape into a square wave."""
    stop = start + int(random.integers(2 * CYCLE, 3 * CYCLE))
    low, middle, high = np.quantile(clean[start:stop], [0.1, 0.5, 0.9])
    wobble = 0.02 * (high - low) * random.standard_normal(stop - start)
    column[start:stop] = np.where(clean[start:stop] > middle, high, low) + wobble
    return start, stop


def _trend(column: FloatArray, clean: FloatArray, start: int, random: np.random.Generator) -> tuple[int, int]:
    """Let the channel drift slowly."""
    stop = start + int(random.integers(3 * CYCLE, 4 * CYCLE))
    reach = random.choice([-1, 1]) * random.uniform(3, 4) * clean.std()
    column[start:stop] += np.linspace(0, reach, stop - start)
    return start, stop


def _correlation_break(
    column: FloatArray, clean: FloatArray, start: int, random: np.random.Generator
) -> tuple[int, int]:
    """Delay the channel by half a cycle: normal by itself, inconsistent with correlated channels."""
    stop = start + int(random.integers(2 * CYCLE, 3 * CYCLE))
    column[start:stop] = clean[start - CYCLE // 2 : stop - CYCLE // 2]
    return start, stop


FAULTS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "global point": (_global_point, STEADY),
    "contextual point": (_contextual_point, CYCLIC),
    "seasonal": (_seasonal, CYCLIC),
    "shapelet": (_shapelet, CYCLIC),
    "trend": (_trend, BOUND),
    "correlation break": (_correlation_break, CYCLIC),
}
"""What each kind of fault does, and the channels it can affect."""

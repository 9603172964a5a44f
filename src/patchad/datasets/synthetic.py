"""Synthetic datasets, which need no files: the simulated plant, five kinds of anomaly in one channel, plain waves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.entity import Entity
from patchad.datasets.plant import FAULTS, simulate_plant
from patchad.errors import InputError, listed

FloatArray = NDArray[np.float64]

PERIOD = 25
"""Rows per period of the single channel."""


def generate(name: str) -> list[Entity]:
    """Generate the entities of a synthetic dataset, deterministically.

    Examples
    --------
    >>> [entity.name for entity in generate("five-kinds")]
    ['global point', 'contextual point', 'seasonal', 'group', 'trend']
    """
    if name not in SYNTHETIC:
        raise InputError(f"there is no synthetic dataset {name!r}; use one of {listed(tuple(SYNTHETIC))}")
    return SYNTHETIC[name]()


def _plants() -> list[Entity]:
    kinds = tuple(FAULTS)
    found = []
    for seed in (0, 2):
        train, test = simulate_plant(4000, seed=seed), simulate_plant(500 * len(kinds), seed=seed + 1, kinds=kinds)
        found.append(_entity(f"plant-{seed // 2 + 1}", train.values, test.values, test.labels))
    return found


def _five_kinds() -> list[Entity]:
    return [one_channel(kind, seed=number) for number, kind in enumerate(KINDS)]


def one_channel(kind: str, *, rows: int = 2000, seed: int = 0) -> Entity:
    """Return a noisy sine wave of one channel whose test half has three anomalies of one kind.

    Parameters
    ----------
    kind
        `global point`, `contextual point`, `seasonal`, `group` or `trend`, as in the paper's figure.
    rows
        Rows of train, and of test.
    seed
        Seed of the noise and of the positions and sizes of the anomalies.

    Examples
    --------
    >>> entity = one_channel("trend", rows=600, seed=3)
    >>> entity.test.shape, int(np.diff(entity.labels.astype(int)).clip(0).sum())
    ((600, 1), 3)
    """
    random = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * (np.arange(2 * rows) + random.uniform(0, PERIOD)) / PERIOD)
    values = wave + 0.1 * random.standard_normal(2 * rows)
    train, test = values[:rows], values[rows:]
    labels = np.zeros(rows, dtype=bool)
    for third in range(3):
        start = third * (rows // 3) + int(random.integers(PERIOD, rows // 3 - 5 * PERIOD))
        stop = KINDS[kind](test, start, random)
        labels[start:stop] = True
    return _entity(kind, train[:, None], test[:, None], labels)


def _global_point(test: FloatArray, start: int, random: np.random.Generator) -> int:
    test[start] += random.choice([-1, 1]) * random.uniform(3, 4)
    return start + 1


def _contextual_point(test: FloatArray, start: int, random: np.random.Generator) -> int:
    """Mirror a few rows: common values in the wrong phase."""
    stop = start + int(random.integers(2, 5))
    test[start:stop] = -np.sign(test[start]) * np.maximum(np.abs(test[start:stop]), 0.8)
    return stop


def _seasonal(test: FloatArray, start: int, random: np.random.Generator) -> int:
    """More than double the frequency for the time of two periods."""
    stop = start + 2 * PERIOD
    phase = 2 * np.pi * np.arange(stop - start) / PERIOD * random.uniform(2.2, 3)
    test[start:stop] = np.sin(phase) + 0.1 * random.standard_normal(stop - start)
    return stop


def _group(test: FloatArray, start: int, random: np.random.Generator) -> int:
    """Hold the wave at a constant value."""
    stop = start + int(random.integers(PERIOD, 2 * PERIOD))
    test[start:stop] = random.uniform(-0.5, 0.5) + 0.1 * random.standard_normal(stop - start)
    return stop


def _trend(test: FloatArray, start: int, random: np.random.Generator) -> int:
    stop = start + int(random.integers(2 * PERIOD, 4 * PERIOD))
    test[start:stop] += random.choice([-1, 1]) * np.linspace(0, random.uniform(1.5, 2.5), stop - start)
    return stop


def _swat_shaped() -> list[Entity]:
    """Return waves with the 26 channels that the paper states for SWaT, for measurements that depend on shape alone."""
    random = np.random.default_rng(0)
    phase = random.uniform(0, 2 * np.pi, 26)
    rows = np.arange(6000)[:, None]
    values = np.sin(2 * np.pi * rows / 60 + phase) + 0.1 * random.standard_normal((6000, 26))
    values[5000:5050] += 3
    return [_entity("waves", values[:4000], values[4000:], (np.arange(4000, 6000) // 50) == 100)]


def _entity(name: str, train: FloatArray, test: FloatArray, labels: NDArray[np.bool_]) -> Entity:
    return Entity(name, train.astype(np.float32), test.astype(np.float32), labels)


KINDS: Mapping[str, Callable[[FloatArray, int, np.random.Generator], int]] = {
    "global point": _global_point,
    "contextual point": _contextual_point,
    "seasonal": _seasonal,
    "group": _group,
    "trend": _trend,
}
"""Functions that put an anomaly into the test rows from `start` on and return the row where it stops."""

SYNTHETIC: Mapping[str, Callable[[], list[Entity]]] = {
    "plant": _plants,
    "five-kinds": _five_kinds,
    "swat-shaped": _swat_shaped,
}
"""Every synthetic dataset, by name."""

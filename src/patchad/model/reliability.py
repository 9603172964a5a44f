"""Reliability: how well each column of evidence tells faults that were put into held-out rows from the rest.

A witness that is blind on some data still adds noise to a fused score. Small faults of plain kinds, of size and of
shape, put into rows that nothing was learned from, show how much each can tell there; no label is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.stats import rankdata

from patchad.data.scaling import ZScore
from patchad.data.table import BoolArray, FloatArray

AMPLITUDES = (4.0, 8.0, 16.0)
"""Sizes of faults, in usual steps of the channel from row to row."""
LENGTHS = (15, 150)
PAUSE = (80, 160)
"""Rows of a fault that lasts, and between two faults."""
SPIKES = (1, 2, 5)
WARPS = (0.5, 2.0)
"""Powers of time."""
SCALES = (0.4, 0.7, 1.4)
"""Factors of the swing around the mean."""
LEAST = 0.5
"""Least weight: a column that told little of these faults may still tell others."""
POWER = 2.0
"""Of the reliability, for the weight of a column."""

Generator = np.random.Generator


def inject_faults(rows: FloatArray, generator: Generator) -> tuple[FloatArray, BoolArray]:
    """Put faults of random kinds, sizes and channels into a copy of `(time, channel)` rows; return it and where.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> faulty, where = inject_faults(rows, np.random.default_rng(1))
    >>> bool((faulty[~where] == rows[~where]).all()), bool(0.1 < where.mean() < 0.4)
    (True, True)
    """
    faulty = rows.astype(np.float64)
    where = np.zeros(len(rows), dtype=bool)
    scale = ZScore.fit([faulty])  # which no size of values overflows
    spread = np.where(scale.rounding > 0, 0.0, scale.spread)
    moving = np.flatnonzero(spread)
    if not len(moving):
        return faulty, where
    step = np.maximum(np.median(np.abs(np.diff(faulty, axis=0)), axis=0), 1e-3 * spread)
    start = PAUSE[0] // 2
    while start < len(rows) - LENGTHS[1]:
        kind = str(generator.choice(list(KINDS)))
        length = int(generator.choice(SPIKES)) if kind == "spike" else int(generator.integers(*LENGTHS))
        fault = slice(start, start + length)
        for channel in generator.choice(moving, size=min(len(moving), int(generator.integers(1, 4))), replace=False):
            size = generator.choice(AMPLITUDES) * step[channel]
            if generator.random() < 0.5:
                size = max(size, spread[channel] / 2)
            size *= generator.choice((-1.0, 1.0))
            faulty[fault, channel] = KINDS[kind](faulty[fault, channel], float(size), generator)
        where[fault] = True
        start += length + int(generator.integers(*PAUSE))
    return faulty, where


def column_weights(columns: FloatArray, faulty: BoolArray, most: FloatArray, weighed: BoolArray) -> FloatArray:
    """Return the weight of each of `(time, column)`, 0.5 to 1: a power of how far its ROC-AUC is over chance.

    `most` is the largest weight of each column; columns where it is under 1 do not lower the weights of the others, nor
    do those that are not `weighed`, which have it always.

    Examples
    --------
    >>> told = np.repeat([0.0, 1.0], 50)
    >>> columns = np.column_stack([told, np.zeros(100)])
    >>> column_weights(columns, told > 0, np.ones(2), np.array([True, True])).round(4).tolist()
    [1.0, 0.5]
    >>> column_weights(columns, told > 0, np.array([0.5, 1.0]), np.array([True, True])).tolist()
    [0.5, 1.0]
    >>> column_weights(columns, told > 0, np.ones(2), np.array([True, False])).tolist()
    [1.0, 1.0]
    """
    inside = int(faulty.sum())
    if inside in (0, len(faulty)):
        return most
    ranks = rankdata(columns, axis=0)[faulty].sum(axis=0) - inside * (inside + 1) / 2
    area = ranks / (inside * (len(faulty) - inside))
    weights = np.maximum(2 * area - 1, 0.0) ** POWER
    best = weights[(most == 1) & weighed].max()
    return np.asarray(most * np.where(weighed & (best > 0), np.clip(weights / max(best, 1e-12), LEAST, 1), 1.0))


def _noise(values: FloatArray, size: float, generator: Generator) -> FloatArray:
    return values + generator.normal(0.0, abs(size), len(values))


def _ramp(values: FloatArray, size: float, generator: Generator) -> FloatArray:  # noqa: ARG001
    return values + size * np.linspace(0.0, 1.0, len(values))


def _level(values: FloatArray, size: float, generator: Generator) -> FloatArray:  # noqa: ARG001
    return values + size


def _still(values: FloatArray, size: float, generator: Generator) -> FloatArray:  # noqa: ARG001
    return np.full_like(values, values[0])


def _reverse(values: FloatArray, size: float, generator: Generator) -> FloatArray:  # noqa: ARG001
    return values[::-1].copy()


def _warp(values: FloatArray, size: float, generator: Generator) -> FloatArray:  # noqa: ARG001
    """Run through the same values first slowly and then fast, or the other way."""
    time = np.linspace(0.0, 1.0, len(values))
    return np.asarray(np.interp(time ** generator.choice(WARPS), time, values))


def _scale(values: FloatArray, size: float, generator: Generator) -> FloatArray:  # noqa: ARG001
    middle = values.mean()
    return np.asarray(middle + (values - middle) * generator.choice(SCALES))


KINDS: Mapping[str, Callable[[FloatArray, float, Generator], FloatArray]] = {
    "spike": _level,
    "level": _level,
    "noise": _noise,
    "still": _still,
    "drift": _ramp,
    "reverse": _reverse,
    "warp": _warp,
    "scale": _scale,
}
"""What a fault makes of the values of its rows."""

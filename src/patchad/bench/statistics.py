"""Means over entities and seeds, and what they vary by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from patchad.bench.records import Record

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean and what it varies by."""

    mean: float
    low: float
    high: float
    """A 95 % bootstrap interval over entities; of one entity, the mean less and plus a standard deviation of seeds."""
    count: int
    """Entities, or seeds of one entity."""
    over: Literal["entities", "seeds"]


def spread(records: Sequence[Record], name: str) -> Spread | None:
    """Average a metric, or what a record measures beside the metrics, over seeds and then entities; None: no values."""
    by_entity: dict[tuple[str, str], list[float]] = {}
    for record in records:
        value = record["metrics"].get(name, record.get(name))
        if isinstance(value, int | float) and math.isfinite(value):
            by_entity.setdefault((record["dataset"], record["entity"]), []).append(float(value))
    if not by_entity:
        return None
    means = np.array([np.mean(values) for values in by_entity.values()])
    if len(means) == 1:
        (values,) = by_entity.values()
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return Spread(float(means[0]), means[0] - deviation, means[0] + deviation, len(values), "seeds")
    low, high = bootstrap(means)
    return Spread(float(means.mean()), low, high, len(means), "entities")


def bootstrap(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Give a 95 % interval for the mean of these values, by drawing from them again and again.

    Examples
    --------
    >>> low, high = bootstrap(np.array([0.0, 1.0] * 50))
    >>> 0.38 < low < 0.42, 0.58 < high < 0.62
    (True, True)
    """
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

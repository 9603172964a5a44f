"""Means over seeds and entities, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from patchad.bench.records import Record

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval."""

    mean: float
    low: float
    high: float
    """A 95 % bootstrap interval over entities; for a single entity, one standard deviation of its seeds each way."""
    count: int
    """Number of entities, or of seeds of a single entity."""
    over: Literal["entities", "seeds"]


def estimate_mean(records: Sequence[Record], name: str) -> Estimate | None:
    """Average a metric, or another measured field of the records, over seeds and then over entities.

    Returns None if no record has a value.
    """
    by_entity = _by_entity(records, name)
    if not by_entity:
        return None
    means = np.array([np.mean(values) for values in by_entity.values()])
    if len(means) == 1:
        (values,) = by_entity.values()
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return Estimate(float(means[0]), means[0] - deviation, means[0] + deviation, len(values), "seeds")
    low, high = bootstrap(means)
    return Estimate(float(means.mean()), low, high, len(means), "entities")


def estimate_difference(records: Sequence[Record], others: Sequence[Record], name: str) -> Estimate | None:
    """Average how much more the first records have of a metric than others, entity by entity, seeds averaged first.

    Returns None if they have no entity in common. With one entity, the interval is empty.

    Examples
    --------
    >>> def record(entity, value):
    ...     return {"dataset": "d", "entity": entity, "metrics": {"roc_auc": value}}
    >>> found = estimate_difference([record("a", 0.75), record("b", 1.0)], [record("a", 0.25)], "roc_auc")
    >>> found.mean, found.count
    (0.5, 1)
    """
    own, other = _by_entity(records, name), _by_entity(others, name)
    differences = np.array([np.mean(own[entity]) - np.mean(other[entity]) for entity in own if entity in other])
    if not len(differences):
        return None
    return Estimate(float(differences.mean()), *bootstrap(differences), len(differences), "entities")


def _by_entity(records: Sequence[Record], name: str) -> dict[tuple[str, str], list[float]]:
    """Collect the finite values of a metric, or of another field, by dataset and entity."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        value = record["metrics"].get(name, record.get(name))
        if isinstance(value, int | float) and math.isfinite(value):
            found.setdefault((record["dataset"], record["entity"]), []).append(float(value))
    return found


def bootstrap(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Return a 95 % interval for the mean of these values, by resampling them with replacement.

    Examples
    --------
    >>> low, high = bootstrap(np.array([0.0, 1.0] * 50))
    >>> 0.38 < low < 0.42, 0.58 < high < 0.62
    (True, True)
    """
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

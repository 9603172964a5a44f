"""Loaded entities compared with the published sizes of their dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchad.datasets.dataset import Dataset
from patchad.datasets.entity import Entity

RATIO_TOLERANCE = 0.1
"""Percentage points by which anomaly ratios may differ, because publications round."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure that differs from the published one."""

    what: str
    published: float
    found: float

    def __str__(self) -> str:
        """Return the difference in words."""
        return f"{self.what} {self.found:,} instead of {self.published:,}"


def differences_from_published(
    dataset: Dataset, entities: Sequence[Entity], *, every: int = 1
) -> tuple[Difference, ...]:
    """List the figures of loaded entities that differ from the published ones.

    Parameters
    ----------
    dataset
        The dataset they belong to.
    entities
        The loaded entities; a single entity with the dataset's name counts as all of them joined.
    every
        The thinning they were loaded with. Each entity's rows are rounded up, so several entities may have a few
        more rows than the published total thinned.

    Examples
    --------
    >>> from patchad.datasets.catalogue import lookup
    >>> import numpy as np
    >>> entity = Entity("PSM", np.zeros((132481, 25)), np.zeros((87841, 25)), np.arange(87841) < 24382)
    >>> differences_from_published(lookup("PSM"), [entity])
    ()
    >>> [str(difference) for difference in differences_from_published(lookup("PSM"), [entity.thinned(2)])]
    ['train rows 66,241 instead of 132,481', 'test rows 43,921 instead of 87,841']
    """
    size = dataset.size
    test = sum(len(entity.test) for entity in entities)
    ratio = 100 * sum(int(entity.labels.sum()) for entity in entities) / test
    train = sum(len(entity.train) for entity in entities)
    slack = len(entities) if every > 1 else 0
    joined = [entity.name for entity in entities] == [dataset.name]
    figures = (
        ("entities", None if joined else dataset.entities, len(entities), 0.0),
        ("channels", size.channels, entities[0].channels, 0.0),
        ("train rows", _thinned(size.train, every), train, slack),
        ("test rows", _thinned(size.test, every), test, slack),
        ("anomalous %", size.ratio, round(ratio, 2), RATIO_TOLERANCE),
    )
    return tuple(
        Difference(what, published, found)
        for what, published, found, tolerance in figures
        if published is not None and abs(found - published) > tolerance
    )


def _thinned(rows: int | None, every: int) -> int | None:
    return None if rows is None else -(-rows // every)

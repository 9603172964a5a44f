"""Which datasets a folder holds, and whether they are complete: the result of ``patchad data check``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from patchad.datasets.catalogue import DATASETS, lookup
from patchad.datasets.loading import find
from patchad.datasets.published import Difference, differences_from_published
from patchad.errors import InputError


@dataclass(frozen=True, slots=True)
class Finding:
    """What a folder holds of one dataset."""

    name: str
    state: Literal["as published", "differs", "missing", "unreadable"]
    entities: int = 0
    train: int = 0
    test: int = 0
    channels: int = 0
    anomalous: int = 0
    """Test rows labelled anomalous."""
    differences: tuple[Difference, ...] = ()
    remedy: str = ""
    """What to do if the dataset is missing or unreadable."""


def check(root: str | PathLike[str], names: Iterable[str] = DATASETS) -> list[Finding]:
    """Read every dataset below a folder and compare it with its published sizes.

    Missing and unreadable datasets are findings, not errors.

    Raises
    ------
    InputError
        ``root`` is not a folder, or a name is unknown.

    Examples
    --------
    >>> import tempfile
    >>> check(tempfile.mkdtemp(), ["SWaT"])[0].state
    'missing'
    """
    return [_check(name, Path(root)) for name in names]


def _check(name: str, root: Path) -> Finding:
    dataset = lookup(name)
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; pass the folder that holds the datasets")
    try:
        entities = find(dataset, root)
    except (InputError, ImportError) as error:
        return Finding(dataset.name, "unreadable", remedy=str(error))
    if not entities:
        return Finding(dataset.name, "missing", remedy=dataset.how_to_get)
    differences = differences_from_published(dataset, entities)
    return Finding(
        dataset.name,
        "differs" if differences else "as published",
        entities=len(entities),
        train=sum(len(entity.train) for entity in entities),
        test=sum(len(entity.test) for entity in entities),
        channels=entities[0].channels,
        anomalous=sum(int(entity.labels.sum()) for entity in entities),
        differences=differences,
    )

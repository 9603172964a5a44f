"""Find a dataset by name below a folder and read its entities."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from patchad.datasets.catalogue import lookup, normalised
from patchad.datasets.dataset import Dataset
from patchad.datasets.entity import Entity, join
from patchad.datasets.published import differences_from_published
from patchad.errors import InputError

_log = logging.getLogger(__name__)


def load(name: str, root: str | PathLike[str], *, joined: bool = False, every: int = 1) -> list[Entity]:
    """Read a dataset, complete or in part.

    Differences from the published sizes are logged as a warning and never raised; `patchad.datasets.check` returns
    them.

    Parameters
    ----------
    name
        A name of `patchad.datasets.DATASETS`, in any case; SWAN and GECCO also with the prefix ``NIPS-TS-``.
    root
        The folder that holds the dataset folders, or the dataset's own folder.
    joined
        Return one entity, all entities concatenated in order of name, as most papers do.
    every
        Keep one row in ``every`` of train and test; 5 gives the PatchAD paper's rows of SWaT and WADI.

    Returns
    -------
    The entities, sorted by name.

    Raises
    ------
    InputError
        The name is unknown, no file of the dataset is found, or a file cannot be read.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> root = Path(tempfile.mkdtemp())
    >>> for machine in ("machine-1-1", "machine-1-2"):
    ...     (root / "SMD").mkdir(exist_ok=True)
    ...     np.savez(root / "SMD" / machine, train=np.zeros((9, 38)), test=np.ones((5, 38)), test_label=[0, 0, 1, 1, 0])
    >>> [(entity.name, entity.train.shape) for entity in load("smd", root)]
    [('machine-1-1', (9, 38)), ('machine-1-2', (9, 38))]
    >>> load("SMD", root, joined=True)[0].test.shape
    (10, 38)
    """
    if every < 1:
        raise InputError(f"every must be an integer of at least 1, got {every!r}")
    dataset = lookup(name)
    entities = [entity.thinned(every) for entity in find(dataset, Path(root))]
    if not entities:
        raise _missing(dataset, Path(root))
    differences = differences_from_published(dataset, entities, every=every)
    if differences:
        _log.warning("%s differs from its published sizes: %s", dataset.name, "; ".join(map(str, differences)))
    return [join(entities, dataset.name)] if joined else entities


def find(dataset: Dataset, root: Path) -> list[Entity]:
    """Return the entities of the first layout that matches files, sorted by name; an empty list if none does."""
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; pass the folder that holds {dataset.name}")
    for folder, own in candidates(dataset, root):
        for layout in dataset.layouts:
            if own or layout.named:
                entities = layout.read(folder)
                if entities:
                    _log.info("%s: %d entities from %s in %s", dataset.name, len(entities), layout.files, folder)
                    return sorted(entities, key=lambda entity: entity.name)
    return []


def candidates(dataset: Dataset, root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folders that may hold a dataset, and whether their name identifies it.

    A folder named after the dataset, with or without a suffix after a dot (``WADI.A1_9 Oct 2017``), is its own. In any
    other root only files whose names identify the dataset count.
    """
    for pattern in (dataset.name, *dataset.folders):
        for folder in _matching(root, pattern.split("/")):
            yield folder, True
    names = {normalised(pattern.split("/")[-1]) for pattern in (dataset.name, *dataset.folders)}
    yield root, _plain(root.resolve()) in names


def _matching(folder: Path, parts: list[str]) -> list[Path]:
    if not parts:
        return [folder]
    wanted = normalised(parts[0])
    children = [child for child in sorted(folder.iterdir()) if child.is_dir() and _plain(child) == wanted]
    return [match for child in children for match in _matching(child, parts[1:])]


def _plain(folder: Path) -> str:
    return normalised(folder.name.split(".")[0])


def _missing(dataset: Dataset, root: Path) -> InputError:
    searched = ", ".join(str(root / pattern) for pattern in (dataset.name, *dataset.folders))
    wanted = "; ".join(layout.files for layout in dataset.layouts)
    return InputError(
        f"no files of {dataset.name} in {searched} or {root} itself; looked for: {wanted}. "
        f"To get it, {dataset.how_to_get}"
    )

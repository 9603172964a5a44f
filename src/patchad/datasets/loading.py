"""From a name and a folder to entities."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from patchad.datasets import itrust, nab, nasa, nips_ts, psm, skab, smd, tsb_ad, ucr
from patchad.datasets.catalogue import Dataset, lookup, normalised
from patchad.datasets.entity import Entity, join
from patchad.datasets.layouts import Layout
from patchad.datasets.published import differences_from_published
from patchad.errors import InputError

_log = logging.getLogger(__name__)

LAYOUTS: Mapping[str, tuple[Layout, ...]] = {
    "MSL": nasa.layouts("MSL"),
    "SMAP": nasa.layouts("SMAP"),
    "PSM": psm.LAYOUTS,
    "SWaT": itrust.SWAT_LAYOUTS,
    "WADI": itrust.WADI_LAYOUTS,
    "SWAN": nips_ts.SWAN_LAYOUTS,
    "GECCO": nips_ts.GECCO_LAYOUTS,
    "GECCO-challenge": nips_ts.GECCO_CHALLENGE_LAYOUTS,
    "UCR": ucr.LAYOUTS,
    "SMD": smd.SMD_LAYOUTS,
    "ASD": smd.ASD_LAYOUTS,
    "SKAB": skab.LAYOUTS,
    "NAB": nab.LAYOUTS,
    "Exathlon": tsb_ad.layouts("Exathlon"),
    "IOPS": tsb_ad.layouts("IOPS"),
}
"""How the files of each dataset may lie, the preferred way first."""


def load(name: str, root: str | PathLike[str], *, joined: bool = False, every: int = 1) -> list[Entity]:
    """Read a dataset, or the part of it that is there.

    Differences from the published sizes are logged as a warning and never raised; `patchad.datasets.check` returns
    them.

    Parameters
    ----------
    name
        A name of `patchad.datasets.DATASETS`, in any case; SWAN and GECCO also with the prefix ``NIPS-TS-``.
    root
        The folder that holds the datasets' folders, or the dataset's own folder.
    joined
        Give one entity with all the others one after the other, by name, as most papers do.
    every
        Keep every so many rows of train and test. SWaT and WADI with 5 have the rows of the PatchAD paper.

    Returns
    -------
    The entities, sorted by name; a dataset of one entity gives a list of one.

    Raises
    ------
    InputError
        The name is unknown, or no file of the dataset is there, or a file cannot be read.

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
        raise InputError(f"every must be a whole number from 1 up, got {every!r}")
    dataset = lookup(name)
    entities = [entity.thinned(every) for entity in find(dataset, Path(root))]
    if not entities:
        raise _missing(dataset, Path(root))
    differences = differences_from_published(dataset, entities, every=every)
    if differences:
        _log.warning("%s differs from what is published: %s", dataset.name, "; ".join(map(str, differences)))
    return [join(entities, dataset.name)] if joined else entities


def find(dataset: Dataset, root: Path) -> list[Entity]:
    """Read the first layout of a dataset that finds files, sorted by name; none gives an empty list."""
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; give the folder that holds {dataset.name}")
    for folder, own in candidates(dataset, root):
        for layout in LAYOUTS[dataset.name]:
            if own or layout.named:
                entities = layout.read(folder)
                if entities:
                    _log.info("%s: %d entities from %s in %s", dataset.name, len(entities), layout.files, folder)
                    return sorted(entities, key=lambda entity: entity.name)
    return []


def candidates(dataset: Dataset, root: Path) -> Iterator[tuple[Path, bool]]:
    """Give the folders that may hold a dataset, and whether their name says that they do.

    A folder that is called like the dataset, also followed by a dot and anything (``WADI.A1_9 Oct 2017``), is its own.
    In the root itself, unless it is called so, only files count whose names tell the dataset.
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
    places = ", ".join(str(root / pattern) for pattern in (dataset.name, *dataset.folders))
    wanted = "; ".join(layout.files for layout in LAYOUTS[dataset.name])
    return InputError(
        f"no files of {dataset.name} in {places} or {root} itself; looked for: {wanted}. "
        f"To have it, {dataset.how_to_get}"
    )

"""PSM: pooled server metrics of eBay, one entity of 25 channels.

The native layout is ``train.csv``, ``test.csv`` and ``test_label.csv``, each with a first column ``timestamp_(min)``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity, as_labels
from patchad.datasets.layouts import Layout, npz_file, triples
from patchad.datasets.sheets import read_csv
from patchad.errors import InputError

_FILES = ("train.csv", "test.csv", "test_label.csv")
_RAW = "https://raw.githubusercontent.com/eBay/RANSynCoders/main/data"


def read_ebay(folder: Path) -> list[Entity]:
    """Read the three csv files; missing values become 0, as in the loaders of benchmark repositories."""
    paths = [base / file for base in (folder, folder / "data") if (base / _FILES[0]).is_file() for file in _FILES]
    if not paths:
        return []
    for path in paths:
        if not path.is_file():
            raise InputError(f"{paths[0]} exists but {path} does not; all three files are needed")
    train, test, labels = (_columns(path) for path in paths[:3])
    for values in (train, test):
        values[np.isnan(values)] = 0.0
    return [Entity("PSM", train, test, as_labels(labels[:, -1], str(paths[2])))]


def _columns(path: Path) -> NDArray[np.float32]:
    frame = read_csv(path)
    frame = frame.drop(columns=[name for name in frame.columns if str(name).strip().startswith("timestamp")])
    try:
        values: NDArray[np.float32] = frame.to_numpy(dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} must contain only numbers: {error}") from error
    return values


PSM = Dataset(
    name="PSM",
    about="pooled metrics of eBay's application servers",
    size=Size(132481, 87841, 25, 27.76),
    paper=Size(132481, 87841, 25, 27.8),
    licence="CC BY 4.0",
    home="https://github.com/eBay/RANSynCoders",
    note="Missing values become 0, as in the loaders of benchmark repositories.",
    folders=("RANSynCoders",),
    layouts=(
        Layout("train.csv, test.csv and test_label.csv", read_ebay),
        npz_file("PSM.npz", "PSM"),
        triples("PSM", name="PSM"),
    ),
    recipe=Recipe("PSM", tuple(Source(file, f"{_RAW}/{file}") for file in _FILES)),
    sample=("PSM",),
)

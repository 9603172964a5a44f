"""PSM: pooled server metrics of eBay, one entity of 25 channels.

The native layout is ``train.csv``, ``test.csv`` and ``test_label.csv``, each with a first column ``timestamp_(min)``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.entity import Entity, as_labels
from patchad.datasets.layouts import Layout, npz_file, triples
from patchad.datasets.sheets import read_csv
from patchad.errors import InputError

_FILES = ("train.csv", "test.csv", "test_label.csv")


def read_ebay(folder: Path) -> list[Entity]:
    """Read the three csv files; missing values become 0, as in the loaders of benchmark repositories."""
    paths = [base / file for base in (folder, folder / "data") if (base / _FILES[0]).is_file() for file in _FILES]
    if not paths:
        return []
    for path in paths:
        if not path.is_file():
            raise InputError(f"{paths[0]} is there but {path} is not; the three files belong together")
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
        raise InputError(f"{path} must hold numbers only: {error}") from error
    return values


LAYOUTS = (
    Layout("train.csv, test.csv and test_label.csv", read_ebay),
    npz_file("PSM.npz", "PSM"),
    triples("PSM", name="PSM"),
)

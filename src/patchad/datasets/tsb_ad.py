"""Exathlon and IOPS as the collection TSB-AD-U holds them, one entity of one channel per series.

A file is called ``NNN_DATASET_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv``; its last column is the label.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np

from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, triples
from patchad.datasets.sheets import read_csv
from patchad.errors import InputError

_TRAIN = re.compile(r".*_tr_(\d+)_1st_-?\d+")


def layouts(dataset: str) -> tuple[Layout, ...]:
    """Give the layouts of one dataset of the collection."""
    return (
        npz_folder(f"*_{dataset}_id_*.npz", named=True),
        Layout(f"NNN_{dataset}_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv", partial(read_series, dataset=dataset), named=True),
        npz_file(f"{dataset}.npz", dataset),
        triples(dataset, name=dataset),
    )


def read_series(folder: Path, *, dataset: str) -> list[Entity]:
    """Read the csv files of one dataset; the first ``tr`` rows are train."""
    return [_read(path) for path in folder.glob(f"*_{dataset}_id_*.csv")]


def _read(path: Path) -> Entity:
    match = _TRAIN.fullmatch(path.stem)
    if match is None:
        raise InputError(f"{path.name} is not of the form NNN_DATASET_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv")
    cut = int(match[1])
    frame = read_csv(path).dropna()
    try:
        table = frame.to_numpy(dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{path} must hold numbers: {error}") from error
    return Entity(path.stem, table[:cut, :-1], table[cut:, :-1], table[cut:, -1])

"""The collections TSB-AD-U and TSB-AD-M, and their families Exathlon and IOPS, one entity per series.

A file is named ``NNN_DATASET_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv``; its last column is the label.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, read_npz, triples
from patchad.datasets.sheets import read_csv
from patchad.errors import InputError

_HOME = "https://github.com/TheDatumOrg/TSB-AD"
_TRAIN = re.compile(r".*_tr_(\d+)_1st_-?\d+")
_FAMILY = re.compile(r"\d+_(.+?)_id_")

COLLECTIONS = ("TSB-AD-U", "TSB-AD-M")
"""Folders of the benchmark's series: of one channel, and of many."""


def family_of(dataset: str, entity: str) -> str:
    """Return the family of an entity: in a collection the one that its name tells, else the dataset.

    Examples
    --------
    >>> family_of("TSB-AD-U", "813_Exathlon_id_4_Facility_tr_10766_1st_12590"), family_of("SMD", "machine-1-6")
    ('Exathlon', 'SMD')
    """
    match = _FAMILY.match(entity) if dataset in COLLECTIONS else None
    return dataset if match is None else match[1]


def read_collection(root: Path, name: str) -> list[Entity]:
    """Read every series in the benchmark's layout in the folder of a collection, and in folders below it.

    A csv file has a column of labels at its end and its train rows in its name; an npz file has the three arrays.

    Returns
    -------
    The entities, sorted by name.
    """
    folder = root / name
    paths = sorted(folder.rglob("*_id_*_tr_*_1st_*.*"), key=lambda path: path.name) if folder.is_dir() else []
    entities = [
        _read(path) if path.suffix == ".csv" else read_npz(path, path.stem)
        for path in paths
        if path.suffix in (".csv", ".npz")
    ]
    if not entities:
        raise InputError(f"no series of {name} in {str(folder)!r}; download it from {_HOME}")
    return entities


def read_series(folder: Path, *, dataset: str) -> list[Entity]:
    """Read the csv files of one dataset; the first ``tr`` rows are train."""
    return [_read(path) for path in folder.glob(f"*_{dataset}_id_*.csv")]


def _read(path: Path) -> Entity:
    match = _TRAIN.fullmatch(path.stem)
    if match is None:
        raise InputError(f"{path.name} does not have the form NNN_DATASET_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv")
    cut = int(match[1])
    frame = read_csv(path).dropna()
    try:
        rows = frame.to_numpy(dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{path} must contain only numbers: {error}") from error
    return Entity(path.stem, rows[:cut, :-1], rows[cut:, :-1], rows[cut:, -1])


def _layouts(dataset: str) -> tuple[Layout, ...]:
    return (
        npz_folder(f"*_{dataset}_id_*.npz", named=True),
        Layout(f"NNN_{dataset}_id_N_DOMAIN_tr_TRAIN_1st_FIRST.csv", partial(read_series, dataset=dataset), named=True),
        npz_file(f"{dataset}.npz", dataset),
        triples(dataset, name=dataset),
    )


def _recipe(dataset: str) -> Recipe:
    url = "https://www.thedatum.org/datasets/TSB-AD-U.zip"
    members = rf"(?:.*/)?(\d+_{dataset}_id_[^/]+\.csv)"
    return Recipe(f"TSB-AD-U/{dataset}", (Source("TSB-AD-U.zip", url, members),))


EXATHLON = Dataset(
    name="Exathlon",
    about="32 metrics of Spark jobs, from TSB-AD-U",
    size=Size(345152, 1065275, 1, 14.49),
    entities=32,
    licence="Apache-2.0",
    home=_HOME,
    folders=("TSB-AD-U/Exathlon", "TSB-AD-U"),
    layouts=_layouts("Exathlon"),
    recipe=_recipe("Exathlon"),
    sample=(
        "810_Exathlon_id_1_Facility_tr_10766_1st_12590",
        "821_Exathlon_id_12_Facility_tr_6985_1st_7085",
        "818_Exathlon_id_9_Facility_tr_11665_1st_13484",
        "828_Exathlon_id_19_Facility_tr_11663_1st_13482",
        "833_Exathlon_id_24_Facility_tr_10766_1st_12590",
        "837_Exathlon_id_28_Facility_tr_8898_1st_8998",
    ),
)
IOPS = Dataset(
    name="IOPS",
    about="17 performance indicators of web services, the AIOps challenge's, from TSB-AD-U",
    size=Size(89201, 1148268, 1, 1.62),
    entities=17,
    licence="MIT (none stated in TSB-AD's table)",
    home=_HOME,
    folders=("TSB-AD-U/IOPS", "TSB-AD-U"),
    layouts=_layouts("IOPS"),
    recipe=_recipe("IOPS"),
    sample=(
        "260_IOPS_id_1_WebService_tr_5000_1st_11804",
        "261_IOPS_id_2_WebService_tr_2178_1st_2278",
        "264_IOPS_id_5_WebService_tr_11665_1st_11765",
        "267_IOPS_id_8_WebService_tr_1534_1st_1882",
        "268_IOPS_id_9_WebService_tr_6216_1st_6316",
        "275_IOPS_id_16_WebService_tr_1482_1st_1582",
    ),
)

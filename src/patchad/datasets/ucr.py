"""UCR: the anomaly archive of 2021, 250 series of one channel with one anomaly each.

A file name contains everything but the values: ``NNN_UCR_Anomaly_NAME_TRAIN_BEGIN_END.txt``. In series 203 the anomaly
ends before the train part does, so its labels are all normal; it is loaded like the others.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, triples
from patchad.errors import InputError

_NAME = re.compile(r"\d{3}_UCR_Anomaly_.+_(\d+)_(\d+)_(\d+)")


def read_archive(folder: Path) -> list[Entity]:
    """Read the text files of the archive from the folder or up to four levels below it."""
    paths: list[Path] = []
    for depth in range(5):
        paths = sorted(folder.glob("*/" * depth + "*_UCR_Anomaly_*.txt"))
        if paths:
            break
    return [read_series(path) for path in paths]


def read_series(path: Path) -> Entity:
    """Read one series; its values are one per line or, in some files, all on one line."""
    match = _NAME.fullmatch(path.stem)
    if match is None:
        raise InputError(f"{path.name} does not have the form NNN_UCR_Anomaly_NAME_TRAIN_BEGIN_END.txt")
    length, begin, end = (int(number) for number in match.groups())
    try:
        values = np.array(path.read_text(encoding="ascii").split(), dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} must contain only numbers: {error}") from error
    labels = np.zeros(len(values), dtype=np.bool_)
    labels[begin : end + 1] = True  # both ends, counted from 0
    return Entity(path.stem, values[:length, None], values[length:, None], labels[length:])


UCR = Dataset(
    name="UCR",
    about="the UCR anomaly archive of 2021, 250 series with one anomaly each",
    size=Size(None, None, 1, None),
    entities=250,
    licence="none stated; free download",
    home="https://www.cs.ucr.edu/~eamonn/time_series_data_2018/",
    note="The anomaly of series 203 is in its train part, so its labels are all normal: leave it out of averages.",
    folders=("UCR_Anomaly_FullData", "UCR_TimeSeriesAnomalyDatasets2021", "AnomalyDatasets_2021"),
    layouts=(
        npz_folder("*_UCR_Anomaly_*.npz", named=True),
        Layout("NNN_UCR_Anomaly_NAME_TRAIN_BEGIN_END.txt", read_archive, named=True),
        triples(r"UCR_\d+"),
        npz_file("UCR.npz", "UCR"),
        triples("UCR", name="UCR"),
    ),
    recipe=Recipe(
        "UCR",
        (
            Source(
                "UCR_TimeSeriesAnomalyDatasets2021.zip",
                "https://www.cs.ucr.edu/~eamonn/time_series_data_2018/UCR_TimeSeriesAnomalyDatasets2021.zip",
                r"(?!__MACOSX)(?:.*/)?(\d{3}_UCR_Anomaly_[^/]+\.txt)",
            ),
        ),
    ),
    sample=(
        "025_UCR_Anomaly_DISTORTEDInternalBleeding14_2800_5607_5634",
        "113_UCR_Anomaly_CIMIS44AirTemperature1_4000_5391_5392",
        "119_UCR_Anomaly_ECG1_10000_11800_12100",
        "147_UCR_Anomaly_Lab2Cmac011215EPG3_5000_16390_16420",
        "161_UCR_Anomaly_WalkingAceleration1_1500_2764_2995",
        "211_UCR_Anomaly_Italianpowerdemand_38113_39240_39336",
    ),
)

"""UCR: the anomaly archive of 2021, 250 series of one channel with one anomaly each.

A file's name holds everything but the values: ``NNN_UCR_Anomaly_NAME_TRAIN_BEGIN_END.txt``. In series 203 the anomaly
ends before the train part does, so that its labels are all normal; it is loaded like the others.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, triples
from patchad.errors import InputError

_NAME = re.compile(r"\d{3}_UCR_Anomaly_.+_(\d+)_(\d+)_(\d+)")


def read_archive(folder: Path) -> list[Entity]:
    """Read the text files of the archive, which lie in the folder or up to four levels below it."""
    paths: list[Path] = []
    for depth in range(5):
        paths = sorted(folder.glob("*/" * depth + "*_UCR_Anomaly_*.txt"))
        if paths:
            break
    return [read_series(path) for path in paths]


def read_series(path: Path) -> Entity:
    """Read one series; its values stand one to a line or, in some files, all on one line."""
    match = _NAME.fullmatch(path.stem)
    if match is None:
        raise InputError(f"{path.name} is not of the form NNN_UCR_Anomaly_NAME_TRAIN_BEGIN_END.txt")
    length, begin, end = (int(number) for number in match.groups())
    try:
        values = np.array(path.read_text(encoding="ascii").split(), dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} must hold numbers only: {error}") from error
    labels = np.zeros(len(values), dtype=np.bool_)
    labels[begin : end + 1] = True  # both ends, counted from 0
    return Entity(path.stem, values[:length, None], values[length:, None], labels[length:])


LAYOUTS = (
    npz_folder("*_UCR_Anomaly_*.npz", named=True),
    Layout("NNN_UCR_Anomaly_NAME_TRAIN_BEGIN_END.txt", read_archive, named=True),
    triples(r"UCR_\d+"),
    npz_file("UCR.npz", "UCR"),
    triples("UCR", name="UCR"),
)

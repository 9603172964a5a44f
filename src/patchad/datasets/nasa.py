"""MSL and SMAP: telemetry of a Mars rover and of a satellite, one entity per telemetry channel.

The native layout is that of telemanom: ``train/*.npy``, ``test/*.npy`` and ``labeled_anomalies.csv``, in one folder or
with the arrays in ``data/`` below the csv file.
"""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, read_array, triples
from patchad.errors import InputError

# Listed twice with different sequences; OmniAnomaly omits it, and so do the published lengths.
_OMITTED = frozenset({"P-2"})


def read_telemanom(folder: Path, *, spacecraft: str) -> list[Entity]:
    """Read the available channels of one spacecraft."""
    arrays = next((base for base in (folder, folder / "data", folder / "data/data") if (base / "train").is_dir()), None)
    if arrays is None:
        return []
    labels = next((file for file in map(_label_file, (arrays, *arrays.parents[:2])) if file.is_file()), None)
    if labels is None:
        return []
    entities = []
    for channel, sequences in _sequences(labels, spacecraft).items():
        train, test = (arrays / split / f"{channel}.npy" for split in ("train", "test"))
        if train.is_file() and test.is_file():
            values = read_array(test)
            entities.append(Entity(channel, read_array(train), values, _labels(sequences, len(values))))
    return entities


def _label_file(folder: Path) -> Path:
    return folder / "labeled_anomalies.csv"


def _sequences(path: Path, spacecraft: str) -> dict[str, list[list[int]]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        needed = {"chan_id", "spacecraft", "anomaly_sequences"}
        if not needed <= set(rows.fieldnames or ()):
            raise InputError(f"{path} needs the columns {sorted(needed)}, it has {rows.fieldnames}")
        try:
            return {
                row["chan_id"]: json.loads(row["anomaly_sequences"])
                for row in rows
                if row["spacecraft"] == spacecraft and row["chan_id"] not in _OMITTED
            }
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: anomaly_sequences must be lists of [start, end] pairs: {error}") from error


def _labels(sequences: list[list[int]], length: int) -> NDArray[np.bool_]:
    labels = np.zeros(length, dtype=np.bool_)
    for start, end in sequences:
        labels[start : end + 1] = True  # both ends belong to the anomaly
    return labels


def _layouts(spacecraft: str) -> tuple[Layout, ...]:
    return (
        npz_folder("channels/*.npz"),
        Layout(
            "train/*.npy and test/*.npy (or both in data/) with labeled_anomalies.csv",
            partial(read_telemanom, spacecraft=spacecraft),
            named=True,
        ),
        npz_file(f"{spacecraft}.npz", spacecraft),
        triples(spacecraft, name=spacecraft),
    )


_LICENCE = "Caltech/JPL, BSD style"
_HOME = "https://github.com/khundman/telemanom"
_FOLDERS = ("SMAP_MSL", "telemanom", "NASA")
# The archive that telemanom used to offer is gone, and its successor requires an account; this repository has copies
# of the arrays and of the label file.
_RECIPE = Recipe(
    "telemanom",
    (
        Source.github(
            "imperial-qore/TranAD",
            "7ffb98d0c18189cc3d9ab732b4cb0278200a0af0",
            r"[^/]+/data/SMAP_MSL/((?:train|test)/[^/]+\.npy|labeled_anomalies\.csv)",
        ),
    ),
)

MSL = Dataset(
    name="MSL",
    about="telemetry of the Curiosity rover on Mars, 27 telemetry channels with their commands",
    size=Size(58317, 73729, 55, 10.53),
    entities=27,
    paper=Size(58317, 73729, 55, 10.5),
    licence=_LICENCE,
    home=_HOME,
    note="An entity is a telemetry channel: one measurement and 54 command indicators.",
    folders=_FOLDERS,
    layouts=_layouts("MSL"),
    recipe=_RECIPE,
    sample=("C-1", "F-7", "M-6", "P-11", "T-4", "D-15"),
)
SMAP = Dataset(
    name="SMAP",
    about="telemetry of a soil-moisture satellite, 53 telemetry channels with their commands",
    size=Size(135183, 427617, 25, 12.79),
    entities=53,
    paper=Size(135183, 427617, 25, 12.8),
    licence=_LICENCE,
    home=_HOME,
    note="Channel P-2 is listed twice in the label file and omitted; the published lengths exclude it.",
    folders=_FOLDERS,
    layouts=_layouts("SMAP"),
    recipe=_RECIPE,
    sample=("A-4", "P-1", "E-7", "G-2", "T-2", "D-13"),
)

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

from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, read_array, triples
from patchad.errors import InputError

# Listed twice with different sequences; OmniAnomaly left it out, and the published lengths are without it.
_LEFT_OUT = frozenset({"P-2"})


def layouts(spacecraft: str) -> tuple[Layout, ...]:
    """Give the layouts of ``"MSL"`` or ``"SMAP"``."""
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


def read_telemanom(folder: Path, *, spacecraft: str) -> list[Entity]:
    """Read the channels of one spacecraft that are there."""
    arrays = next((base for base in (folder, folder / "data", folder / "data/data") if (base / "train").is_dir()), None)
    if arrays is None:
        return []
    table = next((base / "labeled_anomalies.csv" for base in (arrays, *arrays.parents[:2]) if _has_table(base)), None)
    if table is None:
        return []
    entities = []
    for channel, sequences in _sequences(table, spacecraft).items():
        train, test = (arrays / part / f"{channel}.npy" for part in ("train", "test"))
        if train.is_file() and test.is_file():
            values = read_array(test)
            entities.append(Entity(channel, read_array(train), values, _labels(sequences, len(values))))
    return entities


def _has_table(folder: Path) -> bool:
    return (folder / "labeled_anomalies.csv").is_file()


def _sequences(table: Path, spacecraft: str) -> dict[str, list[list[int]]]:
    with table.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        needed = {"chan_id", "spacecraft", "anomaly_sequences"}
        if not needed <= set(rows.fieldnames or ()):
            raise InputError(f"{table} needs the columns {sorted(needed)}, it has {rows.fieldnames}")
        try:
            return {
                row["chan_id"]: json.loads(row["anomaly_sequences"])
                for row in rows
                if row["spacecraft"] == spacecraft and row["chan_id"] not in _LEFT_OUT
            }
        except json.JSONDecodeError as error:
            raise InputError(f"{table}: anomaly_sequences must be lists of [start, end] pairs: {error}") from error


def _labels(sequences: list[list[int]], length: int) -> NDArray[np.bool_]:
    labels = np.zeros(length, dtype=np.bool_)
    for start, end in sequences:
        labels[start : end + 1] = True  # both ends belong to the anomaly
    return labels

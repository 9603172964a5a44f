"""SKAB: experiments on a water circuit with a pump and valves, one entity of 8 channels per experiment.

The native layout is ``valve1``, ``valve2`` and ``other`` with a semicolon-separated csv file per experiment.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, triples
from patchad.datasets.sheets import read_csv
from patchad.errors import InputError

TRAIN_ROWS = 400
"""Every experiment starts with normal operation; the authors train on the first 400 rows."""

_GROUPS = ("valve1", "valve2", "other")
_NOT_CHANNELS = frozenset({"datetime", "anomaly", "changepoint", "is_anomaly", "is_pa"})


def read_experiments(folder: Path) -> list[Entity]:
    """Read the experiments of all groups; an entity is named ``group_number``."""
    base = next((base for base in (folder, folder / "data") if (base / _GROUPS[0]).is_dir()), None)
    if base is None:
        return []
    return [_read(path, f"{group}_{path.stem}") for group in _GROUPS for path in (base / group).glob("*.csv")]


def _read(path: Path, name: str) -> Entity:
    frame = read_csv(path, sep=";")
    label = next((column for column in ("anomaly", "is_anomaly") if column in frame.columns), None)
    if label is None:
        raise InputError(f"{path} has no column anomaly; it has {list(frame.columns)}")
    try:
        values = frame[[column for column in frame.columns if column not in _NOT_CHANNELS]].to_numpy(dtype=np.float32)
        labels = frame[label].to_numpy(dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} must contain only numbers: {error}") from error
    return Entity(name, values[:TRAIN_ROWS], values[TRAIN_ROWS:], labels[TRAIN_ROWS:])


SKAB = Dataset(
    name="SKAB",
    about="34 experiments on a water circuit with pump and valves",
    size=Size(13600, 23801, 8, 53.66),
    entities=34,
    licence="GPL-3.0",
    home="https://github.com/waico/SKAB",
    note="The first 400 rows of each experiment are train.",
    layouts=(
        npz_folder("experiments/*.npz"),
        Layout("valve1/, valve2/ and other/*.csv (or all in data/)", read_experiments, named=True),
        npz_file("SKAB.npz", "SKAB"),
        triples("SKAB", name="SKAB"),
    ),
    recipe=Recipe(
        "SKAB",
        (
            Source.github(
                "waico/SKAB",
                "b2c0d46c2971dcbfe71e26087b6d231998bb91c2",
                r"[^/]+/data/((?:valve1|valve2|other|anomaly-free)/[^/]+\.csv)",
            ),
        ),
    ),
    sample=("valve1_1", "other_3", "valve2_0", "other_11", "valve1_6", "valve2_3"),
)

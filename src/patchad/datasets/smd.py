"""SMD and ASD: server metrics, one entity per server.

The native layout of SMD is OmniAnomaly's: ``train``, ``test`` and ``test_label`` with a text file per machine. That of
ASD is InterFusion's: three pickled arrays per server.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity, as_labels
from patchad.datasets.layouts import Layout, matching_files, npz_file, npz_folder, triples
from patchad.errors import InputError


def read_machines(folder: Path) -> list[Entity]:
    """Read the text files of the machines: comma-separated values, one row per minute."""
    labels = next((name for name in ("test_label", "labels") if (folder / name).is_dir()), None)
    if labels is None:
        return []
    return [
        Entity(name, _text(train), _text(test), as_labels(_text(label)[:, 0], str(label)))
        for name, (train, test, label) in matching_files(folder, ("train", "test", labels), ".txt")
        if name.startswith("machine-")
    ]


def _text(path: Path) -> NDArray[np.float32]:
    try:
        return np.loadtxt(path, dtype=np.float32, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InputError(f"{path} must contain comma-separated numbers: {error}") from error


SMD = Dataset(
    name="SMD",
    about="metrics of 28 servers of an internet company",
    size=Size(708405, 708420, 38, 4.16),
    entities=28,
    licence="MIT",
    home="https://github.com/NetManAIOps/OmniAnomaly",
    folders=("ServerMachineDataset", "OmniAnomaly/ServerMachineDataset"),
    layouts=(
        npz_folder("machine-*.npz", named=True),
        Layout("train/, test/ and test_label/machine-*.txt", read_machines, named=True),
        triples(r"machine-\d+-\d+"),
        npz_file("SMD.npz", "SMD"),
        triples("SMD", name="SMD"),
    ),
    recipe=Recipe(
        "SMD",
        (
            Source.github(
                "NetManAIOps/OmniAnomaly",
                "7fb0e0acf89ea49908896bcc9f9e80fcfff6baf4",
                r"[^/]+/ServerMachineDataset/((?:train|test|test_label)/machine-[^/]+\.txt)",
            ),
        ),
    ),
    sample=("machine-1-6", "machine-2-1", "machine-1-7", "machine-2-2"),
)
ASD = Dataset(
    name="ASD",
    about="metrics of 12 application servers",
    size=Size(102331, 51840, 19, 4.6),
    entities=12,
    licence="MIT",
    home="https://github.com/zhhlee/InterFusion",
    note="Native files are pickles; they are opened by a reader that builds arrays and refuses anything else.",
    folders=("InterFusion/data/processed",),
    layouts=(
        npz_folder("omi-*.npz", named=True),
        triples(r"omi-\d+"),
        npz_file("ASD.npz", "ASD"),
        triples("ASD", name="ASD"),
    ),
    recipe=Recipe(
        "ASD",
        (
            Source.github(
                "zhhlee/InterFusion",
                "8c85d511c1f070669ba8c5cf097b8fa4a202d15b",
                r"[^/]+/data/processed/(omi-[^/]+\.pkl)",
            ),
        ),
    ),
    sample=("omi-1", "omi-2", "omi-3", "omi-4", "omi-5", "omi-6"),
)

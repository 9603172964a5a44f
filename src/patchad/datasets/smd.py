"""SMD and ASD: metrics of servers, one entity per server.

SMD's native layout is that of OmniAnomaly, ``train``, ``test`` and ``test_label`` with a text file per machine; that
of ASD is InterFusion's, three pickled arrays per server.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.entity import Entity, as_labels
from patchad.datasets.layouts import Layout, npz_file, npz_folder, read_parts, triples
from patchad.errors import InputError


def read_machines(folder: Path) -> list[Entity]:
    """Read the text files of the machines, values separated by commas, one row per minute."""
    labels = next((name for name in ("test_label", "labels") if (folder / name).is_dir()), None)
    if labels is None:
        return []
    return [
        Entity(name, _text(train), _text(test), as_labels(_text(label)[:, 0], str(label)))
        for name, (train, test, label) in read_parts(folder, ("train", "test", labels), ".txt")
        if name.startswith("machine-")
    ]


def _text(path: Path) -> NDArray[np.float32]:
    try:
        return np.loadtxt(path, dtype=np.float32, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InputError(f"{path} must hold numbers separated by commas: {error}") from error


SMD_LAYOUTS = (
    npz_folder("machine-*.npz", named=True),
    Layout("train/, test/ and test_label/machine-*.txt", read_machines, named=True),
    triples(r"machine-\d+-\d+"),
    npz_file("SMD.npz", "SMD"),
    triples("SMD", name="SMD"),
)
ASD_LAYOUTS = (
    npz_folder("omi-*.npz", named=True),
    triples(r"omi-\d+"),
    npz_file("ASD.npz", "ASD"),
    triples("ASD", name="ASD"),
)

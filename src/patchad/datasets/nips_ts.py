"""SWAN and GECCO: solar flares and drinking water, as benchmarked under the name NIPS-TS, one entity each.

Native are the single files that TODS prepares, a row per point, of which the first half is train and the rest test, and
what TODS prepares them from: the solar-flare slices ``petdataset_01/*.csv`` and the water-quality csv of the challenge.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, triples
from patchad.datasets.sheets import fill_forward, read_csv
from patchad.errors import InputError

_WATER = ("1_gecco2018_water_quality.csv", "gecco.csv", "water_quality.csv")
_SLICE_LABEL = re.compile(r"lab\[(\w+)", re.IGNORECASE)
_QUIET = frozenset({"NF", "FQ"})  # no flare; later releases say flare-quiet
_SLICE_EXTRAS = re.compile(r"timestamp|.*label.*|.*loc.*", re.IGNORECASE)


def read_water(folder: Path) -> list[Entity]:
    """Read the water-quality csv: rows with a missing value are dropped, ``EVENT`` or ``label`` is the label."""
    path = next((folder / file for file in _WATER if (folder / file).is_file()), None)
    if path is None:
        return []
    frame = read_csv(path).dropna()
    return [_halves("GECCO", frame.drop(columns=[name for name in frame.columns if _is_extra(name)]), path)]


def read_swan_table(folder: Path) -> list[Entity]:
    """Read ``swan_sf.csv`` as TODS writes it, with the label in a column of that name."""
    path = folder / "swan_sf.csv"
    return [_halves("SWAN", read_csv(path), path)] if path.is_file() else []


def read_swan_slices(folder: Path) -> list[Entity]:
    """Read the slices of the solar-flare dataset, sorted by time and then by file name.

    A slice whose name holds ``lab[NF]`` or ``lab[FQ]`` is normal, any other flare class is anomalous. TODS orders rows
    of the same time by its directory listing, which is not recorded, so that rows can stand in another order there.
    """
    frames = []
    for path in sorted((folder / "petdataset_01").glob("*.csv")):
        label = _SLICE_LABEL.search(path.name)
        if label is None:
            raise InputError(f"{path} has no class in its name; lab[NF] or lab[M], say, is needed")
        frames.append(read_csv(path, sep="\t").assign(label=int(label[1].upper() not in _QUIET)))
    if not frames:
        return []
    import pandas as pd

    table = pd.concat(frames, ignore_index=True).sort_values("Timestamp", kind="stable", ignore_index=True)
    extras = [name for name in table.columns if name != "label" and _SLICE_EXTRAS.fullmatch(name)]
    table = table.drop(columns=extras).ffill().dropna(axis="columns")
    return [_halves("SWAN", table, folder / "petdataset_01")]


def _is_extra(name: object) -> bool:
    return str(name).strip() in {"", "Time"} or str(name).startswith("Unnamed")


def _halves(name: str, frame: Any, path: Path) -> Entity:
    label = next((column for column in ("EVENT", "label") if column in frame.columns), None)
    if label is None:
        raise InputError(f"{path} has no column EVENT or label; it has {[str(c) for c in frame.columns][:12]}")
    half = len(frame) // 2
    try:
        values = fill_forward(frame.drop(columns=label).to_numpy(dtype=np.float32))
        labels = frame[label].to_numpy(dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} must hold numbers only: {error}") from error
    return Entity(name, values[:half], values[half:], labels[half:])


GECCO_LAYOUTS = (
    npz_file("GECCO.npz", "GECCO"),
    Layout(" or ".join(_WATER), read_water, named=True),
    triples("NIPS_TS_Water", "NIPS_TS_GECCO", "NIPS-TS-GECCO", "GECCO", name="GECCO"),
)
GECCO_CHALLENGE_LAYOUTS = (
    npz_file("GECCO_challenge_split.npz", "GECCO-challenge"),
    triples("GECCO_challenge", name="GECCO-challenge"),
)
SWAN_LAYOUTS = (
    npz_file("SWAN.npz", "SWAN"),
    triples("NIPS_TS_Swan", "NIPS-TS-SWAN", "SWAN", name="SWAN"),
    Layout("swan_sf.csv", read_swan_table, named=True),
    Layout("petdataset_01/*.csv", read_swan_slices, named=True),
)

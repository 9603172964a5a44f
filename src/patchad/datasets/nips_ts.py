"""SWAN and GECCO: solar flares and drinking water, benchmarked under the name NIPS-TS, one entity each.

Native layouts are the single files that TODS prepares, whose first half is train and the rest test, and their sources:
the solar-flare slices ``petdataset_01/*.csv`` and the water-quality csv of the challenge.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, triples
from patchad.datasets.sheets import fill_forward, read_csv
from patchad.errors import InputError

_WATER = ("1_gecco2018_water_quality.csv", "gecco.csv", "water_quality.csv")
_SLICE_LABEL = re.compile(r"lab\[(\w+)", re.IGNORECASE)
_QUIET = frozenset({"NF", "FQ"})  # no flare; flare-quiet in later releases
_SLICE_EXTRAS = re.compile(r"timestamp|.*label.*|.*loc.*", re.IGNORECASE)


def read_water(folder: Path) -> list[Entity]:
    """Read the water-quality csv: rows with a missing value are dropped, ``EVENT`` or ``label`` is the label."""
    path = next((folder / file for file in _WATER if (folder / file).is_file()), None)
    if path is None:
        return []
    frame = read_csv(path).dropna()
    return [_halves("GECCO", frame.drop(columns=[name for name in frame.columns if _is_extra(name)]), path)]


def read_swan_csv(folder: Path) -> list[Entity]:
    """Read ``swan_sf.csv`` as TODS writes it, with a column ``label``."""
    path = folder / "swan_sf.csv"
    return [_halves("SWAN", read_csv(path), path)] if path.is_file() else []


def read_swan_slices(folder: Path) -> list[Entity]:
    """Read the slices of the solar-flare dataset, sorted by time and then by file name.

    A slice with ``lab[NF]`` or ``lab[FQ]`` in its name is normal, any other flare class is anomalous. TODS orders rows
    with equal times by a directory listing, which is not published, so its order may differ.
    """
    frames = []
    for path in sorted((folder / "petdataset_01").glob("*.csv")):
        label = _SLICE_LABEL.search(path.name)
        if label is None:
            raise InputError(f"{path} has no class in its name; one like lab[NF] or lab[M] is needed")
        frames.append(read_csv(path, sep="\t").assign(label=int(label[1].upper() not in _QUIET)))
    if not frames:
        return []
    import pandas as pd

    rows = pd.concat(frames, ignore_index=True).sort_values("Timestamp", kind="stable", ignore_index=True)
    extras = [name for name in rows.columns if name != "label" and _SLICE_EXTRAS.fullmatch(name)]
    rows = rows.drop(columns=extras).ffill().dropna(axis="columns")
    return [_halves("SWAN", rows, folder / "petdataset_01")]


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
        raise InputError(f"{path} must contain only numbers: {error}") from error
    return Entity(name, values[:half], values[half:], labels[half:])


SWAN = Dataset(
    name="SWAN",
    about="magnetic-field parameters of solar regions, before flares and in quiet times (NIPS-TS-SWAN)",
    size=Size(60000, 60000, 38, 32.6),
    paper=Size(60000, 60000, 38, 32.6),
    licence="none stated with the file; SWAN-SF is published as open data",
    home="https://doi.org/10.7910/DVN/EBCFKM",
    note="2,000 slices of 60 rows, sorted by time; the first half is train.",
    folders=("NIPS_TS_Swan", "NIPS_TS_SWAN", "swan_sf"),
    layouts=(
        npz_file("SWAN.npz", "SWAN"),
        triples("NIPS_TS_Swan", "NIPS-TS-SWAN", "SWAN", name="SWAN"),
        Layout("swan_sf.csv", read_swan_csv, named=True),
        Layout("petdataset_01/*.csv", read_swan_slices, named=True),
    ),
    recipe=Recipe(
        "SWAN",
        (
            Source(
                "petdataset_01.zip",
                "https://bitbucket.org/gsudmlab/mvtsdata_toolkit/downloads/petdataset_01.zip",
                r"(?:.*/)?(petdataset_01/[^/]+\.csv)",
            ),
        ),
    ),
    sample=("SWAN",),
)
_GECCO_HOME = "https://zenodo.org/records/3884398"
GECCO = Dataset(
    name="GECCO",
    about="drinking-water quality at a treatment works, the 2018 challenge's train set in halves (NIPS-TS-GECCO)",
    size=Size(69260, 69261, 9, 1.05),
    paper=Size(69260, 69261, 9, 1.1),
    licence="CC BY 4.0",
    home=_GECCO_HOME,
    note="Rows with a missing value are dropped. The train half contains 1.44 % event rows, unlabelled.",
    aliases=("NIPS-TS-Water",),
    folders=("NIPS_TS_GECCO", "NIPS_TS_Water"),
    layouts=(
        npz_file("GECCO.npz", "GECCO"),
        Layout(" or ".join(_WATER), read_water, named=True),
        triples("NIPS_TS_Water", "NIPS_TS_GECCO", "NIPS-TS-GECCO", "GECCO", name="GECCO"),
    ),
    recipe=Recipe("GECCO", (Source(_WATER[0], f"{_GECCO_HOME}/files/{_WATER[0]}?download=1"),)),
    sample=("GECCO",),
)
GECCO_CHALLENGE = Dataset(
    name="GECCO-challenge",
    about="drinking-water quality, with the 2018 challenge's own train and test sets",
    size=Size(138521, 115086, 9, 2.02),
    licence="CC BY 4.0",
    home=_GECCO_HOME,
    note="Public copies are in R's own format; save their arrays in one of these layouts.",
    folders=("GECCO",),
    layouts=(
        npz_file("GECCO_challenge_split.npz", "GECCO-challenge"),
        triples("GECCO_challenge", name="GECCO-challenge"),
    ),
    manual=f"see {_GECCO_HOME}, and save the arrays of the challenge's sets as GECCO/GECCO_challenge_split.npz",
)

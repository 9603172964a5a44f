"""SWaT and WADI: a water treatment and a water distribution testbed of iTrust, one entity each.

Native files are csv or xlsx, one of normal operation and one with attacks. The published files contain rows above the
header, spaces around names, paths as names, empty columns and the misspelt label ``A ttack``; all are handled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.dataset import Dataset, Size
from patchad.datasets.entity import Entity, as_labels
from patchad.datasets.layouts import Layout, npz_file, triples
from patchad.datasets.sheets import Sheet, aligned, read_sheet
from patchad.errors import InputError

# File of normal operation, file with attacks; preferred pairs first. v1 is v0 without its first 30 minutes.
_SWAT = (
    (r"swat_dataset_normal_v1\.(csv|xlsx)", r"swat_dataset_attack_v\d\.(csv|xlsx)"),
    (r"swat_dataset_normal_v0\.(csv|xlsx)", r"swat_dataset_attack_v\d\.(csv|xlsx)"),
    (r"swat_train2?\.csv", r"swat2\.csv|swat_test2?\.csv"),
)
_SWAT_UNNAMED = ((r"normal\.(csv|xlsx)", r"attack\.(csv|xlsx)"),)
_WADI = (
    (r"wadi_14days\.(csv|xlsx)", r"wadi_attackdata\.(csv|xlsx)"),
    (r"wadi_14days_new\.(csv|xlsx)", r"wadi_attackdatalab(le|el)\.(csv|xlsx)"),
    (r"wadi_14days\.(csv|xlsx)", r"wadi_attackdata.*\.(csv|xlsx)"),
)

# The 2017 release has no label column. These are the attacks of its documentation, as first and last second after
# 2017-10-09 18:00:00, the time of the first row; there is one row per second.
_WADI_2017_ATTACKS = (
    (5100, 6616),
    (59050, 59640),
    (60900, 62640),
    (63040, 63890),
    (70770, 71440),
    (74897, 75595),
    (85200, 85780),
    (147300, 147387),
    (148674, 149480),
    (149791, 150420),
    (151140, 151500),
    (151650, 151852),
    (152160, 152736),
    (163590, 164220),
)


def read_swat(folder: Path, *, pairs: Iterable[tuple[str, str]] = _SWAT) -> list[Entity]:
    """Read the first pair of SWaT files found in the folder or its subfolders."""
    pair = _find(folder, pairs)
    if pair is None:
        return []
    train, test = (read_sheet(path) for path in pair)
    if test.labels is None:
        raise InputError(f"{pair[1]} has no label column; a column named Normal/Attack is needed")
    return [Entity("SWaT", *aligned(train, test, folder), _swat_labels(test.labels, pair[1]))]


def read_wadi(folder: Path) -> list[Entity]:
    """Read the first pair of WADI files found, of the 2017 release (A1) or the 2019 release (A2)."""
    pair = _find(folder, _WADI)
    if pair is None:
        return []
    train, test = (read_sheet(path) for path in pair)
    return [Entity("WADI", *aligned(train, test, folder), _wadi_labels(test, pair[1]))]


def _find(folder: Path, pairs: Iterable[tuple[str, str]]) -> tuple[Path, Path] | None:
    files = [path for depth in ("*", "*/*", "*/*/*") for path in sorted(folder.glob(depth)) if path.is_file()]
    for normal, attack in pairs:
        found = [
            next((path for path in files if re.fullmatch(pattern, path.name, re.IGNORECASE)), None)
            for pattern in (normal, attack)
        ]
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    return None


def _swat_labels(words: tuple[str, ...], path: Path) -> NDArray[np.bool_]:
    meaning = {"normal": False, "attack": True, "0": False, "0.0": False, "1": True, "1.0": True}
    cleaned = ["".join(word.split()).lower() for word in words]
    unknown = sorted(set(cleaned) - set(meaning))
    if unknown:
        raise InputError(f"{path} has the labels {unknown[:5]}; Normal and Attack are expected")
    return np.array([meaning[word] for word in cleaned], dtype=np.bool_)


def _wadi_labels(test: Sheet, path: Path) -> NDArray[np.bool_]:
    if test.labels is None:
        labels = np.zeros(len(test.values), dtype=np.bool_)
        for first, last in _WADI_2017_ATTACKS:
            labels[first : last + 1] = True
        return labels
    try:
        marks = np.array([float(word) for word in test.labels])
    except ValueError as error:
        raise InputError(f"{path} has a label that is not a number: {error}; 1 and -1 are expected") from error
    if np.isin(marks, (1, -1)).all():
        return as_labels(marks == -1, str(path))  # in the release 1 means no attack and -1 attack
    if np.isin(marks, (0, 1)).all():
        return as_labels(marks == 1, str(path))
    raise InputError(f"{path} has the labels {np.unique(marks)[:5].tolist()}; 1 and -1, or 0 and 1, are expected")


_LICENCE = "iTrust, on request"
_HOME = "https://itrust.sutd.edu.sg/itrust-labs_datasets/"
_MANUAL = f"request access at {_HOME} and unpack the files into a folder "

SWAT = Dataset(
    name="SWaT",
    about="a water treatment testbed, eleven days, the last four under attack",
    size=Size(495000, 449919, 51, 12.14),
    paper=Size(99000, 89984, 26, 12.2),
    licence=_LICENCE,
    home=_HOME,
    note=(
        "`every=5` gives the paper's rows. The paper does not name its 26 channels, so all 51 are used. Sizes are "
        "those of SWaT_Dataset_Normal_v1 and SWaT_Dataset_Attack_v0."
    ),
    layouts=(
        Layout("SWaT_Dataset_Normal_v1 and SWaT_Dataset_Attack_v0 (csv or xlsx)", read_swat, named=True),
        Layout("normal.csv and attack.csv", partial(read_swat, pairs=_SWAT_UNNAMED)),
        npz_file("SWaT.npz", "SWaT"),
        triples("SWaT", name="SWaT"),
    ),
    manual=_MANUAL + "SWaT",
    sample=("SWaT",),
)
WADI = Dataset(
    name="WADI",
    about="a water distribution testbed, sixteen days, the last two under attack",
    size=Size(1209601, 172801, 123, 5.76),
    paper=Size(241921, 34561, 123, 5.74),
    licence=_LICENCE,
    home=_HOME,
    note=(
        "`every=5` gives the paper's rows. Sizes are those of the 2017 release (A1), which has no label column: "
        "the attack times come from its documentation. The 2019 release (A2) is read too. Four of the 127 channels "
        "have no values and are dropped."
    ),
    layouts=(
        Layout(
            "WADI_14days and WADI_attackdata, or WADI_14days_new and WADI_attackdataLABLE (csv or xlsx)",
            read_wadi,
            named=True,
        ),
        npz_file("WADI.npz", "WADI"),
        triples("WADI", name="WADI"),
    ),
    manual=_MANUAL + "WADI",
    sample=("WADI",),
)

"""NAB: the real series of the Numenta anomaly benchmark, one entity of one channel per series.

The native layout is ``data/real*/*.csv`` with ``labels/combined_windows.json``. Artificial series are omitted.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from patchad.datasets.dataset import Dataset, Recipe, Size, Source
from patchad.datasets.entity import Entity
from patchad.datasets.layouts import Layout, npz_file, npz_folder, triples
from patchad.datasets.sheets import read_csv
from patchad.errors import InputError


def train_rows(length: int) -> int:
    """Return the length of NAB's probationary period: 15 % of the series, at most 750 rows.

    Examples
    --------
    >>> train_rows(4032), train_rows(10320)
    (604, 750)
    """
    return min(int(0.15 * length), 750)


def read_repository(folder: Path) -> list[Entity]:
    """Read the series; rows inside an anomaly window are anomalous, both ends included."""
    label_file = folder / "labels" / "combined_windows.json"
    if not label_file.is_file():
        return []
    windows = json.loads(label_file.read_text(encoding="utf-8"))
    entities = []
    for path in (folder / "data").glob("real*/*.csv"):
        key = f"{path.parent.name}/{path.name}"
        if key in windows:
            entities.append(_read(path, windows[key]))
    return entities


def _read(path: Path, windows: list[list[str]]) -> Entity:
    import pandas as pd

    frame = read_csv(path)
    if list(frame.columns) != ["timestamp", "value"]:
        raise InputError(f"{path} needs the columns timestamp and value, it has {list(frame.columns)}")
    times = pd.to_datetime(frame["timestamp"]).to_numpy()
    labels = np.zeros(len(frame), dtype=np.bool_)
    for first, last in windows:
        labels |= (times >= np.datetime64(first)) & (times <= np.datetime64(last))
    values = frame[["value"]].to_numpy(dtype=np.float32)
    cut = train_rows(len(frame))
    return Entity(f"{path.parent.name}__{path.stem}", values[:cut], values[cut:], labels[cut:])


NAB = Dataset(
    name="NAB",
    about="47 real series of the Numenta anomaly benchmark",
    size=Size(26072, 295134, 1, 10.53),
    entities=47,
    licence="MIT",
    home="https://github.com/numenta/NAB",
    note="The first 15 % of each series, at most 750 rows, are train; the 11 artificial series are omitted.",
    layouts=(
        npz_folder("real*__*.npz", named=True),
        Layout("data/real*/*.csv with labels/combined_windows.json", read_repository, named=True),
        npz_file("NAB.npz", "NAB"),
        triples("NAB", name="NAB"),
    ),
    recipe=Recipe(
        "NAB",
        (
            Source.github(
                "numenta/NAB",
                "ea702d75cc2258d9d7dd35ca8e5e2539d71f3140",
                r"[^/]+/(data/real[^/]+/[^/]+\.csv|labels/combined_windows\.json)",
            ),
        ),
    ),
    sample=(
        "realKnownCause__nyc_taxi",
        "realAWSCloudwatch__ec2_cpu_utilization_24ae8d",
        "realTraffic__TravelTime_387",
        "realTweets__Twitter_volume_AAPL",
        "realAdExchange__exchange-2_cpc_results",
        "realKnownCause__machine_temperature_system_failure",
    ),
)

"""The real datasets, where present: in PATCHAD_DATA or ../shared/data."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from patchad.datasets import check, load

DATA = Path(os.environ.get("PATCHAD_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data"))

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no data in {DATA}; set PATCHAD_DATA to the folder that holds it"),
]


def test_complete_datasets_are_as_published() -> None:
    findings = {finding.name: finding for finding in check(DATA)}
    for name in ("MSL", "SMAP", "GECCO", "GECCO-challenge", "SKAB", "NAB", "Exathlon", "IOPS"):
        assert findings[name].state == "as published", findings[name]
    for name in ("UCR", "SMD", "ASD"):
        assert findings[name].differences[0].what == "entities"
    for name in ("PSM", "SWaT", "WADI", "SWAN"):
        assert findings[name].state in {"missing", "as published"}


@pytest.mark.parametrize("name", ["MSL", "SMAP"])
def test_joined_channels_equal_the_series_of_the_literature(name: str) -> None:
    (whole,) = load(name, DATA, joined=True)
    with np.load(DATA / name / f"{name}.npz") as published:
        np.testing.assert_array_equal(whole.train, published["train"])
        np.testing.assert_array_equal(whole.test, published["test"])
        np.testing.assert_array_equal(whole.labels, published["test_label"])


@pytest.mark.parametrize("name", ["MSL", "GECCO", "UCR", "SMD", "ASD", "SKAB", "NAB"])
def test_loading_from_the_dataset_folder_gives_the_same(name: str) -> None:
    above, own = load(name, DATA), load(name, DATA / name)
    assert [entity.name for entity in above] == [entity.name for entity in own]


def test_every_ucr_series_has_one_anomaly_except_203() -> None:
    for entity in load("UCR", DATA):
        edges = np.count_nonzero(np.diff(np.r_[0, entity.labels.astype(int), 0]) == 1)
        assert edges == (0 if entity.name.startswith("203_") else 1), entity.name


def test_ucr_text_written_from_real_rows_reads_the_same(tmp_path: Path) -> None:
    for known in load("UCR", DATA)[:4]:
        values = np.concatenate([known.train, known.test]).ravel()
        (tmp_path / f"{known.name}.txt").write_text("\n".join(f"{value:.9e}" for value in values))
    for known, read in zip(load("UCR", DATA), load("UCR", tmp_path), strict=False):
        np.testing.assert_array_equal(known.test, read.test)
        np.testing.assert_array_equal(known.labels, read.labels)


def test_telemanom_written_from_real_rows_reads_the_same(tmp_path: Path) -> None:
    lines = ["chan_id,spacecraft,anomaly_sequences,class,num_values"]
    known = load("MSL", DATA)
    for entity in known:
        edges = np.flatnonzero(np.diff(np.r_[0, entity.labels.astype(int), 0]))
        pairs = [[int(start), int(stop) - 1] for start, stop in edges.reshape(-1, 2)]
        lines.append(f'{entity.name},MSL,"{pairs}",[point],{len(entity.test)}')
        for split in ("train", "test"):
            (tmp_path / split).mkdir(exist_ok=True)
            np.save(tmp_path / split / f"{entity.name}.npy", getattr(entity, split).astype(np.float64))
    (tmp_path / "labeled_anomalies.csv").write_text("\n".join(lines))
    for before, after in zip(known, load("MSL", tmp_path), strict=True):
        assert before.name == after.name
        np.testing.assert_array_equal(before.train, after.train)
        np.testing.assert_array_equal(before.labels, after.labels)


def test_nab_windows_on_real_rows_give_the_same_labels(tmp_path: Path) -> None:
    known = next(entity for entity in load("NAB", DATA) if entity.name == "realKnownCause__nyc_taxi")
    values = np.concatenate([known.train, known.test]).ravel()
    start = datetime(2014, 7, 1)  # one row every half hour
    lines = [f"{start + i * timedelta(minutes=30)},{value:.0f}" for i, value in enumerate(values)]
    windows = [
        ["2014-10-30 15:30:00.000000", "2014-11-03 22:30:00.000000"],
        ["2014-11-25 12:00:00.000000", "2014-11-29 19:00:00.000000"],
        ["2014-12-23 11:30:00.000000", "2014-12-27 18:30:00.000000"],
        ["2014-12-29 21:30:00.000000", "2015-01-03 04:30:00.000000"],
        ["2015-01-24 20:30:00.000000", "2015-01-29 03:30:00.000000"],
    ]
    folder = tmp_path / "NAB" / "data" / "realKnownCause"
    folder.mkdir(parents=True)
    (folder / "nyc_taxi.csv").write_text("\n".join(["timestamp,value", *lines]))
    (tmp_path / "NAB" / "labels").mkdir()
    label_file = tmp_path / "NAB" / "labels" / "combined_windows.json"
    label_file.write_text(json.dumps({"realKnownCause/nyc_taxi.csv": windows}))
    (read,) = load("NAB", tmp_path)
    np.testing.assert_array_equal(known.train, read.train)
    np.testing.assert_array_equal(known.labels, read.labels)

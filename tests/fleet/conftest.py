"""A small fleet of machines on disk."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, waves

from patchad.cli.main import run

MACHINES = 5


def machine(number: int, rows: int = 300) -> pd.DataFrame:
    """Give the rows of a machine; those with odd numbers have a fault."""
    values = waves(rows, seed=number + 1)
    if number % 2:
        values[150:180, 1] += 6.0
    frame = pd.DataFrame(values.round(4), columns=WATCHED)
    frame.insert(0, "time", pd.date_range("2026-01-01", periods=rows, freq="min"))
    return frame


@pytest.fixture
def folder(tmp_path):
    """A folder with one csv file for each machine."""
    path = tmp_path / "data"
    path.mkdir()
    for number in range(MACHINES):
        machine(number).to_csv(path / f"m{number}.csv", index=False)
    return path


class Fleet:
    """Runs `patchad fleet detect` and reads what it wrote."""

    def __init__(self, model, out) -> None:
        self.model, self.out = model, out

    def detect(self, *arguments: object, workers: int = 1) -> int:
        texts = [str(one) for one in arguments]
        return run(["fleet", "detect", str(self.model), *texts, "-o", str(self.out), "--workers", str(workers)])

    @property
    def manifest(self) -> pd.DataFrame:
        return pd.read_csv(self.out / "manifest.csv", dtype={"series": str, "error": str}, keep_default_na=False)

    @property
    def events(self) -> list[dict]:
        return json.loads((self.out / "events.json").read_text())

    def scores(self, series: str) -> pd.DataFrame:
        return pd.read_parquet(self.out / "scores" / f"{series}.parquet")

    def written(self) -> dict[str, int]:
        """Give when each file of scores was written."""
        return {path.name: path.stat().st_mtime_ns for path in (self.out / "scores").glob("*.parquet")}


@pytest.fixture
def fleet(watched_file, tmp_path):
    return Fleet(watched_file, tmp_path / "out")


def assert_equals_detection(fleet: Fleet, series: str, found) -> None:
    """Compare what a fleet wrote of a series with what `detect` found in it."""
    scores = fleet.scores(series)
    assert list(scores) == ["series", "row", "time", "score", "level", "alarm"]
    assert (scores["series"] == series).all()
    assert scores["row"].tolist() == list(range(len(found.scores)))
    np.testing.assert_array_equal(scores["score"], found.scores)
    np.testing.assert_array_equal(scores["level"], found.levels)
    np.testing.assert_array_equal(scores["alarm"], found.alarms)
    events = [{"series": series} | event.to_dict() for event in found.events]
    assert [event for event in fleet.events if event["series"] == series] == json.loads(json.dumps(events))

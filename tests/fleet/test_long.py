"""A series in shards is judged as in one pass: scores, levels, alarms, events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, small, waves
from tests.fleet.conftest import Fleet

from patchad import load, make
from patchad.data.readers import arrow
from patchad.detectors.shards import Cutter, score_shard
from patchad.fleet import detecting, long

ROWS = 1500


@pytest.fixture
def short_shards(monkeypatch):
    """Let series of 1,000 rows be very long ones."""
    monkeypatch.setattr(detecting.Job, "__init__", _with_long_rows(detecting.Job.__init__))
    monkeypatch.setattr(long, "shard_rows_of", lambda _: 170)
    monkeypatch.setattr(arrow, "PIECE_VALUES", 230 * 5)


def _with_long_rows(init):
    def changed(self, **given):
        init(self, **(given | {"long_rows": 1000}))

    return changed


def series(*, gap: bool = True, zone: str | None = None) -> pd.DataFrame:
    """Give rows with faults, gaps in time, and values that are missing."""
    rows = waves(ROWS, seed=9)
    rows[400:430, 1] += 5.0
    rows[1010:1100, 2] = rows[1010, 2]
    rows[700:706, 0] = np.nan
    rows[900:930] = np.nan
    times = pd.date_range("2026-01-01", periods=ROWS, freq="min", tz=zone).to_series().reset_index(drop=True)
    if gap:
        times[600:] += pd.Timedelta("1h")
    frame = pd.DataFrame(rows.round(4), columns=WATCHED)
    frame.insert(0, "time", times)
    return frame.assign(site="north")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Detectors of every kind of context, in files."""
    folder = tmp_path_factory.mktemp("models")
    train = pd.DataFrame(waves(600), columns=WATCHED)
    made = {
        "fused": small(window=12, patch_sizes=(3,), hop=5, adapt=60, smoothing=3),
        "newest": small(window=12, patch_sizes=(3,), hop=5, fold="newest", missing="drop"),
        "rows": make("moving_zscore"),
        "windows": make("sub_pca", window=20),
        "unbounded": make("bocpd", longest=20),
        "adaptive": make("moving_zscore", threshold="spot"),
        "whole": make("moving_zscore", threshold="ratio:1"),
    }
    judged = {"accepted": make("moving_zscore")}
    for name, detector in (made | judged).items():
        detector.fit(train)
        if name in judged:
            detector.accept(series()[WATCHED].iloc[350:500], start=50, stop=80)
        detector.save(folder / f"{name}.safetensors")
    return folder


@pytest.mark.parametrize("name", ["fused", "newest", "rows", "windows", "unbounded", "adaptive", "whole", "accepted"])
def test_shards_give_what_one_pass_gives(models, short_shards, tmp_path, name):
    frame = series(zone="Europe/Berlin" if name == "rows" else None)
    frame.to_parquet(tmp_path / "long.parquet", index=False)
    fleet = Fleet(models / f"{name}.safetensors", tmp_path / "out")
    assert fleet.detect(tmp_path / "long.parquet") == 0
    wanted = load(fleet.model).detect(frame)
    scores = fleet.scores("long")
    np.testing.assert_allclose(scores["score"], wanted.scores, rtol=1e-6)
    np.testing.assert_allclose(scores["level"], wanted.levels, rtol=1e-6)
    np.testing.assert_array_equal(scores["alarm"], wanted.alarms)
    assert (scores["time"] == frame["time"]).all()
    assert scores["row"].tolist() == list(range(ROWS))
    assert len(wanted.events) > 0
    for found, event in zip(fleet.events, wanted.events, strict=True):
        wished = event.to_dict()
        for key in ("id", "kind", "start", "stop", "peak", "start_time", "stop_time", "repeats"):
            assert found[key] == wished[key], key
        assert [channel for channel, _ in found["channels"]] == [channel for channel, _ in wished["channels"]]
        assert found["severity"] == pytest.approx(wished["severity"])
    assert [path.name for path in (fleet.out / "scores").iterdir()] == ["long.parquet"]
    before = fleet.written()
    assert fleet.detect(tmp_path / "long.parquet") == 0
    assert fleet.written() == before


def test_files_that_follow_each_other_are_one_long_series(models, short_shards, tmp_path):
    frame = series(gap=False)
    frame.iloc[:700].to_parquet(tmp_path / "a.parquet", index=False)
    frame.iloc[700:].to_parquet(tmp_path / "b.parquet", index=False)
    fleet = Fleet(models / "rows.safetensors", tmp_path / "out")
    assert fleet.detect(tmp_path / "a.parquet", tmp_path / "b.parquet") == 0
    np.testing.assert_array_equal(fleet.scores("a")["score"], load(fleet.model).detect(frame).scores)


def test_what_cannot_be_judged_in_shards_is_judged_as_a_whole_or_refused(models, short_shards, tmp_path, capsys):
    fleet = Fleet(models / "rows.safetensors", tmp_path / "out")
    series().drop(columns="heat").to_parquet(tmp_path / "a.parquet", index=False)
    assert fleet.detect(tmp_path / "a.parquet") == 0
    assert "missing" in {event["kind"] for event in fleet.events}
    fleet.out = tmp_path / "week"
    assert fleet.detect(tmp_path / "a.parquet", "--false-alarms", "2/week") == 0
    backward = series()
    backward.loc[1300, "time"] = backward.loc[5, "time"]
    backward.to_parquet(tmp_path / "b.parquet", index=False)
    fleet.out = tmp_path / "none"
    assert fleet.detect(tmp_path / "b.parquet", "--false-alarms", "2") == 2
    assert "b: time goes back at row 1300" in capsys.readouterr().err
    assert not list(fleet.out.rglob("*.*"))


@pytest.mark.parametrize("rows", [1, 5, 37, 400])
@pytest.mark.parametrize("name", ["fused", "newest"])
def test_every_cut_gives_the_same_scores(models, name, rows):
    detector = load(models / f"{name}.safetensors")
    values = waves(333, seed=4).astype(np.float32)
    cutter = Cutter(detector, rows)
    shards = [shard for part in np.array_split(values, 7) for shard in cutter.push(part)] + cutter.flush()
    found = np.concatenate([score_shard(detector, shard).scores for shard in shards])
    np.testing.assert_allclose(
        found, detector.decision_function(pd.DataFrame(values, columns=WATCHED)), rtol=1e-6, atol=2e-6
    )


def test_shards_have_fewer_rows_where_there_are_many_channels_but_more_than_they_take_along():
    detector = make("moving_zscore")
    detector.channels_ = ("a",) * 10
    assert long.shard_rows_of(detector) == 100_000
    detector.channels_ = ("a",) * 100
    assert long.shard_rows_of(detector) == 20_000
    detector.channels_ = ("a",) * 100_000
    assert long.shard_rows_of(detector) == 4 * detector.context

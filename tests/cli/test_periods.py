"""Maintenance and known incidents on the command line."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from tests.cli.test_main import QUICK, frame

from patchad import load
from patchad.cli.main import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data and a model that knows what its operator knows."""
    path = tmp_path_factory.mktemp("plant")
    train = frame().assign(remark="all is well")
    train.loc[400:420, "flow"] += 50
    train.to_csv(path / "train.csv", index=False)
    odd = frame(300, seed=1)
    odd.loc[150:156, "flow"] += 4
    odd.to_csv(path / "odd.csv", index=False)
    (path / "incidents.csv").write_text("from,to,reason\n2024-01-01 06:35,2024-01-01 07:05,pump broken\n")
    arguments = ["-o", str(path / "model.safetensors"), "--exclude-periods", str(path / "incidents.csv")]
    known = ["--set", 'direction={"flow": "up"}', "--set", "ignore=remark", "--set", "min_change=0.5"]
    assert run(["fit", str(path / "train.csv"), *arguments, *known, *QUICK]) == 0
    return path


def events(folder, capsys, *arguments: str) -> list[dict]:
    written = folder / "events.json"
    call = ["detect", str(folder / "model.safetensors"), str(folder / "odd.csv"), "--events", str(written)]
    assert run([*call, *arguments]) == 0
    return json.loads(written.read_text())


def test_a_model_is_fitted_without_incidents_and_knows_the_rest(folder):
    detector = load(folder / "model.safetensors")
    assert detector.channels_ == ("pump", "flow", "heat")
    assert detector.alarm_rules_.sensors.high[1] < 10, "the incident is no part of train"
    known = {"direction": {"flow": "up"}, "ignore": ("remark",), "min_change": 0.5}
    assert {name: detector.get_params()[name] for name in known} == known


def test_maintenance_raises_no_events(folder, capsys):
    assert [event["channels"][0][0] for event in events(folder, capsys)] == ["flow"]
    periods = folder / "maintenance.csv"
    periods.write_text("from,to\n2024-01-01 02:00,2024-01-01 03:00\n2023-05-01,2023-05-02\n")
    assert events(folder, capsys, "--quiet", str(periods)) == []
    said = capsys.readouterr().err
    assert f"note: {periods}, line 3 (2023-05-01 to 2023-05-02) covers no row of the data" in said
    assert "line 2" not in said
    periods.write_text("from,to,channel\n2024-01-01 02:00,2024-01-01 03:00,heat\n")
    assert len(events(folder, capsys, "--quiet", str(periods))) == 1


@pytest.mark.parametrize(
    ("command", "option"), [("fit", "--exclude-periods"), ("detect", "--quiet")], ids=["fit", "detect"]
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file"),
        ("start,stop\n1,2\n", "there is no column 'from', 'to'"),
        ("from,to\n100,200\n", "'100' is a plain number, and the data has times; give times, as 2024-01-31T12:00:00"),
        ("from,to,channel\n2024-01-01,2024-01-02,valve\n", "names a channel that is not there; there are 'pump'"),
        ("from,to\n2024-01-02,2024-01-01\n", "line 2 (2024-01-02 to 2024-01-01) ends before it begins"),
    ],
)
def test_wrong_files_of_periods_are_refused(folder, tmp_path, capsys, command, option, text, message):
    periods = tmp_path / "periods.csv"
    if text is not None:
        periods.write_text(text)
    data = frame(100)
    data.to_csv(tmp_path / "data.csv", index=False)
    if command == "fit":
        call = ["fit", str(tmp_path / "data.csv"), "-o", str(tmp_path / "model.safetensors"), *QUICK]
    else:
        call = ["detect", str(folder / "model.safetensors"), str(tmp_path / "data.csv")]
    assert run([*call, option, str(periods)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "model.safetensors").exists()


def test_unknown_channels_of_settings_are_refused(tmp_path, capsys):
    frame(100).to_csv(tmp_path / "data.csv", index=False)
    call = ["fit", str(tmp_path / "data.csv"), "-o", str(tmp_path / "model.safetensors"), *QUICK]
    assert run([*call, "--set", 'min_change={"valve": 3}']) == 2
    assert "min_change names 'valve', which is no channel; there are 'pump', 'flow', 'heat'" in capsys.readouterr().err


def test_periods_are_of_rows_where_there_are_no_times(folder, tmp_path, capsys):
    pd.read_csv(folder / "odd.csv").drop(columns="time").to_csv(tmp_path / "odd.csv", index=False)
    (tmp_path / "quiet.csv").write_text("from,to\n140,170\n")
    call = ["detect", str(folder / "model.safetensors"), str(tmp_path / "odd.csv"), "--fail-on-event"]
    assert run(call) == 1
    assert run([*call, "--quiet", str(tmp_path / "quiet.csv")]) == 0

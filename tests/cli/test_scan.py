from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.conftest import waves

from patchad.cli.main import run

QUICK = [part for name in ("window=30", "max_steps=15", "d_model=8", "layers=1") for part in ("--set", name)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file with one fault in 900 minutes."""
    path = tmp_path_factory.mktemp("scan") / "plant.csv"
    frame = pd.DataFrame(waves(900), columns=["pump", "flow", "heat"])
    frame.loc[500:529, "flow"] += 4
    frame["fault"] = ((frame.index >= 500) & (frame.index < 530)).astype(int)
    frame.insert(0, "time", pd.date_range("2024-01-01", periods=900, freq="min"))
    frame.to_csv(path, index=False)
    return path


def test_scan_prints_and_writes_the_severe_events(data, capsys, tmp_path):
    scores, events, report = (tmp_path / name for name in ("scores.csv", "events.json", "report.html"))
    call = ["scan", str(data), "--labels", "fault", "-o", str(scores), "--events", str(events), "--report", str(report)]
    assert run([*call, *QUICK]) == 0
    printed = capsys.readouterr()
    assert "flow" in printed.out.splitlines()[1]
    assert "of severity 50 and more in 900 rows" in printed.err
    assert "1 of 1 labelled anomaly found" in printed.err
    (event,) = json.loads(events.read_text())
    assert abs(event["start"] - 500) <= 5
    alarms = np.flatnonzero(pd.read_csv(scores)["alarm"])
    assert alarms[[0, -1]].tolist() == [event["start"], event["stop"] - 1]
    assert "flow" in report.read_text()


def test_rows_can_be_judged_by_the_past_only(data, capsys, tmp_path):
    events = tmp_path / "events.json"
    call = ["scan", str(data), "--past-only", "--exclude", "fault", "--set", "window=30", "--events", str(events)]
    assert run(call) == 0
    assert "flow" in capsys.readouterr().out.splitlines()[1]
    (event,) = json.loads(events.read_text())
    assert abs(event["start"] - 500) <= 5


def test_a_lower_severity_lists_at_least_as_many(data, capsys):
    call = ["scan", str(data), "--folds", "2", "--set", "verbose=False", *QUICK]
    assert run([*call, "--severity", "100"]) == 0
    none = capsys.readouterr()
    assert none.out == ""
    assert "less severe, which --severity 0 lists" in none.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--severity", "120"], "--severity 120 is out of range"),
        (["--folds", "1"], "plant: folds=1 is too small"),
        (["--set", "nonsense=1"], "nonsense"),
        (["--labels", "none"], "there is no column 'none'"),
    ],
)
def test_a_wrong_call_is_one_line(data, arguments, message, capsys):
    assert run(["scan", str(data), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_short_file_is_named(tmp_path, capsys):
    pd.DataFrame({"a": np.arange(20.0)}).to_csv(tmp_path / "short.csv", index=False)
    assert run(["scan", str(tmp_path / "short.csv")]) == 2
    assert "short: the series has 20 rows" in capsys.readouterr().err


def test_a_bad_file_leaves_the_results_of_the_others(data, tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("")
    events = tmp_path / "events.json"
    assert run(["scan", str(data), str(tmp_path / "empty.csv"), "--events", str(events), *QUICK]) == 2
    printed = capsys.readouterr()
    assert "flow" in printed.out
    assert "empty.csv" in printed.err.splitlines()[-1]
    assert {event["series"] for event in json.loads(events.read_text())} == {"plant"}
    assert run(["scan", str(tmp_path / "empty.csv"), "--events", str(tmp_path / "none.json")]) == 2
    assert not (tmp_path / "none.json").exists()


def test_an_output_that_is_an_input_is_refused(data, capsys):
    before = data.read_bytes()
    assert run(["scan", str(data), "-o", str(data)]) == 2
    assert "plant.csv" in capsys.readouterr().err
    assert data.read_bytes() == before

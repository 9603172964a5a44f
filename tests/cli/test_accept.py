from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.conftest import small, waves

from patchad import load
from patchad.cli.main import run

TIMES = pd.date_range("2026-01-01", periods=1200, freq="min")


def frame(rows: int = 1200, seed: int = 0) -> pd.DataFrame:
    data = pd.DataFrame(waves(rows, seed=seed), columns=["pump", "flow", "heat"])
    data.insert(0, "time", TIMES[:rows])
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("plant")
    odd = frame(seed=1)
    odd.loc[400:459, "flow"] += 2
    odd.to_csv(path / "odd.csv", index=False)
    odd.drop(columns="time").to_csv(path / "untimed.csv", index=False)
    small().fit(frame().drop(columns="time")).save(path / "model.safetensors")
    return path


def call(folder, *arguments: str) -> int:
    return run(["accept", str(folder / "model.safetensors"), *arguments])


def kinds(model, path) -> list[str]:
    found = load(model).detect(pd.read_csv(path).drop(columns="time", errors="ignore"))
    return [event.kind for event in found.events if event.start < 460 and event.stop > 400]


def test_the_model_may_be_written_beside_the_data_of_a_folder(folder, tmp_path):
    (tmp_path / "odd.csv").write_bytes((folder / "odd.csv").read_bytes())
    for _ in range(2):  # the second time, the file is there
        assert call(folder, str(tmp_path), "--to", "2026-01-01T01:00:00", "-o", str(tmp_path / "new.safetensors")) == 0


@pytest.mark.parametrize(
    ("name", "since", "until"),
    [("odd.csv", "2026-01-01T06:40:00", "2026-01-01 07:39"), ("untimed.csv", "400", "460")],
)
def test_rows_are_accepted_listed_and_taken_back(folder, tmp_path, capsys, name, since, until):
    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    data = str(folder / name)
    assert kinds(folder / "model.safetensors", data)
    assert call(folder, data, "--from", since, "--to", until, "-o", str(new)) == 0
    told = capsys.readouterr().err
    assert "(60 rows, " in told
    assert "1 event there before, 0 now; wrote" in told
    assert not kinds(new, data)
    assert run(["inspect", str(new)]) == 0
    where = "row 400 to row 459" if name == "untimed.csv" else "2026-01-01T06:40:00 to 2026-01-01T07:39:00"
    assert f"feedback      accepted {where} (60 rows, " in capsys.readouterr().out
    assert run(["accept", str(new), "--undo", "-o", str(old)]) == 0
    assert "took back: accepted" in capsys.readouterr().err
    assert kinds(old, data) == kinds(folder / "model.safetensors", data)
    assert run(["accept", str(new), data, "--from", since, "--to", until, "--undo", "-o", str(old)]) == 0
    assert not load(old).feedback_


def test_times_without_a_zone_are_in_that_of_the_data(folder, tmp_path, capsys):
    zoned = pd.read_csv(folder / "odd.csv", parse_dates=["time"])
    zoned["time"] = zoned["time"].dt.tz_localize("+02:00").map(pd.Timestamp.isoformat)
    zoned.to_csv(tmp_path / "zoned.csv", index=False)
    bounds = ["--from", "2026-01-01T06:40", "--to", "2026-01-01T05:39Z"]
    assert call(folder, str(tmp_path / "zoned.csv"), *bounds, "-o", str(tmp_path / "new")) == 0
    told = capsys.readouterr().err
    assert "2026-01-01T06:40:00+02:00 to 2026-01-01T07:39:00+02:00 (60 rows" in told
    assert "1 event there before, 0 now" in told
    assert call(folder, str(tmp_path / "zoned.csv"), "--from", "2027-01-01", "-o", str(tmp_path / "no")) == 2
    assert "the data has 2026-01-01T00:00:00+02:00 to" in capsys.readouterr().err


def test_undo_takes_back_the_newest_acceptance_and_leaves_what_was_confirmed(folder, tmp_path):
    detector = load(folder / "model.safetensors")
    rows = pd.read_csv(folder / "untimed.csv")
    both = detector.accept(rows).confirm(rows, start=400, stop=410).save(tmp_path / "both.safetensors")
    assert run(["accept", str(both), "--undo", "-o", str(tmp_path / "new.safetensors")]) == 0
    assert [one.accepted for one in load(tmp_path / "new.safetensors").feedback_] == [False]


def test_times_may_be_numbers(folder, tmp_path):
    data = tmp_path / "numbered.csv"
    pd.read_csv(folder / "untimed.csv").assign(time=np.arange(1200) * 0.5).to_csv(data, index=False)
    new = tmp_path / "new.safetensors"
    assert call(folder, str(data), "--from", "200", "--to", "229.5", "-o", str(new)) == 0
    assert str(load(new).feedback_[0]).startswith("accepted 200.0 to 229.5 (60 rows, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "{out}"], "no DATA to take rows from"),
        (["--undo", "--from", "3", "-o", "{out}"], "no DATA to take rows from"),
        (["--undo", "-o", "{out}"], "nothing was accepted"),
        (["{untimed}", "--undo", "-o", "{out}"], "nothing was accepted"),
        (["{odd}", "-o", "{model}"], "is also an input"),
        (["{odd}", "-o", "{odd}"], "is also an input"),
        (["{odd}", "-o", "{tmp}"], "is a folder"),
        (["{odd}", "--from", "soon", "-o", "{out}"], "'soon' cannot be read as a time"),
        (["{odd}", "--from", "2027-01-01", "-o", "{out}"], "there is no row from 2027-01-01 to the end"),
        (["{untimed}", "--to", "soon", "-o", "{out}"], "'soon' is no row number"),
        (["{untimed}", "--from", "50", "--to", "20", "-o", "{out}"], "ends before it begins"),
        (["{untimed}", "--from", "²", "-o", "{out}"], "'²' is no row number"),
        (["{untimed}", "--to", "1e400", "-o", "{out}"], "'1e400' is no row number"),
        (["{odd}", "--from", "31.12.9999", "-o", "{out}"], "cannot be read as a time"),
        (["{untimed}"], "Missing option"),
    ],
)
def test_wrong_calls_are_one_line_and_exit_2_and_write_nothing(folder, tmp_path, capsys, arguments, message):
    paths = {name: str(folder / f"{name}.csv") for name in ("odd", "untimed")}
    paths |= {"out": str(tmp_path / "out"), "tmp": str(tmp_path), "model": str(folder / "model.safetensors")}
    assert call(folder, *(argument.format(**paths) for argument in arguments)) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("error: ")
    assert len(printed.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_columns_of_text_are_read_too(tmp_path, capsys):
    rows = frame(400).assign(mode=np.array(["auto", "hand", "test"])[np.arange(400) // 50 % 3])
    rows.to_csv(tmp_path / "data.csv", index=False)
    small(max_steps=5).fit(rows).save(tmp_path / "model.safetensors")
    assert call(tmp_path, str(tmp_path / "data.csv"), "-o", str(tmp_path / "new.safetensors")) == 0
    assert ": 0 events there before, 0 now" in capsys.readouterr().err

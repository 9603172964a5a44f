"""The reading options: declared once, the same in every command that takes DATA."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from tests.conftest import SMALL, waves

from patchad import PatchAD, load
from patchad.cli.main import run
from patchad.cli.reading import OPTIONS

NAMES = ["pump", "flow", "heat"]
TINY = [word for name in ("window=15", "max_steps=3", "d_model=4", "verbose=False") for word in ("--set", name)]


def frame(rows: int = 200, seed: int = 1) -> pd.DataFrame:
    data = pd.DataFrame(waves(rows, seed=seed), columns=NAMES)
    data.insert(0, "time", pd.date_range("2024-01-01", periods=rows, freq="min"))
    return data


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("reading") / "model.safetensors"
    PatchAD(**SMALL).fit(frame(600, seed=0)).save(path)
    return str(path)


def detect(model, out, *arguments: object) -> pd.DataFrame:
    assert run(["detect", model, *map(str, arguments), "-o", str(out / "scores.csv")]) == 0
    return pd.read_csv(out / "scores.csv")


@pytest.mark.parametrize("command", ["fit", "detect"])
def test_every_command_that_takes_data_has_the_reading_options(command, capsys):
    assert run([command, "--help"]) == 0
    printed = capsys.readouterr().out
    for name in OPTIONS:
        assert f"--{name.replace('_', '-')}" in printed
    assert "--no-join" in printed
    assert ("--labels" in printed) == (command == "detect")


def test_unsorted_and_repeated_times_are_refused_with_the_option_that_helps(model, tmp_path, capsys):
    for name, data, option in (
        ("unsorted", frame().sample(frac=1, random_state=0), ["--sort"]),
        ("repeated", frame().loc[np.repeat(np.arange(200), 2)], ["--dedupe", "mean"]),
    ):
        data.to_csv(tmp_path / f"{name}.csv", index=False)
        capsys.readouterr()
        assert run(["detect", model, str(tmp_path / f"{name}.csv")]) == 2
        printed = capsys.readouterr().err
        assert option[0] in printed
        assert len(printed.splitlines()) == 1
        frame().to_csv(tmp_path / "clean.csv", index=False)
        clean = detect(model, tmp_path, tmp_path / "clean.csv")
        found = detect(model, tmp_path, tmp_path / f"{name}.csv", *option)
        np.testing.assert_array_equal(found["score"], clean["score"])


def test_columns_and_exclude_choose_the_channels_of_a_model(tmp_path):
    frame(100).assign(serial=7).to_csv(tmp_path / "a.csv", index=False)
    for number, options in enumerate((["--columns", "heat,pump"], ["--exclude", "flow", "--exclude", "serial"])):
        out = tmp_path / f"{number}.safetensors"
        assert run(["fit", str(tmp_path / "a.csv"), "-o", str(out), *options, *TINY]) == 0
        assert load(out).channels_ == ("pump", "heat")


def test_a_long_file_on_a_grid_gives_the_scores_of_a_wide_one(model, tmp_path):
    frame().to_csv(tmp_path / "wide.csv", index=False)
    rows = frame().melt("time", var_name="tag", value_name="reading")
    rows["time"] -= pd.to_timedelta(rows.index % 59, unit="s")
    rows.sample(frac=1, random_state=0).to_csv(tmp_path / "long.csv", index=False)
    wide = detect(model, tmp_path, tmp_path / "wide.csv")
    long = detect(model, tmp_path, tmp_path / "long.csv", "--long", "time,tag,reading", "--every", "1min")
    pd.testing.assert_frame_equal(long.drop(columns="series"), wide.drop(columns="series"))


def test_a_time_format_decides_what_the_times_do_not(model, tmp_path):
    data = frame()
    data.assign(time=data["time"].dt.strftime("%Y %j %H:%M")).to_csv(tmp_path / "a.csv", index=False)
    found = detect(model, tmp_path, tmp_path / "a.csv", "--time-format", "%Y %j %H:%M")
    assert pd.to_datetime(found["time"]).tolist() == data["time"].tolist()


def test_a_pattern_and_labels_of_joined_files(model, tmp_path, capsys):
    whole = frame().assign(fault=0)
    whole.loc[100:110, "flow"] += 9
    whole.loc[100:110, "fault"] = 1
    for number in (0, 1):
        whole.iloc[100 * number : 100 * number + 100].to_csv(tmp_path / f"day-{number}.csv.gz", index=False)
    found = detect(model, tmp_path, tmp_path / "day-*.csv.gz", "--labels", "fault")
    assert found["series"].unique().tolist() == ["day-0"]
    assert "1 of 1 labelled anomaly found" in capsys.readouterr().err


def test_fit_names_the_file_that_is_wrong(tmp_path, capsys):
    frame(100).to_csv(tmp_path / "good.csv", index=False)
    bad = frame(100, seed=2)
    bad.loc[7, "heat"] = np.inf
    bad.to_csv(tmp_path / "bad.csv", index=False)
    assert run(["fit", str(tmp_path / "good.csv"), str(tmp_path / "bad.csv"), "-o", str(tmp_path / "m"), *TINY]) == 2
    assert f"error: {tmp_path / 'bad.csv'}: X has an infinite value (inf) in row 7" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"series 2 of 2: X has an infinite value"):
        PatchAD(**SMALL).fit([frame(100), bad])


WRONG = {
    "interval": (["--every", "soon"], "--every 'soon' is no interval"),
    "aggregate": (["--every", "1min:median"], "'median' is unknown"),
    "dedupe": (["--dedupe", "median"], "Invalid value for '--dedupe'"),
    "long": (["--long", "time,value"], "--long needs three different columns"),
    "long columns": (["--long", "time,tag,value"], "there is no column 'tag', 'value' for --long"),
    "column": (["--columns", "pump,presure"], "there is no column 'presure'"),
    "excluded column": (["--exclude", "presure"], "there is no column 'presure'"),
    "empty name": (["--columns", "pump,,heat"], "--columns has an empty name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_option_is_one_line_and_exit_2(case, model, tmp_path, capsys):
    options, message = WRONG[case]
    frame().to_csv(tmp_path / "a.csv", index=False)
    for call in (
        ["fit", str(tmp_path / "a.csv"), "-o", str(tmp_path / "out")],
        ["detect", model, str(tmp_path / "a.csv")],
    ):
        assert run([*call, *options]) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert len(printed.err.splitlines()) == 1
        assert printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_pattern_that_matches_nothing(model, tmp_path, capsys):
    assert run(["detect", model, str(tmp_path / "*.csv")]) == 2
    assert "no file matches the pattern" in capsys.readouterr().err


def test_workbooks_need_an_extra(model, tmp_path, monkeypatch, capsys):
    frame().to_excel(tmp_path / "a.xlsx", index=False)
    assert run(["detect", model, str(tmp_path / "a.xlsx"), "--events", str(tmp_path / "events.json")]) == 0
    assert isinstance(json.loads((tmp_path / "events.json").read_text()), list)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert run(["detect", model, str(tmp_path / "a.xlsx")]) == 3
    assert re.search(r"pip install 'patchad\[excel\]'", capsys.readouterr().err)

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from tests.conftest import waves

import patchad
from patchad.cli.main import run
from patchad.thresholds import NAMED

TIMES = pd.date_range("2024-01-01", periods=600, freq="min")
QUICK = [
    "--set",
    "window=30",
    "--set",
    "max_steps=25",
    "--set",
    "d_model=8",
    "--set",
    "layers=1",
    "--set",
    "verbose=False",
]


def frame(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    data = pd.DataFrame(waves(rows, seed=seed), columns=["pump", "flow", "heat"])
    data.insert(0, "time", TIMES[:rows])
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with train data, odd data and a model."""
    path = tmp_path_factory.mktemp("plant")
    frame().to_csv(path / "train.csv", index=False)
    odd = frame(300, seed=1)
    odd.loc[150:156, "flow"] += 4
    odd.to_csv(path / "odd.csv", index=False)
    frame(200, seed=2).to_csv(path / "calm.csv", index=False)
    assert run(["fit", str(path / "train.csv"), "-o", str(path / "model.safetensors"), *QUICK]) == 0
    return path


def test_fit_then_detect(folder, capsys, tmp_path):
    outputs = {name: tmp_path / name for name in ("scores.csv", "events.json", "report.html")}
    arguments = ["-o", str(outputs["scores.csv"]), "--events", str(outputs["events.json"])]
    arguments += ["--report", str(outputs["report.html"])]
    assert run(["detect", str(folder / "model.safetensors"), str(folder / "odd.csv"), *arguments]) == 0
    printed = capsys.readouterr()
    assert "flow" in printed.out.splitlines()[1]
    assert "event" in printed.err
    scores = pd.read_csv(outputs["scores.csv"])
    assert list(scores.columns) == ["series", "row", "time", "score", "level", "alarm"]
    assert len(scores) == 300
    assert scores["alarm"].to_numpy()[150:157].any()
    assert scores["time"][0] == "2024-01-01 00:00:00"
    events = json.loads(outputs["events.json"].read_text())
    worst = max(events, key=lambda event: event["severity"])
    assert worst["series"] == "odd"
    assert worst["channels"][0][0] == "flow"
    assert worst["start_time"].startswith("2024-01-01T02:")
    assert "flow" in outputs["report.html"].read_text()


def test_a_label_column_is_not_a_channel_and_is_compared_with_the_events(folder, capsys, tmp_path):
    odd = pd.read_csv(folder / "odd.csv")
    fault = ((odd.index >= 150) & (odd.index < 157)).astype(int)
    odd.assign(fault=fault, doubt=2 * fault).to_csv(tmp_path / "odd.csv", index=False)
    report = tmp_path / "report.html"
    call = ["detect", str(folder / "model.safetensors"), str(tmp_path / "odd.csv"), "--report", str(report)]
    assert run([*call, "--labels", "fault"]) == 0
    messages = capsys.readouterr().err
    assert "1 of 1 labelled anomaly found, 0 missed" in messages
    assert "ignored columns that were not in the fit: 'doubt'" in messages
    assert "Against the labels" in report.read_text()
    scores = tmp_path / "scores.csv"
    assert run([*call, "--labels", "fault", "-o", str(scores)]) == 0
    written = pd.read_csv(scores)
    assert list(written)[-1] == "label"
    assert written["label"].tolist() == fault.tolist()
    assert run(["evaluate", str(scores), "--labels", "label"]) == 0
    capsys.readouterr()
    for name, match in (("nonsense", "there is no column 'nonsense'"), ("doubt", "0 and 1")):
        assert run([*call, "--labels", name]) == 2
        assert match in capsys.readouterr().err


def test_events_can_fail_a_pipeline(folder):
    model = str(folder / "model.safetensors")
    assert run(["detect", model, str(folder / "odd.csv"), "--fail-on-event"]) == 1
    calm = ["detect", model, str(folder / "calm.csv"), "--fail-on-event", "--threshold", "1e9"]
    assert run(calm) == 0


def test_several_files_and_folders_are_several_series(folder, tmp_path):
    inside = tmp_path / "many"
    inside.mkdir()
    frame(100, seed=3).to_parquet(inside / "a.parquet")
    np.save(inside / "b.npy", waves(100, seed=4))
    np.savez(inside / "c.npz", train=waves(10), test=waves(100, seed=5))
    (inside / "readme.txt").write_text("not data")
    out = tmp_path / "scores.csv"
    assert run(["detect", str(folder / "model.safetensors"), str(inside), str(folder / "odd.csv"), "-o", str(out)]) == 0
    counts = pd.read_csv(out).groupby("series").size()
    assert counts.to_dict() == {"a": 100, "b": 100, "c": 100, "odd": 300}


def test_inspect_prints_the_contents_of_the_file(folder, capsys):
    assert run(["inspect", str(folder / "model.safetensors")]) == 0
    printed = capsys.readouterr().out
    for part in ("n parameters ", "'pump', 'flow', 'heat'", "window        30", "level", "checksum", "max_steps=25"):
        assert part in printed


WRONG = {
    "no such file": (["fit", "{tmp}/none.csv", "-o", "{out}"], "there is no file"),
    "unknown kind": (["fit", "{tmp}/data.xyz", "-o", "{out}"], "of an unknown kind"),
    "empty file": (["fit", "{tmp}/empty.csv", "-o", "{out}"], "the file is empty"),
    "header only": (["fit", "{tmp}/header.csv", "-o", "{out}"], "no row"),
    "text": (["fit", "{tmp}/text.csv", "-o", "{out}"], "column 'b' has 'bad' in row 1, a number is needed"),
    "infinite": (["fit", "{tmp}/infinite.csv", "-o", "{out}"], "infinite value (inf) in row 7, channel 'b'"),
    "ragged": (["fit", "{tmp}/ragged.csv", "-o", "{out}"], "not a well-formed CSV"),
    "binary": (["fit", "{tmp}/binary.csv", "-o", "{out}"], "not text in UTF-8"),
    "backward": (["fit", "{tmp}/backward.csv", "-o", "{out}"], "time goes back at row 3"),
    "twice": (["fit", "{tmp}/twice.csv", "-o", "{out}"], "time repeats at row 3"),
    "short": (["fit", "{tmp}/short.csv", "-o", "{out}"], "at least 32 are needed"),
    "empty folder": (["fit", "{tmp}/folder", "-o", "{out}"], "has no data file"),
    "output is a folder": (["fit", "{train}", "-o", "{tmp}/folder"], "is a folder"),
    "output is the input": (["fit", "{train}", "-o", "{train}"], "is also an input"),
    "output is the model": (["detect", "{model}", "{train}", "--report", "{model}"], "is also an input"),
    "one output twice": (["detect", "{model}", "{train}", "-o", "{out}", "--events", "{out}"], "are the same file"),
    "output is the periods": (
        ["fit", "{train}", "-o", "{tmp}/short.csv", "--exclude-periods", "{tmp}/short.csv"],
        "'{tmp}/short.csv' is also an input",
    ),
    "no whole number": (["detect", "{model}", "{train}", "--merge-gap", "long"], "integer, got 'long'; `patchad"),
    "too small a number": (["detect", "{model}", "{train}", "--min-duration=0"], "equal to 1, got '0'; `patchad"),
    "exported over the model": (["export", "{model}", "-o", "{model}"], "is also an input"),
    "full disk": (["detect", "{model}", "{train}", "-o", "/dev/full", "--events", "{out}"], "'/dev/full': No space"),
    "unknown time": (["fit", "{train}", "-o", "{out}", "--time", "when"], "there is no column 'when'"),
    "unknown parameter": (["fit", "{train}", "-o", "{out}", "--set", "windw=3"], "did you mean 'window'?"),
    "wrong type": (["fit", "{train}", "-o", "{out}", "--set", "window=big"], "an integer is needed"),
    "no value": (["fit", "{train}", "-o", "{out}", "--set", "window"], "write it as name=value"),
    "no output": (["fit", "{train}"], "Missing option"),
    "no data": (["detect", "{model}"], "Missing argument"),
    "no command": ([], "Missing command"),
    "unknown command": (["fits"], "No such command"),
    "missing channel": (["detect", "{model}", "{tmp}/short.csv", "-o", "{out}"], "'pump', 'flow', 'heat' of the fit"),
    "unknown threshold": (
        ["detect", "{model}", "{train}", "--threshold", "x", "-o", "{out}"],
        "threshold 'x' is unknown",
    ),
    "not a model": (["detect", "{train}", "{train}", "-o", "{out}"], "is not a PatchAD model"),
    "no model": (["detect", "{tmp}/none.safetensors", "{train}"], "there is no model file"),
    "bad parquet": (["fit", "{tmp}/bad.parquet", "-o", "{out}"], "not a parquet file"),
    "bad npy": (["fit", "{tmp}/bad.npy", "-o", "{out}"], "not a file of one array"),
    "pickled npy": (["fit", "{tmp}/pickled.npy", "-o", "{out}"], "not a file of one array"),
    "several arrays": (["fit", "{tmp}/several.npz", "-o", "{out}"], "none is named 'train'"),
    "cannot write": (["fit", "{train}", "-o", "{tmp}/short.csv/model", *QUICK], "cannot write"),
}


@pytest.fixture(scope="module")
def wrong_files(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong")
    rows = [f"{i},{i * 0.5}" for i in range(50)]
    (path / "data.xyz").write_text("a,b\n1,2\n")
    (path / "empty.csv").write_text("")
    (path / "header.csv").write_text("a,b\n")
    (path / "text.csv").write_text("a,b\n1,2\n3,bad\n")
    (path / "infinite.csv").write_text("a,b\n" + "\n".join([*rows[:7], "7,inf", *rows[8:]]) + "\n")
    (path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (path / "binary.csv").write_bytes(bytes(range(128, 256)))
    (path / "backward.csv").write_text("time,a\n1,0\n2,0\n3,0\n1,0\n")
    (path / "twice.csv").write_text("time,a\n1,0\n2,0\n3,0\n3,0\n")
    (path / "short.csv").write_text("a,b\n" + "\n".join(rows[:20]) + "\n")
    (path / "folder").mkdir()
    (path / "bad.parquet").write_bytes(b"PAR1 no")
    (path / "bad.npy").write_bytes(b"no")
    np.save(path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(path / "several.npz", one=np.zeros(50), two=np.zeros(50))
    return path


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_one_line_and_exit_2_and_writes_nothing(name, folder, wrong_files, tmp_path, capsys):
    arguments, message = WRONG[name]
    paths = {
        "tmp": str(wrong_files),
        "out": str(tmp_path / "out"),
        "train": str(folder / "train.csv"),
        "model": str(folder / "model.safetensors"),
    }
    before = sorted(wrong_files.iterdir())
    assert run([argument.format(**paths) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert message.format(**paths) in printed.err
    assert printed.err.startswith("error: ")
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []
    assert sorted(wrong_files.iterdir()) == before


def test_outputs_appear_together_or_not_at_all(folder, tmp_path, capsys):
    (tmp_path / "taken").mkdir()
    arguments = ["-o", str(tmp_path / "scores.csv"), "--report", str(tmp_path / "taken")]
    assert run(["detect", str(folder / "model.safetensors"), str(folder / "odd.csv"), *arguments]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert list((tmp_path / "taken").iterdir()) == []


def test_one_wrong_input_costs_no_result_of_the_others(folder, wrong_files, tmp_path, capsys):
    outputs = {name: tmp_path / name for name in ("scores.csv", "events.json", "report.html")}
    arguments = ["-o", str(outputs["scores.csv"]), "--events", str(outputs["events.json"]), "--fail-on-event"]
    arguments += ["--report", str(outputs["report.html"])]
    infinite = frame(100, seed=9)
    infinite.loc[50, "heat"] = np.inf
    infinite.to_csv(tmp_path / "infinite.csv", index=False)
    good = [str(folder / "odd.csv"), str(folder / "calm.csv")]
    for bad, message in (
        (wrong_files / "ragged.csv", "not a well-formed CSV"),
        (wrong_files / "short.csv", "of the fit"),
        (tmp_path / "infinite.csv", "infinite value"),
    ):
        call = ["detect", str(folder / "model.safetensors"), good[0], str(bad), good[1], "--no-join"]
        assert run([*call, *arguments]) == 2
        printed = capsys.readouterr()
        (error,) = (line for line in printed.err.splitlines() if line.startswith("error: "))
        assert bad.stem in error
        assert message in error
        assert "the results of the 2 other series are complete" in error
        assert "odd" in printed.out
        assert set(pd.read_csv(outputs["scores.csv"])["series"]) == {"odd", "calm"}
        for path in outputs.values():
            path.unlink()
        alone = [str(bad), str(wrong_files / "none.csv")]
        assert run(["detect", str(folder / "model.safetensors"), *alone, *arguments]) == 2
        printed = capsys.readouterr()
        assert "2 inputs were refused: " in printed.err
        assert printed.out == ""
        assert not any(path.exists() for path in outputs.values())


def test_fit_with_one_wrong_input_names_it_and_writes_nothing(folder, wrong_files, tmp_path, capsys):
    data = [str(folder / "train.csv"), str(wrong_files / "ragged.csv")]
    assert run(["fit", *data, "-o", str(tmp_path / "model")]) == 2
    assert "ragged.csv" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def labelled(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.zeros(500, dtype=int)
    labels[200:240] = 1
    scores = rng.random(500) + labels
    data = pd.DataFrame({"label": labels, "score": scores, "alarm": (scores > 1).astype(int), "word": "x"})
    data.to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv"


def test_evaluate_prints_every_metric_beside_random_scores(labelled, capsys):
    assert run(["evaluate", str(labelled), "--labels", "label", "--scores", "score", "--alarms", "alarm"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["roc_auc"].split()[0] == "1.0000"
    assert 0.3 < float(rows["roc_auc"].split()[1]) < 0.7
    assert float(rows["oracle_pa_f1"].split()[1]) > 0.8, "random scores do well under point adjustment"
    assert {"vus_pr_opt", "vus_pr_legacy", "affiliation_f1", "pa_f1", "delay_mean"} <= set(rows)


def test_evaluate_prints_json(labelled, capsys):
    assert run(["evaluate", str(labelled), "--labels", "label", "--scores", "score", "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert found["scores"]["pr_auc"] == 1.0
    assert set(found["random"]) == set(found["scores"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ["--labels", "truth", "--scores", "score"],
            "no column 'truth'; the columns are 'label', 'score', 'alarm', 'word'",
        ),
        (
            ["--labels", "score", "--scores", "score"],
            "in row 0, and 0 or 1 is needed in every row; name another column with --labels",
        ),
        (["--labels", "label", "--alarms", "score"], "name another column with --alarms"),
        (["--labels", "word", "--scores", "score"], "column 'word' holds text, as 'x'; numbers are needed"),
        (["--scores", "score"], "Missing option"),
    ],
)
def test_evaluate_refuses_wrong_columns(labelled, columns, message, capsys):
    assert run(["evaluate", str(labelled), *columns]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1


def test_a_label_column_that_is_misspelt_is_listed_although_the_fit_had_none(folder, tmp_path, capsys):
    frame().assign(fault=0).to_csv(tmp_path / "labelled.csv", index=False)
    call = ["detect", str(folder / "model.safetensors"), str(tmp_path / "labelled.csv"), "--labels", "faults"]
    assert run(call) == 2
    assert "the columns are 'pump', 'flow', 'heat', 'fault'" in capsys.readouterr().err


def test_evaluate_refuses_labels_without_an_anomaly(tmp_path, capsys):
    pd.DataFrame({"label": [0] * 9, "score": np.arange(9.0)}).to_csv(tmp_path / "calm.csv")
    assert run(["evaluate", str(tmp_path / "calm.csv"), "--labels", "label", "--scores", "score"]) == 2
    assert "normal" in capsys.readouterr().err


def test_words_in_a_column_are_one_line_of_error_in_a_real_shell(tmp_path):
    (tmp_path / "words.csv").write_text("state,a\nok,1\n3,2\n")
    command = [sys.executable, "-m", "patchad", "fit", str(tmp_path / "words.csv"), "-o", str(tmp_path / "model")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_filled_values_are_reported(folder, tmp_path, capsys):
    data = frame(200, seed=6)
    data.loc[20:22, "heat"] = np.nan
    data.to_csv(tmp_path / "gaps.csv", index=False)
    assert run(["detect", str(folder / "model.safetensors"), str(tmp_path / "gaps.csv")]) == 0
    assert "note: gaps: filled 3 missing values in 3 rows (heat 3)" in capsys.readouterr().err


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_and_columns_that_count_rows(folder, tmp_path, separator, caplog):
    frame(100, seed=7).to_csv(tmp_path / "x.csv", sep=separator)  # with pandas' unnamed index column
    assert run(["detect", str(folder / "model.safetensors"), str(tmp_path / "x.csv")]) == 0
    assert "only counts the rows" in caplog.text


def test_files_without_a_header_are_matched_by_position(folder, tmp_path):
    pd.DataFrame(waves(100, seed=8)).to_csv(tmp_path / "plain.csv", header=False, index=False)
    out = tmp_path / "scores.csv"
    assert run(["detect", str(folder / "model.safetensors"), str(tmp_path / "plain.csv"), "-o", str(out)]) == 0
    assert len(pd.read_csv(out)) == 100


def test_a_missing_extra_is_exit_3_with_the_command(folder, monkeypatch, capsys, tmp_path):
    frame(50).to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(["detect", str(folder / "model.safetensors"), str(tmp_path / "a.parquet")]) == 3
    assert "pip install 'patchad[parquet]'" in capsys.readouterr().err


def test_ctrl_c_leaves_no_file(folder, tmp_path):
    out = tmp_path / "model.safetensors"
    command = [
        sys.executable,
        "-m",
        "patchad",
        "fit",
        str(folder / "train.csv"),
        "-o",
        str(out),
        "--set",
        "max_steps=100000",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    signal.signal(signal.SIGINT, before)
    assert b"training has begun" in process.stderr.readline()
    time.sleep(3)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    messages = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130, messages
    assert "error: stopped; nothing was written" in messages
    assert "Traceback" not in messages
    assert list(tmp_path.iterdir()) == []


def test_help_and_version_load_neither_torch_nor_numpy():
    code = "import sys; from patchad.cli.main import run; run(sys.argv[1:])"
    code += "; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    for option in ("--help", "--version"):
        assert subprocess.run([sys.executable, "-c", code, option], check=False, capture_output=True).returncode == 0


def test_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"patchad {patchad.__version__}\n"


def test_the_help_of_detect_names_every_threshold(capsys):
    assert run(["detect", "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    described = printed.split("--threshold")[1].split("--output")[0]
    assert all(re.search(rf"\b{name}\b", described) for name in NAMED if name != "fixed")
    assert "quantile:q" in described
    assert "a number" in described


def test_the_same_rows_in_one_file_or_in_many_are_the_same_events(folder, tmp_path, caplog):
    odd = pd.read_csv(folder / "odd.csv")
    for number, start in enumerate(range(0, len(odd), 100)):
        odd.iloc[start : start + 100].to_csv(tmp_path / f"part-{number}.csv", index=False)
    model = str(folder / "model.safetensors")
    assert run(["detect", model, str(folder / "odd.csv"), "--events", str(tmp_path / "one.json")]) == 0
    assert run(["detect", model, str(tmp_path), "--events", str(tmp_path / "many.json")]) == 0
    assert "3 files follow each other in time and are read as 1 series" in caplog.text
    one, many = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "many.json"))
    assert one
    assert [event | {"series": ""} for event in one] == [event | {"series": ""} for event in many]
    assert run(["detect", model, str(tmp_path), "--no-join", "-o", str(tmp_path.parent / "apart.csv")]) == 0
    assert pd.read_csv(tmp_path.parent / "apart.csv")["series"].nunique() == 3


def test_false_alarms_are_promised_in_rows_or_in_time(folder, capsys, tmp_path):
    model, odd = str(folder / "model.safetensors"), str(folder / "odd.csv")
    levels = []
    for rate in ("0.1", "10", "7/week"):
        assert run(["detect", model, odd, "--false-alarms", rate, "-o", str(tmp_path / "scores.csv")]) == 0
        levels.append(pd.read_csv(tmp_path / "scores.csv")["level"][0])
    assert levels[0] > levels[2] > levels[1]
    pd.read_csv(odd).drop(columns="time").to_csv(tmp_path / "timeless.csv", index=False)
    capsys.readouterr()
    for rate, message in (("2/week", "need times"), ("2/decade", "cannot be read"), ("-1", "cannot be read")):
        assert run(["detect", model, str(tmp_path / "timeless.csv"), "--false-alarms", rate]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [["detect"], ["fleet", "detect"]])
@pytest.mark.parametrize("option", ["--merge-gap=-1", "--min-duration=0"])
def test_events_of_an_impossible_shape_are_refused(folder, tmp_path, capsys, command, option):
    out = tmp_path / "out"
    given = [str(folder / "model.safetensors"), str(folder / "odd.csv"), option, "-o", str(out)]
    assert run([*command, *given]) == 2
    assert option.partition("=")[0] in capsys.readouterr().err
    assert not out.exists()


def test_events_are_printed_most_severe_first_with_their_end_and_length(folder, capsys):
    assert run(["detect", str(folder / "model.safetensors"), str(folder / "odd.csv"), "--merge-gap", "0"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:7] == ["series", "start", "stop", "time", "until", "rows", "kind"]
    severities = [float(row.split()[7]) for row in rows]
    assert severities == sorted(severities, reverse=True)


def test_inspect_says_what_the_level_rests_on(folder, capsys):
    assert run(["inspect", str(folder / "model.safetensors")]) == 0
    assert re.search(
        r"1 false events per 10,000 rows; (measured|extrapolated), from \d+ clusters", capsys.readouterr().out
    )


def test_extra_columns_of_any_type_are_ignored_and_named(folder, tmp_path, capsys):
    pd.read_csv(folder / "odd.csv").assign(operator="Jo", shift=3).to_csv(tmp_path / "odd.csv", index=False)
    model = str(folder / "model.safetensors")
    for source, name in ((folder, "plain"), (tmp_path, "extra")):
        assert run(["detect", model, str(source / "odd.csv"), "-o", str(tmp_path / f"{name}.csv")]) == 0
    assert "ignored columns that were not in the fit: 'operator', 'shift'" in capsys.readouterr().err
    assert (tmp_path / "plain.csv").read_text() == (tmp_path / "extra.csv").read_text()


def test_times_keep_their_zone_in_all_that_is_written(folder, capsys, tmp_path):
    odd = pd.read_csv(folder / "odd.csv")
    odd["time"] = [f"{time}+02:00" for time in odd["time"]]
    odd.to_csv(tmp_path / "zoned.csv", index=False)
    outputs = ["-o", str(tmp_path / "scores.csv"), "--events", str(tmp_path / "events.json")]
    assert run(["detect", str(folder / "model.safetensors"), str(tmp_path / "zoned.csv"), *outputs]) == 0
    assert "2024-01-01T02:30:00+02:00" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "scores.csv")["time"][0] == "2024-01-01 00:00:00+02:00"
    assert all(event["start_time"].endswith("+02:00") for event in json.loads((tmp_path / "events.json").read_text()))


def test_states_of_a_file_are_learned_and_an_unseen_one_is_named(folder, capsys, tmp_path):
    train, odd = (pd.read_csv(folder / f"{name}.csv") for name in ("train", "calm"))
    train["valve"] = np.where(np.arange(len(train)) // 40 % 2, "ON", "OFF")
    odd["valve"] = np.where(np.arange(len(odd)) // 40 % 2, "ON", "OFF")
    odd.loc[100:104, "valve"] = "JAMMED"
    train.to_csv(tmp_path / "train.csv", index=False)
    odd.to_csv(tmp_path / "odd.csv", index=False)
    model = str(tmp_path / "model.safetensors")
    assert run(["fit", str(tmp_path / "train.csv"), "-o", model, *QUICK]) == 0
    capsys.readouterr()
    assert run(["detect", model, str(tmp_path / "odd.csv")]) == 0
    printed = capsys.readouterr()
    assert "valve" in printed.out
    assert "column 'valve' is in a state that was not in the fit: 'JAMMED' (rows: 5, the first: 100)" in printed.err

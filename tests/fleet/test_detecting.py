"""Every series of a fleet is judged as `detect` judges it, once, whatever happens to the others or to the run."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest
from tests.conftest import WATCHED, waves
from tests.fleet.conftest import MACHINES, assert_equals_detection, machine

from patchad import load, make
from patchad.cli.main import run
from patchad.fleet import detecting
from patchad.fleet.results import COLUMNS


def test_every_file_is_judged_as_detect_judges_it(fleet, folder, tmp_path, capsys):
    assert fleet.detect(folder) == 0
    detector = load(fleet.model)
    for number in range(MACHINES):
        assert_equals_detection(fleet, f"m{number}", detector.detect(machine(number)))
    assert (fleet.scores("m1")["time"] == machine(1)["time"]).all()
    assert tuple(fleet.manifest) == COLUMNS
    assert fleet.manifest["series"].tolist() == [f"m{number}" for number in range(MACHINES)]
    assert fleet.manifest["rows"].tolist() == [300] * MACHINES
    assert [int(one) > 0 for one in fleet.manifest["events"]] == [False, True, False, True, False]
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("m1 ")
    assert "events in 1,500 rows of 5 series" in err
    scores, events = tmp_path / "scores.csv", tmp_path / "events.json"
    assert run(["detect", str(fleet.model), str(folder), "-o", str(scores), "--events", str(events)]) == 0
    assert json.loads(events.read_text()) == fleet.events
    together = pd.concat([fleet.scores(name) for name in fleet.manifest["series"]], ignore_index=True)
    wanted = pd.read_csv(scores, parse_dates=["time"])
    pd.testing.assert_frame_equal(together, wanted, check_dtype=False)


def test_options_of_detect_change_what_is_found(fleet, folder, watched_model, tmp_path):
    quiet = tmp_path / "quiet.csv"
    quiet.write_text("from,to\n2026-01-01T02:00,2026-01-01T04:00\n")
    assert fleet.detect(folder, "--quiet", quiet, "--fail-on-event") == 0
    assert fleet.events == []
    options = ["--threshold", "quantile:0.9", "--merge-gap", "3", "--min-duration", "2", "--false-alarms", "2/week"]
    assert fleet.detect(folder, *options, "--fail-on-event") == 1
    assert fleet.scores("m0")["level"].iloc[0] < watched_model.threshold_.level


def test_files_that_follow_each_other_are_one_series(fleet, tmp_path, capsys):
    for number, name in enumerate(("b", "a")):
        machine(1).iloc[150 * number :][:150].to_csv(tmp_path / f"{name}.csv", index=False)
    assert fleet.detect(tmp_path / "a.csv", tmp_path / "b.csv") == 0
    assert fleet.manifest["series"].tolist() == ["b"]
    assert "read as 1 series; --no-join" in capsys.readouterr().err
    assert_equals_detection(fleet, "b", load(fleet.model).detect(machine(1)))
    assert fleet.detect(tmp_path / "a.csv", tmp_path / "b.csv", "--no-join") == 0
    assert fleet.manifest["series"].tolist() == ["a", "b"]


def test_labels_stand_beside_the_scores(fleet, tmp_path):
    machine(1).assign(truth=[int(150 <= row < 180) for row in range(300)]).to_csv(tmp_path / "a.csv", index=False)
    assert fleet.detect(tmp_path / "a.csv", "--labels", "truth") == 0
    assert fleet.scores("a")["label"].sum() == 30


def test_a_bad_file_costs_a_line_of_the_manifest(fleet, folder, capsys):
    (folder / "broken.csv").write_text('a,b\n1,"2\n')
    (folder / "foreign.csv").write_text("time,other\n2026-01-01,1\n2026-01-02,2\n")
    assert fleet.detect(folder) == 2
    manifest = fleet.manifest.set_index("series")
    bad = manifest[manifest["error"] != ""]
    assert set(bad.index) == {"broken", "foreign"}
    assert "not a well-formed CSV" in bad.loc["broken", "error"]
    assert len(manifest) == MACHINES + 2
    assert not (fleet.out / "scores" / "foreign.parquet").exists()
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: 2 inputs were refused")
    assert "5 other series are complete" in error


def test_nothing_is_written_where_nothing_can_be_read(fleet, tmp_path, capsys):
    (tmp_path / "a.csv").write_text('a,b\n1,"2\n')
    assert fleet.detect(tmp_path / "a.csv", tmp_path / "missing.csv") == 2
    assert not fleet.out.exists()
    assert capsys.readouterr().err.count("\n") == 1


# -- going on ---------------------------------------------------------------------------------------------------------


def test_finished_series_are_not_done_again_and_changed_ones_are(fleet, folder, capsys):
    assert fleet.detect(folder) == 0
    first, manifest = fleet.written(), (fleet.out / "manifest.csv").read_bytes()
    assert fleet.detect(folder) == 0
    assert fleet.written() == first
    assert (fleet.out / "manifest.csv").read_bytes() == manifest
    assert "5 of them finished before" in capsys.readouterr().err
    machine(7).to_csv(folder / "m2.csv", index=False)
    assert fleet.detect(folder) == 0
    assert {name for name, at in fleet.written().items() if at != first[name]} == {"m2.parquet"}
    assert_equals_detection(fleet, "m2", load(fleet.model).detect(machine(7)))


def test_another_model_or_option_does_all_again(fleet, folder, tmp_path):
    assert fleet.detect(folder) == 0
    first = fleet.written()
    assert fleet.detect(folder, "--merge-gap", "3") == 0
    second = fleet.written()
    assert all(second[name] != at for name, at in first.items())
    fleet.model = tmp_path / "other.safetensors"
    make("moving_zscore", false_alarms=2.0).fit(pd.DataFrame(waves(600), columns=WATCHED)).save(fleet.model)
    assert fleet.detect(folder, "--merge-gap", "3") == 0
    assert all(fleet.written()[name] != at for name, at in second.items())


def test_series_that_are_gone_leave_no_scores_behind_and_foreign_files_stay(fleet, folder):
    assert fleet.detect(folder) == 0
    foreign = fleet.out / "scores" / "mine.parquet"
    machine(0).to_parquet(foreign)
    (folder / "m3.csv").unlink()
    assert fleet.detect(folder) == 0
    assert set(fleet.written()) == {"m0.parquet", "m1.parquet", "m2.parquet", "m4.parquet", "mine.parquet"}


def test_a_damaged_file_of_scores_is_written_again(fleet, folder):
    assert fleet.detect(folder) == 0
    path = fleet.out / "scores" / "m1.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    assert fleet.detect(folder) == 0
    pd.testing.assert_frame_equal(fleet.scores("m1"), pd.read_parquet(path))
    assert len(fleet.scores("m1")) == 300


def test_a_run_that_was_stopped_goes_on_where_it_was(fleet, folder, monkeypatch, capsys):
    real, calls = detecting.detect_task, []

    def stopping(task):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(task)
        return real(task)

    monkeypatch.setattr(detecting, "detect_task", stopping)
    assert fleet.detect(folder) == 130
    assert "the same command goes on with the others" in capsys.readouterr().err
    assert not (fleet.out / "manifest.csv").exists()
    before = fleet.written()
    assert len(before) == 2
    monkeypatch.setattr(detecting, "detect_task", real)
    assert fleet.detect(folder) == 0
    assert before.items() <= fleet.written().items()
    assert len(fleet.manifest) == MACHINES
    assert "2 of them finished before" in capsys.readouterr().err


# -- models -----------------------------------------------------------------------------------------------------------


def test_a_folder_of_models_has_one_for_each_series(fleet, folder, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for number in range(MACHINES):
        if number != 2:
            shutil.copy(fleet.model, models / f"m{number}.safetensors")
    (models / "m4.safetensors").write_bytes(b"nothing")
    fleet.model = models
    assert fleet.detect(folder) == 2
    errors = fleet.manifest.set_index("series")["error"]
    assert [name for name, error in errors.items() if error] == ["m2", "m4"]
    assert "there is no model 'm2.safetensors'" in errors["m2"]
    assert str(models / "m4.safetensors") in errors["m4"]
    assert_equals_detection(fleet, "m1", load(models / "m1.safetensors").detect(machine(1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers 0 is out of range"),
        (["--address", "somewhere:6379"], "add --engine ray"),
        (["--by", "machine"], "there is no column 'machine' to tell series by"),
        (["--threshold", "nonsense"], "nonsense"),
        (["--false-alarms", "often"], "false alarms 'often' cannot be read"),
    ],
)
def test_wrong_calls_are_one_line_and_exit_2_and_write_nothing(fleet, folder, capsys, arguments, message):
    assert run(["fleet", "detect", str(fleet.model), str(folder), "-o", str(fleet.out), *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not fleet.out.exists()


def test_a_folder_that_holds_the_data_or_the_model_is_refused(fleet, folder, tmp_path, capsys):
    fleet.out = folder
    assert fleet.detect(folder) == 2
    assert "holds the input" in capsys.readouterr().err
    fleet.out = tmp_path / "file"
    fleet.out.write_text("")
    assert fleet.detect(folder) == 2
    assert "is no folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    fleet.model, fleet.out = tmp_path / "empty", tmp_path / "new"
    assert fleet.detect(folder) == 2
    assert "has no model" in capsys.readouterr().err
    fleet.model = tmp_path / "none.safetensors"
    assert fleet.detect(folder) == 2
    assert "there is no model file" in capsys.readouterr().err

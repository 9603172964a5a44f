"""`patchad bench` and `patchad data`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import native
from tests.datasets.test_real import DATA

from patchad.bench import runner
from patchad.bench.cells import RunOptions, load_entities
from patchad.bench.suites import SUITES
from patchad.cli import bench as bench_cli
from patchad.cli import main as cli
from patchad.datasets import DATASETS


def run(*arguments: object) -> int:
    return cli.run([str(argument) for argument in arguments])


def test_run_resume_and_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records.jsonl"
    command = ("bench", "run", "smoke", "-o", path, "--workers", 1, "--detectors", "random")
    assert run(*command, "--limit", 2) == 0
    assert run(*command, "--entities", 1) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "4 cells, 2 of them in" in err
    assert len(path.read_text().splitlines()) == 4
    assert run("bench", "table", path) == 0
    out = capsys.readouterr().out
    assert out.startswith("## smoke: all datasets, protocol open\n")
    assert "| random | 2 | 1 |" in out
    assert run("bench", "table", path, path) == 0
    assert capsys.readouterr().out == out
    for name in ("csv", "latex"):
        assert run("bench", "table", path, "--format", name) == 0
        assert "random" in capsys.readouterr().out


def test_a_variant_with_commas_in_its_name_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = []
    for asked in ("patch_sizes=3,7", "random,patch_sizes=3,7", "patch_sizes=3,9"):
        assert run("bench", "run", "paper-sensitivity", "--data", tmp_path, "--detectors", asked) == 2
        messages.append(capsys.readouterr().err)
    assert "nothing of paper-sensitivity can be run" in messages[0]  # the name was known
    assert "no detector '7'" in messages[1]  # beside others, it needs a --detectors of its own
    assert "no detector '9'" in messages[2]


def test_list_names_every_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SUITES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nope"), "there is no suite 'nope'"),
        (("run", "smoke", "--workers", "0"), "workers must be at least 1"),
        (("run", "smoke", "--detectors", "nope"), "there is no detector 'nope'"),
        (("run", "smoke", "--limit", "many"), "--limit"),
        (("table", "nowhere.jsonl"), "cannot read 'nowhere.jsonl'"),
        (("table", "torn.jsonl"), "no records"),
        (("table", "foreign.jsonl"), "line 1 is not a record"),
        (("table", "foreign.jsonl", "--format", "html"), "'html' is not one of"),
        (("run", "open", "--data", "nowhere"), "nothing of open can be run"),
    ],
)
def test_wrong_calls_are_one_line_and_exit_2(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("torn.jsonl").write_text('{"suite": "sm')
    Path("foreign.jsonl").write_text("time,value\n1,2\n")
    assert run("bench", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.splitlines()[-1].startswith("error: ")
    assert not Path("records.jsonl").exists()


def test_failed_cells_exit_2_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "run_task", lambda task: 1 / 0)
    options = ("--workers", 1, "--detectors", "random", "--limit", 1)
    assert run("bench", "run", "smoke", "-o", tmp_path / "r.jsonl", *options) == 2
    assert (
        "1 of 1 cells failed, the first with plant plant-1 random seed 0: ZeroDivisionError" in capsys.readouterr().err
    )


def test_ctrl_c_keeps_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_suite", interrupt)
    assert run("bench", "run", "smoke", "-o", tmp_path / "r.jsonl") == 130
    assert "the same command resumes" in capsys.readouterr().err


def test_names_may_be_given_with_commas_or_one_by_one() -> None:
    assert bench_cli._split(["a, b", "c"]) == ("a", "b", "c")
    assert bench_cli._split(None) == ()


def test_data_list_names_every_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(DATASETS)


def test_data_check_prints_what_is_present_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native.npz(tmp_path / "ASD" / "omi-1.npz", 19)
    assert run("data", "check", tmp_path) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "entities 1 instead of 12" in lines["ASD"]
    assert "request access at" in lines["WADI"]
    assert run("data", "check", tmp_path / "none") == 2
    printed = capsys.readouterr()
    assert "is not a folder" in printed.err
    assert printed.out == "", "no heading of a table that never comes"


def test_data_get_explains_what_cannot_be_downloaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "get", "SWaT", "--data", tmp_path) == 2
    assert "request access at" in capsys.readouterr().err


def test_data_get_leaves_existing_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "SMD").mkdir()
    (tmp_path / "SMD" / "file").write_text("x")
    assert run("data", "get", "SMD", "--data", tmp_path) == 0
    assert "is already in" in capsys.readouterr().err


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data in {DATA}; set PATCHAD_DATA to the folder that holds it")
def test_open_over_the_real_datasets_with_random_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records.jsonl"
    options = ("--detectors", "random", "--entities", 1, "--seeds", 1, "--workers", 1)
    assert run("bench", "run", "open", "--data", DATA, "-o", path, *options) == 0
    assert "the data are missing: PSM, SWaT, WADI, SWAN" in capsys.readouterr().err
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert {record["dataset"] for record in records} == set(SUITES["open"].datasets) - {"PSM", "SWaT", "WADI", "SWAN"}
    assert all("skipped" not in record["metrics"] for record in records)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data in {DATA}; set PATCHAD_DATA to the folder that holds it")
def test_the_whole_sample_of_open_has_anomalies_and_ucr_203_is_skipped(tmp_path: Path) -> None:
    options = RunOptions(data=DATA, workers=1, seeds=1, detectors=("random",))
    for dataset in SUITES["open"].datasets:
        if dataset not in ("PSM", "SWaT", "WADI", "SWAN"):
            entities = load_entities(SUITES["open"], dataset, options)
            assert len(entities) == len(SUITES["open"].sample[dataset])
            assert all(entity.labels.any() and not entity.labels.all() for entity in entities)
    runner.run_suite(SUITES["paper-ucr"], tmp_path / "ucr.jsonl", options)
    records = [json.loads(line) for line in (tmp_path / "ucr.jsonl").read_text().splitlines()]
    skipped = {record["entity"][:4] for record in records if "skipped" in record["metrics"]}
    assert skipped == {"203_"}

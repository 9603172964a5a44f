"""Suites to records: complete, without repetition, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests import native

import patchad
from patchad.bench import cells, runner
from patchad.bench.cells import RunOptions, load_entities, narrow, plan_cells
from patchad.bench.fits import fit_and_score
from patchad.bench.records import KEYS, RecordFile, identity, read_records
from patchad.bench.runner import run_suite
from patchad.bench.suites import RANDOM, SUITES, Variant
from patchad.datasets.synthetic import generate
from patchad.detectors.baselines.random import RandomScore
from patchad.detectors.registry import DETECTORS
from patchad.errors import InputError, MissingExtraError

TINY = Variant("tiny", parameters={"window": 30, "max_steps": 5, "d_model": 8, "layers": 1})
SMOKE = replace(SUITES["smoke"], variants=(TINY, RANDOM), datasets=("five-kinds",))


def records_of(path: Path) -> list[dict]:
    lines = path.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len({identity(record) for record in records}) == len(records)
    return records


def test_a_record_has_the_documented_fields(tmp_path: Path) -> None:
    path = tmp_path / "new" / "records.jsonl"
    messages: list[str] = []
    summary = run_suite(SMOKE, path, RunOptions(workers=1, entities=1), messages.append)
    assert (summary.cells, summary.already, summary.failed, summary.missing) == (4, 0, (), ())
    records = records_of(path)
    for record in records:
        assert tuple(record) == KEYS
        assert record["metrics"]["roc_auc"] >= 0
        assert record["fit_seconds"] >= 0
        assert record["peak_memory"] > 0
        assert record["n_parameters"] >= 0
        assert len(record["data_sha256"]) == 64
        assert record["versions"]["patchad"] == patchad.__version__
    assert {(r["detector"], r["protocol"]) for r in records} == {
        (detector, protocol) for detector in ("patchad", "random") for protocol in ("open", "paper")
    }
    parameters = records[0]["parameters"]
    assert parameters.items() >= {"window": 30, "d_model": 8, "max_steps": 5, "threshold": "auto", "hop": 10}.items()
    assert not {"random_state", "device", "verbose"} & set(parameters)
    assert any("[4/4]" in line for line in messages)


def test_cells_that_differ_only_in_threshold_share_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    real = runner.fit_and_score
    monkeypatch.setattr(runner, "fit_and_score", lambda *args: fits.append(1) or real(*args))
    variants = tuple(Variant(f"r{r}", "random", parameters={"threshold": f"ratio:{r}"}) for r in (1, 2, 3))
    suite = replace(SMOKE, protocols=("paper",), variants=variants)
    run_suite(suite, tmp_path / "r.jsonl", RunOptions(workers=1, entities=2))
    assert len(fits) == 2
    shares = [record["metrics"]["alarm_share"] for record in records_of(tmp_path / "r.jsonl")[:3]]
    assert shares == sorted(shares)
    assert shares[0] < shares[2]


def test_cells_that_differ_only_in_orientation_share_a_fit_and_get_the_same_records_as_with_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    real = runner.fit_and_score
    monkeypatch.setattr(runner, "fit_and_score", lambda *args: fits.append(1) or real(*args))
    tiny = TINY.parameters | {"hop": 30, "epochs": None, "batch_size": 16}
    pair = tuple(Variant(f"o{o}", "patchad", "paper", tiny | {"orientation": o}) for o in (None, 1))
    alone = []
    run_suite(replace(SMOKE, variants=pair), tmp_path / "both.jsonl", RunOptions(workers=1, entities=1))
    together = records_of(tmp_path / "both.jsonl")
    assert len(fits) == 1
    for number, variant in enumerate(pair):
        run_suite(replace(SMOKE, variants=(variant,)), tmp_path / f"{number}.jsonl", RunOptions(workers=1, entities=1))
        alone += records_of(tmp_path / f"{number}.jsonl")
    assert len(fits) == 3
    measured = ("fit_seconds", "score_seconds", "peak_memory")
    by_cell = [
        {identity(r): {key: value for key, value in r.items() if key not in measured} for r in records}
        for records in (together, alone)
    ]
    assert by_cell[0] == by_cell[1]
    areas = {r["parameters"]["orientation"]: r["metrics"]["roc_auc"] for r in together}
    assert areas[None] == pytest.approx(1 - areas[1])


def test_existing_records_are_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    run_suite(SMOKE, path, RunOptions(workers=1, detectors=("random",), limit=3))
    before = path.read_bytes()
    summary = run_suite(SMOKE, path, RunOptions(workers=1, detectors=("random",)))
    assert (summary.cells, summary.already) == (10, 3)
    assert path.read_bytes().startswith(before)
    assert len(records_of(path)) == 10
    whole = path.read_bytes()
    run_suite(SMOKE, path, RunOptions(workers=1, detectors=("random",)))
    assert path.read_bytes() == whole


def test_records_from_before_a_parameter_came_are_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    options = RunOptions(workers=1, detectors=("random",), limit=3)
    run_suite(SMOKE, path, options)
    older = records_of(path)
    for record in older:
        del record["parameters"]["direction"]
        record["parameters"]["merge_gap"] = 0  # what it was before it could be None
    older[2]["parameters"]["min_change"] = 9.0
    path.write_text("".join(json.dumps(record) + "\n" for record in older))
    summary = run_suite(SMOKE, path, options)
    assert (summary.cells, summary.already) == (3, 2)
    assert records_of(path)[:3] == older


def test_records_of_another_suite_on_the_same_data_are_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.jsonl"
    options = RunOptions(workers=1, detectors=("random",))
    run_suite(SMOKE, path, options)
    other, cost = replace(SMOKE, name="open"), replace(SMOKE, name="paper-cost", cost=True)
    shorter = replace(SMOKE, name="open-full", test_rows=500)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "run_task", lambda task: pytest.fail("measured again"))
        messages: list[str] = []
        assert run_suite(other, path, options, messages.append).failed == ()
    assert any("10 records of other suites" in line for line in messages)
    own, taken = ([record for record in records_of(path) if record["suite"] == name] for name in ("smoke", "open"))
    assert [record | {"suite": "smoke"} for record in taken] == own
    assert len(own) == 10
    with RecordFile(path) as file:
        for suite, left in ((cost, 10), (other, 0)):
            planned, _ = plan_cells(narrow(suite, options), options)
            todo = [cell for cell in planned if identity(cell.to_dict()) not in file.done]
            assert len(runner._reuse_records(suite, todo, options, file, messages.append)) == left
        entities = [shortened(entity) for entity in generate("five-kinds")]
        for module in (cells, runner):
            monkeypatch.setattr(module, "load_entities", lambda *_: entities)
        planned, _ = plan_cells(narrow(shorter, options), options)
        assert len(runner._reuse_records(shorter, planned, options, file, messages.append)) == 10  # other rows


def shortened(entity):
    return replace(entity, test=entity.test[:500], labels=entity.labels[:500])


@pytest.mark.parametrize("torn", [1, 40, 300])
def test_a_torn_last_line_is_dropped_and_its_cell_run_again(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "records.jsonl"
    options = RunOptions(workers=1, detectors=("random",))
    run_suite(SMOKE, path, options)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:torn])
    assert len(read_records(path)) == len(lines) - 1
    assert path.read_bytes().endswith(lines[-1][:torn])  # reading changes nothing
    summary = run_suite(SMOKE, path, options)
    assert summary.already == len(lines) - 1
    assert len(records_of(path)) == len(lines)


def test_a_whole_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    options = RunOptions(workers=1, detectors=("random",))
    run_suite(SMOKE, path, RunOptions(workers=1, detectors=("random",), limit=2))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert run_suite(SMOKE, path, options).already == 2
    assert len(records_of(path)) == 10


def test_a_file_of_something_else_is_never_truncated(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk")
    with pytest.raises(InputError, match="line 1 is not a record"):
        run_suite(SMOKE, path, RunOptions(workers=1))
    assert path.read_text() == "remember the milk"


SLOW_RUN = """
import sys
from pathlib import Path
from tests.bench.test_runner import SMOKE
from patchad.bench.cells import RunOptions
from patchad.bench.runner import run_suite

if __name__ == "__main__":
    run_suite(SMOKE, Path(sys.argv[1]), RunOptions(workers=2, entities=3), lambda line: print(line, flush=True))
"""


def test_kill_9_in_the_middle_then_again_gives_every_record_once(tmp_path: Path) -> None:
    path, script = tmp_path / "records.jsonl", tmp_path / "slow_run.py"
    script.write_text(SLOW_RUN)
    root = Path(__file__).parents[2]
    package = Path(patchad.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    run = subprocess.Popen([sys.executable, str(script), str(path)], env=environment, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (path.exists() and path.read_bytes().count(b"\n") >= 2):
            assert time.monotonic() < deadline
            assert run.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
        children = _children(run.pid)
        run.send_signal(signal.SIGKILL)
    finally:
        run.kill()
        run.wait()
    some = path.read_bytes().count(b"\n")
    summary = run_suite(SMOKE, path, RunOptions(workers=1, entities=3))
    assert summary.cells == 12
    assert summary.already == some < 12
    assert len(records_of(path)) == 12
    assert children
    deadline = time.monotonic() + 10
    while any(_alive(child) for child in children):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_an_error_in_a_cell_spares_the_others_and_leaves_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fit, entity, protocol, threshold):
        if entity.name == "trend":
            raise ZeroDivisionError("oh")
        return {"roc_auc": 0.5}

    monkeypatch.setattr(runner, "judge", broken)
    summary = run_suite(SMOKE, tmp_path / "r.jsonl", RunOptions(workers=1, detectors=("random",)))
    assert summary.failed == ("five-kinds trend random seed 0: ZeroDivisionError: oh",)
    assert len(records_of(tmp_path / "r.jsonl")) == 8


def test_missing_datasets_are_named_and_the_others_run(tmp_path: Path) -> None:
    native.npz(tmp_path / "ASD" / "omi-1.npz", 19, train=80, test=60)
    suite = replace(SUITES["open"], variants=(RANDOM,))
    messages: list[str] = []
    summary = run_suite(suite, tmp_path / "r.jsonl", RunOptions(data=tmp_path, workers=1, seeds=2), messages.append)
    assert set(summary.missing) == set(suite.datasets) - {"ASD"}
    assert any(line.startswith("PSM is left out") for line in messages)
    assert any("'omi-2'" in line for line in messages)
    assert [record["seed"] for record in records_of(tmp_path / "r.jsonl")] == [0, 1]


class Needy(RandomScore):
    """Random scores that need a library nobody has."""

    name = "needy"

    def _fit(self, train, tails) -> None:
        raise MissingExtraError("nolib", "baselines")


def test_an_unavailable_detector_is_named_once_and_leaves_neither_record_nor_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DETECTORS, "needy", Needy)
    messages: list[str] = []
    options = RunOptions(workers=1, detectors=("needy", "random"), entities=2)
    summary = run_suite(SMOKE, tmp_path / "r.jsonl", options, messages.append)
    assert summary.unavailable == ("needy",)
    assert (summary.cells, summary.failed) == (4, ())
    (line,) = [line for line in messages if line.startswith("skipped: ")]
    assert "needy" in line
    assert "pip install 'patchad[baselines]'" in line
    assert {record["detector"] for record in records_of(tmp_path / "r.jsonl")} == {"random"}
    with pytest.raises(MissingExtraError):
        fit_and_score(Needy(), load_entities(SMOKE, "five-kinds", options)[0])


@pytest.mark.parametrize("variant", [TINY, Variant("usad", "usad", parameters={"max_steps": 2})])
def test_cost_is_measured_instead_of_quality(variant: Variant, tmp_path: Path) -> None:
    suite = replace(SUITES["paper-cost"], variants=(variant,), seeds=(0,), datasets=("swat-shaped",))
    run_suite(suite, tmp_path / "r.jsonl", RunOptions(workers=1))
    (record,) = records_of(tmp_path / "r.jsonl")
    assert set(record["metrics"]) == {"n_parameters", "flops", "latency_ms", "step_ms", "epoch_seconds"}
    assert all(value > 0 for value in record["metrics"].values())
    assert record["metrics"]["n_parameters"] == record["n_parameters"]

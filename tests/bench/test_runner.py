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

import numpy as np
import pytest
from tests import native

import patchad
from patchad.bench import runner as experiment
from patchad.bench.protocols import fit_and_score
from patchad.bench.records import KEYS, RecordFile, identity, read_records
from patchad.bench.runner import Options, plan, run_suite
from patchad.bench.suites import RANDOM, SUITES, Variant
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


def test_a_record_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "new" / "records.jsonl"
    said: list[str] = []
    outcome = run_suite(SMOKE, path, Options(workers=1, entities=1), said.append)
    assert (outcome.cells, outcome.already, outcome.failed, outcome.missing) == (4, 0, (), ())
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
    assert parameters.items() >= {"window": 30, "d_model": 8, "max_steps": 5, "threshold": "auto", "hop": 5}.items()
    assert not {"random_state", "device", "verbose"} & set(parameters)
    assert any("[4/4]" in line for line in said)


def test_cells_that_differ_in_threshold_alone_share_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    real = experiment.fit_and_score
    monkeypatch.setattr(experiment, "fit_and_score", lambda *args: fits.append(1) or real(*args))
    variants = tuple(Variant(f"r{r}", "random", parameters={"threshold": f"ratio:{r}"}) for r in (1, 2, 3))
    suite = replace(SMOKE, protocols=("paper",), variants=variants)
    run_suite(suite, tmp_path / "r.jsonl", Options(workers=1, entities=2))
    assert len(fits) == 2
    shares = [record["metrics"]["alarm_share"] for record in records_of(tmp_path / "r.jsonl")[:3]]
    assert shares == sorted(shares)
    assert shares[0] < shares[2]


def test_cells_that_differ_in_orientation_share_a_fit_and_get_the_records_of_fits_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    real = experiment.fit_and_score
    monkeypatch.setattr(experiment, "fit_and_score", lambda *args: fits.append(1) or real(*args))
    tiny = TINY.parameters | {"hop": 30, "epochs": None, "batch_size": 16}
    pair = tuple(Variant(f"o{o}", "patchad", "paper", tiny | {"orientation": o}) for o in (None, 1))
    alone = []
    run_suite(replace(SMOKE, variants=pair), tmp_path / "both.jsonl", Options(workers=1, entities=1))
    together = records_of(tmp_path / "both.jsonl")
    assert len(fits) == 1
    for number, variant in enumerate(pair):
        run_suite(replace(SMOKE, variants=(variant,)), tmp_path / f"{number}.jsonl", Options(workers=1, entities=1))
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


def test_a_fused_score_shares_no_fit_between_orientations(tmp_path: Path) -> None:
    pair = tuple(Variant(f"o{o}", parameters=TINY.parameters | {"orientation": o}) for o in (1, -1))
    cells, _ = plan(replace(SMOKE, variants=pair, protocols=("open",)), Options(entities=1))
    assert len({cell.fit_key for cell in cells}) == 2


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    run_suite(SMOKE, path, Options(workers=1, detectors=("random",), limit=3))
    before = path.read_bytes()
    outcome = run_suite(SMOKE, path, Options(workers=1, detectors=("random",)))
    assert (outcome.cells, outcome.already) == (10, 3)
    assert path.read_bytes().startswith(before)
    assert len(records_of(path)) == 10
    whole = path.read_bytes()
    run_suite(SMOKE, path, Options(workers=1, detectors=("random",)))
    assert path.read_bytes() == whole


def test_what_another_suite_measured_of_the_same_rows_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    options = Options(workers=1, detectors=("random",))
    run_suite(SMOKE, path, options)
    other, cost = replace(SMOKE, name="open"), replace(SMOKE, name="paper-cost", cost=True)
    shorter = replace(SMOKE, name="open-full", test_rows=500)
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "run_task", lambda task: pytest.fail("measured again"))
        said: list[str] = []
        assert run_suite(other, path, options, said.append).failed == ()
    assert any("10 records of other suites" in line for line in said)
    own, taken = ([record for record in records_of(path) if record["suite"] == name] for name in ("smoke", "open"))
    assert [record | {"suite": "smoke"} for record in taken] == own
    assert len(own) == 10
    with RecordFile(path) as file:
        for suite, left in ((cost, 10), (other, 0)):
            cells, _ = plan(experiment.narrowed(suite, options), options)
            todo = [cell for cell in cells if identity(cell.to_dict()) not in file.done]
            assert len(experiment._taken_over(suite, todo, options, file, said.append)) == left
        entities = experiment.generate("five-kinds")
        monkeypatch.setattr(experiment, "load_entities", lambda *_: [shortened(entity) for entity in entities])
        cells, _ = plan(experiment.narrowed(shorter, options), options)
        assert len(experiment._taken_over(shorter, cells, options, file, said.append)) == 10  # other rows


def shortened(entity):
    return replace(entity, test=entity.test[:500], labels=entity.labels[:500])


@pytest.mark.parametrize("torn", [1, 40, 300])
def test_a_torn_last_line_is_dropped_and_its_cell_run_again(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "records.jsonl"
    options = Options(workers=1, detectors=("random",))
    run_suite(SMOKE, path, options)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:torn])
    assert len(read_records(path)) == len(lines) - 1
    assert path.read_bytes().endswith(lines[-1][:torn])  # reading changes nothing
    outcome = run_suite(SMOKE, path, options)
    assert outcome.already == len(lines) - 1
    assert len(records_of(path)) == len(lines)


def test_a_whole_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    options = Options(workers=1, detectors=("random",))
    run_suite(SMOKE, path, Options(workers=1, detectors=("random",), limit=2))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert run_suite(SMOKE, path, options).already == 2
    assert len(records_of(path)) == 10


def test_repeated_records_are_read_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "records.jsonl"
    run_suite(SMOKE, path, Options(workers=1, detectors=("random",), limit=2))
    path.write_bytes(path.read_bytes() * 2)
    assert len(read_records(path)) == 2
    assert "2 records repeat" in caplog.text


@pytest.mark.parametrize("line", ["nonsense", "[1]", "{}", '{"suite": "s"}', '{"suite"\nnonsense'])
def test_a_line_that_is_no_record_is_refused_and_nothing_changes(tmp_path: Path, line: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match="line 1 is no record"):
        read_records(path)
    with pytest.raises(InputError, match="line 1 is no record"):
        RecordFile(path)
    assert path.read_text() == line + "\n"


def test_a_file_of_something_else_is_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk")
    with pytest.raises(InputError, match="line 1 is no record"):
        run_suite(SMOKE, path, Options(workers=1))
    assert path.read_text() == "remember the milk"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with RecordFile(path), pytest.raises(InputError, match="another run"):
        RecordFile(path)
    with pytest.raises(InputError, match="is a folder"):
        RecordFile(tmp_path)


SLOW_RUN = """
import sys
from pathlib import Path
from tests.bench.test_runner import SMOKE, TINY
from patchad.bench.runner import Options, run_suite

if __name__ == "__main__":
    run_suite(SMOKE, Path(sys.argv[1]), Options(workers=2, entities=3), lambda line: print(line, flush=True))
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
    outcome = run_suite(SMOKE, path, Options(workers=1, entities=3))
    assert outcome.cells == 12
    assert outcome.already == some < 12
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

    monkeypatch.setattr(experiment, "judge", broken)
    outcome = run_suite(SMOKE, tmp_path / "r.jsonl", Options(workers=1, detectors=("random",)))
    assert outcome.failed == ("five-kinds trend random seed 0: ZeroDivisionError: oh",)
    assert len(records_of(tmp_path / "r.jsonl")) == 8


def test_missing_datasets_are_named_and_the_others_run(tmp_path: Path) -> None:
    native.npz(tmp_path / "ASD" / "omi-1.npz", 19, train=80, test=60)
    suite = replace(SUITES["open"], variants=(RANDOM,))
    said: list[str] = []
    outcome = run_suite(suite, tmp_path / "r.jsonl", Options(data=tmp_path, workers=1, seeds=2), said.append)
    assert set(outcome.missing) == set(suite.datasets) - {"ASD"}
    assert any(line.startswith("PSM is left out") for line in said)
    assert any("'omi-2'" in line for line in said)
    assert [record["seed"] for record in records_of(tmp_path / "r.jsonl")] == [0, 1]


def test_nothing_to_run_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'smoke', which needs none"):
        run_suite(SUITES["paper-ucr"], tmp_path / "r.jsonl", Options(data=tmp_path / "none"))
    assert not (tmp_path / "r.jsonl").exists()


def test_paper_joins_and_open_cuts(tmp_path: Path) -> None:
    for name in ("C-1", "C-2", "F-7"):
        native.npz(tmp_path / "MSL" / "channels" / f"{name}.npz", 55, train=80, test=60)
    options = Options(data=tmp_path, workers=1)
    cells, _ = plan(SUITES["paper-classic"], options)
    assert {cell.entity for cell in cells} == {"MSL"}
    assert experiment.load_entities(SUITES["paper-classic"], "MSL", options)[0].test.shape == (180, 55)
    short = replace(SUITES["open"], train_rows=50, test_rows=40)
    first, second = experiment.load_entities(short, "MSL", options)
    assert (first.name, second.name) == ("C-1", "F-7")
    assert (first.train.shape, first.test.shape, first.labels.shape) == ((50, 55), (40, 55), (40,))
    whole = experiment.load_entities(SUITES["open-full"], "MSL", options)[0]
    np.testing.assert_array_equal(first.train, whole.train[-50:])
    np.testing.assert_array_equal(first.test, whole.test[:40])


def test_rows_can_be_chosen_by_their_name_or_their_detectors() -> None:
    suite = SUITES["paper-ablation"]
    narrowed = experiment.narrowed(suite, Options(detectors=("wo_ch_mixer", "random"), datasets=("msl",)))
    assert [variant.name for variant in narrowed.variants] == ["wo_ch_mixer", "random"]
    assert narrowed.datasets == ("MSL",)
    with pytest.raises(InputError, match="no detector 'nope'"):
        experiment.narrowed(suite, Options(detectors=("nope",)))
    with pytest.raises(InputError, match="has no dataset 'UCR'"):
        experiment.narrowed(suite, Options(datasets=("UCR",)))
    with pytest.raises(InputError, match="workers must be at least 1"):
        Options(workers=0)


def test_all_means_every_row_and_every_other_detector_once() -> None:
    for name in ("paper-classic", "paper-ablation", "open"):
        suite = SUITES[name]
        rows = experiment.narrowed(suite, Options(detectors=("random", "all"))).variants
        assert len({row.name for row in rows}) == len(rows)
        assert all(variant in rows for variant in suite.variants)
        assert {row.detector for row in rows} == set(DETECTORS)
    whole = experiment.narrowed(SUITES["paper-classic"], Options(detectors=("npsr_seq-induced",))).variants
    assert [(row.detector, row.parameters) for row in whole] == [("npsr_seq", {"score": "induced"})]


class Needy(RandomScore):
    """Random scores that need a library nobody has."""

    name = "needy"

    def _fit(self, train, tails) -> None:
        raise MissingExtraError("nolib", "baselines")


def test_a_detector_that_cannot_run_here_is_said_once_and_leaves_neither_record_nor_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DETECTORS, "needy", Needy)
    said: list[str] = []
    options = Options(workers=1, detectors=("needy", "random"), entities=2)
    outcome = run_suite(SMOKE, tmp_path / "r.jsonl", options, said.append)
    assert outcome.unavailable == ("needy",)
    assert (outcome.cells, outcome.failed) == (4, ())
    (line,) = [line for line in said if line.startswith("skipped: ")]
    assert "needy" in line
    assert "pip install 'patchad[baselines]'" in line
    assert {record["detector"] for record in records_of(tmp_path / "r.jsonl")} == {"random"}
    with pytest.raises(MissingExtraError):
        fit_and_score(Needy(), experiment.load_entities(SMOKE, "five-kinds", options)[0])


def test_settings_that_equal_the_papers_are_run_once() -> None:
    suite = replace(SUITES["paper-sensitivity"], datasets=("five-kinds",), seeds=(0,))
    cells, _ = plan(suite, Options(entities=1))
    # constraint 0.2, ratio 1, width 40, three layers, window 105 and patches 3, 5 are the paper's own setting
    assert len(cells) == len(suite.variants) - 6


@pytest.mark.parametrize("variant", [TINY, Variant("usad", "usad", parameters={"max_steps": 2})])
def test_cost_is_measured_in_place_of_quality(variant: Variant, tmp_path: Path) -> None:
    suite = replace(SUITES["paper-cost"], variants=(variant,), seeds=(0,), datasets=("swat-shaped",))
    run_suite(suite, tmp_path / "r.jsonl", Options(workers=1))
    (record,) = records_of(tmp_path / "r.jsonl")
    assert set(record["metrics"]) == {"n_parameters", "flops", "latency_ms", "step_ms", "epoch_seconds"}
    assert all(value > 0 for value in record["metrics"].values())
    assert record["metrics"]["n_parameters"] == record["n_parameters"]

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks import explanations
from benchmarks.plant import CALM_ROWS, study

from patchad import PatchAD
from patchad.cli.demo import match_faults
from patchad.cli.main import run
from patchad.data.table import Table
from patchad.datasets.plant import FAULTS, Fault, simulate_plant
from patchad.results.detection import Event


def event(start: int, stop: int, *channels: str, score: float = 1.0) -> Event:
    return Event(start, stop, start, score, 50.0, tuple((name, 1 / len(channels)) for name in channels))


def test_faults_are_matched_with_the_events_that_overlap_them():
    faults = (Fault("trend", "flow", 100, 150), Fault("seasonal", "heat", 300, 350))
    events = (event(90, 95, "x"), event(120, 130, "flow"), event(155, 158, "heat", "flow", score=9.0))
    outcomes, false_events = match_faults(faults, events)
    assert outcomes[0].event is events[2], "the strongest of those that overlap, a few rows of grace included"
    assert outcomes[0].rank == 2
    assert outcomes[1].event is None
    assert outcomes[1].rank is None
    assert false_events == (events[0],)


def test_every_explanation_ranks_all_channels():
    train, faulty = simulate_plant(400), simulate_plant(300, seed=1)
    detector = PatchAD(window=30, max_steps=2).fit(Table(train.values, train.channels))
    found = event(150, 160, *faulty.channels)
    case = explanations.Case(detector, train, faulty, found, found)
    for name, explain in explanations.EXPLANATIONS.items():
        assert sorted(explain(case)) == sorted(faulty.channels), name


@pytest.mark.slow
def test_the_demo_finds_its_faults_and_writes_a_report(tmp_path, capsys):
    assert run(["demo", "--out", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    found, total = map(int, re.search(r"(\d+) of (\d+) faults found", printed).groups())
    assert found >= 0.8 * total
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"report.html", "train.csv", "test.csv"}
    model, scores = str(tmp_path / "pump.safetensors"), tmp_path / "scores.csv"
    assert run(["fit", str(tmp_path / "demo" / "train.csv"), "-o", model]) == 0
    call = ["detect", model, str(tmp_path / "demo" / "test.csv"), "--labels", "label", "-o", str(scores)]
    assert run(call) == 0
    assert f"{found} of {total} labelled anomalies found" in capsys.readouterr().err
    assert run(["evaluate", str(scores), "--labels", "label"]) == 0


@pytest.mark.slow
def test_the_faulty_channel_is_blamed_first_and_its_partner_named_in_a_correlation_break():
    result = explanations.study(3, 1000, {"shares": explanations.by_shares})
    ranks = result.guilty["shares"]
    alone = np.array([rank for kind in FAULTS if kind != explanations.BREAK for rank in ranks[kind]])
    assert (alone == 1).mean() >= 0.8
    assert (alone <= 3).mean() >= 0.95
    assert (np.maximum(ranks[explanations.BREAK], result.partner["shares"]) <= 4).mean() >= 0.95


@pytest.mark.slow
def test_every_kind_of_fault_is_found_in_four_of_five_seeds_and_the_channel_blamed():
    result = study(5)
    assert all(result.seeds_with[kind] >= 4 for kind in FAULTS), "both faults of a kind, in four of five seeds"
    assert result.first_three >= 0.8 * result.found.total()
    assert sum(result.calm_events) <= 5 * CALM_ROWS / 10_000, result.calm_events


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert run(["demo", "--out", str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err == (
        f"error: --out {str(tmp_path / 'taken')!r} is a file; give the path of a folder to write to\n"
    )

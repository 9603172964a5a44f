"""Suites to cells: the right detectors, entities and parameters, each once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import native

from patchad.bench.cells import RunOptions, load_entities, narrow, plan_cells
from patchad.bench.suites import SUITES, Variant
from patchad.bench.tables import render
from patchad.detectors.registry import DETECTORS
from patchad.errors import InputError


def test_a_fused_score_shares_no_fit_between_orientations() -> None:
    pair = tuple(Variant(f"o{o}", parameters={"window": 30} | {"orientation": o}) for o in (1, -1))
    suite = replace(SUITES["smoke"], variants=pair, protocols=("open",), datasets=("five-kinds",))
    cells, _ = plan_cells(suite, RunOptions(entities=1))
    assert len({cell.fit_key for cell in cells}) == 2


def test_nothing_to_run_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'smoke', which needs none"):
        plan_cells(SUITES["paper-ucr"], RunOptions(data=tmp_path / "none"))


def test_paper_joins_and_open_cuts(tmp_path: Path) -> None:
    for name in ("C-1", "C-2", "F-7"):
        native.npz(tmp_path / "MSL" / "channels" / f"{name}.npz", 55, train=80, test=60)
    options = RunOptions(data=tmp_path, workers=1)
    cells, _ = plan_cells(SUITES["paper-classic"], options)
    assert {cell.entity for cell in cells} == {"MSL"}
    assert load_entities(SUITES["paper-classic"], "MSL", options)[0].test.shape == (180, 55)
    short = replace(SUITES["open"], train_rows=50, test_rows=40)
    first, second = load_entities(short, "MSL", options)
    assert (first.name, second.name) == ("C-1", "F-7")
    assert (first.train.shape, first.test.shape, first.labels.shape) == ((50, 55), (40, 55), (40,))
    whole = load_entities(SUITES["open-full"], "MSL", options)[0]
    np.testing.assert_array_equal(first.train, whole.train[-50:])
    np.testing.assert_array_equal(first.test, whole.test[:40])


@pytest.mark.parametrize(("asked", "steps"), [(None, 7), (3, 3), (0, None)])
def test_training_without_a_bound_of_its_own_is_bounded_as_asked(
    monkeypatch, asked: int | None, steps: int | None
) -> None:
    monkeypatch.setattr("patchad.bench.cells.find_device", lambda _: torch.device("cpu"))
    variant = Variant("patchad-paper", preset="paper")
    suite = replace(SUITES["smoke"], variants=(variant,), datasets=("five-kinds",), cpu_steps=7)
    cells, _ = plan_cells(suite, RunOptions(entities=1, max_steps=asked))
    assert {cell.parameters["max_steps"] for cell in cells} == {steps}


def test_variants_are_chosen_by_their_name_or_their_detector() -> None:
    suite = SUITES["paper-ablation"]
    chosen = narrow(suite, RunOptions(detectors=("wo_ch_mixer", "random"), datasets=("msl",)))
    assert [variant.name for variant in chosen.variants] == ["wo_ch_mixer", "random"]
    assert chosen.datasets == ("MSL",)
    with pytest.raises(InputError, match="no detector 'nope'"):
        narrow(suite, RunOptions(detectors=("nope",)))
    with pytest.raises(InputError, match="has no dataset 'UCR'"):
        narrow(suite, RunOptions(datasets=("UCR",)))
    with pytest.raises(InputError, match="workers must be at least 1"):
        RunOptions(workers=0)
    with pytest.raises(InputError, match="max_steps must be at least 0"):
        RunOptions(max_steps=-1)


def test_all_means_every_variant_and_every_other_detector_once() -> None:
    for name in ("paper-classic", "paper-ablation", "open"):
        suite = SUITES[name]
        chosen = narrow(suite, RunOptions(detectors=("random", "all"))).variants
        assert len({variant.name for variant in chosen}) == len(chosen)
        assert all(variant in chosen for variant in suite.variants)
        assert {variant.detector for variant in chosen} == set(DETECTORS)
    whole = narrow(SUITES["paper-classic"], RunOptions(detectors=("npsr_seq-induced",))).variants
    assert [(variant.detector, variant.parameters) for variant in whole] == [("npsr_seq", {"score": "induced"})]


def test_variants_that_equal_the_papers_setting_are_run_once() -> None:
    suite = replace(SUITES["paper-sensitivity"], datasets=("five-kinds",), seeds=(0,))
    cells, _ = plan_cells(suite, RunOptions(entities=1))
    # constraint 0.2, ratio 1, width 40, three layers, window 105 and patches 3, 5 are the paper's own setting
    assert len(cells) == len(suite.variants) - 6


def test_a_collection_is_every_series_in_its_layout_scored_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "TSB-AD-U"
    native.npz(folder / "Family" / "002_Family_id_2_Web_tr_80_1st_90.npz", 1, train=80, test=60)
    (folder / "001_Other_id_1_Web_tr_30_1st_40.csv").write_text("Data,Label\n" + "1,0\n" * 40 + "2,1\n" * 5)
    options = RunOptions(data=tmp_path, workers=1)
    first, second = load_entities(SUITES["tsb-ad"], "TSB-AD-U", options)
    assert (first.train.shape, first.test.shape, int(first.labels.sum())) == ((30, 1), (45, 1), 5)
    assert (second.train.shape, second.test.shape) == ((80, 1), (140, 1))
    cells, _ = plan_cells(narrow(SUITES["tsb-ad"], RunOptions(datasets=("TSB-AD-U",))), options)
    assert {cell.protocol for cell in cells} == {"tsb-ad"}
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "without-Family.safetensors").touch()
    given = replace(options, weights=tmp_path / "weights")
    cells, _ = plan_cells(narrow(SUITES["tsb-ad"], RunOptions(datasets=("TSB-AD-U",))), given)
    unseen = {cell.entity: cell.parameters["weights"] for cell in cells if cell.detector == "patchad"}
    assert unseen == {first.name: "pretrained", second.name: "without-Family"}
    with pytest.raises(InputError, match="no series of TSB-AD-M"):
        load_entities(SUITES["tsb-ad"], "TSB-AD-M", options)


def test_a_variant_may_have_other_parameters_on_several_channels(tmp_path: Path) -> None:
    for width, name in ((1, "TSB-AD-U"), (3, "TSB-AD-M")):
        native.npz(tmp_path / name / f"{name}_id_1_Web_tr_80_1st_90.npz", width, train=80, test=60)
    suite = narrow(SUITES["tsb-ad"], RunOptions(detectors=("paano-public",)))
    cells, _ = plan_cells(suite, RunOptions(data=tmp_path))
    assert [cell.parameters["window"] for cell in cells] == [64, 96]
    records = [cell.to_dict() | {"metrics": {"vus_pr_period": 0.5}} for cell in cells]
    assert sum(line.startswith("| paano-public | ") for line in render(records).splitlines()) == 2  # one per dataset

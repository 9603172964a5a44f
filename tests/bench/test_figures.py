"""The paper's figures: each can be made, and what they compute is correct."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests import native
from tests.conftest import small, waves

from patchad import PatchAD
from patchad.bench.cells import parameters_of
from patchad.bench.figures import FIGURES, cases, from_records, kinds, losses, nets, overall, theory
from patchad.bench.figures.base import FigureOptions, MissingSourceError
from patchad.bench.figures.drawing import render
from patchad.bench.figures.entropy import gaussian_entropy, softmax_entropy
from patchad.bench.figures.features import detail_share
from patchad.bench.suites import PAPER, SUITES
from patchad.cli import main as cli

QUICK = FigureOptions(quick=True)
COLUMNS = {
    "kinds": {"kind", "row", "value", "label", "paper", "paper_level", "agreement", "fused"},
    "kinds-others": {"kind", "scorer", "seed", "row", "value", "label", "score", "level"},
    "features": {"case", "patch_sizes", "row", "original", "rec_1", "rec_2"},
    "features-detail": {"objective", "patch_sizes", "seed", "curve", "detail_share", "correlation"},
    "entropy": {"objective", "patch_sizes", "seed", "step", "inter_softmax", "intra_softmax", "softmax_ratio"},
    "entropy-gaussian": {"inter_gaussian", "intra_gaussian", "gaussian_difference"},
    "constraint": {"objective", "constraint", "seed", "step", "loss", "reconstruction", "distance", "flatness"},
    "collapse": {"objective", "constraint", "step", "view", "centre", "entropy"},
    "theory": {"sweep", "share", "k", "m", "curve", "entropy"},
}
"""Columns of the data of figures that need neither datasets nor records."""


def run(*arguments: object) -> int:
    return cli.run([str(argument) for argument in arguments])


def record(suite: str, name: str, seed: int = 0, *, steps: int | None = 50, **metrics: float) -> dict[str, object]:
    """Return a record of a variant of a suite."""
    variant = next(variant for variant in SUITES[suite].variants if variant.name == name)
    cell = {"suite": suite, "protocol": "paper", "dataset": "MSL", "entity": "MSL", "detector": variant.detector}
    return cell | {"parameters": parameters_of(variant, "paper", steps), "seed": seed, "metrics": metrics}


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fewer and shorter fits."""
    monkeypatch.setattr(kinds, "ROWS", 600)
    monkeypatch.setattr(losses, "CONSTRAINTS", (0.0, 0.2))
    kinds.scored.cache_clear()


@pytest.mark.usefixtures("fewer")
@pytest.mark.parametrize("name", COLUMNS)
def test_a_figure_is_two_images_and_their_data(name: str, tmp_path: Path) -> None:
    assert run("bench", "figures", name, "--quick", "-o", tmp_path / "out") == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{name}.png", f"{name}.svg", f"{name}.csv"}
    frame = pd.read_csv(tmp_path / "out" / f"{name}.csv")
    assert set(frame.columns) >= COLUMNS[name]
    assert len(frame) > 1
    assert not frame.isna().any(axis=None)
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (tmp_path / "out" / f"{name}.svg").read_text()


def test_a_figure_has_the_same_bytes_each_time() -> None:
    figure = FIGURES["theory"]
    assert render(figure, figure.compute(QUICK)) == render(figure, figure.compute(QUICK))


def test_every_scorer_is_judged_on_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    entity = kinds.one_channel("trend", rows=600, seed=0)
    scores = entity.labels.astype(float)  # as good as can be
    monkeypatch.setattr(kinds, "scored", lambda *_: (entity, scores, 0.5))
    frame = kinds.quality(FigureOptions())
    assert len(frame) == (len(kinds.KINDS) * len(kinds.OURS) + len(kinds.OTHERS)) * kinds.SEEDS
    assert (frame["roc_auc"] == 1).all()
    assert (frame["events_found"] == 3).all()
    assert (frame["false_alarm_share"] == 0).all()
    assert set(render(FIGURES["kinds-auc"], frame)) == {"png", "svg", "csv"}


def test_real_entities_are_loaded_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = waves(300, 19)
    test[200:220] += 2
    path = tmp_path / "data" / "ASD" / "omi-2.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, train=waves(400, 19), test=test, test_label=(np.arange(300) // 20) == 10)
    monkeypatch.setattr(cases, "CASES", (("ASD", "omi-2"),))
    options = FigureOptions(data=tmp_path / "data", quick=True)
    frame = cases.studies(options)
    assert set(frame["entity"]) == {"ASD omi-2"}
    assert frame[["value", "reconstruction", "paper", "agreement", "fused"]].notna().all(axis=None)
    assert set(render(FIGURES["cases"], frame)) == {"png", "svg", "csv"}
    latent = cases.latent(options)
    assert set(latent["view"]) == {"input", "inter", "intra"}
    assert latent["roc_auc"].between(0, 1).all()
    assert set(render(FIGURES["tsne"], latent)) == {"png", "svg", "csv"}


# -- missing sources and wrong calls ----------------------------------------------------------------------------------


def test_figures_without_their_sources_are_named_and_the_others_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "none"
    data.mkdir()
    names = ("cases", "sensitivity", "time", "theory")
    assert run("bench", "figures", *names, "--quick", "-o", tmp_path / "out", "--data", data) == 0
    messages = capsys.readouterr().err
    assert "left out: cases: it needs SKAB" in messages
    assert (
        "left out: sensitivity: it needs records of paper-sensitivity; make them with `patchad bench run paper-sens"
        in messages
    )
    assert "left out: time: it needs records of paper-cost" in messages
    assert messages.splitlines()[-1].startswith("1 figures in ")
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {"theory"}


def test_a_missing_entity_is_named(tmp_path: Path) -> None:
    native.npz(tmp_path / "ASD" / "omi-1.npz", 19)
    with pytest.raises(MissingSourceError, match=r"needs 'omi-2' of ASD; in .* are only 'omi-1'"):
        cases.find_entity("ASD", "omi-2", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("entropie",), "there is no figure 'entropie'; did you mean 'entropy'? use one of 'overall'"),
        (("zzz",), "there is no figure 'zzz'; use one of 'overall'"),
        (("sensitivity",), "no figure could be made; sensitivity: it needs records of paper-sensitivity"),
        (("sensitivity", "--records", "nowhere.jsonl"), "cannot read 'nowhere.jsonl'"),
        (("theory", "--records", "foreign.jsonl"), "line 1 is not a record"),
        (("theory", "-o", "foreign.jsonl"), "'foreign.jsonl' is a file; give a folder with -o"),
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
    Path("foreign.jsonl").write_text("time,value\n1,2\n")
    assert run("bench", "figures", *arguments, "--quick") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.splitlines()[-1].startswith("error: ")
    assert not Path("figures").exists()


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("bench", "figures", "theory", "--quick", "-o", tmp_path / "out") == 3
    assert "pip install 'patchad[figures]'" in capsys.readouterr().err


def test_list_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "figures", "--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FIGURES)


# -- figures from records ----------------------------------------------------------------------------------------------


def test_sensitivity_groups_records_by_the_one_parameter_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "records" / "r.jsonl"
    path.parent.mkdir()
    results = {"patchad-paper": 0.5, "d_model=10": 0.6, "window=60": 0.7, "stride=window": 0.9, "random": 0.8}
    results |= {"patch_sizes=1,7": 0.4, "threshold=ratio:0.5": 0.3}
    rows = [record("paper-sensitivity", name, pa_f1=value, roc_auc=0.5) for name, value in results.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("bench", "figures", "sensitivity", "--records", path.parent, "-o", tmp_path) == 0
    frame = pd.read_csv(tmp_path / "sensitivity.csv")
    ours = frame[frame["source"] == "ours"]
    found = {(row.parameter, row.value): row.pa_f1 for row in ours.itertuples()}
    assert found[("d_model", "10.0")] == 0.6
    assert found[("window", "60.0")] == 0.7
    assert found[("patch_sizes", "1,7")] == 0.4
    assert found[("threshold", "0.5")] == 0.3
    assert [found[(name, value)] for name, value in (("layers", "3.0"), ("patch_sizes", "3,5"))] == [0.5, 0.5]
    assert 0.9 not in set(ours["pa_f1"])  # the stride is not one of the six
    stated = frame[(frame["source"] == "the paper") & (frame["parameter"] == "constraint")]
    assert stated["pa_f1"].tolist()[:2] == [0.9306, 0.9503]


def test_a_line_is_of_short_trainings_or_of_whole_ones_never_of_both() -> None:
    names = ("patchad-paper", "layers=1", "window=60")
    short = [record("paper-sensitivity", name, pa_f1=0.1, roc_auc=0.5) for name in names]
    whole = [record("paper-sensitivity", name, steps=None, pa_f1=0.9, roc_auc=0.5) for name in names[:2]]
    frame = from_records.sensitivity(FigureOptions(records=(*short, *whole)))
    ours = frame[frame["source"] == "ours"]
    assert {name: set(ours[ours["parameter"] == name]["pa_f1"]) for name in ("layers", "window", "d_model")} == {
        "layers": {0.9},
        "window": {0.1},
        "d_model": {0.9},
    }


def test_cost_is_collected_against_the_parameter_that_was_varied() -> None:
    names = [
        "patchad-paper",
        "stride=5",
        "d_model=20,stride=35",
        "window=70,patch_sizes=5,7,stride=35",
        "dcdetector,stride=5",
    ]
    cost = {"n_parameters": 1000.0, "flops": 2e6, "latency_ms": 3.0, "step_ms": 4.0}
    rows = [record("paper-cost", name, **cost, epoch_seconds=n) for n, name in enumerate(names, 1)]
    options = FigureOptions(records=tuple(rows))
    frame = from_records.cost_against(options)
    found = {(row.method, row.against, row.value): row.epoch_seconds for row in frame.itertuples()}
    assert found == {
        ("patchad", "stride", 1): 1,
        ("patchad", "stride", 5): 2,
        ("patchad", "d_model", 20): 3,
        ("patchad", "window", 70): 4,
        ("dcdetector", "stride", 5): 5,
    }
    sizes = from_records.sizes(options)
    assert sizes["method"].tolist() == ["PatchAD.paper()", "the paper's PatchAD"]
    assert sizes["n_parameters"].tolist() == [1000, 403_000]
    for name, one in (("time", frame), ("sizes", sizes)):
        assert set(render(FIGURES[name], one)) == {"png", "svg", "csv"}


def test_means_over_datasets_stand_beside_those_of_the_paper_on_the_same_ones() -> None:
    frame = overall.means(FigureOptions(records=(record("paper-classic", "patchad-paper", roc_auc=0.5, f1=0.2),)))
    found = {(row.method, row.metric, row.source): (row.value, row.datasets) for row in frame.itertuples()}
    assert found["patchad-paper", "roc_auc", "ours"] == (50, 1)
    assert found["patchad-paper", "roc_auc", "the paper, our datasets"] == (60.94, 1)
    assert found["patchad-paper", "f1", "the paper"] == (pytest.approx(294.02 / 6), 6)
    assert ("lof", "roc_auc", "ours") not in found
    assert set(render(FIGURES["overall"], frame)) == {"png", "svg", "csv"}


def test_records_of_other_variants_are_not_enough() -> None:
    usad = record("paper-cost", "usad", n_parameters=1, flops=1, latency_ms=1, step_ms=1, epoch_seconds=1)
    with pytest.raises(MissingSourceError, match="records of paper-cost with the paper's net"):
        from_records.cost_against(FigureOptions(records=(usad,)))
    random = record("paper-sensitivity", "random", pa_f1=0.5, roc_auc=0.5)
    with pytest.raises(MissingSourceError, match="records of paper-sensitivity with the paper's net"):
        from_records.sensitivity(FigureOptions(records=(random,)))


# -- what is computed --------------------------------------------------------------------------------------------------


def test_entropies_of_known_distributions() -> None:
    assert softmax_entropy(np.full((2, 3, 5), 7.0)) == pytest.approx(math.log(5))
    certain = np.zeros((4, 6))
    certain[:, 2] = 1000
    assert softmax_entropy(certain) == pytest.approx(0)
    assert softmax_entropy(np.log([[0.5, 0.25, 0.25]])) == pytest.approx(1.5 * math.log(2))
    assert gaussian_entropy(4.0) - gaussian_entropy(1.0) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    "setting", [theory.Setting(4, 32, 0, 0), theory.Setting(4, 32, 4, 32), theory.Setting(8, 16, 0, 0)]
)
def test_simulation_agrees_with_the_papers_formulas_if_all_points_are_alike(setting: theory.Setting) -> None:
    found, formula = theory.simulate_entropies(setting, 1000, seed=1), theory.formulas(setting)
    for name in ("inter", "intra", "intra_all"):
        assert found[name] == pytest.approx(formula["inter_paper"], abs=0.03)
        assert found[name] == pytest.approx(formula["intra_paper"], abs=0.03)


def test_simulation_agrees_with_the_formula_of_the_same_points_and_not_with_the_papers() -> None:
    setting = theory.Setting(4, 32, 1, 1)  # the paper's example
    found, formula = theory.simulate_entropies(setting, 3000, seed=1), theory.formulas(setting)
    assert found["inter"] == pytest.approx(formula["inter_same_points"], abs=0.03)
    assert found["intra"] == pytest.approx(formula["intra_paper"], abs=0.03)
    assert formula["inter_paper"] > found["intra"] > found["inter"]  # its inequality, and what comes out


def test_sampled_windows_have_the_right_number_of_anomalous_points() -> None:
    setting = theory.Setting(4, 8, 1, 2)
    values, odd = theory.sample_windows(setting, 4000, np.random.default_rng(0))
    assert (odd.sum(axis=1) == 1).all()
    wide = (2 * theory.ANOMALOUS + 6 * theory.NORMAL) / 8
    assert values[odd].var() == pytest.approx(wide, rel=0.05)
    assert values[~odd].var() == pytest.approx(theory.NORMAL, rel=0.05)


def test_linear_mixers_are_what_the_theory_assumes() -> None:
    weights = theory.linear_mixer(16, np.random.default_rng(0))
    np.testing.assert_allclose(weights.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose((weights**2).sum(axis=1), theory.GAIN)


def test_the_halves_add_up_to_the_reconstruction(fitted: PatchAD) -> None:
    windows = waves(90).reshape(3, 30, 3)
    inter, intra = nets.halves(fitted, windows)
    whole = np.mean([out.reconstruction.numpy() for out in nets.run_net(fitted, windows)], axis=0)
    np.testing.assert_allclose(inter + intra, whole, atol=1e-5)


def test_the_terms_of_the_loss_add_up_to_the_loss() -> None:
    detector = small(objective="agreement", constraint=0.0).fit(waves(300))
    found = losses.loss_terms(detector, waves(60).reshape(2, 30, 3))
    assert found["loss"] == pytest.approx(found["reconstruction"] + 2 * found["distance"], rel=1e-4)
    assert 0 < found["flatness"] <= 1


def test_the_adversarial_loss_is_the_reconstruction_alone() -> None:
    detector = small(objective="adversarial", max_steps=3).fit(waves(300))
    found = losses.loss_terms(detector, waves(60).reshape(2, 30, 3))
    assert found["loss"] == pytest.approx(found["reconstruction"], rel=1e-4)
    assert found["distance"] > 0


def test_every_row_has_the_features_of_its_patch_and_position(fitted: PatchAD) -> None:
    values = waves(75)  # two windows and a half
    found = cases.row_features(fitted, values)
    outputs = nets.run_net(fitted, values[:30][None])
    for name, position in (("inter", lambda t, size: t // size), ("intra", lambda t, size: t % size)):
        for t in (0, 4, 17, 29):
            parts = [
                getattr(out, name)[:, position(t, size), 0].mean(0).numpy()
                for out, size in zip(outputs, fitted.patch_sizes_, strict=True)
            ]
            np.testing.assert_allclose(found[name][t], np.concatenate(parts), atol=1e-5)
    assert found["input"].shape == (75, 3)


def test_detail_is_the_share_of_high_frequencies() -> None:
    noise = np.random.default_rng(0).standard_normal((50, 100))
    assert detail_share(noise) == pytest.approx(0.8, abs=0.03)  # 40 of 50 frequencies are over a tenth


def test_the_papers_setting_is_in_every_panel() -> None:
    base = parameters_of(PAPER, "paper", None)
    assert set(from_records.SENSITIVITIES) <= set(base)


def test_the_benchmark_page_says_what_every_figure_is_made_from() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text(encoding="utf-8")
    table = page.split("| made from | figures |")[1]
    assert set(re.findall(r"`([\w-]+)`", table)) - {
        "--data",
        "paper-classic",
        "paper-sensitivity",
        "paper-cost",
    } == set(FIGURES)


def test_the_analysis_page_shows_every_figure_with_its_data() -> None:
    root = Path(__file__).parents[2] / "docs"
    page = (root / "analysis.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(images/analysis/([\w-]+)\.png\)", page)
    assert set(re.findall(r"^`([\w-]+)`", page, re.MULTILINE)) == set(FIGURES)
    assert {path.stem for path in (root / "images" / "analysis").iterdir()} == set(shown)
    for name in shown:
        image = root / "images" / "analysis" / f"{name}.png"
        assert image.stat().st_size < 160_000, name
        data = root / "results" / "figures" / f"{name}.csv"
        assert data.exists() == (f"(results/figures/{name}.csv)" in page), name

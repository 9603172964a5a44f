"""What the suites contain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchad.bench.cells import all_variants, parameters_of
from patchad.bench.paper import published_rows
from patchad.bench.protocols import PROTOCOLS
from patchad.bench.records import KEYS
from patchad.bench.suites import CODE, FOUR, SAMPLE, SUITES, find_suite
from patchad.datasets import DATASETS
from patchad.datasets.synthetic import SYNTHETIC
from patchad.datasets.tsb_ad import COLLECTIONS
from patchad.detectors.patchad import PatchAD
from patchad.detectors.registry import DETECTORS, make
from patchad.errors import InputError

NAMES = (
    *("paper-pa", "paper-classic", "paper-nips", "paper-ucr", "paper-ablation", "paper-distance"),
    *("paper-sensitivity", "paper-cost", "open", "open-ablation", "open-full", "tsb-ad", "smoke"),
)


CONTRACT = (
    *("random", "last_difference", "sensor_range", "moving_zscore", "lof", "ocsvm", "ocsvm_sub", "iforest"),
    *("iforest_sub", "pca", "sub_pca", "sub_knn", "kmeans_ad", "matrix_profile", "var", "autoregression", "gbrt"),
    *("deep_svdd", "autoencoder", "deep_if", "lstm_rnn", "lstm", "lstm_vae", "cnn", "tcn_ed", "usad", "dagmm"),
    *("beatgan", "omnianomaly", "thoc", "anomaly_transformer", "dcdetector", "timesnet", "patchtst", "tranad"),
    *("ncad", "couta", "npsr_pt", "npsr_seq", "m2n2", "adamembls", "bocpd", "u_time", "ts_cp2", "mmpcacd"),
    *("cl_mppca", "itad", "interfusion", "d3r", "gpt2_adapter", "kan_ad", "paano"),
)
"""Names that other programs may rely on, whether or not there is a detector of that name yet."""


def test_all_suites_exist() -> None:
    assert tuple(SUITES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_a_suite_is_known(name: str) -> None:
    suite = find_suite(name)
    assert set(suite.datasets) <= {*DATASETS, *SYNTHETIC, *COLLECTIONS}
    assert set(suite.protocols) <= set(PROTOCOLS)
    assert {variant.detector for variant in suite.variants} <= set(DETECTORS)
    assert len({variant.name for variant in suite.variants}) == len(suite.variants)


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_can_be_rebuilt_from_the_parameters_of_its_records(name: str) -> None:
    suite = find_suite(name)
    for variant in suite.variants:
        for protocol in suite.protocols:
            parameters = parameters_of(variant, protocol, suite.cpu_steps)
            settings = {key: tuple(v) if isinstance(v, list) else v for key, v in parameters.items()}
            made = make(variant.detector, **settings).get_params(deep=False)
            assert made["threshold"] == parameters["threshold"]
            assert all(made[key] == value for key, value in variant.parameters.items())


@pytest.mark.parametrize("name", NAMES)
def test_every_window_of_a_suite_is_a_multiple_of_its_patches(name: str) -> None:
    for variant in find_suite(name).variants:
        parameters = parameters_of(variant, "paper", None)
        uneven = [size for size in parameters.get("patch_sizes", ()) if parameters["window"] % size]
        assert not uneven, variant.name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "paper-cost"])
def test_every_suite_has_a_random_row(name: str) -> None:
    assert any(variant.detector == "random" for variant in find_suite(name).variants)


def test_comparisons_hold_default_paper_letter_and_random() -> None:
    assert find_suite("open").variants == FOUR
    for name in ("paper-pa", "paper-classic", "paper-nips", "paper-ucr"):
        suite = find_suite(name)
        assert [variant for variant in suite.variants if variant not in CODE] == list(FOUR)
        assert all(variant in suite.variants for variant in CODE)
        assert suite.protocols == ("paper", "code", "open")
    for trainer, variant in enumerate(CODE, start=1):
        made = json.loads(json.dumps(PatchAD.code(trainer).get_params(deep=False)))
        assert made == made | parameters_of(variant, "code", None)
    letter = parameters_of(FOUR[2], "paper", None)
    assert letter == parameters_of(FOUR[1], "paper", None) | {"orientation": 1}


def test_training_is_bounded_on_a_cpu_and_the_record_says_so() -> None:
    for name in NAMES:
        suite = find_suite(name)
        for variant in suite.variants:
            if variant.detector == "patchad" and variant.preset != "default":
                assert parameters_of(variant, "paper", suite.cpu_steps)["max_steps"] == suite.cpu_steps
                assert parameters_of(variant, "paper", None)["max_steps"] is None


def test_the_open_sample_is_small_and_fixed() -> None:
    suite = find_suite("open")
    assert suite.sample is SAMPLE
    assert max(len(names) for names in SAMPLE.values()) <= 6
    assert all(len(set(names)) == len(names) for names in SAMPLE.values())
    assert (suite.train_rows, suite.test_rows) == (20_000, 40_000)
    assert suite.seeds == (0, 1, 2)


def test_smoke_needs_no_files() -> None:
    assert set(find_suite("smoke").datasets) <= set(SYNTHETIC)


def test_every_row_of_the_papers_studies_has_its_variant() -> None:
    for row in published_rows():
        if row["detector"] == "patchad":
            suite = find_suite(row["suite"])
            assert row["variant"] in {variant.name for variant in suite.variants}, row
            assert row["dataset"] in suite.datasets, row


def test_every_method_of_the_paper_has_a_name_of_the_registry() -> None:
    named = {row["method"]: row["detector"] for row in published_rows() if row["detector"] != "patchad"}
    assert named.items() >= {"AnomTrans": "anomaly_transformer", "IForest*": "iforest_sub", "NPSR": "npsr_seq"}.items()
    assert set(named.values()) <= set(CONTRACT)
    for row in published_rows():
        if row["detector"] in DETECTORS:
            variants = {variant.name: variant.detector for variant in all_variants(find_suite(row["suite"]))}
            assert variants[row["variant"]] == row["detector"], row


def test_both_readings_of_the_stride_are_in_the_sensitivity_suite() -> None:
    names = {variant.name: variant for variant in find_suite("paper-sensitivity").variants}
    assert parameters_of(names["stride=window"], "paper", None)["stride"] == 105
    assert parameters_of(names["patchad-paper"], "paper", None)["stride"] == 1


def test_the_benchmark_page_lists_every_suite_and_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.split("## Protocols")[0].splitlines() if line.startswith("| `")]
    assert rows == list(SUITES)
    keys = page.split("## Records")[1].split("## How")[0]
    assert all(f"`{key}`" in keys for key in KEYS)


def test_unknown_suite_is_refused() -> None:
    with pytest.raises(InputError, match="no suite 'nope'; use one of 'paper-pa'"):
        find_suite("nope")

"""Result tables from records."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from patchad.bench import paper
from patchad.bench.cells import all_variants, parameters_of
from patchad.bench.paper import published_rows
from patchad.bench.statistics import bootstrap
from patchad.bench.suites import FOUR, PLAIN_DC, SUITES, Variant
from patchad.bench.tables import make_tables, render
from patchad.errors import InputError


def record(detector: str = "patchad", *, entity: str = "MSL", seed: int = 0, **other) -> dict:
    fields = {"suite": "paper-classic", "protocol": "paper", "dataset": "MSL", "parameters": {}}
    metrics = {"pa_f1": 0.9, "roc_auc": 0.5, "f1": 0.2, "vus_pr_legacy": 0.1}
    return fields | {"entity": entity, "detector": detector, "seed": seed, "metrics": metrics} | other


def of_variants(suite: str, protocol: str = "paper", **other) -> list[dict]:
    return [
        record(v.detector, suite=suite, protocol=protocol, parameters=parameters_of(v, protocol, 50), **other)
        for v in SUITES[suite].variants
    ]


@pytest.mark.parametrize("style", ["markdown", "csv", "latex"])
def test_every_detector_of_the_records_is_named(style: str) -> None:
    records = [record(name, suite=suite) for name in ("lof", "my_own") for suite in ("paper-classic", "elsewhere")]
    text = render(records, style).replace("\\_", "_")
    assert "lof" in text
    assert "my_own" in text


def test_published_values_stand_beside_ours_and_contradictions_are_both_shown() -> None:
    text = render(of_variants("paper-classic"))
    (own,) = [line for line in text.splitlines() if "tab:comparison_wo_pa" in line]
    (other,) = [line for line in text.splitlines() if "tab:ablation" in line]
    assert "60.94" in own
    assert "24.92" in own
    assert "23.92" in other
    assert "60.94" not in other
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    assert [row for row in rows[2:] if "the paper" not in row] == [
        "patchad",
        "patchad-paper (max_steps=50)",
        "patchad-letter (max_steps=50)",
        "patchad-code1 (max_steps=50)",
        "patchad-code2 (max_steps=50)",
        "random",
    ]


def test_the_protocol_of_the_code_has_a_table_of_its_own_with_the_published_values() -> None:
    values = {"searched_share": 0.1, "searched_pa_f1": 0.91, "searched_vus_roc_legacy": 0.5}
    text = render(of_variants("paper-classic", "code", metrics=values))
    assert "protocol code" in text
    assert "searched against the labels" in text
    assert "| alarms | PA-F1 | V-ROC (0/1) |" in text
    assert "| patchad-code1 (max_steps=50) | 1 | 1 | 10.00 | 91.00 | 50.00 |" in text
    assert "(tab:comparison, line 400) |  |  |  | 95.02 |  |" in text


def test_readings_of_ours_are_marked_in_every_table() -> None:
    for protocol in ("paper", "open"):
        for suite in ("paper-classic", "elsewhere"):
            text = render([record("u_time", protocol=protocol, suite=suite), record("random", suite=suite)])
            assert "| u_time (our reading) |" in text
            assert "- u_time is our reading of the method: " in text
            assert "itad" not in text.split("Not in these records")[0]


def test_a_method_of_the_paper_stands_beside_ours_of_the_same_name() -> None:
    names = ("npsr_seq-induced", "npsr_seq", "npsr_pt", "random")
    variants = [variant for variant in all_variants(SUITES["paper-classic"]) if variant.name in names]
    records = [record(variant.detector, parameters=parameters_of(variant, "paper", None)) for variant in variants]
    (table,) = make_tables(records)
    labels = [row.label for row in table.rows]
    for name, above in {
        "npsr_pt": "the paper: NPSR-pt (tab:comparison, line 395)",
        "npsr_seq": "the paper: NPSR-seq (tab:comparison, line 396)",
        "npsr_seq-induced": "the paper: NPSR (tab:comparison_wo_pa, line 473)",
    }.items():
        assert labels[labels.index(name) - 1] == above


def test_methods_of_the_paper_that_are_not_shown_are_named_with_the_reason() -> None:
    notes = paper.not_reproduced("paper-classic", "MSL", {"lof"}, {"patchad", "lof", "pca"})
    assert "Not implemented: USAD; there is no detector usad." in notes
    assert not any("LOF" in note for note in notes)
    assert notes[-1] == "Not in these records: pca, patchad-paper; `--detectors all` runs them."
    assert "patchad-paper; `--detectors all` runs them." in render([record("random")])


def test_rows_of_open_are_sorted_by_vus_pr_and_end_with_their_cost() -> None:
    cost = {"fit_seconds": 3.5, "score_seconds": 0.25, "peak_memory": 512_000_000, "n_parameters": 1234}
    shared = {"suite": "open", "protocol": "open"}
    values = {"random": 0.1, "patchad": 0.3, "cnn": 0.5}
    records = [
        record(name, metrics={"vus_pr_opt": value}, entity=entity, **shared, **cost)
        for name, value in values.items()
        for entity in ("a", "b")
    ]
    records.append(record("lof", metrics={"skipped": "too short"}, **shared))
    text = render(records)
    assert "| VUS-PR | fit (s) | score (s) | parameters | peak memory (MB) |" in text
    assert "| cnn | 2 | 1 | 0.500 [0.500, 0.500] | 3.50 | 0.25 | 1,234 | 512 |" in text
    (table,) = make_tables(records)
    assert [row.label for row in table.rows] == ["cnn", "patchad", "random", "lof"]
    rows = list(csv.DictReader(io.StringIO(render(records, "csv"))))
    assert {float(row["mean"]) for row in rows if row["metric"] == "peak_memory"} == {512_000_000}


def test_every_study_of_the_paper_finds_its_rows() -> None:
    for suite in ("paper-ablation", "paper-distance", "paper-sensitivity"):
        (table,) = make_tables(of_variants(suite))
        ours = sum(row.source == "ours" for row in table.rows)
        assert ours >= len(SUITES[suite].variants)
        published = [row for row in published_rows() if row["suite"] == suite and row["dataset"] == "MSL"]
        assert sum(row.source == "paper" for row in table.rows) >= len(published)


def test_values_copied_from_the_paper() -> None:
    known = {(row["table"], row["dataset"], row["method"]): row["values"] for row in published_rows()}
    assert known["tab:comparison", "SMAP", "PatchAD"]["pa_f1"] == 96.75
    assert known["tab:comparison_wo_pa", "MSL", "PatchAD"]["f1"] == 24.92
    assert known["tab:ablation", "MSL", "PatchAD (Ours)"]["f1"] == 23.92
    assert known["tab:comparison_wo_pa", "MSL", "AdaMemBLS"]["affiliation_f1"] == 71.41
    assert known["tab:comparison_ucr", "UCR", "DCdetector"]["pa_f1"] == 74.05
    assert known["tab:abl_loss", "PSM", "PatchAD (Ours)"]["vus_pr_legacy"] == 40.72
    assert known["tab:addlabel6", "SMAP", "[1, 3, 5, 7]"]["pa_f1"] == 96.48
    for row in published_rows():
        assert row["lines"]
        shares = [v for n, v in row["values"].items() if n not in ("n_parameters", "flops", "latency_ms")]
        assert all(0 <= value <= 100 for value in shares)


def test_seeds_are_averaged_before_entities_and_the_interval_is_over_entities() -> None:
    values = {"a": (0.0, 0.2), "b": (0.5, 0.5), "c": (0.8, 1.0)}
    records = [
        record(entity=name, seed=seed, suite="x", protocol="open", metrics={"vus_pr_opt": value})
        for name, pair in values.items()
        for seed, value in enumerate(pair)
    ]
    (table,) = make_tables(records)
    estimate = table.rows[0].values["vus_pr_opt"]
    assert estimate.mean == pytest.approx(0.5)
    assert (estimate.low, estimate.high) == bootstrap(np.array([0.1, 0.5, 0.9]))
    assert (table.rows[0].entities, table.rows[0].seeds, estimate.over) == (3, 2, "entities")
    assert "0.500 [" in render(records)


def test_one_entity_shows_the_spread_of_its_seeds() -> None:
    records = [record(seed=seed, metrics={"roc_auc": value}) for seed, value in enumerate((0.4, 0.5, 0.6))]
    assert "50.00 ± 10.00" in render(records)
    assert r"50.00 $\pm$ 10.00" in render(records, "latex")


def test_missing_values_are_empty_and_skipped_entities_are_named() -> None:
    records = [
        record(suite="x", entity="a", metrics={"roc_auc": 0.5, "f1": None}),
        record(suite="x", entity="b", metrics={"skipped": "every test row is labelled normal"}),
        record("random", suite="x", entity="b", metrics={"skipped": "every test row is labelled normal"}),
    ]
    text = render(records)
    assert "- MSL b left out: every test row is labelled normal" in text
    assert "| patchad | 1 | 1 | 50.00 |  |" in text
    assert "| random | 0 | 0 |  |  |" in text


def test_a_missing_random_row_is_noted() -> None:
    assert "No random-score row" in render([record()])
    assert "No random-score row" not in render([record(), record("random")])


def test_several_datasets_get_a_common_table_and_one_each() -> None:
    records = [record(protocol="open", suite="x", dataset=name, metrics={"vus_pr_opt": 0.5}) for name in ("A", "B")]
    assert [table.dataset for table in make_tables(records)] == ["all datasets", "A", "B"]


def test_parameters_unknown_to_the_suite_are_named_in_the_label() -> None:
    records = [record(parameters={"window": window}) for window in (30, 90)]
    text = render(records)
    assert "patchad (window=30)" in text
    assert "patchad (window=90)" in text


def test_parameters_that_a_record_lacks_are_the_constructors_defaults() -> None:
    records = [record(name, suite="open", protocol="open") for name in ("patchad", "random", "lof")]
    records.append(record(suite="open", protocol="open", parameters={"window": 90}))
    (table,) = make_tables(records)
    assert [row.label for row in table.rows] == ["patchad", "random", "lof", "patchad (window=90)"]


def test_a_record_from_before_a_parameter_is_of_what_the_detector_then_did() -> None:
    usual, plain = Variant("dcdetector", "dcdetector"), PLAIN_DC
    older, newer = (parameters_of(variant, "paper", None) for variant in (usual, plain))
    del older["softmax"]
    records = [record("dcdetector", parameters=parameters) for parameters in (older, newer)]
    (table,) = make_tables(records)
    assert [row.label for row in table.rows if row.source == "ours"] == ["dcdetector", "dcdetector-plain"]


def test_metrics_of_unknown_protocols_are_all_shown() -> None:
    assert "| detector | entities | seeds | own |" in render([record(protocol="mine", suite="x", metrics={"own": 2})])


def test_csv_is_a_long_table_with_our_values_and_the_papers() -> None:
    rows = list(csv.DictReader(io.StringIO(render(of_variants("paper-classic"), "csv"))))
    paper = [row for row in rows if row["source"] == "paper" and row["metric"] == "roc_auc"]
    assert [float(row["mean"]) for row in paper] == [pytest.approx(0.6094)]
    assert {row["detector"] for row in rows if row["source"] == "ours"} >= {v.name for v in FOUR if v.name == "random"}


def test_cost_is_shown_as_measured() -> None:
    cost = {"n_parameters": 238000.0, "flops": 2.2e8, "latency_ms": 11.25}
    text = render(of_variants("paper-cost", dataset="SWaT", metrics=cost))
    assert "403,000 | 520,000,000 | 7.67" in text
    assert "238,000 | 220,000,000 | 11.25" in text
    assert "random" not in text


def test_provenance_is_written_under_the_tables() -> None:
    text = render([record(hardware="a fast one", versions={"torch": "9"}, fit_seconds=30.0, score_seconds=30.0)])
    assert "1 records; fit and score took 1.0 minutes" in text
    assert "Hardware: a fast one. Versions: torch 9." in text


def test_no_records_and_no_such_format_are_refused() -> None:
    with pytest.raises(InputError, match="no records"):
        render([])
    with pytest.raises(InputError, match="no format 'html'"):
        render([record()], "html")


def test_many_channels_and_one_are_also_averaged_apart() -> None:
    metrics = {"vus_pr_opt": 0.5}
    records = [
        record(suite="open", protocol="open", dataset=n, entity=n, metrics=metrics) for n in ("MSL", "UCR", "NAB")
    ]
    titles = [table.dataset for table in make_tables(records)]
    assert titles[:3] == ["all datasets", "datasets with many channels", "datasets with one channel"]
    assert "datasets with one channel" not in [table.dataset for table in make_tables(records[1:])]
    text = render(records)
    assert "| patchad | 2 | 1 | 0.500" in text.split("one channel")[1]

"""`evaluate` returns the values of the functions under the documented keys, within the promised time and memory."""

from __future__ import annotations

import importlib.util
import inspect
import re
import time
import tracemalloc

import numpy as np
import pytest

from patchad import metrics
from patchad.metrics.registry import ALARM_METRICS, SCORE_METRICS

RNG = np.random.default_rng(5)
LABELS = np.repeat(RNG.random(40) < 0.2, 8)
SCORES = RNG.random(LABELS.size) + 0.5 * LABELS * RNG.random(LABELS.size)
ALARMS = SCORES > 0.9


def test_no_function_shadows_a_module():
    assert not [name for name in metrics.__all__ if importlib.util.find_spec(f"patchad.metrics.{name}")]


def test_every_metric_is_registered():
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert {*SCORE_METRICS, *ALARM_METRICS} == functions - {"evaluate", "evaluate_random", "point_adjust"}


def test_keys_are_those_of_the_docstring():
    documented = set(re.findall(r"``(\w+\*?)``", metrics.evaluate.__doc__.split("Returns")[1].split("Raises")[0]))
    for prefix in ("affiliation", "range", "etapr"):
        documented.remove(f"{prefix}_*")
        documented |= {f"{prefix}_{part}" for part in ("precision", "recall", "f1")}
    values = metrics.evaluate(labels=LABELS, scores=SCORES, alarms=ALARMS, window=8)
    assert set(values) == documented
    assert all(type(value) is float for value in values.values())


def test_values_are_those_of_the_functions():
    values = metrics.evaluate(labels=LABELS, scores=SCORES, alarms=ALARMS, window=8, thresholds=50)
    kind = {"labels": LABELS, "scores": SCORES, "window": 8, "thresholds": 50}
    assert (values["vus_roc_opt"], values["vus_pr_opt"]) == metrics.vus(**kind)
    assert (values["vus_roc_legacy"], values["vus_pr_legacy"]) == metrics.vus(**kind, family="legacy")
    assert (values["range_auc_roc_opt"], values["range_auc_pr_opt"]) == metrics.range_auc(**kind)
    assert values["pate"] == metrics.pate(**kind)
    assert values["affiliation_recall"] == metrics.affiliation(labels=LABELS, alarms=ALARMS).recall
    assert values["events_missed"] == metrics.detection_delay(labels=LABELS, alarms=ALARMS).missed
    assert values["pa_k20_f1"] == metrics.pa_k_f1(labels=LABELS, alarms=ALARMS, k=20)


def test_without_alarms_only_metrics_of_scores_are_computed():
    values = metrics.evaluate(labels=LABELS, scores=SCORES)
    assert "roc_auc" in values
    assert not {"f1", "pa_f1", "affiliation_f1"} & set(values)


def test_chosen_metrics_only():
    assert list(metrics.evaluate(labels=LABELS, scores=SCORES, metrics=["pate", "roc_auc"])) == ["roc_auc", "pate"]
    assert list(metrics.evaluate(labels=LABELS, scores=SCORES, metrics="pate")) == ["pate"]


def test_random_scores_are_seeded_and_raise_as_many_alarms():
    one = metrics.evaluate_random(labels=LABELS, alarms=ALARMS, seed=3)
    assert one == pytest.approx(metrics.evaluate_random(labels=LABELS, alarms=ALARMS, seed=3), nan_ok=True)
    assert one["roc_auc"] != metrics.evaluate_random(labels=LABELS, alarms=ALARMS, seed=4)["roc_auc"]
    share = ALARMS.mean()
    hits = one["recall"] * LABELS.sum()
    assert hits / one["precision"] == pytest.approx(share * LABELS.size)


def test_point_adjustment_flatters_random_scores_and_others_do_not():
    labels = np.zeros(20_000, bool)
    labels[3_000:3_600] = labels[9_000:9_800] = labels[15_000:15_700] = True
    values = metrics.evaluate_random(labels=labels)
    assert values["oracle_pa_f1"] > 0.9
    assert values["vus_pr_opt"] < 0.2
    assert values["oracle_f1"] < 0.25


def big(size, kind):
    rng = np.random.default_rng(0)
    if kind == "few long events":
        labels = np.zeros(size, bool)
        for start in rng.integers(0, size - 1500, 60):
            labels[start : start + 700] = True
    elif kind == "every other point":
        labels = np.arange(size) % 2 == 0
    else:
        labels = np.repeat(np.arange(size) % 2 == 0, rng.integers(1, 4, size))[:size]
    scores = rng.random(size) + 0.3 * labels * rng.random(size)
    return labels, np.full(size, 0.5) if kind == "short events, one score" else scores


KINDS = ["few long events", "short events", "short events, one score", "every other point"]
BUDGET = {"vus": 0.5, "oracle_pa_f1": 0.5, "oracle_affiliation_f1": 5.0, "pate": 2.0, "roc_auc": 0.5}


@pytest.mark.parametrize("kind", KINDS)
def test_cost_of_a_long_series(kind):
    labels, scores = big(430_000, kind)
    names = [name for name in BUDGET if kind != "few long events" or name != "oracle_affiliation_f1"]
    for name in names:
        extra = {"thresholds": 20} if name == "oracle_affiliation_f1" else {}
        begin = time.process_time()
        getattr(metrics, name)(labels=labels, scores=scores, **extra)
        assert time.process_time() - begin < BUDGET[name], name
    begin = time.process_time()
    metrics.affiliation(labels=labels, alarms=scores > 0.6)
    metrics.etapr(labels=labels, alarms=scores > 0.6)
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_peak_memory_within_ten_times_the_input(kind):
    labels, scores = big(100_000, kind)
    alarms = scores > 0.7
    tracemalloc.start()
    try:
        metrics.evaluate(labels=labels, scores=scores, alarms=alarms, thresholds=100)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * (labels.nbytes + scores.nbytes + alarms.nbytes)

"""All values that the public reference implementations gave for the 31 shared cases, where the file is at hand."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from patchad import metrics
from patchad.errors import MetricError

SHARED = Path(os.environ.get("PATCHAD_SHARED", Path(__file__).parents[3] / "shared"))
FILE = SHARED / "reference" / "metric_vectors.json"
CASES = json.loads(FILE.read_text())["cases"] if FILE.is_file() else []

pytestmark = pytest.mark.skipif(not CASES, reason=f"the reference values are not at {FILE}; set PATCHAD_SHARED")

OF_ALARMS = {
    **{name: name for name in ("accuracy", "precision", "recall", "f1", "mcc", "composite_f1", "event_f1", "pa_f1")},
    "pak20_f1": "pa_k_f1",
}
OF_SCORES = {
    "roc_auc": "roc_auc",
    "average_precision": "pr_auc",
    "best_f1": "oracle_f1",
    "best_pa_f1_all": "oracle_pa_f1",
    "best_aff_f1_tsbad": "oracle_affiliation_f1",
}
OTHERWISE = {  # where the reference raises or gives no number, and nothing is wrong with the input: our value
    ("constant_scores", "best_aff_f1_tsbad"): 0.0,
    ("no_prediction", "aff_precision"): math.nan,
    ("no_prediction", "aff_f1"): 0.0,
    **{
        ("no_prediction", f"{name}_{part}"): 0.0
        for name in ("range", "etapr")
        for part in ("precision", "recall", "f1")
    },
}


def number(value):
    return (
        {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value, value)
        if isinstance(value, str)
        else value
    )


def arrays(case):
    """Labels, scores and alarms, made by the file's recipe where they are not written out."""
    if "recipe" not in case:
        scores = case["scores"] and np.array([number(score) for score in case["scores"]], float)
        return np.array(case["labels"]), scores, case["predictions"] and np.array(case["predictions"])
    recipe = case["recipe"]
    rng = np.random.default_rng(recipe["seed"])
    labels = np.zeros(recipe["T"], dtype=int)
    starts = rng.integers(0, recipe["T"] - recipe["max_len"], recipe["n_events"])
    for start, length in zip(
        starts, rng.integers(recipe["min_len"], recipe["max_len"], recipe["n_events"]), strict=True
    ):
        labels[start : start + length] = 1
    scores = rng.random(recipe["T"]) + recipe["gain"] * np.roll(labels, recipe["lag"]) * rng.random(recipe["T"])
    if recipe["decimals"] is not None:
        scores = np.round(scores, recipe["decimals"])
    return labels, scores, (scores > np.percentile(scores, 100 - recipe["anomaly_ratio"])).astype(int)


def calls(case):
    """Key of the file -> the call that has to give its value."""
    labels, scores, alarms = arrays(case)
    window, thresholds = case["params"]["window"], case["params"]["thresholds"]
    if alarms is not None:
        given = {"labels": labels, "alarms": alarms}
        for key, name in OF_ALARMS.items():
            yield key, lambda name=name: getattr(metrics, name)(**given)
        yield "pak50_f1", lambda: metrics.pa_k_f1(**given, k=50)
        for prefix, name in (("aff", "affiliation"), ("range", "range_based"), ("etapr", "etapr")):
            for part in ("precision", "recall", "f1"):
                yield f"{prefix}_{part}", lambda name=name, part=part: getattr(getattr(metrics, name)(**given), part)
    if scores is not None:
        told = {"labels": labels, "scores": scores}
        for key, name in OF_SCORES.items():
            yield key, lambda name=name: getattr(metrics, name)(**told)
        yield "pate", lambda: metrics.pate(**told, window=window)
        kind = {**told, "window": window}
        for part in ("roc", "pr"):
            yield f"vus_{part}", lambda part=part: getattr(metrics.vus(**kind, thresholds=thresholds), part)
            yield f"vus_{part}_legacy", lambda part=part: getattr(metrics.vus(**kind, family="legacy"), part)
            yield f"r_auc_{part}", lambda part=part: getattr(metrics.range_auc(**kind), part)
            yield f"r_auc_{part}_legacy", lambda part=part: getattr(metrics.range_auc(**kind, family="legacy"), part)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_reference_values(case):
    refused = []
    for key, call in calls(case):
        want = number(case["expected"].get(key))
        if (case["name"], key) in OTHERWISE:
            assert call() == pytest.approx(OTHERWISE[case["name"], key], nan_ok=True), key
        elif key in refusals(case):
            with pytest.raises(MetricError):
                call()
            refused.append(key)
        elif want is not None:
            assert call() == pytest.approx(want, abs=1e-9), key
    assert len(refused) == len(refusals(case))


def refusals(case):
    """Keys for which the input is refused: scores that are not finite, and labels of one kind where that matters."""
    areas = {f"{name}_{part}{end}" for name in ("vus", "r_auc") for part in ("roc", "pr") for end in ("", "_legacy")}
    of_events = {f"{name}_{part}" for name in ("aff", "range", "etapr") for part in ("precision", "recall", "f1")}
    return {
        "infinite_score": {*areas, *OF_SCORES, "pate"},
        "nan_score": {*areas, *OF_SCORES, "pate"},
        "labels_all_zero": {*areas, *of_events, "roc_auc", "best_pa_f1_all", "best_aff_f1_tsbad"},
        "labels_all_one": {*areas, "roc_auc", "best_pa_f1_all"},
    }.get(case["name"], set())

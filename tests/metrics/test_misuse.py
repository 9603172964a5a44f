"""Invalid inputs of metrics, beside valid ones that differ in one thing."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

from patchad import metrics
from patchad.errors import MetricError

LABELS = np.array([0, 0, 1, 1, 0, 0, 1, 0])
SCORES = np.array([0.1, 0.2, 0.9, 0.8, 0.3, 0.1, 0.2, 0.7])
ALARMS = SCORES > 0.5
GOOD = {"labels": LABELS, "scores": SCORES, "alarms": ALARMS}

FUNCTIONS = {name: getattr(metrics, name) for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
WANTS = {name: set(inspect.signature(function).parameters) & set(GOOD) for name, function in FUNCTIONS.items()}
NEED_AN_ANOMALY = {"affiliation", "oracle_affiliation_f1", "range_based", "etapr", "detection_delay"}
NEED_BOTH = {"roc_auc", "oracle_pa_f1", "vus", "range_auc", "evaluate", "evaluate_random"}


def call(name, **changes):
    return FUNCTIONS[name](
        **{key: value for key, value in (GOOD | changes).items() if key in WANTS[name] or key not in GOOD}
    )


def functions_of(argument):
    return sorted(name for name, wants in WANTS.items() if argument in wants)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_keywords_only(name):
    call(name)
    with pytest.raises(TypeError):
        FUNCTIONS[name](LABELS, SCORES)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_inputs_are_not_modified(name):
    frozen = {key: value.copy() for key, value in GOOD.items()}
    for value in frozen.values():
        value.flags.writeable = False
    first = call(name, **frozen)
    for key, value in GOOD.items():
        np.testing.assert_array_equal(frozen[key], value)
    np.testing.assert_equal(call(name, **frozen), first)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_equivalent_containers_and_types(name):
    want = call(name)
    np.testing.assert_equal(call(name, **{key: value.tolist() for key, value in GOOD.items()}), want)
    np.testing.assert_equal(call(name, **{key: pd.Series(value) for key, value in GOOD.items()}), want)
    np.testing.assert_equal(call(name, labels=LABELS.astype(bool), alarms=ALARMS.astype(np.uint8)), want)
    strided = {key: np.repeat(value, 2)[::2] for key, value in GOOD.items()}
    np.testing.assert_equal(call(name, **strided), want)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (SCORES, "bool or 0/1 integers, got float64"),
        (LABELS.astype(float), "bool or 0/1 integers, got float64"),
        (LABELS.astype(str), "bool or 0/1 integers"),
        (LABELS.astype(object), "bool or 0/1 integers, got object"),
        (LABELS + 1, "only 0 and 1, got integers from 1 to 2"),
        (-LABELS, "only 0 and 1, got integers from -1 to 0"),
        (LABELS[:, None], r"shape \(time,\), got \(8, 1\)"),
        (1, r"shape \(time,\), got \(\)"),
        ([[0, 1], [1]], "a sequence of numbers"),
        (np.zeros(0, bool), "at least one point"),
        (LABELS[:-1], "equal length"),
    ],
)
@pytest.mark.parametrize("argument", ["labels", "alarms"])
def test_invalid_masks(argument, bad, message):
    for name in functions_of(argument):
        if message == "equal length" and name == "evaluate_random" and argument == "labels":
            continue
        with pytest.raises(MetricError, match=message) as caught:
            call(name, **{argument: bad})
        assert argument in str(caught.value)
        assert ";" in str(caught.value), "the message must end with a remedy"


def test_labels_set_the_length_of_random_scores():
    with pytest.raises(MetricError, match="equal length"):
        metrics.evaluate_random(labels=LABELS[:-1], alarms=ALARMS)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (LABELS, "looks like labels or alarms"),
        (ALARMS, "looks like labels or alarms"),
        (LABELS.tolist(), "looks like labels or alarms"),
        (SCORES.astype(complex), "must be floats, got complex128"),
        (SCORES.astype(str), "must be floats"),
        (np.where(LABELS, np.nan, SCORES), r"3 NaN or infinite values, the first \(nan\) at row 2"),
        (np.where(LABELS, -np.inf, SCORES), r"the first \(-inf\) at row 2"),
        (np.where(LABELS, np.inf, SCORES), r"the first \(inf\) at row 2"),
        (SCORES[:, None], r"shape \(time,\), got \(8, 1\)"),
        ([], "at least one point"),
        (SCORES[1:], "equal length, got 8 and 7"),
    ],
)
def test_invalid_scores(bad, message):
    for name in functions_of("scores"):
        with pytest.raises(MetricError, match=message) as caught:
            call(name, scores=bad)
        assert "scores" in str(caught.value)
        assert ";" in str(caught.value), "the message must end with a remedy"


def test_scores_may_be_any_real_numbers():
    want = metrics.evaluate(labels=LABELS, scores=np.round(SCORES * 10), window=3)
    assert metrics.evaluate(labels=LABELS, scores=np.round(SCORES * 10).astype(int), window=3) == want
    assert metrics.evaluate(labels=LABELS, scores=np.round(SCORES * 10).astype(np.float32), window=3) == want
    assert metrics.roc_auc(labels=LABELS, scores=LABELS.astype(float)) == 1.0


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_labels_without_an_anomaly(name):
    normal = np.zeros(8, bool)
    if name in NEED_AN_ANOMALY | NEED_BOTH:
        with pytest.raises(MetricError, match="labels must mark at least one anomaly"):
            call(name, labels=normal)
    elif name == "point_adjust":
        np.testing.assert_array_equal(call(name, labels=normal), ALARMS)
    else:
        assert call(name, labels=normal) == (5 / 8 if name == "accuracy" else 0.0)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_labels_without_a_normal_point(name):
    if name in NEED_BOTH:
        with pytest.raises(MetricError, match="labels must mark at least one normal point"):
            call(name, labels=np.ones(8, bool))
    else:
        assert np.isfinite(np.asarray(call(name, labels=np.ones(8, bool)), float)).all()


@pytest.mark.parametrize(
    "name", sorted(set(functions_of("alarms")) - {"evaluate", "evaluate_random", "point_adjust", "detection_delay"})
)
def test_no_alarms_at_all(name):
    got = call(name, alarms=np.zeros(8, bool))
    want = {"accuracy": 5 / 8, "affiliation": (np.nan, 0, 0), "range_based": (0, 0, 0), "etapr": (0, 0, 0)}.get(
        name, 0.0
    )
    np.testing.assert_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("vus", {"window": -1}),
        ("vus", {"window": 2.5}),
        ("vus", {"window": True}),
        ("vus", {"thresholds": 0}),
        ("vus", {"family": "new"}),
        ("range_auc", {"window": -1}),
        ("range_auc", {"family": None}),
        ("pate", {"window": -1}),
        ("pate", {"thresholds": "many"}),
        ("oracle_affiliation_f1", {"thresholds": 0}),
        ("pa_k_f1", {"k": -1}),
        ("pa_k_f1", {"k": 101}),
        ("pa_k_f1", {"k": np.nan}),
        ("range_based", {"alpha": 2}),
        ("etapr", {"theta_p": -0.1}),
        ("etapr", {"theta_r": "half"}),
        ("evaluate", {"metrics": ["vsu"]}),
        ("evaluate", {"metrics": ["pa_f1"], "alarms": None}),
        ("evaluate", {"window": -1}),
        ("evaluate", {"thresholds": 0}),
    ],
)
def test_parameters_out_of_range(name, bad):
    with pytest.raises(MetricError, match=next(iter(bad))) as caught:
        call(name, **bad)
    assert ";" in str(caught.value), "the message must end with a remedy"

"""The fast metrics equal their slow twins, whatever the labels, ties, borders, windows and thresholds."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reference import metrics_slow, ranges_slow

from patchad import metrics
from patchad.metrics import affiliation_zones

quick = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
few = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def masks(draw, size, *, some=False, mixed=False):
    """Runs of any length, so that long events, single points and events at the borders all occur."""
    mask, value = [], draw(st.booleans())
    while len(mask) < size:
        mask += [value] * draw(st.integers(1, 7))
        value = not value
    mask = mask[:size]
    if (some or mixed) and not any(mask):
        mask[draw(st.integers(0, size - 1))] = True
    if mixed and all(mask):
        mask[draw(st.integers(0, size - 1))] = False
    return np.array(mask)


def score_lists(size):
    ties = st.integers(0, 4).map(lambda n: n / 4)
    return st.one_of(
        st.lists(ties, min_size=size, max_size=size),
        st.lists(st.floats(-1e3, 1e3, width=32), min_size=size, max_size=size),
        st.permutations(range(size)).map(lambda order: [float(n) for n in order]),
    ).map(lambda values: np.array(values, float))


@st.composite
def labels_and_alarms(draw, **kind):
    size = draw(st.integers(1 if not kind.get("mixed") else 2, 40))
    return draw(masks(size, **kind)), draw(masks(size))


@st.composite
def labels_and_scores(draw, **kind):
    size = draw(st.integers(1 if not kind.get("mixed") else 2, 40))
    return draw(masks(size, **kind)), draw(score_lists(size))


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)


@quick
@given(labels_and_alarms())
@pytest.mark.parametrize("name", ["accuracy", "precision", "recall", "f1", "mcc", "event_f1", "composite_f1"])
def test_counts_of_points_and_events(name, case):
    labels, alarms = case
    close(getattr(metrics, name)(labels=labels, alarms=alarms), getattr(metrics_slow, name)(labels, alarms))


@quick
@given(labels_and_alarms(), st.sampled_from([0, 10, 20, 33.3, 50, 100]))
def test_point_adjustment(case, k):
    labels, alarms = case
    close(metrics.point_adjust(labels=labels, alarms=alarms), metrics_slow.point_adjust(labels, alarms))
    close(metrics.pa_f1(labels=labels, alarms=alarms), metrics_slow.pa_k_f1(labels, alarms, 0))
    close(metrics.pa_k_f1(labels=labels, alarms=alarms, k=k), metrics_slow.pa_k_f1(labels, alarms, k))


@quick
@given(labels_and_scores(mixed=True))
@pytest.mark.parametrize("name", ["roc_auc", "pr_auc", "oracle_f1", "oracle_pa_f1"])
def test_thresholds_over_points(name, case):
    labels, scores = case
    close(getattr(metrics, name)(labels=labels, scores=scores), getattr(metrics_slow, name)(labels, scores))


@quick
@given(labels_and_alarms(some=True), st.integers(1, 5))
def test_affiliation_in_blocks_of_any_size(case, block):
    labels, alarms = case
    want = metrics_slow.affiliation(labels, alarms)
    close(metrics.affiliation(labels=labels, alarms=alarms), want)
    with mock.patch.object(affiliation_zones, "_BLOCK", block):
        close(metrics.affiliation(labels=labels, alarms=alarms), want)


@few
@given(labels_and_scores(some=True), st.integers(1, 12))
def test_oracle_affiliation(case, thresholds):
    labels, scores = case
    got = metrics.oracle_affiliation_f1(labels=labels, scores=scores, thresholds=thresholds)
    close(got, metrics_slow.oracle_affiliation_f1(labels, scores, thresholds))


@quick
@given(labels_and_alarms(some=True), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_range_based_and_delay(case, alpha):
    labels, alarms = case
    got = metrics.range_based(labels=labels, alarms=alarms, alpha=alpha)
    close(got, metrics_slow.range_based(labels, alarms, alpha))
    close(metrics.detection_delay(labels=labels, alarms=alarms), metrics_slow.detection_delay(labels, alarms))


@quick
@given(labels_and_alarms(some=True), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.1, 0.4, 1.0]))
def test_etapr(case, theta_p, theta_r):
    labels, alarms = case
    got = metrics.etapr(labels=labels, alarms=alarms, theta_p=theta_p, theta_r=theta_r)
    close(got, metrics_slow.etapr(labels, alarms, theta_p, theta_r))


@quick
@given(labels_and_scores(mixed=True), st.integers(0, 14) | st.integers(60, 100), st.sampled_from([1, 2, 3, 10, 250]))
@pytest.mark.parametrize("family", ["opt", "legacy"])
def test_vus_and_range_auc(family, case, window, thresholds):
    labels, scores = case
    kind = {"window": window, "thresholds": min(thresholds, 25 if window > 20 else 250), "family": family}
    close(metrics.range_auc(labels=labels, scores=scores, **kind), ranges_slow.range_auc(labels, scores, **kind))
    if window < 12:
        close(metrics.vus(labels=labels, scores=scores, **kind), ranges_slow.vus(labels, scores, **kind))


@quick
@given(labels_and_scores(), st.integers(0, 12) | st.just(100), st.sampled_from([1, 2, 7, 60]))
def test_pate(case, window, thresholds):
    labels, scores = case
    got = metrics.pate(labels=labels, scores=scores, window=window, thresholds=thresholds)
    close(got, ranges_slow.pate(labels, scores, window, thresholds))


@few
@given(labels_and_scores(mixed=True), st.sampled_from([2.0**-1000, 0.5, 2.0**1020]))
def test_metrics_depend_on_the_order_of_scores_and_not_on_their_scale(case, factor):
    labels, scores = case
    scores = np.round(scores * 4) / 4 % 8
    for name, extra in (("vus", {"window": 4}), ("pate", {"window": 3}), ("oracle_affiliation_f1", {})):
        function = getattr(metrics, name)
        close(function(labels=labels, scores=scores * factor, **extra), function(labels=labels, scores=scores, **extra))


@few
@given(labels_and_scores(mixed=True))
def test_areas_lie_between_0_and_1(case):
    labels, scores = case
    values = metrics.evaluate(labels=labels, scores=scores, alarms=scores > np.median(scores), window=6, thresholds=20)
    for name, value in values.items():
        if not name.startswith(("delay", "events", "mcc")):
            assert np.isnan(value) or -1e-12 <= value <= 1 + 1e-12, name


@pytest.mark.parametrize("seed", range(3))
def test_a_longer_series_with_many_events(seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.random(200) < 0.3, rng.integers(1, 9, 200))
    scores = np.round(rng.random(labels.size) + 0.5 * labels * rng.random(labels.size), 2 if seed else 9)
    alarms = scores > np.quantile(scores, 0.8)
    close(metrics.affiliation(labels=labels, alarms=alarms), metrics_slow.affiliation(labels, alarms))
    close(metrics.etapr(labels=labels, alarms=alarms), metrics_slow.etapr(labels, alarms))
    for family in ("opt", "legacy"):
        kind = {"window": 15, "thresholds": 40, "family": family}
        close(metrics.vus(labels=labels, scores=scores, **kind), ranges_slow.vus(labels, scores, **kind))
    kind = {"window": 10, "thresholds": 40}
    close(metrics.pate(labels=labels, scores=scores, **kind), ranges_slow.pate(labels, scores, **kind))

"""A fitted detector, judged by a protocol."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.conftest import SMALL

from patchad import metrics
from patchad.bench.fits import fit_and_score
from patchad.bench.period import period
from patchad.bench.protocols import PROTOCOLS, judge, searched_alarms
from patchad.datasets.entity import Entity
from patchad.datasets.synthetic import one_channel
from patchad.detectors.baselines.random import RandomScore
from patchad.detectors.patchad import PatchAD
from patchad.errors import InputError


@pytest.fixture(scope="module")
def entity() -> Entity:
    return one_channel("seasonal", rows=600)


def test_open_computes_its_metrics_in_order_from_scores_and_fitted_threshold(entity: Entity) -> None:
    fit = fit_and_score(PatchAD(**SMALL), entity)
    found = judge(fit, entity, "open", "quantile:0.99")
    assert list(found)[:1] == ["vus_pr_opt"]
    assert {"pr_auc", "roc_auc", "f1", "affiliation_f1", "event_f1", "delay_mean", "false_events_per_10k"} <= set(found)
    scores = fit.detector.decision_function(entity.test)
    level = np.nanquantile(fit.detector.held_out_scores_, 0.99)
    assert found["f1"] == metrics.f1(labels=entity.labels, alarms=scores > level)
    assert found["vus_pr_opt"] == metrics.vus(labels=entity.labels, scores=scores, family="opt").pr


def test_open_depends_on_no_later_row_of_test(entity: Entity) -> None:
    changed = Entity(entity.name, entity.train, np.vstack([entity.test, entity.test + 9]), np.tile(entity.labels, 2))
    fits = [fit_and_score(PatchAD(**SMALL), e) for e in (entity, changed)]
    rows = len(entity.test) - fits[0].detector.delay
    # Windows share matrix products with their neighbours, so the last digits may differ.
    np.testing.assert_allclose(fits[0].scores[:rows], fits[1].scores[:rows], rtol=1e-5, atol=1e-5)
    levels = [fit.detector.set_threshold("auto").threshold_.level for fit in fits]
    assert levels[0] == levels[1]


def test_open_refuses_a_threshold_that_depends_on_test(entity: Entity) -> None:
    with pytest.raises(InputError, match="protocol 'open' forbids"):
        judge(fit_and_score(RandomScore(), entity), entity, "open", "ratio:1")


def test_paper_alarms_at_the_ratio_of_train_and_test_scores_and_adjusts(entity: Entity) -> None:
    fit = fit_and_score(RandomScore(), entity)
    found = judge(fit, entity, "paper", "ratio:2")
    level = np.percentile(np.concatenate([fit.detector.train_scores_, fit.scores]), 98)
    alarms = fit.scores > level
    adjusted = metrics.point_adjust(labels=entity.labels, alarms=alarms)
    assert found["f1"] == metrics.f1(labels=entity.labels, alarms=alarms)
    assert found["pa_f1"] == metrics.pa_f1(labels=entity.labels, alarms=alarms)
    assert found["pa_precision"] == metrics.precision(labels=entity.labels, alarms=adjusted)
    assert found["vus_pr_legacy"] == metrics.vus(labels=entity.labels, scores=fit.scores, family="legacy").pr
    assert found["oracle_f1"] >= found["f1"]


def test_code_searches_its_threshold_and_measures_predictions_as_the_code_does(entity: Entity) -> None:
    fit = fit_and_score(RandomScore(), entity)
    found = judge(fit, entity, "code", "ratio:1")
    trials = [fit.scores > np.quantile(fit.scores, 1 - share / 100) for share in range(1, 91)]
    best = max(trials, key=lambda alarms: metrics.f1(labels=entity.labels, alarms=alarms))
    assert found["searched_share"] == pytest.approx(best.mean(), abs=0.01)
    assert found["searched_f1"] == metrics.f1(labels=entity.labels, alarms=best)
    assert found["searched_pa_f1"] == metrics.pa_f1(labels=entity.labels, alarms=best)
    assert found["searched_roc_auc"] == metrics.roc_auc(labels=entity.labels, scores=best.astype(float))
    assert found["searched_affiliation_f1"] == metrics.affiliation(labels=best, alarms=entity.labels).f1
    volume = metrics.vus(labels=entity.labels, scores=best.astype(float), family="legacy")
    assert (found["searched_vus_roc_legacy"], found["searched_vus_pr_legacy"]) == volume
    assert found["searched_f1"] >= judge(fit, entity, "paper", "ratio:1")["f1"]


def test_code_finds_no_alarms_in_scores_that_are_all_the_same(entity: Entity) -> None:
    share, alarms = searched_alarms(entity.labels, np.ones(len(entity.labels)))
    assert (share, alarms.any()) == (0, False)
    found = PROTOCOLS["code"].measure(entity, np.ones(len(entity.labels)), alarms)
    assert (found["searched_f1"], found["searched_affiliation_f1"]) == (0, None)


def test_an_undefined_metric_is_null_in_json(entity: Entity) -> None:
    found = judge(fit_and_score(RandomScore(), entity), entity, "open", 2.0)
    assert found["delay_mean"] is None
    json.dumps(found, allow_nan=False)


def test_unknown_protocol_is_refused(entity: Entity) -> None:
    with pytest.raises(InputError, match="no protocol 'closed'"):
        judge(fit_and_score(RandomScore(), entity), entity, "closed", "auto")


def test_random_scores_are_seeded_causal_and_differ_between_series() -> None:
    rng = np.random.default_rng(0)
    train, test = rng.random((200, 2)), rng.random((300, 2))
    detector = RandomScore(random_state=3).fit(train)
    scores = detector.decision_function(test)
    np.testing.assert_array_equal(scores[:100], detector.decision_function(test[:100]))
    np.testing.assert_array_equal(scores, RandomScore(random_state=3).fit(train).decision_function(test))
    assert not np.array_equal(scores, RandomScore(random_state=4).fit(train).decision_function(test))
    assert not np.array_equal(scores[:200], detector.decision_function(train))
    assert (detector.explain(test) == 0).all()


def test_random_scores_survive_saving(tmp_path) -> None:
    from patchad import load

    rows = np.random.default_rng(1).random((100, 2))
    detector = RandomScore().fit(rows)
    again = load(detector.save(tmp_path / "random.safetensors"))
    np.testing.assert_array_equal(detector.decision_function(rows), again.decision_function(rows))


def test_tsb_ad_scores_train_too_and_takes_its_window_from_the_period(entity: Entity) -> None:
    whole = entity.whole()
    fit = fit_and_score(RandomScore(), whole)
    found = judge(fit, whole, "tsb-ad", "auto")
    assert len(fit.scores) == len(entity.train) + len(entity.test)
    window = period(whole.test[:, 0])
    assert found["period"] == window != 100
    assert found["vus_pr_period"] == metrics.vus(labels=whole.labels, scores=fit.scores, window=window).pr


@pytest.mark.parametrize("values", [np.ones(500), np.arange(500.0), np.array([1.0, 2.0, 1.0])])
def test_a_series_without_a_period_has_the_usual_window(values) -> None:
    assert period(values) == 125

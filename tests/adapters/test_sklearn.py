from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from tests.conftest import small, waves

from patchad import MetricError, make, metrics
from patchad.adapters.sklearn import scorer


@pytest.fixture(scope="module")
def labelled():
    rows = waves(600)
    rows[400:410, 1] += 3
    rows[550:560, 2] -= 3
    labels = np.zeros(600, dtype=int)
    labels[400:410] = labels[550:560] = 1
    return rows, labels


def test_score_samples_is_the_decision_with_its_sign_turned(watched_model):
    rows = waves(100)
    scores = watched_model.decision_function(rows)
    np.testing.assert_array_equal(watched_model.score_samples(rows), -scores)
    frame = pd.DataFrame(rows, columns=watched_model.channels_)
    np.testing.assert_array_equal(watched_model.score_samples(frame).to_numpy(), -scores)
    np.testing.assert_array_equal(watched_model.score_samples(pl.from_pandas(frame)).to_numpy(), -scores)
    np.testing.assert_array_equal(watched_model.score_samples(pl.from_pandas(frame).to_arrow()).to_numpy(), -scores)
    one, other = watched_model.score_samples([rows, rows[:50]])
    assert (len(one), len(other)) == (100, 50)


def test_fit_predict_is_fit_then_predict(labelled):
    rows, _ = labelled
    found = make("moving_zscore").fit_predict(rows)
    np.testing.assert_array_equal(found, make("moving_zscore").fit(rows).predict(rows))
    assert set(found) <= {0, 1}


def test_a_grid_search_over_patchad_with_a_metric_of_scores(labelled):
    rows, labels = labelled
    halves = [(np.arange(300), np.arange(300, 600))]
    search = GridSearchCV(
        small(max_steps=5),
        {"smoothing": [1, 30]},
        cv=halves,
        scoring={"vus": scorer(metrics.vus, "pr", window=10, thresholds=20), "f1": scorer(metrics.f1)},
        refit="vus",
    ).fit(rows, labels)
    best = search.best_estimator_
    assert best.smoothing == search.best_params_["smoothing"]
    truth = metrics.vus(
        labels=labels[300:],
        scores=small(max_steps=5, smoothing=1).fit(rows[:300]).decision_function(rows[300:]),
        window=10,
        thresholds=20,
    )
    assert search.cv_results_["mean_test_vus"][0] == pytest.approx(truth.pr)
    assert 0 <= search.cv_results_["mean_test_f1"][0] <= 1


def test_cross_validation_with_a_metric_of_alarms_and_one_where_less_is_better(labelled):
    rows, labels = labelled
    folds = TimeSeriesSplit(2, test_size=150)
    values = cross_val_score(make("moving_zscore"), rows, labels, cv=folds, scoring=scorer(metrics.recall))
    assert len(values) == 2
    fitted = make("moving_zscore").fit(rows[:300])
    delay = scorer(metrics.detection_delay, "mean", greater_is_better=False)
    assert delay(fitted, rows[300:], labels[300:]) <= 0


def test_what_is_no_metric_is_refused():
    with pytest.raises(MetricError, match="is no metric"):
        scorer(len)

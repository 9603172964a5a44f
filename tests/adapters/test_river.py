"""River's own checks, and what they do not look at."""

from __future__ import annotations

import numpy as np
import pytest
import river.checks
from river import anomaly, compose, preprocessing
from tests.conftest import WATCHED, waves

from patchad import make
from patchad.adapters.river import RiverDetector
from patchad.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")


class Rows:
    """Labelled rows with six features, as River's checks read them: their own data set has to be downloaded."""

    def __init__(self, count: int) -> None:
        values = waves(count, 6)
        labels = np.arange(count) % 250 >= 245
        values[labels] += 3
        self.rows = [
            ({f"v{i}": value for i, value in enumerate(row.tolist())}, bool(label))
            for row, label in zip(values, labels, strict=True)
        ]

    def __iter__(self):
        return iter(self.rows)


def test_rivers_own_checks(monkeypatch, record_property):
    monkeypatch.setattr(river.checks, "_yield_datasets", lambda model, scale=1: iter([Rows(500 * scale)]))
    (params,) = RiverDetector._unit_test_params()
    model = RiverDetector(**params)
    checks = list(river.checks.yield_checks(model))
    for check in checks:
        check(model.clone())
    record_property("checks", len(checks))
    assert len(checks) > 20


def test_scores_are_those_of_batch_and_scoring_changes_nothing():
    rows = waves(200)
    detector = make("moving_zscore").fit(rows)
    online = RiverDetector(make("moving_zscore"), warmup=100)
    named = [dict(zip(WATCHED, row.tolist(), strict=True)) for row in rows]
    scores = []
    for row in named:
        scores.append(online.score_one(row))
        assert online.score_one(row) == scores[-1]
        online.learn_one(row)
    assert scores[:100] == [0.0] * 100
    fitted = online.detector_.decision_function(rows)
    np.testing.assert_allclose(scores[100:], fitted[100:], rtol=1e-6)
    ready = RiverDetector(detector)
    assert ready.detector_ is detector
    with pytest.raises(InputError, match="warmup=5 is too small"):
        RiverDetector(warmup=5)


def test_text_of_other_features_is_ignored_and_none_is_missing():
    online = RiverDetector(make("moving_zscore"), warmup=40)
    for row, _ in Rows(50):
        online.learn_one(row)
    without = {f"v{i}": 0.1 for i in range(5)}
    plain = online.score_one(without)
    assert online.score_one(without | {"v5": None, "site": "north"}) == plain
    online.learn_one(without | {"site": "north"})
    with pytest.raises(InputError, match="feature 'v0' has the value 'high'; leave it out"):
        online.learn_one({"v0": "high"})
    with pytest.raises(InputError, match="feature 'site' has the value"):
        RiverDetector(make("moving_zscore")).learn_one({"site": "north"})


def test_with_a_scaler_and_a_filter_of_river():
    model = compose.Pipeline(preprocessing.StandardScaler(), RiverDetector(make("moving_zscore"), warmup=100))
    filtered = anomaly.QuantileFilter(RiverDetector(make("moving_zscore"), warmup=60), q=0.95)
    for row, _ in Rows(150):
        model.learn_one(row)
        filtered.learn_one(row)
    odd = {f"v{i}": 30.0 for i in range(6)}
    assert model.score_one(odd) > 5 * model.score_one(row)
    assert filtered.classify(filtered.score_one(odd))

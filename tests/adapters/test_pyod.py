"""PyOD's interface, with PyOD itself; its own tests check the same properties of its detectors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from pyod.models.base import BaseDetector
from pyod.utils.data import evaluate_print
from pyod.utils.utility import standardizer
from scipy.stats import rankdata
from sklearn.base import clone
from tests.conftest import small, waves

from patchad import MissingExtraError, make
from patchad.adapters.pyod import PyODDetector
from patchad.adapters.tsb_ad import run
from patchad.errors import InputError


@pytest.fixture(scope="module")
def rows():
    found = waves(400)
    found[300:304, 1] += 5
    return found


@pytest.fixture(scope="module")
def outlier(rows):
    return PyODDetector(small(max_steps=5), contamination=0.02).fit(rows)


def test_the_attributes_and_methods_of_a_detector_of_pyod(outlier, rows, capsys):
    assert isinstance(outlier, BaseDetector)
    assert outlier.decision_scores_.shape == outlier.labels_.shape == (400,)
    assert outlier.labels_.sum() == 8
    np.testing.assert_array_equal(outlier.decision_function(rows), outlier.decision_scores_)
    np.testing.assert_array_equal(outlier.predict(rows), outlier.labels_)
    for method in ("linear", "unify"):
        shares = outlier.predict_proba(rows, method=method)
        assert shares.shape == (400, 2)
        assert shares.min() >= 0
        assert shares.max() <= 1
        np.testing.assert_allclose(shares.sum(axis=1), 1)
    _, confidence = outlier.predict(rows, return_confidence=True)
    assert confidence.min() >= 0
    assert confidence.max() <= 1
    assert set(outlier.predict_with_rejection(rows[:50], c_r=0.1)) <= {0, 1, -2}
    evaluate_print("PatchAD", (np.arange(400) // 4 == 75).astype(int), outlier.decision_scores_)
    assert "PatchAD ROC:" in capsys.readouterr().out


def test_the_scores_are_those_of_the_detector_inside(outlier, rows):
    np.testing.assert_array_equal(
        rankdata(outlier.decision_scores_), rankdata(outlier.detector_.decision_function(rows))
    )
    assert len(outlier.detector_.detect(rows).scores) == 400


def test_parameters_clone_and_combination(outlier, rows):
    again = clone(outlier)
    assert again.get_params()["contamination"] == 0.02
    assert again.get_params()["detector__window"] == 30
    other = PyODDetector(make("sensor_range")).fit(rows)
    both = standardizer(np.column_stack([outlier.decision_scores_, other.decision_scores_])).max(axis=1)
    assert both.shape == (400,)
    with pytest.raises(ValueError, match="contamination must be in"):
        PyODDetector(contamination=0.7)


def test_rows_that_were_dropped_are_as_normal_as_can_be(rows):
    gappy = rows.copy()
    gappy[100] = np.nan
    outlier = PyODDetector(make("moving_zscore", missing="drop")).fit(gappy)
    assert outlier.decision_scores_[100] == outlier.decision_scores_.min()


def test_without_pyod_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyod.models.base", None)
    monkeypatch.delitem(sys.modules, "patchad.adapters.pyod")
    with pytest.raises(MissingExtraError, match=r"patchad\[baselines\]"):
        import patchad.adapters.pyod  # noqa: F401


def test_run_as_tsb_ad_calls_it_sees_train_only(rows):
    scores = run(rows, 250, detector="moving_zscore", window=20)
    assert scores.shape == (400,)
    assert 300 <= scores.argmax() < 310
    np.testing.assert_array_equal(run(rows[:350], 250, detector="moving_zscore", window=20), scores[:350])
    assert run(rows[:, 1], 250, window=30, max_steps=2, d_model=4, layers=1).shape == (400,)
    with pytest.raises(InputError, match="train_len=500 does not fit 400 rows"):
        run(rows, 500)

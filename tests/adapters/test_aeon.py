"""aeon's own checks, and what they do not look at."""

from __future__ import annotations

import numpy as np
import pytest
from aeon.testing.estimator_checking import check_estimator
from tests.conftest import waves

import patchad.detectors.preparing
from patchad import make
from patchad.adapters.aeon import AeonDetector

pytestmark = pytest.mark.filterwarnings("ignore")


def test_aeons_own_checks(monkeypatch, record_property):
    monkeypatch.setattr(patchad.detectors.preparing, "MIN_ROWS", 2)  # the checks fit on few rows
    results = check_estimator(AeonDetector, raise_exceptions=False, verbose=False)
    assert {name: result for name, result in results.items() if result != "PASSED"} == {}
    record_property("checks", len(results))
    assert len(results) > 20


def test_scores_are_those_of_the_detector_inside_on_both_axes():
    rows = waves(300, 2)
    rows[200, 1] += 5
    wrapped = AeonDetector(make("moving_zscore")).fit(rows[:150], axis=0)
    scores = wrapped.predict(rows, axis=0)
    np.testing.assert_array_equal(scores, wrapped.detector_.decision_function(rows))
    np.testing.assert_array_equal(wrapped.predict(rows.T, axis=1), scores)
    assert scores.argmax() == 200

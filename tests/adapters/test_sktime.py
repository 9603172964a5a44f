"""sktime's own checks, and what they do not look at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sktime.transformations.series.detrend import Detrender
from sktime.utils.estimator_checks import check_estimator
from tests.conftest import small, waves

import patchad.detectors.preparing
from patchad import make
from patchad.adapters.sktime import SktimeDetector

pytestmark = pytest.mark.filterwarnings("ignore")


def test_sktimes_own_checks(monkeypatch, record_property):
    monkeypatch.setattr(patchad.detectors.preparing, "MIN_ROWS", 2)  # the checks fit on few rows
    results = check_estimator(SktimeDetector, raise_exceptions=False, verbose=False)
    assert {name: result for name, result in results.items() if result != "PASSED"} == {}
    record_property("checks", len(results))
    assert len(results) > 80


def test_rows_scores_and_labels_are_those_of_the_detector_inside():
    rows = pd.DataFrame(waves(400), columns=["a", "b", "c"])
    rows.iloc[300:310, 1] += 4
    wrapped = SktimeDetector(small()).fit(rows[:250])
    found = wrapped.detector_.detect(rows)
    assert wrapped.predict(rows)["ilocs"].tolist() == np.flatnonzero(found.alarms).tolist()
    assert wrapped.transform(rows)["labels"].tolist() == found.alarms.astype(int).tolist()
    np.testing.assert_allclose(wrapped.transform_scores(rows)["scores"], found.scores)
    assert len(wrapped.predict_scores(rows)) == found.alarms.sum()


def test_in_a_pipeline_of_sktime_on_periods():
    rows = pd.Series(waves(300, 1)[:, 0], index=pd.period_range("2026-01-01", periods=300, freq="D"), name="flow")
    rows.iloc[200:205] += 6
    found = (Detrender() * SktimeDetector(make("moving_zscore"))).fit(rows[:150]).predict(rows)
    assert 195 <= found["ilocs"].iloc[0] <= 205
    assert isinstance(SktimeDetector(), SktimeDetector)

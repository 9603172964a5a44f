"""Darts takes detectors of PyOD, so ours too, through the adapter for PyOD."""

from __future__ import annotations

import numpy as np
import pytest
from darts import TimeSeries
from darts.ad import PyODScorer, QuantileDetector
from tests.conftest import small, waves

from patchad.adapters.pyod import PyODDetector

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_scorer_and_a_detector_of_darts():
    rows = waves(400)
    rows[300:304, 1] += 5
    series = TimeSeries.from_values(rows.astype(np.float32))
    scorer = PyODScorer(PyODDetector(small(max_steps=5)), window=1)
    scorer.fit(series[:250])
    scores = scorer.score(series)
    assert scores.n_timesteps == 400
    strangest = int(scores.values().argmax())
    assert 270 <= strangest <= 310
    assert QuantileDetector(high_quantile=0.9).fit_detect(scores).values()[strangest] == 1

from __future__ import annotations

import numpy as np
import pytest

from patchad.alarms.severity import Yardstick


def test_severity_grows_with_the_distance_from_normal():
    yardstick = Yardstick.fit(np.array([0.0, 1.0, 2.0, np.nan]))
    severities = [yardstick.severity(score) for score in (1.5, 2.0, 3.0, 5.0, 11.0, 1e9)]
    assert severities == sorted(severities)
    assert severities[0] == severities[1] == 0
    assert severities[2:5] == [50, 75, 90]
    assert severities[-1] <= 100


def test_constant_train_scores_do_not_divide_by_zero():
    assert Yardstick.fit(np.ones(5)).severity(2.0) == pytest.approx(100)

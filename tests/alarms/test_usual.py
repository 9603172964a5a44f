from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import waves

from patchad.alarms.usual import GIVE_WAY, LAGS, Usual, UsualStage


@pytest.fixture(scope="module")
def usual():
    return Usual.fit([waves(2000, seed=3), waves(1500, seed=4)])


def test_rows_one_by_one_deviate_as_all_at_once(usual):
    rows = waves(500, seed=5)
    rows[200:260, 1] += 2
    whole = UsualStage(usual).push(rows)
    stage = UsualStage(usual)
    single = np.concatenate([stage.push(row[None]) for row in rows])
    np.testing.assert_array_equal(single, whole)


@pytest.mark.parametrize("change", [2.0, -2.0])
def test_the_forecast_goes_on_through_a_fault(usual, change):
    rows = waves(800, seed=5)
    rows[300:400, 1] += change
    deviations = UsualStage(usual).push(rows)
    assert deviations[300:400, 1].mean() == pytest.approx(change, rel=0.2)
    assert np.abs(deviations[500:].mean(axis=0)).max() < 0.1


def test_what_lasts_for_thousands_of_rows_becomes_usual():
    random = np.random.default_rng(0)
    rows = random.normal(size=(GIVE_WAY + 1000, 1))
    usual = Usual.fit([random.normal(size=(2000, 1))])
    rows[500:] += np.linspace(9, 9, len(rows) - 500)[:, None]
    stage = UsualStage(usual)
    deviations = stage.push(rows)
    assert deviations[600:3000].mean() == pytest.approx(9, abs=0.3)
    assert np.abs(stage._before).max() > 5, "the new values are looked back at"


def test_a_channel_that_never_moved_is_far_from_usual_when_it_does():
    usual = Usual.fit([np.full((100, 2), [5.0, 0.0])])
    deviations = UsualStage(usual).push(np.array([[5.0, 0.0], [5.1, -0.1]]))
    np.testing.assert_allclose(deviations, [[0, 0], [0.1, -0.1]], atol=1e-9)
    assert (np.abs(deviations[1]) > 1000 * usual.spread).all()


def test_a_missing_value_is_as_expected(usual):
    rows = waves(300, seed=5)
    rows[100:150, 1] = np.nan
    deviations = UsualStage(usual).push(rows)
    assert not deviations[100:150, 1].any()
    assert np.isfinite(deviations).all()


def test_series_shorter_than_the_lags_are_learned_from():
    usual = Usual.fit([np.sin(np.arange(LAGS / 2))[:, None]])
    assert np.isfinite(usual.weights).all()
    assert 0 < usual.spread[0] < 1

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.conftest import small, waves

from patchad import InputError, make, scan


def odd(rows: int = 1500) -> np.ndarray:
    values = waves(rows)
    values[rows // 2 : rows // 2 + 20, 1] += 3
    return values


@pytest.fixture(scope="module")
def found():
    return scan(odd(), make("sub_knn", window=30))


def test_the_event_is_found_where_it_is_and_by_its_channel(found):
    worst = max(found.events, key=lambda event: event.severity)
    assert (worst.start, worst.stop) == pytest.approx((750, 770), abs=2)
    assert worst.channels[0][0] == "channel_1"
    assert worst.severity >= 50


def test_every_row_has_a_score_in_levels(found):
    assert np.isfinite(found.scores).all()
    assert (found.levels == 1).all()
    assert abs(np.median(found.scores)) < 0.5
    assert found.contributions.shape == (1500, 3)


def test_an_event_that_stands_in_the_way_of_no_fold_is_found_at_an_edge():
    values = waves(1500)
    values[490:515, 0] += 3  # folds meet at row 500
    (event,) = scan(values, make("sub_knn", window=30)).severe(50).events
    assert (event.start, event.stop) == pytest.approx((490, 515), abs=2)


def test_many_faults_do_not_hide_each_other():
    values, starts = waves(3000), np.linspace(150, 2850, 10).astype(int)
    for number, start in enumerate(starts):
        values[start : start + 3, 1] += 8.0 if number < 5 else 1.2
    found = scan(values, make("sub_knn", window=10))
    assert all(found.scores[start : start + 3].max() > 1 for start in starts[:5])


def test_a_threshold_that_was_asked_for_is_what_it_says():
    found = scan(waves(3000), make("sub_knn", window=10, threshold="quantile:0.9"))
    assert (found.scores > 1).mean() == pytest.approx(0.1, abs=0.05)


def test_no_row_is_judged_by_what_learned_from_it():
    values = waves(1500)
    values[600:900] += 0.01 * np.random.default_rng(1).standard_normal((300, 3))
    before = scan(values, make("sub_knn", window=30)).scores
    values[1400:] = 0.0  # another fold's rows matter, and its own: not to a model that did not see them
    after = scan(values, make("sub_knn", window=30)).scores
    assert not np.array_equal(before[:1000], after[:1000])
    np.testing.assert_allclose(before[1000:1300], after[1000:1300], rtol=1e-5)


def test_a_net_says_what_it_expected_and_is_not_changed():
    detector = small(max_steps=10)
    found = scan(odd(900), detector)
    assert not hasattr(detector, "net_")
    assert found.expected[0].values.shape[0] > 20
    assert np.isfinite(found.expected[0].values).any()


def test_frames_keep_their_names_and_times():
    times = pd.date_range("2024-01-01", periods=900, freq="min")
    frame = pd.DataFrame(odd(900), columns=["a", "b", "c"], index=times)
    frame.iloc[100:150, 0] = np.nan
    found = scan(frame, make("sub_knn", window=30))
    assert found.channels == ("a", "b", "c")
    assert {event.kind for event in found.events} == {"anomaly", "missing"}
    assert all(event.start_time in times for event in found.events)
    assert any("filled" in note for note in found.notes)


def test_a_stuck_sensor_is_found_though_most_folds_learned_from_it():
    values = waves(1800)
    values[700:760, 2] = values[700, 2]
    kinds = {event.kind: event for event in scan(values, make("sub_knn", window=30)).events}
    assert (kinds["stuck"].start, kinds["stuck"].stop) == (700, 760)


def test_a_list_is_scanned_one_by_one():
    one, other = scan([odd(600), waves(400)], make("pca"), folds=2)
    assert (len(one.scores), len(other.scores)) == (600, 400)


def test_a_constant_series_has_no_events():
    assert scan(np.ones((400, 2)), make("sub_knn", window=30)).events == ()


def test_a_short_series_has_fewer_folds_and_a_shorter_one_is_refused():
    assert len(scan(waves(100), make("sub_knn", window=30), folds=10).scores) == 100
    with pytest.raises(InputError, match="the series has 60 rows, too few"):
        scan(waves(60), make("pca"))


def test_one_fold_is_refused():
    with pytest.raises(InputError, match="at least 2"):
        scan(waves(600), folds=1)


@pytest.mark.parametrize("name", ["iforest", "m2n2", "var", "matrix_profile", "random"])
def test_other_detectors_scan_too(name):
    quick = {"max_steps": 3} if name == "m2n2" else {}  # its state is carried for ever
    found = scan(odd(600), make(name, **quick), folds=2)
    assert len(found.scores) == 600


def test_columns_that_are_ignored_may_hold_text():
    frame = pd.DataFrame(odd(600), columns=["pump", "flow", "heat"])
    frame["mode"] = np.array(["auto", "hand", "test"])[np.arange(600) // 50 % 3]
    found = scan(frame, make("pca", ignore=("mode", "heat")), folds=2)
    assert found.channels == ("pump", "flow")
    assert found.contributions.shape == (600, 2)


def test_without_train_rows_are_judged_by_those_before_them_only():
    values = odd()
    found = scan(values, make("sub_knn", window=30), past_only=True)
    (event,) = found.severe(50).events
    assert (event.start, event.stop) == pytest.approx((750, 770), abs=4)
    assert not found.scores[:240].any()
    assert found.scores[240:].all()
    assert "warming up: the first 240 rows are not judged" in found.notes
    assert all(event.start >= 240 for event in found.events)
    values[960:] = 5.0  # what comes later changes nothing
    later = scan([values], make("sub_knn", window=30), past_only=True)[0]
    np.testing.assert_array_equal(found.scores[:920], later.scores[:920])


def test_without_train_there_have_to_be_rows_to_warm_up():
    with pytest.raises(InputError, match="over 240 are needed"):
        scan(waves(240), past_only=True)

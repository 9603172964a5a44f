"""`accept`, `confirm` and `retract`, end to end: what was accepted is silent, and other faults are still found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from tests.conftest import small, waves

from patchad import Detector, InputError, load, make
from patchad.datasets.backgrounds import calm
from patchad.datasets.faults import PlannedFault, faulty

ROWS = 2500


@pytest.fixture(scope="module")
def fitted_once() -> Detector:
    return small(max_steps=60).fit(waves(4000, seed=2))


@pytest.fixture
def detector(fitted_once):
    yield fitted_once
    fitted_once.feedback_ = ()


def odd(start: int, stop: int, channel: int = 1, by: float = 1.2, *, seed: int = 1) -> np.ndarray:
    rows = waves(ROWS, seed=seed)
    rows[start:stop, channel] += by
    return rows


def events(detector: Detector, rows, start: int = 0, stop: int = ROWS):
    return [event for event in detector.detect(rows).events if event.start < stop and start < event.stop]


def put_in(rows: np.ndarray, kind: str) -> np.ndarray:
    changes = {
        "level for good": (slice(1200, None), 1, lambda x: x + 2),
        "stuck": (slice(1200, 1500), 1, lambda x: np.full_like(x, x[0])),
        "missing": (slice(1200, 1500), 1, lambda x: np.full_like(x, np.nan)),
        "impossible": (slice(1200, 1201), 0, lambda x: x + 40),
        "storm": (np.concatenate([np.arange(s, s + 10) for s in range(300, 2300, 300)]), 0, lambda x: x + 2),
    }
    where, channel, change = changes[kind]
    rows[where, channel] = change(rows[where, channel])
    return rows


KINDS = ("level for good", "stuck", "missing", "impossible", "storm")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_accepted_raises_nothing_and_undoing_brings_it_back(detector, kind, tmp_path):
    rows = put_in(waves(ROWS, seed=1), kind)
    before = detector.detect(rows)
    assert before.events
    detector.accept(rows)
    assert not events(detector, rows)
    again = load(detector.save(tmp_path / "model.safetensors"))
    assert not events(again, rows)
    assert [str(one) for one in again.feedback_] == [str(one) for one in detector.feedback_]
    after = again.retract(rows).detect(rows)
    assert after.events == before.events
    np.testing.assert_array_equal(after.alarms, before.alarms)
    np.testing.assert_array_equal(after.scores, before.scores)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_rows_of_an_event_that_were_cut_out_are_enough(detector, kind):
    rows = put_in(waves(ROWS, seed=1), kind)
    for event in detector.detect(rows).events:
        detector.accept(rows[event.start : event.stop])
    assert not events(detector, rows, 1200, 1500)


def test_like_rows_are_accepted_at_another_time_and_for_longer(detector):
    detector.accept(odd(1200, 1500), start=1200, stop=1500)
    assert not events(detector, odd(703, 1703, seed=5))


def test_a_level_that_was_accepted_is_no_regime(detector):
    rows = put_in(waves(ROWS, seed=1), "level for good")
    assert [event.kind for event in events(detector, rows)] == ["regime"]
    detector.accept(rows, start=1200)
    assert not events(detector, put_in(waves(ROWS, seed=3), "level for good"))


def test_other_faults_are_found_beside_and_inside_what_was_accepted(detector):
    detector.accept(odd(1200, 1500), start=1200, stop=1500)
    assert events(detector, odd(1200, 1230, by=-1.2), 1200, 1230)
    assert events(detector, odd(1200, 1230, channel=0), 1200, 1230)
    both = odd(1000, 1600, seed=4)
    both[1300:1330, 2] += 1.2
    (event,) = events(detector, both)
    assert 1290 <= event.start < event.stop <= 1340


def test_values_that_are_hardly_further_out_than_accepted_ones_are_possible(detector):
    limit = detector.alarm_rules_.sensors.high[0]
    far, further = waves(ROWS, seed=1), waves(ROWS, seed=1)
    far[1200:1500, 0] += limit - far[1200:1500, 0].max() - 0.01
    further[1200:1500, 0] += limit - further[1200:1500, 0].max() + 0.01
    assert "range" not in {event.kind for event in events(detector, far)}
    detector.accept(far, start=1200, stop=1500)
    assert not events(detector, further)


def test_a_sensor_that_may_rest_hides_no_fault_of_another(detector):
    rows = put_in(waves(ROWS, seed=1), "stuck")
    detector.accept(rows, start=1200, stop=1500)
    again = waves(ROWS, seed=3)
    again[800:1100, 1] = again[800, 1]
    assert not events(detector, again)
    again[900:930, 2] += 1.2
    assert events(detector, again, 900, 930)
    again[1300:2200, 1] = again[1300, 1]
    assert "stuck" in {event.kind for event in events(detector, again, 1300, 2200)}, "three times as long is news"


def test_normal_rows_change_nothing(detector):
    rows = waves(ROWS, seed=6)
    detector.accept(rows)
    (judgement,) = detector.feedback_
    assert len(judgement.patterns) <= 3
    assert str(judgement).startswith("accepted row 0 to row 2499 (2,500 rows, ")


def test_confirmed_rows_are_events_at_any_level_and_whatever_is_accepted(detector, tmp_path):
    rows = odd(1200, 1210, by=0.6)
    detector.confirm(rows, start=1200, stop=1210).accept(rows)
    level = detector.threshold_.level
    try:
        detector.set_threshold(1e9)
        (event,) = events(detector, rows)
        assert (event.start, event.stop, event.kind) == (1200, 1210, "anomaly")
        assert event.channels[0][0] == "channel_1"
        assert detector.detect(rows).alarms.sum() == 10
        assert not events(detector, waves(ROWS, seed=8))
        again = load(detector.save(tmp_path / "model.safetensors"))
        assert events(again, rows) == events(detector, rows)
    finally:
        detector.set_threshold("auto")
    assert detector.threshold_.level == level
    assert not events(detector.retract().retract(), waves(ROWS, seed=8))


def test_confirmed_rows_are_events_inside_a_regime_and_are_no_repeats(detector):
    rows = put_in(waves(ROWS, seed=1), "level for good")
    marked = rows.copy()
    for start in (2000, 2150, 2300, 2450):
        marked[start : start + 10, 2] += 0.6
    detector.confirm(marked, start=2000, stop=2010)
    detector.confirm(marked, start=2150, stop=2160)
    found = [event for event in events(detector, marked) if event.kind == "anomaly"]
    assert [event.start for event in found][:2] == [2000, 2150]


def test_a_list_of_series_is_judged_as_a_whole_or_not_at_all(detector):
    detector.accept([odd(500, 600), odd(900, 1000, channel=2)])
    assert len(detector.feedback_) == 2
    with pytest.raises(InputError, match="features"):
        detector.accept([odd(500, 600), np.zeros((50, 7))])
    assert len(detector.feedback_) == 2
    detector.retract(odd(500, 600))
    assert not events(detector, odd(900, 1000, channel=2))
    assert events(detector, odd(500, 600))


def test_times_say_where_rows_were(detector):
    frame = pd.DataFrame(odd(1200, 1300), index=pd.date_range("2026-01-01", periods=ROWS, freq="min"))
    detector.accept(frame, start=1200, stop=1300)
    assert str(detector.feedback_[0]).startswith("accepted 2026-01-01T20:00:00 to 2026-01-01T21:39:00 (100 rows, ")


def test_wrong_calls_are_refused(detector):
    with pytest.raises(InputError, match="nothing was accepted or confirmed"):
        detector.retract()
    with pytest.raises(InputError, match="give 0 <= start < stop <= 2500"):
        detector.accept(odd(1200, 1300), start=1300, stop=1200)
    detector.accept(odd(1200, 1300))
    with pytest.raises(InputError, match="these very rows were not accepted or confirmed; the newest that were"):
        detector.retract(odd(1200, 1300, seed=9))
    with pytest.raises(NotFittedError):
        small().accept(odd(1200, 1300))


def test_a_channel_that_is_missing_altogether_can_be_accepted(fitted_once, detector):
    names = ["a", "b", "c"]
    named = small(max_steps=5).fit(pd.DataFrame(waves(800, seed=2), columns=names))
    rows = pd.DataFrame(waves(600, seed=1), columns=names).drop(columns="b")
    assert [event.kind for event in named.detect(rows).events if event.kind == "missing"] == ["missing"]
    named.accept(rows)
    assert not named.detect(rows).events
    longer = pd.DataFrame(waves(2000, seed=4), columns=names).drop(columns="b")
    assert not any(event.kind == "missing" for event in named.detect(longer).events)


@pytest.mark.parametrize("name", ["sub_pca", "last_difference", "moving_zscore", "pca"])
def test_every_kind_of_detector_takes_it(name, tmp_path):
    parameters = {"window": 30} if name == "sub_pca" else {}
    detector = make(name, **parameters).fit(waves(3000, seed=2))
    rows = odd(1200, 1500, by=3.0)
    assert events(detector, rows, 1190, 1510)
    detector.accept(rows, start=1195, stop=1505)
    assert not events(detector, rows, 1190, 1510)
    assert not events(load(detector.save(tmp_path / "model.safetensors")), odd(700, 1100, by=3.0, seed=5), 690, 1110)
    assert events(detector, odd(700, 730, channel=0, by=-3.0), 690, 740)


def test_a_sample_of_the_grid():
    """Of two faults of each kind one is accepted: it is silent, with other noise too, and the other is found."""
    plan = [PlannedFault("offset", 300, 8.0), PlannedFault("zero", 100), PlannedFault("dip", 30, 8.0)]
    plan += [PlannedFault("drift", 300, 8.0), PlannedFault("large", 300, 8.0), PlannedFault("stuck", 300)]
    detector = small(max_steps=60).fit(calm("waves", 4000, 3))
    rows, faults = faulty("waves", 3, plan, spacing=300)
    again, _ = faulty("waves", 3, plan, spacing=300, noise_stream=50)
    assert found_in(detector, rows, faults) == [True] * 6
    for fault in faults[::2]:
        detector.accept(rows[: fault.stop + 300], start=fault.start - 5, stop=fault.stop + 5)
    assert found_in(detector, rows, faults) == [False, True] * 3
    assert found_in(detector, again, faults) == [False, True] * 3


def found_in(detector: Detector, rows: np.ndarray, faults) -> list[bool]:
    listed = detector.detect(rows).events
    return [any(event.start < fault.stop and fault.start < event.stop for event in listed) for fault in faults]

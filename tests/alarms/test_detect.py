"""What a person on call sees, end to end: faults put into waves, and the events that `detect` lists."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from tests.conftest import small, waves

from patchad import Detection, Event, load
from patchad.alarms.chunk import REGIME_ROWS

ROWS = 3000


@pytest.fixture(scope="module")
def detector():
    return small(max_steps=60).fit(waves(4000, seed=2))


def changed(detector, **parameters):
    """Return the detector with other parameters; it shares all that is learned."""
    other = copy.copy(detector)
    for name, value in parameters.items():
        setattr(other, name, value)
    return other.set_threshold(other.threshold)


def today(seed: int = 1) -> np.ndarray:
    return waves(ROWS, seed=seed)


def overlapping(found: Detection, start: int, stop: int) -> list[Event]:
    return [event for event in found.events if event.start < stop and start < event.stop]


def assert_alarms_are_inside_events(found: Detection) -> None:
    """Alarms are 1 exactly inside listed events; of a regime, until it was recognised."""
    expected = np.zeros(len(found.scores), dtype=bool)
    for event in found.events:
        assert 0 <= event.start <= event.peak < event.stop <= len(expected)
        expected[event.start : event.stop] |= event.kind != "regime"
    for event in found.events:
        if event.kind == "regime":
            own = found.alarms[event.start : event.stop] & ~expected[event.start : event.stop]
            known = int(np.flatnonzero(own)[-1]) + 1 if own.any() else 0
            assert REGIME_ROWS / 2 < known < event.stop - event.start
            expected[event.start : event.start + known] = True
    np.testing.assert_array_equal(found.alarms, expected)


# -- where it is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "stop"), [(1500, 1800), (300, 310)])
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_fault_is_reported_where_it_is(detector, start, stop, seed):
    rows = today(seed)
    rows[start:stop, 1] += 2.0
    (event,) = overlapping(detector.detect(rows), start, stop)
    assert event.kind == "anomaly"
    assert abs(event.start - start) <= 5
    assert abs(event.stop - stop) <= 5
    assert event.start <= event.peak < event.stop
    assert event.channels[0][0] == "channel_1"


def test_a_dropout_is_reported_where_it_is(detector):
    rows = today()
    rows[1500:1800, 1] = 0.0
    (event,) = overlapping(detector.detect(rows), 1500, 1800)
    assert abs(event.start - 1500) <= 5
    assert abs(event.stop - 1800) <= 5


def test_the_end_of_a_fault_is_told_wherever_it_lies_on_the_grid(detector):
    for start in range(1000, 1005):
        rows = today()
        rows[start : start + 43, 0] -= 2.0
        (event,) = overlapping(detector.detect(rows), start, start + 43)
        assert abs(event.start - start) <= detector.hop_
        assert abs(event.stop - start - 43) <= detector.hop_


def test_a_fault_is_one_event_without_a_sawtooth(detector):
    rows = today()
    rows[1000:1400, 2] += 0.5 * np.random.default_rng(0).standard_normal(400)
    assert len(overlapping(detector.detect(rows), 1000, 1400)) == 1


# -- what lasts ----------------------------------------------------------------------------------------------------


def test_a_sensor_at_zero_for_ever_stays_in_an_event(detector):
    rows = today()
    rows[1500:, 1] = 0.0
    (event,) = overlapping(detector.detect(rows), 1500, ROWS)
    assert abs(event.start - 1500) <= 5
    assert event.stop == ROWS


@pytest.mark.parametrize("adapt", [0, 1000])
def test_what_is_normal_may_change_for_ever(adapt):
    rows = waves(ROWS, seed=1)
    rows[1200:, 1] += 2.0
    found = small(max_steps=60, adapt=adapt).fit(waves(4000, seed=2)).detect(rows)
    (regime,) = [event for event in found.events if event.kind == "regime"]
    assert abs(regime.start - 1200) <= 5
    assert regime.stop >= ROWS - 5
    assert found.alarms[1200 : 1200 + REGIME_ROWS - 30].all()
    assert found.alarms[1200 + 2 * REGIME_ROWS :].mean() < 0.2, "it no longer alarms"
    assert_alarms_are_inside_events(found)


def test_a_fault_inside_a_new_normal_is_found(detector):
    rows = waves(4000, seed=1)
    rows[1200:, 1] += 1.0
    rows[3000:3030, 2] += 4.0
    found = detector.detect(rows)
    assert [event.kind for event in found.events if event.stop >= 3990] == ["regime"]
    (inside,) = [event for event in overlapping(found, 3000, 3030) if event.kind == "anomaly"]
    assert abs(inside.start - 3000) <= 30
    assert abs(inside.stop - 3030) <= 30
    assert_alarms_are_inside_events(found)


def test_a_storm_is_one_event_that_counts_its_repeats(detector):
    rows = today()
    for start in range(300, 2700, 300):
        rows[start : start + 10, 0] += 2.0
    found = detector.detect(rows)
    first, second = found.events[:2]
    assert (first.start, first.repeats, second.start, second.repeats) == (300, 6, 600, 0)
    assert len(found.events) <= 3, "nor is every impossible value of a repeat an event"
    assert_alarms_are_inside_events(found)


# -- broken sensors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [[1], [0, 2], [0, 1, 2]])
def test_frozen_sensors_are_one_event(detector, channels):
    rows = today()
    rows[1500:1800, channels] = rows[1500, channels]
    found = detector.detect(rows)
    (event,) = overlapping(found, 1450, 1850)
    assert (event.kind, event.start, event.stop) == ("stuck", 1500, 1800)
    assert sorted(name for name, _ in event.channels) == [f"channel_{i}" for i in channels]
    assert_alarms_are_inside_events(found)


@pytest.mark.parametrize("channels", [[1], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("missing", ["interpolate", "drop"])
def test_missing_values_are_one_event(detector, channels, missing):
    rows = today()
    rows[1500:1800, channels] = np.nan
    found = changed(detector, missing=missing).detect(rows)
    (event,) = overlapping(found, 1450, 1850)
    assert (event.kind, event.start, event.stop) == ("missing", 1500, 1800)
    assert sorted(name for name, _ in event.channels) == [f"channel_{i}" for i in channels]
    assert_alarms_are_inside_events(found)


def test_a_few_missing_values_are_none(detector):
    rows = today()
    rows[1500:1505, 1] = np.nan
    assert not any(event.kind == "missing" for event in detector.detect(rows).events)


def test_an_impossible_value_is_found_whatever_the_score_says(detector):
    rows = today()
    rows[1500, 0] = 40.0
    (event,) = changed(detector, threshold=1e9).detect(rows).events
    assert (event.kind, event.start, event.stop) == ("range", 1500, 1501)
    (event,) = overlapping(detector.detect(rows), 1500, 1501)
    assert event.kind == "anomaly", "values out of range that lie in an event are no second one"


def test_a_broken_sensor_hides_no_fault_of_another_time(detector):
    rows = today()
    rows[1000:1300, 1] = np.nan
    rows[2000:2030, 0] += 2.0
    found = detector.detect(rows)
    assert [event.kind for event in overlapping(found, 1000, 2030)] == ["missing", "anomaly"]


# -- what is told of it --------------------------------------------------------------------------------------------


def stirred() -> np.ndarray:
    """Rows with events of several kinds."""
    rows = today()
    rows[300:310, 1] += 2.0
    rows[700:800, 0] = rows[700, 0]
    rows[1100:1180, 2] = np.nan
    rows[1600:, 1] += 2.0
    return rows


def test_alarms_are_the_rows_inside_events_and_predict_gives_them(detector):
    found = detector.detect(stirred())
    assert {"anomaly", "stuck", "missing", "regime"} <= {event.kind for event in found.events}
    assert_alarms_are_inside_events(found)
    np.testing.assert_array_equal(detector.predict(stirred()), found.alarms)


def test_events_are_in_order_and_levels_are_those_they_open_over(detector):
    found = detector.detect(stirred())
    assert [event.start for event in found.events] == sorted(event.start for event in found.events)
    for event in found.events:
        if event.kind == "anomaly":
            assert event.peak_score > found.levels[event.peak]
            assert found.scores[event.peak] <= event.peak_score
        assert 0 <= event.severity <= 100
        assert sum(share for _, share in event.channels) == pytest.approx(1)


def test_ids_are_unique_and_stay_whatever_follows(detector):
    found = detector.detect(stirred())
    ids = [event.id for event in found.events]
    assert len(set(ids)) == len(ids)
    assert all(len(one) == 12 for one in ids)
    assert [event.id for event in detector.detect(stirred()).events] == ids
    shorter = detector.detect(stirred()[:1400])
    assert [event.id for event in shorter.events] == ids[: len(shorter.events)]
    assert len(shorter.events) >= 3


def test_events_have_their_times(detector):
    times = pd.date_range("2026-01-01", periods=ROWS, freq="min")
    frame = pd.DataFrame(stirred(), index=times)
    events = detector.detect(frame).events
    assert len(events) >= 4
    for event in events:
        assert event.start_time == times.to_numpy()[event.start]
        assert event.stop_time == times.to_numpy()[event.stop - 1]


def test_a_loaded_detector_finds_the_same_events(detector, tmp_path):
    again = load(detector.save(tmp_path / "model.safetensors"))
    assert again.detect(stirred()).events == detector.detect(stirred()).events
    assert again.threshold_.basis == detector.threshold_.basis


def test_normal_rows_raise_about_the_promised_number_of_events(detector):
    rows = waves(20_000, seed=7)
    events = len(detector.detect(rows).events)
    assert events <= 6


def two_faults() -> np.ndarray:
    rows = today()
    rows[300:310, 1] += 2.0
    rows[700:710, 1] += 2.0
    return rows


def test_the_promise_and_the_shape_of_events_can_be_chosen(detector):
    rows = stirred()
    few, many = (changed(detector, false_alarms=rate) for rate in (0.1, 100.0))
    assert few.threshold_.level > detector.threshold_.level > many.threshold_.level
    assert len(few.detect(rows).events) <= len(many.detect(rows).events)
    kinds = [event.kind for event in changed(detector, min_duration=50).detect(rows).events]
    assert kinds == ["stuck", "missing", "regime"], "ten rows are too short"
    (whole,) = overlapping(changed(detector, merge_gap=400).detect(two_faults()), 300, 710)
    assert (whole.start, whole.stop) == (300, 710)
    assert len(overlapping(changed(detector, merge_gap=30).detect(two_faults()), 300, 710)) == 2

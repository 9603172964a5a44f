from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import small, waves

from patchad import make
from patchad.data.series import Series, prepare
from patchad.results.detection import MAX_DRAWN_ROWS, Event, surroundings
from patchad.results.expectations import MAX_CHANNELS, MAX_EVENTS, Expectations


def slow_expectation(detector, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average over all windows that cover a row, whatever the hop is."""
    window, scaler = detector.window_, detector.scaler_
    high = next(one for one in detector.rule_.witnesses if one.name == "residual").by_channel.high
    sums, reach, count = np.zeros(values.shape), np.zeros(values.shape), np.zeros((len(values), 1))
    for end in range(window, len(values) + 1):
        scaled = scaler(values[end - window : end])
        with torch.inference_mode():
            outputs = detector.net_(torch.from_numpy(scaled)[None])
        found = np.mean([out.reconstruction[0].numpy() for out in outputs], axis=0)
        rows = slice(end - window, end)
        sums[rows] += found
        reach[rows] += high
        count[rows] += 1
    return sums / count * scaler.spread + scaler.mean, reach / count * scaler.spread


def with_hop(detector, hop: int):
    """Return the detector with another hop; it shares all else."""
    other = copy.copy(detector)
    other.hop = other.hop_ = hop
    return other


@pytest.mark.parametrize("rows", [slice(0, 7), slice(25, 61), slice(100, 101), slice(180, 203), slice(0, 203)])
@pytest.mark.parametrize("hop", [1, 7, 15, 30])
def test_expected_rows_equal_those_of_every_window_in_turn(fitted, rows, hop):
    detector = with_hop(fitted, hop)
    values = 10 + 3 * waves(203, seed=4)
    expected, reach = detector._expected_rows(Series(values, detector.channels_), rows)
    slow, slow_reach = slow_expectation(detector, values)
    np.testing.assert_allclose(expected, slow[rows], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(reach, slow_reach[rows])


@pytest.mark.parametrize("hop", [5, 30])
def test_neither_the_expected_values_nor_the_band_repeat_with_the_hop(fitted, hop):
    detector = with_hop(fitted, hop)
    expected, reach = detector._expected_rows(Series(waves(600, seed=4), detector.channels_), slice(60, 540))
    assert np.ptp(reach, axis=0).max() < 1e-6
    by_phase = (expected - waves(600, seed=4)[60:540]).reshape(-1, hop, 3).mean(axis=0)
    assert np.ptp(by_phase, axis=0).max() < 0.5 * reach.max()


@settings(max_examples=60, deadline=None)
@given(length=st.integers(30, 120), start=st.integers(0, 119), rows=st.integers(1, 60), hop=st.integers(1, 30))
def test_every_row_of_a_segment_of_at_least_a_window_has_an_expectation(fitted, length, start, rows, hop):
    shown = slice(min(start, length - 1), min(start + rows, length))
    series = Series(waves(length), fitted.channels_)
    for found in with_hop(fitted, hop)._expected_rows(series, shown):
        assert found.shape == (shown.stop - shown.start, 3)
        assert np.isfinite(found).all()


def with_gap(values: np.ndarray, gap: int, minutes: int = 60) -> pd.DataFrame:
    """Return a frame with a row a minute, and a gap before row `gap`."""
    minute = np.arange(len(values)) + minutes * (np.arange(len(values)) >= gap)
    return pd.DataFrame(values, index=minute.astype("datetime64[m]"))


@pytest.mark.parametrize(("fold", "hop"), [("mean", 5), ("newest", 1), ("newest", 7), ("mean", 30)])
@pytest.mark.parametrize(("gap", "fault"), [(401, 571), (401, 405), (401, 396), (401, 3), (401, 590), (40, 45)])
def test_margins_of_an_event_may_reach_over_a_gap_and_over_both_ends(fitted, fold, hop, gap, fault):
    detector = with_hop(fitted, hop).set_params(fold=fold)
    values = waves(600, seed=3)
    values[fault : fault + 8] += 3
    found = detector.detect(with_gap(values, gap))
    assert any(event.start < fault + 30 and event.stop > fault for event in found.events)
    assert found.expected
    for one in found.expected:
        assert np.isfinite(one.values).all()
        assert np.isfinite(one.reach).all()


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(70, 200),
    gap=st.integers(30, 199),
    fault=st.integers(0, 199),
    rows=st.integers(1, 40),
    hop=st.sampled_from([1, 7, 30]),
    fold=st.sampled_from(["newest", "mean"]),
)
def test_detect_succeeds_wherever_gap_and_fault_are(fitted, length, gap, fault, rows, hop, fold):
    detector = with_hop(fitted, hop).set_params(fold=fold)
    values = waves(length, seed=3)
    values[fault : fault + rows, 1] += 4
    found = detector.detect(with_gap(values, gap))
    short = min(gap, length - gap) < 30 and gap < length  # a segment shorter than the window has no expectation
    for one in found.expected:
        assert short or np.isfinite(one.values).all()


def test_a_segment_shorter_than_the_window_has_no_expectation(fitted):
    assert fitted._expected_rows(Series(waves(29), fitted.channels_), slice(0, 29)) is None


def test_normal_rows_lie_in_the_band():
    detector = small(max_steps=150).fit(waves(1500))
    values = waves(1000, seed=5)
    expected, reach = detector._expected_rows(Series(values, detector.channels_), slice(0, 1000))
    assert (np.abs(values - expected) <= reach).mean() > 0.95


def test_expectations_cover_the_worst_channels_around_the_worst_events_only():
    values = np.arange(9000.0)[:, None] + np.arange(5)
    names = tuple("abcde")
    blame = tuple((name, 0.2) for name in names)
    events = [Event(20 * i, 20 * i + 1, 20 * i, float(i), float(i % 90), blame) for i in range(1, 400)]
    found = Expectations(
        lambda series, rows: (series.values[rows], series.values[rows]), prepare(values, names), events
    )
    assert len(found) == MAX_EVENTS
    assert events[found[0].event].severity == max(event.severity for event in events)
    assert all(one.channels == names[:MAX_CHANNELS] for one in found)
    for one in found:
        shown = surroundings(events[one.event], len(values))
        assert one.start == shown.start
        np.testing.assert_array_equal(one.values, values[shown, :MAX_CHANNELS])


def test_rows_that_were_left_out_have_no_expectation():
    values = waves(300)
    values[100:140] = np.nan
    detector = small().fit(waves(600))
    prepared = prepare(values, detector.channels_)
    event = Event(95, 160, 150, 9.0, 50.0, (("channel_0", 1.0),))
    (one,) = Expectations(detector._expected_rows, prepared, [event])
    rows = np.arange(one.start, one.start + len(one.values))
    left_out = (rows >= 110) & (rows < 140)
    assert np.isnan(one.values[left_out]).all()
    assert np.isfinite(one.values[~left_out]).all()


def test_a_detector_that_expects_nothing_in_particular_has_no_expectations(train):
    odd = waves(200)
    odd[100] += 50
    found = make("random", threshold="quantile:0.9").fit(train).detect(odd)
    assert found.events
    assert list(found.expected) == []


def test_a_detection_refers_to_its_data_without_a_copy(fitted):
    odd = waves(300, seed=1)
    assert np.shares_memory(fitted.detect(odd).observed.values, odd)


def test_what_is_drawn_of_a_long_event_holds_its_peak():
    for peak in (1000, 3000, 8999):
        shown = surroundings(Event(1000, 9000, peak, 1.0, 1.0, ()), 10_000)
        assert shown.start <= peak < shown.stop
        assert shown.stop - shown.start == MAX_DRAWN_ROWS
    assert surroundings(Event(0, 5, 2, 1.0, 1.0, ()), 10) == slice(0, 10)


def test_expectations_are_computed_when_they_are_asked_for_and_pickle_as_values():
    asked = []

    def expect(series, rows):
        asked.append(rows)
        return series.values[rows], series.values[rows]

    event = Event(50, 60, 55, 9.0, 80.0, (("channel_0", 1.0),))
    found = Expectations(expect, prepare(waves(200), tuple(f"channel_{i}" for i in range(3))), [event])
    assert asked == []
    assert len(found) == len(found[:5]) == 1
    assert len(asked) == 1
    (restored,) = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(restored.values, found[0].values)


def test_a_refit_changes_no_expectation_of_before(train):
    detector = small().fit(train)
    odd = waves(200)
    odd[100] += 50
    first, second = detector.detect(odd), detector.detect(odd)
    before = first.expected[0].values
    detector.fit(5 * train)
    np.testing.assert_array_equal(second.expected[0].values, before)

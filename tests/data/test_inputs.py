"""Inputs as people have them: each works and is noted, or is refused with a reason."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.conftest import small, waves

from patchad import InputError, PatchAD


def test_short_train_shrinks_the_window_and_says_so():
    detector = PatchAD(max_steps=5).fit(waves(32))
    assert detector.window_ == 15
    found = detector.detect(waves(50, seed=1))
    assert len(found.scores) == 50
    assert any("window shrunk to 15" in note and "no rows held out" in note for note in found.notes)
    with pytest.raises(InputError, match="31 rows in one piece"):
        PatchAD(max_steps=5).fit(waves(31))


@pytest.mark.parametrize("empty", [np.zeros((0, 3)), [], pd.DataFrame({"a": []})], ids=["array", "list", "frame"])
def test_no_rows_are_refused(empty):
    with pytest.raises(InputError, match="0 rows"):
        small().fit(empty)


def test_series_shorter_than_the_window_do_not_alarm_on_their_padding(fitted):
    noise = np.random.default_rng(2).uniform(-1, 1, (30, 3))  # within the range of each channel
    for rows in (1, 7, 29):
        found = fitted.detect(noise[:rows])
        assert len(found.scores) == len(found.contributions) == rows
        assert np.isfinite(found.scores).all()
        assert not found.alarms.any()
        assert f"{rows} rows stand in pieces shorter than the window" in found.notes[-1]
    assert fitted.detect(noise).alarms.any()


def test_a_short_piece_between_gaps_never_alarms(fitted):
    data = waves(100, seed=3)
    times = np.arange(100.0)
    times[60:] += 1000
    times[80:] += 1000
    frame = pd.DataFrame({"time": times, "a": data[:, 0], "b": data[:, 1], "c": data[:, 2]})
    frame.loc[70, "a"] = 50.0
    frame.loc[50, "a"] = 50.0
    found = fitted.detect(frame)
    assert found.alarms[:60].any()
    assert not found.alarms[60:].any()


@pytest.mark.parametrize("channels", [1, 60])
def test_one_channel_or_many(channels):
    data = waves(300, channels)
    detector = small(max_steps=5).fit(data[:, 0] if channels == 1 else data)
    assert detector.explain(data).shape == (300, channels)


def test_integers_booleans_and_constants(train):
    data = pd.DataFrame(
        {"wave": train[:, 0], "count": (10 * train[:, 1]).astype(int), "on": train[:, 2] > 0, "still": 5}
    )
    detector = small(max_steps=10).fit(data)
    found = detector.detect(data.assign(still=6))
    assert np.isfinite(found.scores).all()


def test_all_channels_constant_never_alarm_on_more_of_the_same():
    data = np.full((400, 2), 3.0)
    detector = small(max_steps=5).fit(data)
    assert not detector.predict(data[:200]).any()
    assert detector.predict(np.concatenate([data[:100], data[:50] + 4, data[:100]])).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_channels_that_rounding_touched_never_alarm(dtype):
    data = np.full((601, 2), 1.234567e18, dtype)
    touched = data.copy()
    touched[300, 0] = np.nextafter(touched[300, 0], dtype(np.inf))
    for train in (data, touched):
        detector = small(max_steps=5).fit(train)
        for width in (touched, data):
            assert detector.detect(width).events == ()
    alone, together = (small(max_steps=5).fit(data[:, :width]).detect(touched[:, :width]) for width in (1, 2))
    assert alone.events == together.events == ()


def test_large_offsets_do_not_eat_small_changes(train):
    detector = small().fit(train * 1e-3 + 1.7e9)
    odd = waves(200, seed=1) * 1e-3 + 1.7e9
    odd[100:110, 0] += 5e-3
    scores = detector.decision_function(odd)
    assert scores[100:115].max() > 3 * np.abs(scores[:65]).max()


def test_values_near_the_largest_float_are_refused_or_handled(train):
    for data in (train * 1e308, (train * 1e38).astype(np.float32)):
        with pytest.raises(InputError, match="too large to compute with"):
            small().fit(data)
    detector = small(max_steps=5).fit(train * 1e298)
    with np.errstate(all="raise"):
        assert np.isfinite(detector.decision_function(-train * 1e299)).all()
    tiny = small(max_steps=5).fit(train * 1e-300)
    assert np.isfinite(tiny.decision_function(train * 1e299)).all()


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_unit_of_a_channel_does_not_matter(train, fitted, size):
    scores = small().fit(train * size).decision_function(train * size)
    np.testing.assert_allclose(scores, fitted.decision_function(train), rtol=1e-3, atol=1e-3)


def test_missing_values_are_filled_noted_and_muted(train, fitted):
    data = waves(200, seed=5)
    data[50] = np.nan
    data[60, 0] = np.nan
    found = fitted.detect(data)
    assert np.isfinite(found.scores).all()
    assert not found.alarms[50]
    assert "filled 4 missing values in 2 rows (channel_0 2, channel_1 1, channel_2 1)" in found.notes
    small(max_steps=3).fit(np.where(np.random.default_rng(0).random(train.shape) < 0.1, np.nan, train))


def test_rows_that_are_mostly_filled_never_alarm(train):
    detector = small(threshold=-1e9, merge_gap=0).fit(train)
    data = waves(100, seed=5)
    data[50:60, :2] = np.nan
    alarms = detector.predict(data)
    assert not alarms[50:60].any()
    assert alarms[:50].any()


def test_dropped_rows_have_no_score(train):
    detector = small(missing="drop", threshold=-1e9).fit(train)
    data = waves(100, seed=5)
    data[50, 0] = np.nan
    scores = detector.decision_function(data)
    assert np.isnan(scores).nonzero()[0].tolist() == [50]
    with pytest.raises(InputError, match="1 missing value"):
        detector.set_params(missing="error").predict(data)


def test_infinite_values_are_refused(fitted):
    data = waves(100)
    data[3, 1] = np.inf
    with pytest.raises(InputError, match=r"infinite value \(inf\) in row 3, channel 'channel_1'"):
        fitted.predict(data)


def test_a_gap_in_time_starts_anew_and_no_window_crosses_it(train, fitted):
    data = waves(160, seed=4)
    times = pd.date_range("2024", periods=160, freq="min").to_series().reset_index(drop=True)
    times[100:] += pd.Timedelta("1D")
    frame = pd.DataFrame(data, index=pd.DatetimeIndex(times))
    together = np.concatenate([fitted.decision_function(data[:100]), fitted.decision_function(data[100:])])
    np.testing.assert_allclose(fitted.decision_function(frame), together, rtol=1e-5)
    event_times = fitted.detect(frame).index
    assert event_times[0] == np.datetime64("2024-01-01")


def test_a_time_zone_is_kept_in_everything_that_comes_out(fitted):
    data = waves(200, seed=4)
    data[100:110] = 9.0
    times = pd.date_range("2024-03-31", periods=200, freq="min", tz="Europe/Berlin")  # the clock changes at row 120
    frame = pd.DataFrame(data, index=times)
    found = fitted.detect(frame)
    assert found.zone == "Europe/Berlin"
    assert found.index.equals(times)
    (event,) = found.events
    assert event.start_time == times[event.start]
    assert event.stop_time.isoformat() == times[event.stop - 1].isoformat()
    assert event.to_dict()["start_time"] == times[event.start].isoformat()
    assert found.to_frame().index.equals(times)
    told = json.loads(found.to_json())
    assert told["zone"] == "Europe/Berlin"
    assert told["index"][-1] == "2024-03-31T04:19:00+02:00"
    assert fitted.decision_function(frame).index.equals(times)
    by_column = fitted.detect(frame.reset_index(names="time"))
    assert by_column.index.equals(times)
    naive = fitted.detect(frame.tz_localize(None))
    assert (naive.zone, naive.index.dtype.kind) == (None, "M")


def test_ambiguous_dates_are_noted_in_the_result(fitted):
    frame = pd.DataFrame(waves(60), columns=["a", "b", "c"])
    frame["time"] = pd.date_range("2024-04-01", periods=60, freq="min").strftime("%d/%m/%Y %H:%M")
    assert any("can be read in two ways" in note for note in fitted.detect(frame).notes)

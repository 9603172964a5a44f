from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.results.detection import Detection, Yardstick, alarm_runs, find_events

CHANNELS = ("a", "b", "c")


def events_of(scores, *, level=1.0, shares=None, **settings):
    scores = np.asarray(scores, dtype=float)
    shares = np.tile([0.2, 0.5, 0.3], (len(scores), 1)) if shares is None else shares
    levels = np.full(len(scores), level)
    return find_events(scores, levels, scores > levels, shares, CHANNELS, Yardstick(0.0, 1.0), **settings)


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 5), st.integers(1, 5))
def test_events_are_the_runs_of_alarms(alarms, merge_gap, min_duration):
    found = events_of(np.array(alarms, dtype=float) * 2, merge_gap=merge_gap, min_duration=min_duration)
    rows = np.flatnonzero(alarms)
    covered = np.zeros(len(alarms), dtype=bool)
    for event in found:
        assert alarms[event.start]
        assert alarms[event.stop - 1]
        assert len(event) >= min_duration
        covered[event.start : event.stop] = True
    for one, other in pairwise(found):
        assert other.start - one.stop > merge_gap
    if min_duration == 1:
        assert covered[rows].all()


def test_half_open_runs():
    assert alarm_runs(np.array([], dtype=bool)) == []
    assert alarm_runs(np.array([True, True])) == [(0, 2)]
    assert alarm_runs(np.array([False, True, False, True])) == [(1, 2), (3, 4)]
    assert alarm_runs(np.array([True, False, False, True]), merge_gap=2) == [(0, 4)]


def test_an_event_knows_its_peak_its_times_and_who_is_to_blame():
    times = np.arange(6).astype("datetime64[h]")
    shares = np.array([[1, 0, 0]] * 3 + [[0, 0, 1]] * 3, dtype=float)
    (event,) = events_of([0, 2, 3, 9, 0, 0], shares=shares, index=times)
    assert (event.start, event.stop, event.peak, event.peak_score) == (1, 4, 3, 9.0)
    assert (event.start_time, event.stop_time) == (times[1], times[3])
    assert [name for name, _ in event.channels] == ["c", "a"], "the strongest rows weigh most"
    assert sum(share for _, share in event.channels) == pytest.approx(1)


def test_severity_grows_with_the_distance_from_normal():
    yardstick = Yardstick.fit(np.array([0.0, 1.0, 2.0, np.nan]))
    severities = [yardstick.severity(score) for score in (1.5, 2.0, 3.0, 5.0, 11.0, 1e9)]
    assert severities == sorted(severities)
    assert severities[0] == severities[1] == 0
    assert severities[2:5] == [50, 75, 90]
    assert severities[-1] <= 100


def test_constant_train_scores_do_not_divide_by_zero():
    assert Yardstick.fit(np.ones(5)).severity(2.0) == pytest.approx(100)


def make_detection(**changes) -> Detection:
    scores = np.array([0.5, np.nan, 3.0])
    fields = {
        "scores": scores,
        "levels": np.ones(3),
        "alarms": scores > 1,
        "events": events_of(np.nan_to_num(scores)),
        "channels": CHANNELS,
        "index": None,
        "contributions": np.zeros((3, 3)),
        "notes": ("filled 1",),
    }
    return Detection(**(fields | changes))


def test_json_has_no_nan_and_can_be_written(tmp_path):
    text = make_detection(index=np.arange(3).astype("datetime64[D]")).to_json(tmp_path / "found.json")
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert found["scores"] == [0.5, None, 3.0]
    assert found["index"][0].startswith("1970-01-01")
    assert found["events"][0]["start"] == 2
    assert (tmp_path / "found.json").read_text() == text


def test_frames_carry_the_time():
    frame = make_detection(index=np.arange(3).astype("datetime64[D]")).to_frame()
    assert list(frame.columns) == ["score", "level", "alarm"]
    assert frame.index.name == "time"

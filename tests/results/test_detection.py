from __future__ import annotations

import json
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from patchad.results.detection import Detection, Event, alarm_runs, by_severity


def test_half_open_runs():
    assert alarm_runs(np.array([], dtype=bool)) == []
    assert alarm_runs(np.array([True, True])) == [(0, 2)]
    assert alarm_runs(np.array([False, True, False, True])) == [(1, 2), (3, 4)]
    assert alarm_runs(np.array([True, False, False, True]), merge_gap=2) == [(0, 4)]


def make_detection(**changes) -> Detection:
    scores = np.array([0.5, np.nan, 3.0])
    fields = {
        "scores": scores,
        "levels": np.ones(3),
        "alarms": scores > 1,
        "events": (Event(2, 3, 2, 3.0, 50.0, (("b", 1.0),)),),
        "channels": ("a", "b", "c"),
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


def test_json_tells_the_kind_the_repeats_and_the_id_of_events():
    event = Event(2, 3, 2, 3.0, 50.0, (("b", 2 / 3),), kind="stuck", repeats=4, id="0a1b2c3d4e5f")
    (told,) = json.loads(make_detection(events=(event,)).to_json())["events"]
    assert {name: told[name] for name in ("kind", "repeats", "id", "channels", "start_time")} == {
        "kind": "stuck",
        "repeats": 4,
        "id": "0a1b2c3d4e5f",
        "channels": [["b", 0.6667]],
        "start_time": None,
    }


def test_an_event_is_told_with_its_times_and_its_state():
    times = np.arange(5).astype("datetime64[h]")
    event = Event(1, 4, 2, 3.0, 50.0, (), times[1], times[3], kind="regime", repeats=1, id="one")
    assert (event.state, len(event)) == ("closed", 3)
    assert event.to_dict()["stop_time"] == "1970-01-01T03:00:00"
    assert event.to_dict()["state"] == "closed"


def test_events_are_ordered_by_severity_then_by_peak():
    events = [Event(i, i + 1, i, peak, rating, ()) for i, (peak, rating) in enumerate([(1, 5), (3, 5), (2, 9), (3, 5)])]
    assert by_severity(events) == [2, 1, 3, 0]


def test_events_and_detections_know_their_zone():
    times = np.arange(5).astype("datetime64[h]")
    event = Event(1, 4, 2, 3.0, 50.0, (), start_time=times[1], stop_time=times[3])
    tokyo = event.in_zone(ZoneInfo("Asia/Tokyo"))
    assert tokyo.to_dict()["stop_time"] == "1970-01-01T12:00:00+09:00"
    assert tokyo.start_time == pd.Timestamp(times[1], tz="UTC")
    assert event.in_zone(None) is event
    untimed = Event(1, 4, 2, 3.0, 50.0, ())
    assert untimed.in_zone(ZoneInfo("Asia/Tokyo")) is untimed
    assert make_detection().zone is None
    index = pd.date_range("2024", periods=3, tz="Asia/Tokyo")
    zoned = make_detection(index=index)
    assert zoned.zone == "Asia/Tokyo"
    assert zoned.to_frame().index.equals(index)
    assert json.loads(zoned.to_json())["index"][0] == "2024-01-01T00:00:00+09:00"

from __future__ import annotations

import json

import numpy as np
import pytest

from patchad.results.detection import Detection, Event, alarm_runs


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

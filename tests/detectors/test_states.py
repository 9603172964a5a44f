"""Columns of text in a detector: learned, scored, blamed, saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.conftest import small, waves

from patchad import InputError, load


def plant(rows: int, seed: int = 0) -> pd.DataFrame:
    data = waves(rows, 2, seed)
    number = np.arange(rows)
    return pd.DataFrame(
        {
            "flow": data[:, 0],
            "valve": np.where(number // 25 % 2, "ON", "OFF"),
            "mode": np.array(["auto", "hand", "test"])[number // 50 % 3],
            "site": "north",
            "heat": data[:, 1],
            "comment": [f"entry {i}" for i in number],
        }
    )


@pytest.fixture(scope="module")
def detector():
    return small(max_steps=10).fit(plant(600))


def test_states_become_channels(detector):
    assert detector.channels_ == ("flow", "heat", "valve", "mode=auto", "mode=hand", "mode=test", "site")
    assert detector.columns_ == ("flow", "heat", "valve", "mode", "site")
    assert detector.fit_notes_ == ("ignored text columns of over 20 states: 'comment'",)
    found = detector.detect(plant(200, seed=1))
    assert found.channels == detector.channels_ == found.observed.channels
    assert any("ignored columns that were not in the fit: 'comment'" in note for note in found.notes)
    assert not any(event.kind == "range" for event in found.events)


@pytest.mark.parametrize(
    ("column", "blamed"), [("valve", {"valve"}), ("mode", {"mode=auto", "mode=hand", "mode=test"}), ("site", {"site"})]
)
def test_an_unseen_state_is_an_event_and_the_note_names_it(detector, column, blamed):
    data = plant(200, seed=1)
    data.loc[100:104, column] = "FAULT"
    found = detector.detect(data)
    (event,) = (event for event in found.events if event.start <= 102 < event.stop)
    assert found.alarms[100:105].all()
    assert blamed & {name for name, _ in event.channels}
    assert any(f"column {column!r} is in a state that was not in the fit: 'FAULT'" in note for note in found.notes)


def test_containers_agree_on_states(detector):
    data = plant(120, seed=2)
    expected = detector.decision_function(data).to_numpy()
    shuffled = pl.from_pandas(data[["mode", "heat", "site", "valve", "flow"]])
    np.testing.assert_array_equal(detector.decision_function(shuffled).to_numpy(), expected)


def test_states_last_through_a_file(detector, tmp_path):
    again = load(detector.save(tmp_path / "model.safetensors"))
    assert again.switches_ == detector.switches_
    data = plant(120, seed=2)
    data.loc[60:70, "valve"] = "BROKEN"
    one, other = detector.detect(data), again.detect(data)
    np.testing.assert_array_equal(one.scores, other.scores)
    assert one.events == other.events
    assert one.notes == other.notes


def test_a_missing_column_of_states_is_a_missing_channel(detector):
    found = detector.detect(plant(120).drop(columns="mode"))
    (event,) = (event for event in found.events if event.kind == "missing")
    assert {name for name, _ in event.channels} == {"mode=auto", "mode=hand", "mode=test"}


def test_text_alone_is_enough_and_too_many_states_alone_are_not():
    only = plant(200)[["valve", "mode"]]
    assert small(max_steps=3).fit(only).detect(only).channels[0] == "valve"
    with pytest.raises(InputError, match="the columns 'comment' are text of too many states"):
        small().fit(plant(200)[["comment"]])

"""Columns of text in a detector: learned, scored, blamed, saved."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.conftest import small, waves

from patchad import InputError, load, make
from patchad.data.periods import exclude_periods


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


# -- what the operator knows of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["mode", "valve"])
def test_a_column_of_states_can_be_ignored_after_the_fit(detector, column):
    data = plant(200, seed=1)
    data.loc[100:104, column] = "FAULT"
    found = copy.copy(detector).set_params(ignore=(column,)).detect(data)
    own = [i for i, name in enumerate(found.channels) if name.partition("=")[0] == column]
    assert not found.contributions[:, own].any()
    assert not any(event.start <= 102 < event.stop for event in found.events)
    assert any(note.startswith(f"ignored as asked: '{column}") for note in found.notes)


def test_a_column_that_is_ignored_in_the_fit_is_left_out_whatever_it_holds():
    data = plant(200)
    data["remark"] = ["7", *["some text"] * 199]
    known = make("pca", ignore=("mode", "remark", "comment"))
    for train in (data, exclude_periods(data.drop(columns="remark").assign(remark="text"), [(0, 0)])):
        one = copy.copy(known).fit(train)
        assert one.channels_ == ("flow", "heat", "valve", "site")
        assert set(one.fit_columns_) == {*one.channels_, "mode", "remark", "comment"}
        assert one.fit_notes_ == ("left out as asked: 'mode', 'remark', 'comment'",)
        assert not [note for note in one.detect(data).notes if "were not in the fit" in note]


def test_one_state_can_be_ignored():
    detector = make("pca", ignore=("mode=hand",)).fit(plant(200))
    assert detector.channels_ == ("flow", "heat", "valve", "mode=auto", "mode=test", "site")
    assert detector.detect(plant(100)).channels == detector.channels_


def test_what_is_said_of_all_channels_does_not_concern_switches(detector):
    data = plant(200, seed=1)
    data.loc[100:104, "site"] = "FAULT"
    known = copy.copy(detector).set_params(direction="down", min_change=50.0)
    assert any(event.start <= 102 < event.stop for event in known.detect(data).events)
    known.set_params(direction={"site": "down"}, min_change={"site": 50.0}).set_threshold(1e9)
    assert known.detect(data).events == ()


def test_a_period_of_a_column_is_one_of_its_switches(detector):
    data = plant(200, seed=1)
    data.loc[100:104, "mode"] = "FAULT"
    numb = copy.copy(detector).set_threshold(1e9)
    assert [event.kind for event in numb.detect(data).events] == ["range"]
    assert numb.detect(data, quiet=[(90, 110, "mode")]).events == ()
    assert len(numb.detect(data, quiet=[(90, 110, "valve")]).events) == 1


def test_periods_are_excluded_from_columns_of_text():
    first, second = exclude_periods(plant(100), [(40, 60), (0, 10, "valve")])
    assert [len(part.texts["mode"].codes) for part in (first, second)] == [40, 40]
    assert (first.texts["valve"].codes < 0).tolist() == [True] * 10 + [False] * 30
    assert not np.isnan(first.values).any()
    (left,) = exclude_periods(plant(100)[["valve"]], [(50, None)])
    assert (left.channels, len(left.texts["valve"].codes)) == ((), 50)

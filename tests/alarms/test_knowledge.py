"""What the operator knows, from parameters to events."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.conftest import small, waves

from patchad import load, make
from patchad.alarms.knowledge import Judge, Knowledge
from patchad.alarms.usual import Usual
from patchad.errors import InputError

NAMES = ("pump", "flow", "heat")


def frame(rows: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(waves(rows, seed=seed), columns=list(NAMES))


@pytest.fixture(scope="module")
def patchad():
    return small(max_steps=60).fit(frame(3000, seed=2))


@pytest.fixture(scope="module")
def neighbours():
    return make("sub_knn", window=30).fit(frame(3000, seed=2))


@pytest.fixture(params=["patchad", "neighbours"])
def detector(request):
    return copy.copy(request.getfixturevalue(request.param))


def today(**shifts: float) -> pd.DataFrame:
    """Return rows with a fault in rows 700 to 739 of these channels."""
    rows = frame(1500, seed=1)
    for name, shift in shifts.items():
        rows.loc[700:739, name] += shift
    return rows


def leads(detector, rows: pd.DataFrame) -> list[str]:
    """Return the leading channel of each event around the fault."""
    found = detector.detect(rows)
    events = [event for event in found.events if event.start < 760 and event.stop > 680]
    assert found.alarms[680:760].any() == bool(events)
    assert detector.predict(rows)[680:760].any() == bool(events)
    return [event.channels[0][0] for event in events]


# -- direction and size ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [2.0, -2.0])
def test_only_deviations_in_the_wanted_direction_are_events(detector, shift):
    right, wrong = ("up", "down") if shift > 0 else ("down", "up")
    rows = today(flow=shift)
    assert leads(detector.set_params(direction="both"), rows) == ["flow"]
    assert leads(detector.set_params(direction=right), rows) == ["flow"]
    assert leads(detector.set_params(direction=wrong), rows) == []


def test_a_direction_by_channel_leaves_the_others_alone(detector):
    detector.set_params(direction={"flow": "up"})
    assert leads(detector, today(flow=-2.0)) == []
    assert leads(detector, today(heat=-2.0)) == ["heat"]


def test_small_deviations_do_not_matter(detector):
    rows = today(flow=2.0)
    assert leads(detector.set_params(min_change=1.0), rows) == ["flow"]
    assert leads(detector.set_params(min_change=6.0), rows) == []
    assert leads(detector.set_params(min_change={"heat": 6.0}), rows) == ["flow"]
    assert leads(detector.set_params(min_change={"flow": 6.0}), rows) == []


def test_what_does_not_matter_is_no_repeat_and_makes_none(patchad):
    rows = frame(3000, seed=1)
    for number, start in enumerate(range(300, 2900, 300)):
        rows.loc[start : start + 19, "flow"] += 2.0 if number % 2 else -2.0
    events = copy.copy(patchad).set_params(direction="up").detect(rows).events
    faults = [start for number, start in enumerate(range(300, 2900, 300)) if number % 2]
    assert [round(event.start, -2) for event in events] == faults[:2]
    assert [event.repeats for event in events] == [len(faults) - 2, 0]


def test_values_out_of_range_are_told_by_direction_and_size(patchad):
    numb = copy.copy(patchad).set_threshold(1e9)  # events of the score would be told instead
    for shift, parameters, found in (
        (9.0, {}, ["range"]),
        (9.0, {"direction": "down"}, []),
        (-9.0, {"direction": "down"}, ["range"]),
        (9.0, {"min_change": 20.0}, []),
        (9.0, {"ignore": ("flow",)}, []),
    ):
        rows = frame(600, seed=1)
        rows.loc[300:304, "flow"] += shift
        known = copy.copy(numb).set_params(**parameters)
        assert [event.kind for event in known.detect(rows).events] == found, parameters


def test_a_dropped_event_hides_no_value_out_of_range(patchad):
    rows = today(flow=-3.0)
    rows.loc[710:714, "heat"] = 9.0
    known = copy.copy(patchad).set_params(direction={"flow": "up"})
    found = [event for event in known.detect(rows).events if event.start < 760 and event.stop > 680]
    assert {name for event in found for name, _ in event.channels[:1]} == {"heat"}


def test_noise_is_both_above_and_below_what_is_usual():
    random = np.random.default_rng(0)
    rows = random.normal(size=(1000, 2))
    usual = Usual.fit([random.normal(size=(3000, 2))])
    rows[500:600, 1] *= 8
    for direction in ("up", "down"):
        judge = Judge(Knowledge.of(("a", "b"), direction=direction), usual)
        judge.observe(rows)
        assert judge.matters(500, 600, None, range(500, 600))


def test_what_was_confirmed_matters_in_any_direction_and_size(patchad):
    rows = today(flow=-2.0)
    known = copy.copy(patchad).set_params(direction="up", min_change=50.0)
    assert leads(known, rows) == []
    known.confirm(rows, start=700, stop=740)
    assert leads(known, rows) == ["flow"]
    assert leads(copy.copy(known).set_params(ignore=("flow",)), rows) == []
    assert known.detect(rows, quiet=[(690, 760)]).events == ()
    assert known.detect(rows, quiet=[(600, 850, "flow")]).events == ()


def test_rows_that_are_not_kept_any_more_matter():
    usual = Usual.fit([np.random.default_rng(0).normal(size=(3000, 1))])
    judge = Judge(Knowledge.of(("a",), min_change=100.0), usual)
    for part in np.split(np.random.default_rng(1).normal(size=(200, 1)), 4):
        judge.observe(part)
    judge.forget(150)
    assert judge.matters(100, 120, np.ones(1), ())
    assert not judge.matters(180, 190, np.ones(1), ())


# -- ignored channels --------------------------------------------------------------------------------------------------


def test_a_channel_can_be_ignored_after_the_fit(detector):
    rows = today(flow=2.0)
    rows.loc[900:1200, "flow"] = 0.5
    assert {event.kind for event in detector.detect(rows).events} == {"anomaly", "stuck"}
    found = detector.set_params(ignore=("flow",)).detect(rows)
    assert found.events == ()
    assert not found.alarms.any()
    assert not found.contributions[:, 1].any()
    assert [note for note in found.notes if "flow" in note] == ["ignored as asked: 'flow'"]
    assert leads(detector, today(flow=2.0, heat=2.0)) == leads(detector, today(heat=2.0)) == ["heat"]


def test_an_ignored_channel_that_is_missing_is_no_event(neighbours):
    known = copy.copy(neighbours).set_params(ignore=("flow",))
    found = known.detect(today().drop(columns="flow"))
    assert "missing" not in {event.kind for event in found.events}
    assert [note for note in found.notes if "flow" in note] == ["ignored as asked: 'flow'"]


def test_a_channel_that_is_ignored_in_the_fit_is_left_out():
    train = frame(400, seed=2).assign(remark="text")
    detector = make("pca", ignore=("flow", "remark")).fit(train)
    assert detector.channels_ == ("pump", "heat")
    assert detector.fit_columns_ == (*NAMES, "remark")
    plain = make("pca").fit(train[["pump", "heat"]])
    rows = frame(100, seed=1).assign(remark="text")
    # products of matrices that lie otherwise in memory may differ in the last digit
    np.testing.assert_allclose(
        detector.decision_function(rows), plain.decision_function(rows[["pump", "heat"]]), rtol=1e-12
    )
    assert [note for note in detector.detect(rows).notes if "flow" in note] == [
        "in fit: left out as asked: 'flow', 'remark'"
    ]
    assert detector.explain(rows).columns.tolist() == ["pump", "heat"]


def test_an_ignored_channel_keeps_its_place_where_there_are_no_names(tmp_path):
    rows = waves(400)
    detector = make("pca", ignore=("channel_1",)).fit(rows)
    detector.save(tmp_path / "model.safetensors")
    odd = waves(100, seed=1)
    expected = make("pca").fit(rows[:, [0, 2]]).decision_function(odd[:, [0, 2]])
    for one in (detector, load(tmp_path / "model.safetensors")):
        np.testing.assert_allclose(one.decision_function(odd), expected, rtol=1e-12)
        with pytest.raises(InputError, match="is expecting 3 features"):
            one.decision_function(odd[:, [0, 2]])
        for rows_of_stream in (odd, odd.tolist(), odd[:, [0, 2]]):
            live = one.stream()
            found = [*live.push(odd[0]), *live.push_many(rows_of_stream[1:]), *live.flush()]
            np.testing.assert_allclose([verdict.score for verdict in found], expected)
        with pytest.raises(InputError, match="a row has 4 values"):
            one.stream().push([0.0] * 4)


def test_nothing_left_is_an_error(neighbours):
    with pytest.raises(InputError, match="leaves no channel of 'pump', 'flow', 'heat'"):
        make("pca", ignore=NAMES).fit(frame(100, seed=0))
    known = copy.copy(neighbours).set_params(ignore=("pump",))
    with pytest.raises(InputError, match="none of the channels"):
        known.detect(today()[["pump"]])


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ignore": ("valve",)}, "ignore names 'valve', which is no channel; there are 'pump', 'flow', 'heat'"),
        ({"direction": {"valve": "up"}}, "direction names 'valve'"),
        ({"min_change": {"valve": 1.0}}, "min_change names 'valve'"),
        ({"direction": "left"}, "'both' or 'up' or 'down' or a dict by name of 'both' or 'up' or 'down' is needed"),
        ({"direction": {"flow": 1}}, "does not fit"),
        ({"min_change": -1.0}, "min_change=-1.0 of channel 'pump' is out of range"),
        ({"min_change": {"flow": float("inf")}}, "of channel 'flow' is out of range"),
        ({"ignore": "flow"}, "a tuple of names is needed"),
        ({"merge_gap": -1}, "merge_gap=-1 is too small; it must be at least 0"),
        ({"merge_gap": "long"}, "merge_gap='long' does not fit"),
        ({"min_duration": 0}, "min_duration=0 is too small"),
        ({"max_gap": float("nan")}, "max_gap=nan is too small"),
        ({"missing": "guess"}, "missing='guess' does not fit"),
        ({"false_alarms": -1.0}, "false_alarms=-1"),
        ({"threshold": "magic"}, "magic"),
    ],
)
def test_wrong_knowledge_and_alarm_parameters_are_refused_in_the_fit_and_after_it(neighbours, parameters, message):
    with pytest.raises(InputError, match=message):
        make("sensor_range", **parameters).fit(frame(100, seed=0))
    with pytest.raises(InputError, match=message):
        copy.copy(neighbours).set_params(**parameters).detect(today())
    with pytest.raises(InputError, match=message):
        copy.copy(neighbours).set_params(**parameters).stream().push(today().iloc[0])


def test_knowledge_lasts_through_save_and_clone(neighbours, tmp_path):
    known = {"direction": {"flow": "up"}, "min_change": {"heat": 1.5}, "ignore": ("pump",)}
    detector = copy.copy(neighbours).set_params(**known)
    detector.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert {name: loaded.get_params()[name] for name in known} == known
    assert {name: clone(loaded).get_params()[name] for name in known} == known
    rows = today(flow=-2.0)
    assert loaded.detect(rows).events == detector.detect(rows).events

"""Streams suspect events before scores are final, and never change what is final."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import small, waves
from tests.streaming.test_stream import assert_same, assert_same_events, changed, framed, stirred

from patchad import Event, ModelFileError, StreamDetector, StreamPool, load, make
from patchad.alarms.early import EarlyRules
from patchad.alarms.suspicion import Ahead, Suspicions
from patchad.results.detection import alarm_runs
from patchad.thresholds.promise import Promise


@pytest.fixture(scope="module")
def detector():
    """A small fitted detector with windows of 20 rows, 5 apart; tests must not change it."""
    return small(max_steps=15, window=20, patch_sizes=(2, 5), hop=5).fit(framed(waves(1500), None))


def rash(detector, factor: float):
    """Return the detector with early scores so many times as high as they are."""
    early = detector.early_
    return changed(detector, early_=replace(early, scales=early.scales * factor))


def faulty(length: int = 400, start: int = 202, stop: int = 230) -> np.ndarray:
    rows = waves(length, seed=6)
    rows[start:stop, 1] += 0.8
    return rows


def pushed(live, rows, restore=lambda live: live) -> tuple[list, list[tuple[int, Event]], StreamDetector]:
    """Push rows one by one; return verdicts, what was told with its row, and the stream."""
    found, told = [], []
    for number, row in enumerate(rows):
        found += live.push(row)
        told += [(number, event) for event in live.changes()]
        live = restore(live)
    found += live.flush()
    return found, told + [(len(rows), event) for event in live.changes()], live


def test_a_fault_is_suspected_long_before_its_scores_are_final_and_then_confirmed(detector):
    rows = faulty()
    _, told, live = pushed(detector.stream(), rows)
    (first, early), (second, event), *rest = [(row, one) for row, one in told if one.kind == "anomaly"]
    assert early.state == "suspected"
    assert early.channels[0][0] == "b"
    assert early.suspected_id is None
    assert first < 202 + detector.delay - detector.hop_, "before the score of its first row is final"
    assert abs(early.start - 202) <= detector.hop_
    assert early.start <= early.peak < early.stop
    assert second > first
    assert (event.suspected_id, event.id) == (early.id, detector.detect(framed(rows, None)).events[0].id)
    assert early.id != event.id
    assert [one.state for _, one in rest] == ["closed"]
    assert_same_events(live.events, detector.detect(framed(rows, None)).events)
    assert live.events[0].to_dict()["suspected_id"] == early.id
    assert "suspected_id" not in detector.detect(framed(rows, None)).events[0].to_dict()


def test_while_suspected_it_is_listed_and_once_confirmed_only_the_event_is(detector):
    live, rows = detector.stream(), faulty()
    states = []
    for row in rows:
        live.push(row)
        states.append([(event.state, event.suspected_id is not None) for event in live.events])
    assert [("suspected", False)] in states
    assert [("suspected", True)] in states, "scores are final, and the event is not ripe"
    assert all(len(own) <= 1 for own in states)


def test_what_proves_to_be_none_is_withdrawn_and_listed_until_the_segment_ends(detector):
    other = rash(detector, 10.0)
    rows = waves(400, seed=6)
    expected = other.detect(framed(rows, None))
    live, told = other.stream(), []
    for row in rows:
        live.push(row)
        told += live.changes()
    assert {event.state for event in told} == {"suspected", "withdrawn"}
    withdrawn = [event.id for event in told if event.state == "withdrawn"]
    suspected = [event.id for event in told if event.state == "suspected"]
    assert len(set(suspected)) == len(suspected)
    assert withdrawn == suspected[: len(withdrawn)]
    assert [event.id for event in live.events if event.state == "withdrawn"] == withdrawn
    live.flush()
    told += live.changes()
    assert [event.id for event in told if event.state == "withdrawn"] == suspected
    assert_same_events(live.events, expected.events)


@settings(max_examples=8)
@example(575, 1.0, set())  # an event that is explained by rows before its start
@given(st.integers(0, 2**31), st.sampled_from([1.0, 10.0]), st.sets(st.integers(0, 299), max_size=5))
def test_early_words_never_change_what_is_final_nor_do_snapshots(detector, seed, factor, stops):
    other = rash(detector, factor)
    rows, times = stirred(seed, 300)
    expected = other.detect(framed(rows, times))
    live, again = other.stream(), other.stream()
    found, told, told_again = [], [], []
    for number, row in enumerate(rows):
        time = None if times is None else times[number]
        found += live.push(row, time)
        again.push(row, time)
        told += live.changes()
        told_again += again.changes()
        assert live.events == again.events
        if number in stops:
            again = StreamDetector.restore(other, again.snapshot())
    found += live.flush()
    again.flush()
    assert_same(found, expected)
    assert_same_events(live.events, expected.events)
    assert [event.to_dict() for event in told] == [event.to_dict() for event in told_again]
    early = {event.suspected_id for event in live.events} - {None}
    assert early <= {event.id for event in told if event.state == "suspected"}


def test_a_snapshot_in_the_suspected_state_goes_on(detector):
    rows = faulty(270)
    _, plain, _ = pushed(detector.stream(), rows)
    _, restored, _ = pushed(detector.stream(), rows, lambda live: StreamDetector.restore(detector, live.snapshot()))
    assert [(row, one.to_dict()) for row, one in restored] == [(row, one.to_dict()) for row, one in plain]
    assert any(one.state == "suspected" for _, one in restored)


def test_a_pool_suspects_what_single_streams_do(detector):
    data = {key: faulty(start=200 + 3 * key, stop=220 + 5 * key) for key in range(4)}
    pool = StreamPool(detector)
    told = {key: [] for key in data}
    for number in range(400):
        pool.push_many({key: rows[[number]] for key, rows in data.items()})
        for key in data:
            told[key] += [(number, event) for event in pool.changes(key)]
    for key, rows in data.items():
        _, alone, _ = pushed(detector.stream(), rows)
        assert [(n, e.state, e.id, e.suspected_id) for n, e in told[key]] == [
            (n, e.state, e.id, e.suspected_id) for n, e in alone if n < 400
        ]
        assert told[key][0][1].state == "suspected"


def test_the_outlook_is_held_to_the_level_of_a_single_window(detector):
    rows = faulty(stop=300)
    live = detector.stream()
    live.push_many(rows[:208])
    calm = detector.stream()
    calm.push_many(rows[:150])
    level = detector.early_.raw(detector.threshold_.level, age=1)
    assert level > detector.threshold_.level
    assert calm.outlook().level == pytest.approx(level)
    assert not calm.outlook().alarm
    assert live.outlook().alarm
    assert live.outlook().score > live.outlook().level
    before = live.snapshot()
    live.outlook()
    assert live.snapshot() == before, "asking changes nothing"


def test_rows_over_a_level_under_the_median_score_are_suspected():
    suspicions, none = Suspicions(base=0.0, apart=5), np.zeros(3, dtype=bool)
    suspicions.look(Ahead(np.arange(3), np.array([-2.0, -0.7, -0.7]), -1.0, none, none, newest=2))
    assert suspicions.now.active == [1, 2]


def test_what_does_not_matter_to_the_operator_is_not_suspected(detector):
    rows = faulty()
    for known in ({"direction": "down"}, {"min_change": {"b": 90.0}}, {"ignore": ("b",)}):
        live = changed(detector, **known).stream()
        for row in rows:
            live.push(row)
            assert live._stream._alarms._suspicions.now is None, known
        live.flush()
        assert live.events == (), known


def test_a_dead_sensor_is_not_suspected_of_more(detector):
    rows = waves(500, seed=6)
    rows[200:, 1] = rows[200, 1]
    _, told, live = pushed(rash(detector, 4.0).stream(), rows)
    stuck = next(number for number, one in told if one.kind == "stuck")
    assert not [one for number, one in told if number > stuck and one.state == "suspected"]
    assert [event.kind for event in live.events] == ["stuck"]


def test_nothing_is_said_early_where_scores_are_final_at_once_or_rows_were_accepted(detector):
    assert make("sensor_range").fit(waves(200)).early_ is None
    assert small(max_steps=5, window=20, patch_sizes=(2, 5), fold="newest").fit(waves(400)).early_ is None
    assert changed(detector, hop_=4).plan_stream().early is None, "learned for other windows"
    judged = copy.deepcopy(detector).accept(framed(faulty(), None), start=195, stop=235)
    assert judged.plan_stream().early is None
    _, told, _ = pushed(judged.stream(), faulty())
    assert [one for _, one in told] == []


def test_a_model_file_holds_what_early_scores_are_worth(detector, tmp_path):
    again = load(detector.save(tmp_path / "model.safetensors"))
    for name in ("base", "centers", "scales"):
        np.testing.assert_array_equal(getattr(again.early_, name), getattr(detector.early_, name))
    broken = changed(detector, early_=replace(detector.early_, scales=detector.early_.scales[1:]))
    with pytest.raises(ModelFileError, match="early scores do not fit"):
        load(broken.save(tmp_path / "broken.safetensors"))


def test_early_levels_keep_the_promise_on_noise():
    rng = np.random.default_rng(0)
    blocks = [np.cumsum(rng.normal(size=(6, 4000)), axis=0) / np.arange(1, 7)[:, None] for _ in range(3)]
    rules = EarlyRules.fit(blocks[:2], gap=5)
    assert rules.is_sound()
    assert (np.diff(rules.scales) > 0).all(), "the more windows, the less a score varies"
    found = np.stack([rules.of(blocks[2][age], np.full(4000, age + 1)) for age in range(5)]).max(axis=0)
    level = Promise(gap=5).fit(np.concatenate([block[-1] for block in blocks[:2]])).level
    assert len(alarm_runs(found > level, merge_gap=5)) <= 2
    assert len(alarm_runs(blocks[2][0] > level, merge_gap=5)) > 20, "as they are, they would be over it often"
    assert rules.raw(rules.base, 1) == pytest.approx(rules.centers[0])


def test_constant_scores_have_early_rules_too():
    rules = EarlyRules.fit([np.ones((3, 50))], gap=5)
    assert rules.of(np.array([1.0, 2.0]), np.array([1, 2])).tolist() == [1.0, 2.0]


def test_only_the_newest_suspicions_that_were_withdrawn_are_kept():
    suspicions = Suspicions(base=0.0, apart=5)
    none = np.zeros(1, dtype=bool)
    for row in range(0, 600, 2):
        suspicions.look(Ahead(np.array([row]), np.array([3.0]), 2.0, none, none, row))
        suspicions.look(Ahead(np.array([row + 1]), np.array([0.0]), 2.0, none, none, row + 1))
    assert len(suspicions.withdrawn) == 100
    assert suspicions.withdrawn[-1].opened == 598

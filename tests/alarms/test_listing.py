"""Which findings are listed, and when the alarm of a row is final."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchad.alarms.chunk import UNSTEADY_ROWS
from patchad.alarms.events import Shape
from patchad.alarms.knowledge import Knowledge
from patchad.alarms.listing import AlarmStage
from patchad.alarms.rules import AlarmRules
from patchad.alarms.sensors import SensorRules
from patchad.alarms.usual import Usual
from patchad.data.stages import Scored

LEVEL = 2.0
TRAIN = np.random.default_rng(0).standard_normal((2000, 2))
TRAIN[100:125, 1] = 0.3  # this channel may rest for longer, and be silent for longer
TRAIN[500:525, 1] = np.nan
RULES = AlarmRules(0.0, 1.0, SensorRules.fit([TRAIN]), Usual.fit([TRAIN]))


def stirred(seed: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw values with broken sensors, and scores with events, gaps and repeats; muted rows; ends of segments."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((length, 2))
    scores = 0.4 * rng.random(length)
    for _ in range(rng.integers(1, 12)):
        start, rows, channel = rng.integers(0, length), rng.integers(1, 120), rng.integers(2)
        values[start : start + rows, channel] = rng.choice([values[start, channel], np.nan, 50.0])
        if rng.random() < 0.5:
            scores[start : start + rows] += rng.choice([1.0, 3.0, 9.0])
    for _ in range(rng.integers(0, 8)):
        start = rng.integers(0, length)
        scores[start : start + rng.integers(1, 200)] += rng.choice([1.0, 2.0, 3.0, 8.0])
    scores[rng.random(length) < 0.02] = np.nan
    return values, scores, rng.random(length) < 0.05, np.sort(rng.integers(0, length, rng.integers(0, 3)))


def quieted(rng: np.random.Generator, length: int) -> tuple[Knowledge, np.ndarray]:
    """Draw what an operator knows, and some periods, of which a few are of one channel."""
    quiet = np.zeros((length, 2), dtype=bool)
    for _ in range(rng.integers(0, 4)):
        start, channel = rng.integers(0, length), rng.choice([0, 1, 2])
        quiet[start : start + rng.integers(1, 200), slice(None) if channel == 2 else channel] = True
    known = {"direction": str(rng.choice(["both", "up", "down"])), "min_change": float(rng.choice([0.0, 5.0]))}
    return Knowledge.of(("a", "b"), ignore=("a",) if rng.random() < 0.3 else (), **known), quiet


def listed(seed: int, length: int, bounds, *, window: int, delay: int = 0, knows: bool = False):
    """Push rows in parts, the scores some rows behind the values; return alarms, events and the most rows waiting."""
    values, scores, muted, ends = stirred(seed, length)
    rng = np.random.default_rng(seed)
    shape = Shape(
        merge_gap=int(rng.choice([0, 5, 20])), min_duration=int(rng.choice([1, 5])), window=window, after=window - 1
    )
    knowledge, quiet = quieted(rng, length) if knows else (None, None)
    shares = rng.random((length, 2)) if knows else None
    drawn = np.random.default_rng(seed + 1)  # rows that are unusual by themselves: fewer than those over the level
    local = scores * drawn.choice([0.1, 1.0, 4.0], length) if drawn.random() < 0.5 else scores
    before = scores + drawn.choice([0.0, 2.0], length).cumsum() % 3 if drawn.random() < 0.5 else scores
    stage = AlarmStage(RULES, shape, ("a", "b"), knowledge=knowledge)
    times = np.arange(length).astype("datetime64[m]")
    alarms, scored, most = [], 0, 0

    def score(stop: int) -> None:
        nonlocal scored
        for a, b in pairwise([scored, *(end for end in ends if scored < end < stop), stop]):
            scored_rows = Scored(scores[a:b], None if shares is None else shares[a:b], local[a:b], before[a:b])
            alarms.append(stage.push(scored_rows, np.full(b - a, LEVEL), muted[a:b]))
            if b in ends:
                alarms.append(stage.end_segment())
        scored = max(scored, stop)

    for a, b in pairwise([0, *bounds, length]):
        stage.observe(values[a:b], times[a:b], None if quiet is None else quiet[a:b])
        score(max(b - delay, scored))
        most = max(most, scored - sum(map(len, alarms)))
    score(length)
    alarms.append(stage.flush())
    return np.concatenate(alarms), stage.events, most


@settings(max_examples=150)
@given(
    st.integers(0, 2**31),
    st.lists(st.integers(0, 900), max_size=8).map(sorted),
    st.sampled_from([1, 12]),
    st.sampled_from([0, 7]),
    st.booleans(),
)
def test_rows_pushed_in_any_parts_give_the_same_alarms_and_events(seed, bounds, window, delay, knows):
    alarms, events, _ = listed(seed, 900, [], window=window, knows=knows)
    parted, same, _ = listed(seed, 900, bounds, window=window, delay=delay, knows=knows)
    np.testing.assert_array_equal(parted, alarms)
    assert same == events
    assert all(event.state == "closed" for event in events)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("knows", [False, True])
def test_one_row_at_a_time(seed, knows):
    alarms, events, _ = listed(seed, 700, [], window=12, knows=knows)
    single, same, most = listed(seed, 700, range(1, 700), window=12, delay=3, knows=knows)
    np.testing.assert_array_equal(single, alarms)
    assert same == events
    assert most < 300, "the rows that wait are bounded"


def test_alarms_are_the_rows_inside_events():
    for seed in range(60):
        alarms, events, _ = listed(seed, 900, [], window=1, knows=seed >= 30)
        inside, lasting = np.zeros(900, dtype=bool), np.zeros(900, dtype=bool)
        for event in events:
            assert event.start <= event.peak < event.stop
            assert (event.start_time, event.stop_time) == (np.datetime64(event.start, "m"), event.stop_time)
            assert event.stop_time == np.datetime64(event.stop - 1, "m")
            (lasting if event.kind == "regime" else inside)[event.start : event.stop] = True
            assert alarms[event.start : event.start + 1].all(), "a regime too, until it is recognised"
        np.testing.assert_array_equal(alarms[~lasting], inside[~lasting])


def make(**shape) -> AlarmStage:
    return AlarmStage(RULES, Shape(**({"merge_gap": 5, "min_duration": 1} | shape)), ("a", "b"))


def feed(stage: AlarmStage, scores, values=None, seed: int = 1) -> np.ndarray:
    """Push rows one at a time; return the alarms that became final on the way."""
    noise = np.random.default_rng(seed).standard_normal((len(scores), 2)) if values is None else values
    found = []
    for row, score in zip(noise, scores, strict=True):
        stage.observe(row[None])
        found.append(stage.push(Scored(np.array([score])), np.array([LEVEL])))
    return np.concatenate(found)


def test_a_quiet_row_waits_for_the_next_which_may_repeat_its_value():
    assert len(feed(make(), np.zeros(50))) == 49


def test_a_channel_that_may_rest_for_ever_holds_nothing_back():
    train = np.random.default_rng(0).standard_normal((2000, 2))
    train[:, 1] = 3.0
    rules = AlarmRules(0.0, 1.0, SensorRules.fit([train]), Usual.fit([train]))
    stage = AlarmStage(rules, Shape(merge_gap=5, min_duration=1), ("a", "b"))
    assert len(feed(stage, np.zeros(50), train[:50])) == 49


def test_an_event_is_suspected_then_open_then_closed_and_its_rows_alarm_before_it_closes():
    stage = make()
    feed(stage, np.zeros(20))
    assert len(feed(stage, np.full(30, 9.0), seed=2)) == 1
    (event,) = stage.events
    assert (event.start, event.stop, event.state) == (20, 50, "suspected")
    final = feed(stage, np.full(200, 9.0), seed=3)
    (again,) = stage.events
    assert (again.start, again.state, again.id) == (20, "open", event.id)
    assert final.all()
    assert len(final) == 229
    feed(stage, np.zeros(20), seed=4)
    assert [(one.start, one.stop, one.state) for one in stage.events] == [(20, 250, "closed")]


def test_an_event_that_a_stuck_sensor_explains_is_not_listed_though_that_is_known_later():
    values = np.random.default_rng(5).standard_normal((400, 2))
    values[100:300, 0] = 0.5
    scores = np.zeros(400)
    scores[100:115] = 9.0
    stage = make()
    feed(stage, scores[:130], values[:130])
    assert [event.state for event in stage.events] == ["suspected"]
    feed(stage, scores[130:], values[130:])
    assert [(event.kind, event.start, event.stop) for event in stage.events] == [("stuck", 100, 300)]


@pytest.mark.parametrize("rest", [70, 90])
def test_a_channel_that_may_rest_for_longer_hides_no_other(rest):
    values = np.random.default_rng(5).standard_normal((400, 2))
    values[100 : 100 + rest, 1] = 0.5
    values[110:160, 0] = 0.5
    stage = make()
    feed(stage, np.zeros(400), values)
    stage.flush()
    both = rest > RULES.sensors.freeze[1]
    expected = ("stuck", 100, 190, ["b", "a"]) if both else ("stuck", 110, 160, ["a"])
    assert [(one.kind, one.start, one.stop, [name for name, _ in one.channels]) for one in stage.events] == [expected]


@pytest.mark.parametrize(("merge_gap", "expected"), [(0, [100, 300]), (200, [100])])
def test_a_stuck_sensor_explains_what_is_near_it_however_far_apart_events_are_joined(merge_gap, expected):
    values = np.random.default_rng(5).standard_normal((800, 2))
    values[400:500, 0] = 0.5
    scores = np.zeros(800)
    scores[100:105], scores[300:315], scores[498:508] = 9.0, 9.0, 90.0
    stage = make(merge_gap=merge_gap)
    feed(stage, scores, values)
    stage.flush()
    assert [event.start for event in stage.events if event.kind == "anomaly"] == expected


@pytest.mark.parametrize("row", [395, 505])
def test_an_event_that_a_stuck_sensor_explains_hides_no_impossible_value(row):
    values = np.random.default_rng(5).standard_normal((800, 2))
    values[400:500, 0] = 0.5
    values[row : row + 2, 1] = 1000.0
    scores = np.zeros(800)
    scores[392:408] = scores[494:508] = 9.0
    stage = make()
    feed(stage, scores, values)
    stage.flush()
    found = [("stuck", 400, "a"), ("range", row, "b")]
    assert [(one.kind, one.start, one.channels[0][0]) for one in stage.events] == sorted(found, key=lambda one: one[1])


@pytest.mark.parametrize(("dead", "kind"), [(0.5, "stuck"), (np.nan, "missing")])
def test_a_dead_sensor_hides_no_impossible_value_of_another(dead, kind):
    values = np.random.default_rng(5).standard_normal((800, 2))
    values[100:, 0] = dead
    values[400:405, 1] = 1000.0
    stage = make()
    feed(stage, np.zeros(800), values)
    stage.flush()
    found = [(one.kind, one.start, one.channels[0][0]) for one in stage.events]
    assert found == [(kind, 100, "a"), ("range", 400, "b")]


def test_a_sensor_that_is_stuck_at_an_impossible_value_is_one_event():
    values = np.random.default_rng(5).standard_normal((800, 2))
    values[400:600, 1] = 1000.0
    stage = make()
    feed(stage, np.zeros(800), values)
    stage.flush()
    assert [(one.kind, one.start, one.stop) for one in stage.events] == [("stuck", 400, 600)]


def test_a_channel_that_was_never_there_explains_nothing_but_its_return():
    values = np.random.default_rng(5).standard_normal((600, 2))
    values[:400, 0] = np.nan
    scores = np.zeros(600)
    scores[100:110] = scores[398:410] = 9.0
    stage = make(merge_gap=15)
    feed(stage, scores, values)
    stage.flush()
    assert [(event.kind, event.start) for event in stage.events] == [("missing", 0), ("anomaly", 100)]


@pytest.mark.parametrize("part", [1, 7, 5000])
def test_impossible_values_that_last_become_a_regime_and_alarm_no_longer(part):
    values = np.random.default_rng(5).standard_normal((5000, 2))
    values[1000:4000, 0] += 50.0
    stage, alarms, kinds = make(), [], []
    for rows in np.array_split(values, 5000 // part):
        stage.observe(rows)
        alarms.append(stage.push(Scored(np.zeros(len(rows))), np.full(len(rows), LEVEL)))
        kinds += [(event.kind, event.state, event.id) for event in stage.events]
    alarms.append(stage.flush())
    assert np.flatnonzero(np.concatenate(alarms)).tolist() == list(range(1000, 1000 + UNSTEADY_ROWS))
    (event,) = stage.events
    assert (event.kind, event.start, event.stop, event.state) == ("regime", 1000, 4000, "closed")
    if part == 1:
        found = list(dict.fromkeys(kinds))
        assert [one[:2] for one in found] == [("range", "open"), ("regime", "open"), ("regime", "closed")]
        assert {one[2] for one in found} == {event.id}


def test_impossible_values_are_decided_a_reach_after_they_begin():
    values = np.random.default_rng(5).standard_normal((400, 2))
    values[100:300, 0] += 50.0
    scores = np.zeros(400)
    scores[200:220] = 9.0
    stage = make()
    assert len(feed(stage, scores[:104], values[:104])) == 100
    assert stage.events == ()
    assert len(feed(stage, scores[104:108], values[104:108])) == 7
    assert [(event.kind, event.state) for event in stage.events] == [("range", "open")]
    feed(stage, scores[108:], values[108:])
    stage.flush()
    assert [(one.kind, one.start, one.stop) for one in stage.events] == [("range", 100, 300), ("anomaly", 200, 220)]
    scores[103] = 9.0
    stage = make()
    feed(stage, scores, values)
    stage.flush()
    assert [one.kind for one in stage.events] == ["anomaly", "anomaly"], (
        "what the score sees at once is no second event"
    )


@pytest.mark.parametrize("least", [1, 40])
@pytest.mark.parametrize(
    ("rows", "value", "kind"), [(3, 50.0, "range"), (35, np.nan, "missing"), (38, 0.25, "stuck"), (45, 50.0, "range")]
)
def test_an_event_of_any_kind_has_the_shortest_duration(least, rows, value, kind):
    values = np.random.default_rng(1).standard_normal((300, 2))
    values[100 : 100 + rows, 0] = value + values[100 : 100 + rows, 0] * (kind == "range")
    stage = AlarmStage(RULES, Shape(merge_gap=5, min_duration=least), ("a", "b"))
    alarms = []
    for row in values:  # not known to be short until it ends
        stage.observe(row[None])
        alarms.append(stage.push(Scored(np.zeros(1)), np.full(1, LEVEL)))
    alarms.append(stage.flush())
    expected = [(kind, 100, 100 + rows)] if rows >= least else []
    assert [(event.kind, event.start, event.stop) for event in stage.events] == expected
    assert np.concatenate(alarms).sum() == (rows if expected else 0)


@pytest.mark.parametrize(
    ("places", "listed_rows", "repeats"),
    [
        ([(100, 3, 0), (300, 3, 0), (500, 3, 0), (700, 3, 0)], [100, 300], 2),  # the third is a repeat
        ([(100, 3, 0), (300, 3, 0), (500, 3, 1)], [100, 300, 500], 0),  # in another channel it is none
        ([(100, 3, 0), (300, 3, 0), (1500, 3, 0)], [100, 300, 1500], 0),  # nor long after them
        ([(100, 3, 0), (200, 3, 0), (300, 3, 0), (1700, 3, 0)], [100, 200], 2),  # which is later after a repeat
        ([(100, 3, 0), (300, 3, 0), (500, 40, 0)], [100, 300, 500], 0),  # nor is one that lasts
    ],
)
def test_impossible_values_that_come_again_are_repeats(places, listed_rows, repeats):
    values = np.random.default_rng(1).standard_normal((2000, 2))
    for start, rows, channel in places:
        values[start : start + rows, channel] += 50.0
    stage = AlarmStage(RULES, Shape(merge_gap=5, min_duration=1), ("a", "b"))
    alarms = np.concatenate([feed(stage, np.zeros(2000), values), stage.flush()])
    assert [(event.kind, event.start) for event in stage.events] == [("range", row) for row in listed_rows]
    assert stage.events[0].repeats == repeats
    assert alarms.sum() == sum(rows for start, rows, _ in places if start in listed_rows)


def test_a_segment_shorter_than_the_window_never_alarms():
    stage = make(window=50)
    feed(stage, np.full(40, 9.0))
    assert stage.end_segment().tolist() == [False] * 39
    assert stage.events == ()
    feed(stage, np.full(60, 9.0), seed=2)
    stage.flush()
    assert [(event.start, event.stop) for event in stage.events] == [(40, 100)]

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchad.alarms.sensors import LONGER, MIN_VALUES, MORE_ROWS, RANGE_MARGIN, RANGE_ROWS, SensorRules, SensorStage

CHANNELS = 3


def noise(rows: int = 1000, channels: int = CHANNELS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, channels))


RULES = SensorRules.fit([noise()])


def find(values: np.ndarray, rules: SensorRules = RULES, bounds=()) -> list:
    """Find what breaks the rules, in rows pushed in parts that end at these bounds."""
    stage, found = SensorStage(rules), []
    for a, b in pairwise([0, *bounds, len(values)]):
        found += stage.push(values[a:b])
    found += stage.flush()
    return sorted((one for one in found if one.listed is None), key=lambda one: (one.start, one.kind))


def plain(found) -> list[tuple]:
    return [(one.kind, one.start, one.stop, one.channels) for one in found]


def facts(found) -> list[tuple]:
    return [(*one, excess) for one, excess in zip(plain(found), [one.excess for one in found], strict=True)]


@settings(max_examples=100)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 400), max_size=8).map(sorted))
def test_rows_pushed_in_any_parts_break_the_same_rules(seed, bounds):
    rng = np.random.default_rng(seed)
    values = noise(400, seed=seed)
    for _ in range(6):
        start, length, channel = rng.integers(0, 400), rng.integers(1, 120), rng.integers(CHANNELS)
        values[start : start + length, channel] = rng.choice([values[start, channel], np.nan, 1e3])
    assert facts(find(values, bounds=bounds)) == facts(find(values))


def test_normal_rows_break_no_rule():
    assert find(noise(20_000, seed=1)) == []
    assert find(noise(0)) == []


@pytest.mark.parametrize(("start", "stop"), [(200, 300), (0, 100), (900, 1000)])
def test_a_frozen_channel_is_stuck_from_the_first_to_the_last_row_of_its_value(start, stop):
    values = noise(seed=1)
    values[start:stop, 1] = 0.3
    assert plain(find(values)) == [("stuck", start, stop, (1,))]


@pytest.mark.parametrize(("start", "stop"), [(200, 300), (0, 100), (900, 1000)])
def test_a_silent_channel_is_missing(start, stop):
    values = noise(seed=1)
    values[start:stop, 2] = np.nan
    assert plain(find(values)) == [("missing", start, stop, (2,))]


def test_a_run_has_to_be_longer_than_what_was_normal():
    train = noise(4000)
    train[100:110, 0] = 0.3  # one value for ten rows
    train[500:520, 1] = np.nan
    rules = SensorRules.fit([train])
    assert rules.freeze[0] == LONGER * 10 + MORE_ROWS
    assert rules.silence[1] == LONGER * 20 + MORE_ROWS
    for rows, kinds in ((0, []), (1, ["stuck", "missing"])):
        values = noise(seed=1)
        values[100 : 100 + int(rules.freeze[0]) + rows, 0] = 0.5
        values[500 : 500 + int(rules.silence[1]) + rows, 1] = np.nan
        assert [one.kind for one in find(values, rules)] == kinds


def test_several_series_are_learned_from_and_no_run_crosses_from_one_to_the_next():
    one, other = noise(1000), noise(1000, seed=1)
    one[-10:, 0] = other[:10, 0] = 0.3
    rules = SensorRules.fit([one, other])
    assert rules.freeze[0] == LONGER * 10 + MORE_ROWS
    assert rules.low[0] < min(one[:, 0].min(), other[:, 0].min())


def test_the_fewer_rows_train_has_the_wider_is_what_is_possible():
    short, long = (SensorRules.fit([np.linspace(0, 10, rows)[:, None]]) for rows in (RANGE_ROWS, 100 * RANGE_ROWS))
    assert short.high[0] == 10 * (1 + 2 * RANGE_MARGIN)
    assert short.low[0] < long.low[0] < 0 < 10 < long.high[0] < short.high[0]


def test_values_far_outside_the_range_of_train_are_out_of_range():
    train = np.linspace(0, 10, 100_001)[:, None]
    rules = SensorRules.fit([train])
    margin = RANGE_MARGIN * (1 + RANGE_ROWS / len(train))
    np.testing.assert_allclose((rules.low[0], rules.high[0]), (-10 * margin, 10 * (1 + margin)))
    values = train[:1001].copy()
    values[300] = rules.high[0]
    assert find(values, rules) == [], "on the limit"
    values[300:305] = [[16], [17], [18], [17], [16]]
    values[700] = -20
    assert plain(find(values, rules)) == [("range", 300, 305, (0,)), ("range", 700, 701, (0,))]


def test_a_switch_may_rest_for_ever():
    rng = np.random.default_rng(0)
    switch = (np.cumsum(rng.random(2000) < 0.1) % 2).astype(float)[:, None]
    rules = SensorRules.fit([switch])
    assert find(np.zeros((5000, 1)), rules) == []
    assert find(np.full((5000, 1), np.nan), rules)[0].kind == "missing"


def test_a_channel_needs_values_enough_for_a_rule_of_being_stuck():
    rng = np.random.default_rng(0)
    for count, kinds in ((MIN_VALUES - 1, []), (MIN_VALUES, ["stuck"])):
        rules = SensorRules.fit([rng.integers(0, count, size=(5000, 1)).astype(float)])
        assert [one.kind for one in find(np.ones((500, 1)), rules)] == kinds


def test_a_channel_that_rests_for_long_in_train_may_rest():
    train = noise(1000, 1)
    train[400:500] = 0.0
    assert find(np.zeros((5000, 1)), SensorRules.fit([train])) == []


def test_a_constant_channel_may_stay_and_may_change():
    rules = SensorRules.fit([np.full((1000, 1), 7.0)])
    assert find(np.full((1000, 1), 7.0), rules) == []
    assert find(np.full((1000, 1), -1e30), rules) == [], "its score tells; no range can be told from one value"


def test_a_channel_without_a_value_in_train_has_no_range_and_may_stay_silent():
    rules = SensorRules.fit([np.full((500, 1), np.nan)])
    assert np.isfinite([rules.freeze, rules.silence, rules.low, rules.high]).all(), "a file can hold them"
    assert find(np.full((1000, 1), np.nan), rules) == []
    assert [one.kind for one in find(np.full((1100, 1), np.nan), rules)] == ["missing"]
    assert find(noise(1000, 1), rules) == []


def test_limits_are_finite_at_the_end_of_the_floats():
    huge = np.linspace(0, 1.7e308, 1000)[:, None]
    rules = SensorRules.fit([huge])
    assert np.isfinite([rules.low, rules.high]).all()
    assert find(huge, rules) == []


def test_all_channels_frozen_at_once_are_one_event():
    values = noise(seed=1)
    values[300:600] = values[300]
    assert plain(find(values)) == [("stuck", 300, 600, (0, 1, 2))]


def test_channels_that_break_a_rule_at_overlapping_times_are_one_event():
    values = noise(seed=1)
    values[300:400, 2] = np.nan
    values[350:450, 0] = np.nan
    values[700:800, 1] = np.nan
    assert plain(find(values)) == [("missing", 300, 450, (2, 0)), ("missing", 700, 800, (1,))]


def test_a_run_that_is_recognised_late_joins_what_was_found_before():
    train = noise(4000)
    train[100:185, 2] = np.nan
    rules = SensorRules.fit([train])
    values = noise(600, seed=1)
    values[150:200, 0] = values[260:300, 1] = np.nan
    values[140:360, 2] = np.nan
    one_by_one = find(values, rules, bounds=range(1, 600))
    assert plain(one_by_one) == plain(find(values, rules)) == [("missing", 140, 360, (2, 0, 1))]


@pytest.mark.parametrize(("pause", "events"), [(MORE_ROWS, 1), (MORE_ROWS + 1, 2)])
def test_runs_a_few_rows_apart_are_one_event(pause, events):
    values = noise(seed=1)
    values[300:400, 0] = np.nan
    values[400 + pause : 500 + pause, 0] = np.nan
    assert len(find(values)) == events


def test_kinds_are_told_apart():
    values = noise(seed=1)
    values[200:300, 0] = values[199, 0]
    values[400:500, 0] = np.nan
    values[600:700, 0] = 1e3 + noise(100, 1)[:, 0]
    assert plain(find(values)) == [("stuck", 199, 300, (0,)), ("missing", 400, 500, (0,)), ("range", 600, 700, (0,))]


def test_no_value_anywhere_is_one_missing_event():
    assert plain(find(np.full((500, CHANNELS), np.nan))) == [("missing", 0, 500, (0, 1, 2))]


def test_missing_values_end_a_freeze():
    values = noise(seed=1)
    values[200:300, 0] = 0.3
    values[230:232, 0] = np.nan
    assert plain(find(values)) == [("stuck", 232, 300, (0,))]


def test_the_excess_is_how_many_times_the_limit_was_reached():
    values = noise(2000, seed=1)
    values[100:400, 0] = np.nan
    values[800:1100, 0] = 0.3
    missing, stuck = find(values)
    assert missing.excess == pytest.approx(300 / MORE_ROWS)
    assert stuck.excess == pytest.approx(299 / (LONGER + MORE_ROWS - 1))


def test_a_few_long_runs_of_train_are_faults_and_set_no_limit():
    values = noise(4000)
    clean = SensorRules.fit([values])
    values[100:200, 0] = 0.3
    values[1000:1150, 1] = np.nan
    values[3000:3100, 1] = np.nan
    rules = SensorRules.fit([values])
    assert rules.freeze.tolist() == clean.freeze.tolist()
    assert rules.silence.tolist() == clean.silence.tolist()
    assert {(one.kind, one.start) for one in find(values, rules)} == {
        ("stuck", 100),
        ("missing", 1000),
        ("missing", 3000),
    }


def test_a_channel_that_often_rests_may_rest():
    values = noise(4000)
    for start in range(0, 4000, 400):
        values[start : start + 60 + start // 100, 0] = start
    assert SensorRules.fit([values]).freeze[0] == LONGER * 96 + MORE_ROWS

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.reference.events_slow import slow_events

from patchad.alarms import repeats
from patchad.alarms.chunk import REGIME_ROWS, UNSTEADY_ROWS
from patchad.alarms.events import CHECK_EVERY, EventStage, Shape
from patchad.alarms.listing import EXPLAINED
from patchad.alarms.repeats import CLEAR, REPEAT_PEAK, REPEAT_ROWS, REPEATS_COUNTED, Repeats
from patchad.data.stages import Scored

LEVEL = 2.0
"""Level of the tests by hand; normal scores are 0, so that events close under 0.4."""


FAR = 10**6
"""A window so long that events are bounded by nothing but the scores."""


class Listed:
    """The events of a segment that are listed: ripe, not explained by the rows marked so, and no repeats."""

    def __init__(self, *, window=FAR, merge_gap=0, min_duration=1, **stage):
        shape = Shape(merge_gap=merge_gap, min_duration=min_duration, window=window)
        self.stage, self.repeats = EventStage(shape=shape, **stage), Repeats(stage["base"])
        self.explained, self.ripe = np.zeros(0, dtype=bool), []

    def push(self, rows, levels, muted, explained):
        self.explained = np.concatenate([self.explained, explained])
        self.ripe += self.stage.push(rows, levels, muted)

    def flush(self):
        self.ripe += self.stage.flush()

    @property
    def listed(self):
        kept = [one for one in self.ripe if self.explained[one.active].sum() <= EXPLAINED * len(one.active)]
        return [one for one in kept if self.repeats.counted_on(one) is None]


def find(
    scores,
    *,
    muted=None,
    explained=None,
    merge_gap=0,
    min_duration=1,
    bounds=(),
    window=FAR,
    base=0.0,
    level=LEVEL,
    **fields,
):
    """Find the events of scores over a level, pushed in parts that end at these bounds."""
    rows = Scored(np.asarray(scores, dtype=float), **{name: np.asarray(x, dtype=float) for name, x in fields.items()})
    stage = Listed(base=base, edge=1.0, merge_gap=merge_gap, min_duration=min_duration, window=window)
    none = np.zeros(len(rows), dtype=bool)
    muted, explained = (none if mask is None else np.asarray(mask, dtype=bool) for mask in (muted, explained))
    for a, b in pairwise([0, *bounds, len(rows)]):
        stage.push(rows[slice(a, b)], np.full(b - a, level), muted[a:b], explained[a:b])
    stage.flush()
    return stage.listed


def rows_of(found):
    return [one.rows for one in found]


def facts(found):
    """Everything that is known of findings, as something that compares."""
    return [
        (one.rows, one.kind, one.first, one.opened, one.level, one.last, one.peak, one.peak_score, one.recognised)
        + (one.repeats, tuple(one.active), tuple(one.peaks), one.latest)
        + (() if one.attribution is None else tuple(one.attribution))
        for one in found
    ]


# -- pushed in any parts -------------------------------------------------------------------------------------------


def random_rows(seed: int, length: int) -> tuple[Scored, np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows in which events of every kind are likely: what lasts, what returns, what is muted and explained."""
    rng = np.random.default_rng(seed)

    def held(values, mean_length):
        """Draw values that last for a while each."""
        switches = np.cumsum(rng.random(length) < 1 / mean_length)
        return rng.choice(values, size=length + 1)[switches]

    scores = held([0.0, 0.0, 0.6, 1.5, 3.0, 9.0], rng.choice([2, 10, 200, 800])) + 0.3 * rng.standard_normal(length)
    scores += held([0.0, 6.0], 1000) + held([0.0] * 20 + [5.0, 9.0], 10)
    unadapted = np.maximum(scores, 0) + held([0.0, 0.0, 1.0, 4.0], 400)
    rows = Scored(scores, rng.random((length, 3)), scores * rng.uniform(0.3, 1.2, length), unadapted)
    return rows, held([2.0, 2.0, 2.5, 4.0], 300), held([0, 0, 0, 1], 30) > 0, held([0, 0, 1], 100) > 0


def push_all(stage: Listed, parts, bounds) -> Listed:
    rows, *others = parts
    for a, b in pairwise([0, *bounds, len(rows)]):
        stage.push(rows[slice(a, b)], *(one[a:b] for one in others))
    stage.flush()
    return stage


def make_stage(seed: int) -> Listed:
    rng = np.random.default_rng(seed)
    gap, shortest, window = int(rng.choice([0, 3, 30])), int(rng.choice([1, 4])), int(rng.choice([1, 20, FAR]))
    return Listed(base=0.1, edge=1.0, merge_gap=gap, min_duration=shortest, window=window)


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 300), max_size=8).map(sorted))
def test_rows_pushed_in_any_parts_give_the_same_events(seed, bounds):
    parts = random_rows(seed, 300)
    whole = push_all(make_stage(seed), parts, [])
    assert facts(push_all(make_stage(seed), parts, bounds).listed) == facts(whole.listed)


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 4000), max_size=8).map(sorted))
def test_rows_of_a_long_series_with_regimes_may_come_in_any_parts(seed, bounds):
    parts = random_rows(seed, 4000)
    whole = push_all(make_stage(seed), parts, [])
    assert facts(push_all(make_stage(seed), parts, bounds).listed) == facts(whole.listed)


def test_the_series_drawn_have_regimes_repeats_and_events_inside_regimes():
    found = [push_all(make_stage(seed), random_rows(seed, 4000), []).listed for seed in range(40)]
    regimes = [(one, own) for own in found for one in own if one.kind == "regime"]
    assert len(regimes) >= 5
    assert sum(one.repeats for own in found for one in own) > 20
    assert any(r.recognised < one.opened < r.last for r, own in regimes for one in own)


def test_one_row_at_a_time_with_regimes():
    parts = random_rows(3, 2500)
    whole = push_all(make_stage(3), parts, [])
    assert facts(push_all(make_stage(3), parts, range(1, 2500)).listed) == facts(whole.listed)


# -- the rule ------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.integers(0, 2**31), st.integers(1, 120), st.integers(0, 6), st.integers(1, 5), st.floats(0.5, 3.0))
@example(seed=0, length=120, merge_gap=0, min_duration=1, edge=1.0)
def test_events_equal_those_of_the_slow_twin(seed, length, merge_gap, min_duration, edge):
    rows, *others = random_rows(seed, length)
    shape = {"base": 0.1, "edge": edge, "merge_gap": merge_gap, "min_duration": min_duration}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "REPEAT_ROWS", -(10**9))
        found = push_all(Listed(**shape), (rows, *others), []).listed
    expected = slow_events(rows, *others, **shape)
    assert [(one.rows, one.peak, one.peak_score) for one in found] == [
        (one.rows, one.peak, one.peak_score) for one in expected
    ]
    for one, slow in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.attribution, slow.attribution)


def test_an_event_opens_over_the_level_and_closes_under_a_lower_one():
    assert rows_of(find([0, 1.5, 1.5, 0])) == [], "never over the level"
    assert rows_of(find([0, 3, 1.5, 1.5, 3, 0])) == [(1, 5)]
    assert rows_of(find([0, 3, 0.3, 0.3, 30, 0])) == [(1, 2), (4, 5)], "0.3 is under the closing level"


def test_a_row_on_the_level_is_not_over_it():
    assert rows_of(find([0, LEVEL, 0])) == []


def test_a_pause_of_the_merge_gap_is_part_of_the_event_and_a_longer_one_ends_it():
    scores = [0, 3, 0, 0, 30, 0, 0]
    assert rows_of(find(scores, merge_gap=1)) == [(1, 2), (4, 5)]
    assert rows_of(find(scores, merge_gap=2)) == [(1, 5)]


def test_an_event_that_closes_needs_a_new_rise_to_open_again():
    scores = [3, 0, 0, 1.5, 1.5, 0]
    assert rows_of(find(scores, merge_gap=1)) == [(0, 1)]
    assert rows_of(find(scores, merge_gap=2)) == [(0, 5)]


def test_edges_lie_where_local_scores_are_unusual():
    smeared = [0, 1.5, 2.5, 4, 5, 4, 2.5, 1.5, 0]
    assert rows_of(find(smeared)) == [(1, 8)], "the score is its own local score"
    assert rows_of(find(smeared, local=[0, 0, 0, 2, 5, 2, 0, 0, 0])) == [(3, 6)]
    assert rows_of(find([0, 1.5, 1.5, 1.5, 4, 0], local=[0, 2, 2, 0, 0, 0])) == [(1, 3)], "before the score is over"
    assert rows_of(find(smeared, local=[9, 0, 0, 0, 0, 0, 0, 0, 9])) == [(2, 7)], "outside of it, they do not count"
    assert find(smeared, local=[0, 0, 0, 2, 5, 2, 0, 0, 0])[0].peak == 4


def test_a_row_that_is_hardly_unusual_is_no_edge_of_a_great_event():
    scores = [0, 1.5, 40, 90, 40, 1.5, 1.5, 0]
    assert rows_of(find(scores, local=[0, 1.1, 0.5, 90, 40, 0.5, 1.1, 0])) == [(3, 5)]
    assert rows_of(find(scores, local=[0, 4.0, 0.5, 90, 40, 0.5, 4.0, 0], merge_gap=1)) == [(1, 7)]
    assert rows_of(find(scores, local=[0, 1.1, 0.5, 1.3, 1.2, 0.5, 1.1, 0], merge_gap=1)) == [(1, 7)], (
        "a faint event keeps them"
    )


def test_what_windows_smear_holds_no_event_open():
    scores = [0, 9, 1.5, 1.5, 1.5, 9, 0]
    assert rows_of(find(scores, local=[0, 9, 0, 0, 0, 9, 0], merge_gap=2)) == [(1, 2), (5, 6)]
    assert rows_of(find(scores, local=[0, 9, 0, 0, 0, 9, 0], merge_gap=3)) == [(1, 6)]
    assert rows_of(find(scores, local=np.zeros(7), merge_gap=2)) == [(1, 6)], "no row is unusual by itself"


def regime_and_more(peak: float, lead: int) -> list[tuple[str, tuple[int, int]]]:
    """List what is found where scores jump to 9, stay at 5 for 500 rows, and rise once more before they return."""
    scores = np.concatenate([np.zeros(20), [9.0] * 5, np.full(500, 5.0), np.full(20, peak), np.zeros(60)])
    attribution = np.zeros((len(scores), 2))
    attribution[:525, 0] = attribution[525:, lead] = 1.0
    found = find(scores, merge_gap=5, window=20, attribution=attribution)
    return [(one.kind, one.rows) for one in found]


def test_how_a_regime_ends_is_no_event_and_what_another_channel_does_or_what_is_far_greater_is():
    assert regime_and_more(20.0, 0) == [("regime", (20, 545))]
    assert regime_and_more(20.0, 1) == [("regime", (20, 545)), ("anomaly", (525, 545))]
    assert regime_and_more(50.0, 0) == [("regime", (20, 545)), ("anomaly", (525, 545))]


def test_an_event_shorter_than_the_shortest_is_not_listed():
    scores = [0, 3, 0, 0, 3, 3, 3, 0]
    assert rows_of(find(scores, min_duration=2)) == [(4, 7)]
    assert rows_of(find(scores, min_duration=4)) == []
    assert rows_of(find(scores, min_duration=4, merge_gap=2)) == [(1, 7)], "merged first"


def test_muted_rows_neither_open_nor_extend_an_event():
    assert rows_of(find([0, 9, 9, 0], muted=[0, 1, 1, 0])) == []
    assert rows_of(find([0, 9, 9, 9, 0], muted=[0, 0, 1, 1, 0])) == [(1, 2)]
    assert rows_of(find([0, 9, 9, 9, 0], muted=[0, 0, 1, 0, 0], merge_gap=1)) == [(1, 4)]
    found = find([0, 3, 9, 3, 0], muted=[0, 0, 1, 0, 0], merge_gap=1)
    assert (found[0].peak, found[0].peak_score) == (1, 3.0)


def test_an_event_is_dropped_if_a_broken_sensor_explains_most_of_its_rows():
    scores = [0, 3, 3, 3, 3, 0]
    assert rows_of(find(scores, explained=[0, 1, 1, 0, 0, 0])) == [(1, 5)]
    assert rows_of(find(scores, explained=[0, 1, 1, 1, 0, 0])) == []
    assert rows_of(find(scores, explained=[1, 0, 0, 0, 0, 1])) == [(1, 5)], "rows outside of it do not count"


def test_the_highest_rows_weigh_most_in_the_attribution():
    shares = np.array([[1, 0]] * 3 + [[0, 1]] * 3, dtype=float)
    (found,) = find([0, 2.5, 3, 9, 1.5, 0], attribution=shares)
    assert (found.peak, found.peak_score, found.lead) == (3, 9.0, 1)
    np.testing.assert_allclose(found.attribution, [0.5 + 1, 7])


def test_an_event_that_adaptation_got_used_to_stays_open():
    scores, unadapted = np.zeros(200), np.zeros(200)
    scores[50:70] = unadapted[50:150] = 5.0
    assert rows_of(find(scores, unadapted=scores)) == [(50, 70)]
    assert rows_of(find(scores, unadapted=unadapted, local=unadapted)) == [(50, 150)]
    assert rows_of(find(np.zeros(200), unadapted=unadapted)) == [], "what adaptation never let rise does not open"


def test_scores_that_are_missing_are_over_no_level():
    assert rows_of(find([0, 3, np.nan, 30, 0])) == [(1, 2), (3, 4)]
    assert rows_of(find([0, 3, np.nan, 3, 0], merge_gap=1)) == [(1, 4)]
    assert rows_of(find(np.full(5, np.nan))) == []


def test_no_rows_give_no_events():
    assert find([]) == []


# -- known in time -------------------------------------------------------------------------------------------------


def test_what_came_long_before_an_event_opened_is_not_part_of_it():
    scores = np.concatenate([np.full(60, 1.5), [9.0], np.zeros(20)])
    assert rows_of(find(scores)) == [(0, 61)]
    assert rows_of(find(scores, window=20)) == [(40, 61)]


def test_the_start_of_an_event_that_has_lasted_stays():
    scores, local = np.full(400, 3.0), np.full(400, 1.1)
    local[300:310] = 1e6
    assert rows_of(find(scores, local=local)) == [(300, 310)]
    assert rows_of(find(scores, local=local, window=20)) == [(0, 394)]


def test_rows_of_an_open_event_that_no_unusual_one_follows_are_part_of_it():
    scores, local = np.full(300, 3.0), np.zeros(300)
    local[:10] = 5.0
    assert rows_of(find(scores, local=local)) == [(0, 10)]
    assert rows_of(find(scores, local=local, window=50)) == [(0, 265)], "a window after the last row that was part"
    assert rows_of(find(scores, local=np.zeros(300), window=50)) == [(0, 300)]


def test_what_lasts_is_no_repeat():
    long = [(row, 9.0) for start in range(0, 2000, 400) for row in range(start, start + 150)]
    assert [one.repeats for one in find(peaks_at(*long, length=2000))] == [3, 0]
    assert [one.repeats for one in find(peaks_at(*long, length=2000), window=20)] == [0] * 5


# -- repeats -------------------------------------------------------------------------------------------------------


def peaks_at(*peaks: tuple[int, float], length: int = 10_000) -> np.ndarray:
    """Make scores of zero with peaks at these rows."""
    scores = np.zeros(length)
    for row, height in peaks:
        scores[row] = height
    return scores


def test_the_third_of_like_events_is_counted_and_not_listed():
    found = find(peaks_at((100, 9.0), (300, 8.0), (500, 8.0 * REPEAT_PEAK), (700, 9.0)))
    assert [(one.rows, one.repeats, one.peak_score) for one in found] == [((100, 101), 2, 9.0), ((300, 301), 0, 8.0)]


def test_the_second_of_like_events_is_counted_and_not_listed_where_it_is_not_clear():
    just = CLEAR * LEVEL
    assert [(one.peak, one.repeats) for one in find(peaks_at((100, 9.0), (300, just)))] == [(100, 1)]
    assert [(one.peak, one.repeats) for one in find(peaks_at((100, 9.0), (300, just + 0.1)))] == [(100, 0), (300, 0)]
    shifted = find(peaks_at((100, 9.0), (300, just + 0.1)) + 100.0, base=100.0, level=LEVEL + 100.0)
    assert [one.peak for one in shifted] == [100, 300], "heights are measured from normal"


def test_a_clearly_higher_peak_is_listed():
    found = find(peaks_at((100, 9.0), (300, 9.0), (500, 9.0 * REPEAT_PEAK + 0.1), (700, 10.0)))
    assert [(one.peak, one.repeats) for one in found] == [(100, 1), (300, 0), (500, 0)]


def test_other_channels_make_another_event():
    shares = np.zeros((1000, 2))
    shares[:, 0] = 1.0
    shares[350:450] = shares[350:450, ::-1]
    found = find(peaks_at((100, 9.0), (200, 9.0), (400, 9.0), (600, 9.0), length=1000), attribution=shares)
    assert [(one.peak, one.repeats) for one in found] == [(100, 1), (200, 0), (400, 0)]


def test_repeats_reach_further_the_more_there_were():
    def listed(*pauses):
        rows = np.cumsum([100, 100, *pauses])
        return len(find(peaks_at(*((int(row), 9.0) for row in rows), length=30_000)))

    assert listed(REPEAT_ROWS + 1) == 2, "from the end of one to the start of the next"
    assert listed(REPEAT_ROWS + 2) == 3
    assert listed(REPEAT_ROWS, 2 * REPEAT_ROWS + 1) == 2
    assert listed(REPEAT_ROWS, 2 * REPEAT_ROWS + 2) == 3
    reach = REPEAT_ROWS * (1 + REPEATS_COUNTED)
    often = [REPEAT_ROWS] * (REPEATS_COUNTED + 3)
    assert listed(*often, reach + 1) == 2
    assert listed(*often, reach + 2) == 3


# -- regimes -------------------------------------------------------------------------------------------------------


def step(length: int = 3000, start: int = 500, stop: int | None = None, height: float = 6.0) -> np.ndarray:
    """Make scores that are high from `start` to `stop`, with a little noise."""
    scores = 0.1 * np.random.default_rng(0).random(length)
    scores[start:stop] += height
    return scores


def test_what_stays_steady_is_a_regime_that_stays_open_to_the_end():
    (found,) = find(step(), merge_gap=20)
    assert found.kind == "regime"
    assert found.rows == (500, 3000)
    assert 500 + REGIME_ROWS <= found.recognised <= 500 + REGIME_ROWS + CHECK_EVERY


def test_a_regime_closes_on_return_to_normal():
    (found,) = find(step(stop=2000), merge_gap=20)
    assert (found.kind, found.rows) == ("regime", (500, 2000))
    found = find(step(length=6000, stop=2000) + step(length=6000, start=2100, stop=2110), merge_gap=20)
    assert [(one.kind, one.rows) for one in found] == [("regime", (500, 2000)), ("anomaly", (2100, 2110))]


def test_a_regime_has_edges_where_the_data_changes():
    smeared, local = step(start=400, stop=1600), step(start=500, stop=1500)
    (found,) = find(smeared, local=local, merge_gap=20, window=100)
    assert (found.kind, found.rows) == ("regime", (500, 1500))
    (found,) = find(step(start=400, stop=400 + REGIME_ROWS), local=step(start=500, stop=300 + REGIME_ROWS), window=100)
    assert (found.kind, found.rows) == ("anomaly", (500, 300 + REGIME_ROWS)), "how long it smears does not count"


def test_what_is_not_steady_for_long_enough_is_no_regime():
    (found,) = find(step(stop=500 + REGIME_ROWS - 1), merge_gap=100)
    assert (found.kind, found.rows) == ("anomaly", (500, 500 + REGIME_ROWS - 1))
    unsteady = step()
    unsteady[500:] *= np.tile(np.repeat([0.5, 9.0], [45, 15]), 42)[:2500]
    (found,) = find(unsteady[: 499 + UNSTEADY_ROWS], merge_gap=20)
    assert (found.kind, found.rows) == ("anomaly", (500, 499 + UNSTEADY_ROWS))
    (found,) = find(unsteady, merge_gap=20)
    assert (found.kind, found.rows) == ("regime", (500, 3000)), "after so long it does not matter"
    assert 500 + UNSTEADY_ROWS <= found.recognised <= 500 + UNSTEADY_ROWS + CHECK_EVERY


def test_a_regime_that_is_unsteady_at_first_is_recognised_later():
    scores = step()
    scores[500:900] *= np.tile(np.repeat([0.4, 4.0], [24, 16]), 10)
    (found,) = find(scores, merge_gap=20)
    assert found.kind == "regime"
    assert found.recognised > 900 + REGIME_ROWS // 2


def test_an_event_inside_a_regime_is_found():
    scores = step()
    scores[2000:2030] += 5.0
    regime, inside = find(scores, merge_gap=20)
    assert (regime.kind, regime.rows) == ("regime", (500, 3000))
    assert (inside.kind, inside.rows) == ("anomaly", (2000, 2030))
    scores[2000:2030] -= 3.5
    assert len(find(scores, merge_gap=20)) == 1, "hardly higher than the regime itself"


def test_the_return_to_normal_is_no_event_of_its_own():
    scores, local = step(stop=2000), step(stop=2000)
    scores[1990:2020] += 9.0
    (found,) = find(scores, local=local, merge_gap=40, window=40)
    assert (found.kind, found.rows) == ("regime", (500, 2000))
    scores[1600:1630] += 9.0
    regime, inside = find(scores, local=local, merge_gap=40, window=40)
    assert (regime.kind, inside.kind, inside.opened) == ("regime", "anomaly", 1600)


def test_an_event_inside_a_regime_is_judged_by_what_is_new():
    scores = step()
    scores[2000:2030] += 0.8 * LEVEL
    assert [one.kind for one in find(scores, merge_gap=20)] == ["regime"]


def test_adaptation_does_not_end_a_regime():
    unadapted = step()
    scores = unadapted.copy()
    scores[600:] -= 6.0
    (found,) = find(scores, unadapted=unadapted, local=unadapted, merge_gap=20)
    assert (found.kind, found.rows) == ("regime", (500, 3000))
    scores[2000:2030] += 5.0
    _, inside = find(scores, unadapted=unadapted, local=unadapted, merge_gap=20)
    assert inside.rows == (2000, 2030)


def test_a_regime_that_rises_slowly_raises_no_event():
    scores = step()
    scores[1300:] += np.linspace(0, 6, 1700)
    assert [one.kind for one in find(scores, merge_gap=20)] == ["regime"]

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.alarms import events
from patchad.alarms.events import CLOSING, EventStage, Finding
from patchad.data.stages import Scored

LEVEL = 2.0
CLOSE = CLOSING * LEVEL  # the base is 0
heights = st.sampled_from([0.0, 0.0, 0.5, 1.2, 1.9, 2.5, 4.0, 9.0])


def found_in(
    scores, *, merge_gap=0, min_duration=1, muted=None, explained=None, bounds=(), edge=1.0, **optional
) -> list[Finding]:
    """Push rows cut at these bounds; return the events."""
    rows = Scored(np.asarray(scores, dtype=float), **{name: np.asarray(v, float) for name, v in optional.items()})
    marked = [np.zeros(len(rows), dtype=bool) if m is None else np.asarray(m, dtype=bool) for m in (muted, explained)]
    stage = EventStage(base=0.0, edge=edge, merge_gap=merge_gap, min_duration=min_duration)
    for part in np.split(np.arange(len(rows)), sorted(min(bound, len(rows)) for bound in bounds)):
        stage.push(rows[part], np.full(len(part), LEVEL), *(mask[part] for mask in marked))
    stage.flush()
    return stage.listed


def slow_events(scores: list[float], muted: list[bool], merge_gap: int) -> list[tuple[int, int, int]]:
    """Return first row, stop and peak of each event, row by row."""
    active = [score > CLOSE and not mute for score, mute in zip(scores, muted, strict=True)]
    over = [score > LEVEL and not mute for score, mute in zip(scores, muted, strict=True)]
    found, row = [], 0
    while row < len(scores):
        if not over[row]:
            row += 1
            continue
        first = row
        while first > 0 and active[first - 1]:
            first -= 1
        last = row
        while row < len(scores) and (active[row] or row - last <= merge_gap):
            last = row if active[row] else last
            row += 1
        peak = max((r for r in range(first, last + 1) if over[r]), key=lambda r: (scores[r], -r))
        found.append((first, last + 1, peak))
    return found


@given(st.lists(st.tuples(heights, st.booleans()), max_size=60), st.integers(0, 5))
def test_events_are_the_runs_over_the_closing_level_that_reach_the_level(rows, merge_gap):
    scores, muted = [score for score, _ in rows], [mute for _, mute in rows]
    slow = slow_events(scores, muted, merge_gap)
    found = found_in(scores, muted=muted, merge_gap=merge_gap)
    assert len(found) + sum(one.repeats for one in found) == len(slow)
    assert {(*one.rows, one.peak) for one in found} <= set(slow)
    assert not found or (*found[0].rows, found[0].peak) == slow[0]


def test_an_event_shorter_than_the_shortest_is_not_listed():
    scores = [0, 3, 0, 0, 0, 3, 3, 3, 0]
    assert [one.rows for one in found_in(scores, min_duration=2)] == [(5, 8)]


def test_a_pause_of_up_to_the_gap_lies_inside():
    scores = [0, 3, 0, 0, 3, 0, 0, 0, 0]
    assert [one.rows for one in found_in(scores, merge_gap=2)] == [(1, 5)]
    (one,) = found_in(scores, merge_gap=1)
    assert (one.rows, one.repeats) == ((1, 2), 1)


def test_muted_rows_neither_open_nor_extend_an_event():
    scores, muted = np.zeros(20), np.zeros(20, dtype=bool)
    scores[5] = scores[10:13] = 5
    muted[[5, 12]] = True
    assert [one.rows for one in found_in(scores, muted=muted)] == [(10, 12)]


def test_edges_lie_where_the_local_score_is_unusual():
    scores, local = np.zeros(30), np.zeros(30)
    scores[5:25], local[12:18] = 5, 3
    assert [one.rows for one in found_in(scores)] == [(5, 25)]
    assert [one.rows for one in found_in(scores, local=local)] == [(12, 18)]


def test_an_event_stays_open_while_the_score_without_adaptation_is_high():
    scores, unadapted = np.zeros(50), np.zeros(50)
    scores[5:10], unadapted[5:30] = 5, 5
    (one,) = found_in(scores, unadapted=unadapted, merge_gap=3)
    assert one.last == 29


def test_attribution_is_weighted_by_the_height_over_the_level():
    shares = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)
    (one,) = found_in([0, 3, 4, 9, 0, 0], attribution=shares)
    np.testing.assert_allclose(one.attribution, [3, 7])
    assert one.lead == 1


def test_like_events_that_follow_are_repeats_unless_they_are_clearly_higher():
    scores = np.zeros(400)
    scores[[50, 100, 150, 200]] = [4, 4, 4, 9]
    first, higher = found_in(scores, merge_gap=5)
    assert (first.rows, first.repeats) == ((50, 51), 2)
    assert (higher.rows, higher.repeats) == ((200, 201), 0)
    shares = np.zeros((400, 2))
    shares[:120, 0] = shares[120:, 1] = 1
    assert [one.repeats for one in found_in(scores, attribution=shares)] == [1, 0, 0], "another channel leads"


def test_an_event_that_a_broken_sensor_explains_is_not_listed():
    scores, explained = np.zeros(40), np.zeros(40, dtype=bool)
    scores[5:15] = scores[25:35] = 5
    explained[0:12] = explained[25:29] = True
    assert [one.rows for one in found_in(scores, explained=explained)] == [(25, 35)]


@pytest.fixture
def _short_regimes(monkeypatch):
    monkeypatch.setattr(events, "REGIME_ROWS", 40)
    monkeypatch.setattr(events, "CHECK_EVERY", 10)


@pytest.mark.usefixtures("_short_regimes")
def test_what_lasts_is_a_regime_in_which_only_what_is_new_counts():
    scores = np.zeros(300)
    scores[50:250] = 5
    scores[150:160] = 30
    regime, inside = sorted(found_in(scores, merge_gap=3), key=lambda one: one.first)
    assert (regime.kind, regime.rows) == ("regime", (50, 250))
    assert 90 <= regime.recognised < 110
    assert (inside.kind, inside.peak) == ("anomaly", 150)


@given(
    rows=st.lists(st.tuples(heights, heights, heights, st.booleans(), st.booleans()), min_size=1, max_size=80),
    bounds=st.lists(st.integers(0, 80), max_size=6),
    merge_gap=st.integers(0, 4),
    lasting=st.booleans(),
)
def test_rows_pushed_in_any_parts_give_the_same_events(rows, bounds, merge_gap, lasting):
    scores, local, unadapted, muted, explained = (np.array(column) for column in zip(*rows, strict=True))
    if lasting:  # long enough for a regime
        scores, unadapted = scores + 3, unadapted + 3
    settings = {
        "local": local,
        "unadapted": np.maximum(scores, unadapted),
        "attribution": np.column_stack([local, scores]),
        "muted": muted & ~explained,
        "explained": explained & muted,
        "merge_gap": merge_gap,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "REGIME_ROWS", 20)
        patch.setattr(events, "CHECK_EVERY", 5)
        whole, parts = found_in(scores, **settings), found_in(scores, **settings, bounds=bounds)
    assert len(whole) == len(parts)
    for one, other in zip(whole, parts, strict=True):
        for field in fields(Finding):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))

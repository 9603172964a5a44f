"""Rows like those that were judged: what is alike, and marks that are the same however rows are pushed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import waves

from patchad import InputError
from patchad.alarms import feedback
from patchad.alarms.feedback import FeedbackStage, Judgement, Marks, Strangeness, cut_patterns
from patchad.alarms.likeness import Likeness
from patchad.data.series import Series

CHANNELS = 3
LIKENESS = Likeness.fit([Series(waves(1500), tuple("abc"))], [[slice(1200, 1500)]], window=30)


def judged(values: np.ndarray, start: int, stop: int, *, accepted: bool = True, **limits) -> Judgement:
    """Judge rows of a series, with nobody to blame."""
    rows = np.zeros(len(values), dtype=bool)
    rows[start:stop] = True
    lead = np.full(len(values), -1)
    never = {"freeze": 0.0, "silence": 0.0, "low": 9e99, "high": -9e99} | limits
    return Judgement(
        accepted=accepted,
        rows=stop - start,
        since=f"row {start}",
        until=f"row {stop - 1}",
        digest="",
        patterns=cut_patterns(LIKENESS.scaled(values), lead, rows, [], LIKENESS),
        **{name: np.full(CHANNELS, value) for name, value in never.items()},
    )


def shifted(start: int, stop: int, channel: int = 1, by: float = 1.2, *, rows: int = 600, seed: int = 1) -> np.ndarray:
    values = waves(rows, seed=seed)
    values[start:stop, channel] += by
    return values


def strange(active: np.ndarray, lead: int = -1) -> Strangeness:
    return Strangeness(active, np.full(len(active), lead))


def marks(values: np.ndarray, judgements, active: np.ndarray | None = None, lead: int = -1, bounds=()) -> Marks:
    active = np.ones(len(values), dtype=bool) if active is None else active
    stage = FeedbackStage(LIKENESS, judgements, before=29, after=29)
    said = strange(active, lead)
    edges = [0, *bounds, len(values)]
    parts = [stage.push(values[a:b], said[slice(a, b)]) for a, b in pairwise(edges)]
    return Marks.join([*parts, stage.flush()])


ACCEPTED = judged(shifted(200, 400), 200, 400)


def test_rows_like_accepted_ones_are_accepted_with_other_noise_and_for_longer():
    assert marks(shifted(200, 400), [ACCEPTED]).accepted[200:400].all()
    assert marks(shifted(123, 523, seed=5), [ACCEPTED]).accepted[123:523].mean() > 0.95


def test_other_shifts_are_not():
    for other in (shifted(200, 400, by=-1.2), shifted(200, 400, channel=0), shifted(200, 400, by=3.0)):
        assert marks(other, [ACCEPTED]).accepted[210:390].mean() < 0.05


def test_a_second_channel_that_deviates_is_no_longer_alike():
    both = shifted(200, 400)
    both[300:320, 2] += 1.5
    found = marks(both, [ACCEPTED]).accepted
    assert found[210:280].all()
    assert not found[306:314].any()


def test_nothing_is_accepted_that_is_not_strange():
    quiet = np.zeros(600, dtype=bool)
    assert not marks(shifted(200, 400), [ACCEPTED], quiet).accepted.any()


def test_rows_like_train_are_accepted_as_far_as_scores_smear():
    found = marks(shifted(200, 400), [ACCEPTED]).accepted
    assert found[200 - 29 : 400 + 29].all()
    assert not found[: 200 - 40].any()
    assert not found[400 + 40 :].any()


def test_a_channel_that_leads_without_being_strange_in_the_pattern_is_news():
    rows = shifted(123, 523, seed=5)
    rows[:, 0] = np.roll(rows[:, 0], 9)  # like train, but at another place than in what was accepted
    assert marks(rows, [ACCEPTED], lead=1).accepted[130:510].mean() > 0.9
    assert marks(rows, [ACCEPTED], lead=0).accepted[130:510].mean() < 0.1


def test_confirmed_rows_are_marked_whatever_they_score_and_are_never_accepted():
    confirmed = judged(shifted(200, 400), 200, 400, accepted=False)
    quiet = np.zeros(600, dtype=bool)
    assert marks(shifted(200, 400), [confirmed], quiet).confirmed[200:400].all()
    found = marks(shifted(200, 400), [ACCEPTED, confirmed])
    assert found.confirmed[200:400].all()
    assert not found.accepted[200:400].any()
    assert not found.confirmed[:190].any()


def test_a_short_stretch_is_known_by_what_surrounds_it():
    spike = judged(shifted(300, 302), 300, 302)
    (pattern,) = spike.patterns
    assert (len(pattern), pattern.first, pattern.stop) == (16, 7, 9)
    assert marks(shifted(300, 302), [spike]).accepted[300:302].all()
    assert not marks(shifted(300, 302, by=3.0), [spike]).accepted[300:302].any()


def test_a_channel_that_may_rest_says_nothing_while_it_does():
    rows = waves(600, seed=3)
    rows[200:300, 1] = rows[200, 1]
    limits = {"freeze": np.array([0.0, 100.0, 0.0])}
    rest = judged(waves(600), 0, 1, **limits)
    rest = Judgement(**{name: getattr(rest, name) for name in rest.__slots__} | {"patterns": ()})
    assert marks(rows, [rest]).accepted[200:300].all()
    rows[240:260, 2] += 1.5
    assert not marks(rows, [rest]).accepted[246:254].any()
    rows[200:300, 1] = -9.0
    assert not marks(rows, [rest]).accepted[200:300].any(), "a value that train never had is news"


@settings(max_examples=10)
@given(st.lists(st.integers(1, 599), max_size=8, unique=True), st.integers(0, 3))
def test_rows_pushed_in_any_parts_have_the_same_marks(bounds, seed):
    rows = shifted(123, 323, seed=seed)
    rows[400:450, 2] = rows[400, 2]
    confirmed = judged(shifted(30, 60, channel=0), 30, 60, accepted=False)
    active = np.random.default_rng(seed).random(600) < 0.7
    judgements = [ACCEPTED, confirmed, judged(shifted(300, 302), 300, 302, freeze=100.0)]
    whole = marks(rows, judgements, active)
    parts = marks(rows, judgements, active, bounds=sorted(bounds))
    np.testing.assert_array_equal(parts.accepted, whole.accepted)
    np.testing.assert_array_equal(parts.confirmed, whole.confirmed)


def test_row_by_row_is_the_same_too():
    rows = shifted(123, 323, seed=2)
    whole, parts = marks(rows, [ACCEPTED]), marks(rows, [ACCEPTED], bounds=range(1, 600))
    np.testing.assert_array_equal(parts.accepted, whole.accepted)


def test_without_feedback_nothing_waits():
    stage = FeedbackStage(LIKENESS, [], before=29, after=29)
    assert len(stage.push(waves(10), strange(np.ones(10, dtype=bool)))) == 10
    assert len(stage.flush()) == 0


def test_few_patterns_cover_many_rows_and_too_many_are_refused(monkeypatch):
    assert len(judged(shifted(100, 500), 100, 500).patterns) < 30
    monkeypatch.setattr(feedback, "MAX_PATTERNS", 1)
    with pytest.raises(InputError, match="judge fewer rows, or fit a new model"):
        judged(shifted(100, 500), 100, 500)


def test_what_is_like_train_is_told_in_a_few_rows_too():
    scaled = LIKENESS.scaled(waves(600, seed=8))
    assert LIKENESS.normal(scaled).mean() > 0.98
    assert LIKENESS.normal(scaled[:5]).all()
    assert not LIKENESS.normal(scaled[:5] + 50.0).any()


@pytest.mark.parametrize("held_out", [[], [slice(0, 64)]])
def test_a_train_without_held_out_rows_is_compared_with_its_other_half(held_out):
    rows = Series(waves(64), tuple("abc"))
    like = Likeness.fit([rows], [held_out], window=30)
    assert (like.radius > 0).all()
    assert like.window <= 32

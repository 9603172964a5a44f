from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.data.stages import Chain, Immediate, Map, Scored, TrailingMean, trailing_mean

cuts = st.lists(st.integers(0, 60), max_size=8)


def in_parts(stage, scored: Scored, bounds: list[int]) -> Scored:
    """Push rows cut at these bounds, then flush."""
    marks = [0, *sorted(min(bound, len(scored)) for bound in bounds), len(scored)]
    parts = [stage.push(copy.deepcopy(scored[slice(a, b)])) for a, b in pairwise(marks)]
    return Scored.join([*parts, stage.flush()])


class HoldBack:
    """A stage that holds the last row back until the next comes."""

    def __init__(self) -> None:
        self._held = Scored(np.empty(0))

    def push(self, rows: Scored) -> Scored:
        both = Scored.join([self._held, rows])
        self._held = Scored(both.scores[-1:])
        return Scored(both.scores[:-1])

    def flush(self) -> Scored:
        return self._held


class Plain(Immediate):
    """A first stage: the first channel is the score."""

    def push(self, rows: np.ndarray) -> Scored:
        return Scored(rows[:, 0])


@given(st.integers(0, 50), st.integers(1, 40), cuts, st.booleans())
def test_the_mean_of_rows_pushed_in_any_parts_is_that_of_all(length, rows, bounds, explain):
    random = np.random.default_rng(length)
    attribution = random.random((length, 2)).astype(np.float32) if explain else None
    whole = Scored(random.random(length), attribution, random.random(length), random.random(length))
    found = in_parts(TrailingMean(rows), whole, bounds)
    np.testing.assert_array_equal(found.scores, trailing_mean(whole.scores, rows))
    np.testing.assert_array_equal(found.local, whole.local)
    np.testing.assert_array_equal(found.unadapted, trailing_mean(whole.unadapted, rows))
    if attribution is None:
        assert found.attribution is None
    else:
        expected = np.column_stack([trailing_mean(column, rows) for column in attribution.T])
        np.testing.assert_allclose(found.attribution, expected.reshape(length, 2), rtol=1e-6)


@given(st.integers(1, 30), st.integers(1, 40))
def test_trailing_mean_looks_back_only(length, rows):
    values = np.random.default_rng(length).random(length)
    expected = [values[max(0, i - rows + 1) : i + 1].mean() for i in range(length)]
    np.testing.assert_allclose(trailing_mean(values, rows), expected)


def test_a_huge_value_leaves_no_trace_in_later_means():
    values = np.array([1e300, 1.0, 2.0, 3.0])
    assert trailing_mean(values, 2).tolist()[2:] == [1.5, 2.5]


@given(st.integers(1, 30), cuts)
def test_a_chain_passes_on_what_each_stage_held_back(length, bounds):
    chain = Chain(Plain(), HoldBack(), Map(np.negative), HoldBack(), TrailingMean(1))
    rows = np.arange(float(length))[:, None]
    marks = [0, *sorted(min(bound, length) for bound in bounds), length]
    parts = [chain.push(rows[a:b]) for a, b in pairwise(marks)]
    assert sum(map(len, parts)) == max(length - 2, 0)
    assert Scored.join([*parts, chain.flush()]).scores.tolist() == (-rows[:, 0]).tolist()


@pytest.mark.parametrize("parts", [[3], [0, 2, 0, 1], [0], [0, 0]])
def test_joined_parts_are_those_that_hold_rows(parts):
    made = [Scored(np.full(count, float(count)), np.ones((count, 2))) for count in parts]
    joined = Scored.join(made)
    assert len(joined) == sum(parts)
    assert joined.scores.tolist() == [float(count) for count in parts for _ in range(count)]
    assert joined.attribution is not None
    assert joined.attribution.shape == (sum(parts), 2)

"""Streams that go on with another model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.conftest import small, waves

from patchad import StreamPool, make
from patchad.errors import InputError


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    found = waves(600, seed=3)
    found[200:240, 1] += 4
    found[450:490, 1] += 4
    return found


@pytest.mark.parametrize("name", ["patchad", "moving_zscore"])
def test_what_is_accepted_is_in_force_at_once_and_every_row_has_one_verdict(name, train, fitted, rows):
    detector = fitted if name == "patchad" else make(name).fit(train)
    pool = StreamPool(detector)
    first = list(pool.push_many({"a": rows[:300]})["a"])
    wiser = copy.copy(detector).accept(rows[:300], start=190, stop=260)
    moved, made = pool.moved(wiser)
    rest = [*moved.push_many({"a": rows[300:400]})["a"]]
    wisest, more = moved.moved(copy.copy(wiser).accept(rows[:300], start=100, stop=130))
    rest += [*more["a"], *wisest.push_many({"a": rows[400:]})["a"], *wisest.flush("a")]
    told = first + list(made["a"]) + rest
    assert [verdict.index for verdict in told] == list(range(600))
    batch = detector.detect(rows)
    np.testing.assert_allclose([verdict.score for verdict in told], batch.scores, rtol=1e-4, atol=1e-4)
    assert [abs(event.start - start) < 20 for event, start in zip(batch.events, (200, 450), strict=True)] == [
        True,
        True,
    ]
    assert [event.id for event in wisest.events["a"]] == [batch.events[0].id]
    # the first pool is as it was, and goes on without what was accepted
    pool.push_many({"a": rows[300:]})
    pool.flush("a")
    assert [event.id for event in pool.events["a"]] == [event.id for event in batch.events]


def test_a_model_of_another_shape_is_refused(train, fitted, rows):
    pool = StreamPool(fitted)
    for other in (make("moving_zscore").fit(train), small(hop=7, max_steps=2).fit(train)):
        with pytest.raises(InputError, match="cannot go on"):
            pool.moved(other)
    again, made = pool.moved(small(layers=2, max_steps=2).fit(train))
    assert (len(again), made) == (0, {})

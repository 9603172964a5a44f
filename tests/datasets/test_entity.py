"""Entities: accepted and refused input, joining, thinning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.datasets import Entity, join
from patchad.errors import InputError

FLAT = np.zeros((3, 2))


def test_values_become_float32_and_labels_bool() -> None:
    entity = Entity("a", FLAT, FLAT, np.array([0, 1, 0], dtype="uint8"))
    assert (entity.train.dtype, entity.test.dtype, entity.labels.dtype) == (np.float32, np.float32, np.bool_)


def test_all_normal_labels_are_allowed() -> None:
    assert not Entity("a", FLAT, FLAT, np.zeros(3, dtype=bool)).labels.any()


@pytest.mark.parametrize(
    ("train", "test", "labels", "message"),
    [
        (np.zeros(3), FLAT, [0, 0, 0], r"train must have shape \(time, channel\)"),
        (np.zeros((0, 2)), FLAT, [0, 0, 0], r"got \(0, 2\)"),
        (FLAT, np.zeros((3, 1)), [0, 0, 0], "train has 2 channels and test has 1"),
        (FLAT, FLAT, [0, 0], "2 labels for 3 test rows"),
        (FLAT, FLAT, [[0], [0], [0]], r"labels must have shape \(time,\)"),
        (FLAT, FLAT, [0, 1, 2], "labels must be 0 or 1"),
        (FLAT, FLAT, [0, 1, np.nan], "labels must be 0 or 1"),
        (FLAT, FLAT, ["0", "1", "0"], "labels must be 0 or 1"),
        (np.full((3, 2), np.nan), FLAT, [0, 0, 0], "6 values that are missing or infinite"),
        (np.full((3, 2), np.inf), FLAT, [0, 0, 0], "missing or infinite"),
        (np.array([["a", "b"]]), FLAT, [0, 0, 0], "train must be numbers"),
    ],
)
def test_unusable_input_is_refused(train: object, test: object, labels: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Entity("pump", train, test, labels)
    assert str(caught.value).startswith("pump")


@given(lengths=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4))
def test_joining_keeps_every_row_in_order(lengths: list[tuple[int, int]]) -> None:
    parts = [
        Entity(str(i), np.full((train, 2), i), np.full((test, 2), i), np.arange(test) % 2)
        for i, (train, test) in enumerate(lengths)
    ]
    whole = join(parts, "all")
    assert whole.name == "all"
    np.testing.assert_array_equal(whole.train, np.concatenate([part.train for part in parts]))
    np.testing.assert_array_equal(whole.test, np.concatenate([part.test for part in parts]))
    np.testing.assert_array_equal(whole.labels, np.concatenate([part.labels for part in parts]))


def test_joining_refuses_different_widths() -> None:
    parts = [Entity("a", FLAT, FLAT, [0, 0, 0]), Entity("b", FLAT[:, :1], FLAT[:, :1], [0, 0, 0])]
    with pytest.raises(InputError, match=r"\[1, 2\] channels cannot be joined"):
        join(parts, "all")


def test_thinning_rounds_up() -> None:
    thin = Entity("a", np.zeros((11, 1)), np.arange(6)[:, None], [0, 0, 0, 0, 0, 1]).thinned(5)
    assert (len(thin.train), thin.test.ravel().tolist(), thin.labels.tolist()) == (3, [0.0, 5.0], [False, True])

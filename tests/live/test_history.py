"""Rows and verdicts as they are packed, and how long they are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from patchad.errors import InputError
from patchad.live import history
from patchad.live.history import Retention, Rows
from patchad.live.store import Step, Store


def some(first: int, count: int, **more) -> Rows:
    numbers = range(first, first + count)
    return Rows.of(
        first, [float(i) for i in numbers], [{"a": i / 10, "b": None} | more for i in numbers], ("a", "b", *more)
    )


def test_packed_rows_are_the_same_again():
    rows = Rows.of(5, ["2026-01-01", None, 3.5], [{"a": 0.1, "s": "on"}, {"a": None}, {"s": "off", "z": 1}], ("a", "s"))
    again = Rows.unpacked(rows.packed())
    assert list(again) == list(rows) == [{"a": 0.1, "s": "on"}, {"a": None, "s": None}, {"a": None, "s": "off"}]
    assert (again.index.tolist(), list(again.times)) == ([5, 6, 7], ["2026-01-01", None, 3.5])
    np.testing.assert_array_equal(again.at, rows.at)


@given(
    arrays(np.float64, array_shapes(min_dims=1, max_dims=1, max_side=20)),
    st.integers(0, 8) | st.none(),
)
def test_numbers_are_the_same_to_the_last_bit(values, digits):
    with np.errstate(over="ignore", invalid="ignore"):
        values = values if digits is None else np.round(values, digits)
    rows = Rows(np.arange(len(values)), [0.0] * len(values), np.zeros(len(values)), {"a": values})
    again = Rows.unpacked(rows.packed()).numbers["a"]
    np.testing.assert_array_equal(again, values)
    np.testing.assert_array_equal(np.signbit(again[~np.isnan(again)]), np.signbit(values[~np.isnan(values)]))


def test_parts_with_other_columns_are_joined():
    parts = [some(0, 2), some(2, 1, s="on"), Rows.of(3, [3.0], [{"s": None, "a": 1.0}], ("a", "s"))]
    joined = Rows.joined(parts)
    assert joined.texts == {"s": [None, None, "on", None]}
    np.testing.assert_array_equal(joined.numbers["b"], [np.nan] * 4)
    assert Rows.joined([Rows.of(0, [0], [{"s": 2.0}], ["s"]), some(1, 1, s="on")]).texts["s"] == ["2", "on"]


def test_rows_that_come_one_by_one_are_packed_and_cost_little(monkeypatch):
    monkeypatch.setattr(history, "FULL", 100)
    with Store() as store:
        rng = np.random.default_rng(0)
        for number in range(400):
            values = {f"c{i}": round(float(v), 3) for i, v in enumerate(rng.normal(size=10))}
            store.commit(Step(rows={None: Rows.of(number, [number], [values], list(values))}))
        ((chunks, size),) = store._run("SELECT count(*), sum(length(data)) FROM history")
        assert chunks < 80
        assert store.rows(None).index.tolist() == list(range(400))
        assert store._kept._size == size
        ((packed, rows),) = store._run("SELECT sum(length(data)), sum(count) FROM history WHERE count >= 100")
        assert packed / rows < 3 * 10  # bytes; the bare numbers have 8 each


def test_a_hole_is_not_packed_over(monkeypatch):
    monkeypatch.setattr(history, "LOOSE", 3)
    with Store() as store:
        for first in (0, 2, 10):
            store.commit(Step(rows={None: some(first, 2)}))
        assert store._run("SELECT first, count FROM history ORDER BY first") == [(0, 4), (10, 2)]


def test_old_rows_go_and_so_do_too_many(monkeypatch):
    now = [1e9]
    monkeypatch.setattr(history.clock, "time", lambda: now[0])
    with Store(retention=Retention(days=2, megabytes=1)) as store:
        for day in range(4):
            now[0] += 86_400
            store.commit(Step(rows={"a": some(10 * day, 10)}))
        assert store.rows("a").index[0] == 10
        kept, *_ = store.rows("a").at
        assert [store.holds("a", at) for at in (kept, kept + 0.5, kept - 1)] == [True, False, None]
        ((size,),) = store._run("SELECT sum(length(data)) FROM history")
        store.keep(Retention(days=2, megabytes=1.5 * size / 3 / 2**20))
        store.commit(Step(rows={"b": some(0, 10)}))
        assert len(store.rows("a")) + len(store.rows("b")) <= 20
        store.commit(Step())
        assert store._kept._size == store._run("SELECT coalesce(sum(length(data)), 0) FROM history")[0][0]


@pytest.mark.parametrize("wrong", [{"days": 0}, {"megabytes": -1}, {"days": "many"}, {"days": True}])
def test_a_retention_that_makes_no_sense(wrong):
    with pytest.raises(InputError, match="a number over 0"):
        Retention(**wrong)

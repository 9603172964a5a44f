"""A pool gives the verdicts of single streams, and scores their windows together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import small, waves

from patchad import InputError, StreamPool, make
from patchad.data.windows import Asked
from patchad.streaming.plan import Plan


@pytest.fixture(scope="module")
def detector():
    return small(max_steps=15, window=20, patch_sizes=(2, 5)).fit(waves(1200))


def plain(verdicts) -> list[tuple[int, float, float, bool]]:
    return [(one.index, round(one.score, 3), round(one.level, 3), one.alarm) for one in verdicts]


def rows_of(key: int, length: int = 120) -> np.ndarray:
    rows = waves(length, seed=key)
    rows[60 : 60 + key % 7, key % 3] += 4.0
    rows[90:93, 0] = np.nan
    return rows


@settings(max_examples=10)
@given(st.integers(1, 12), st.lists(st.integers(1, 119), max_size=4), st.booleans())
def test_a_pool_equals_single_streams(detector, streams, cuts, restored):
    data = {key: rows_of(key) for key in range(streams)}
    pool = StreamPool(detector)
    found = {key: [] for key in data}
    for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 120], strict=True):
        for key, own in pool.push_many({key: rows[a : max(b - key % 4, a)] for key, rows in data.items()}).items():
            found[key] += own
        for key, own in pool.push_many({key: rows[max(b - key % 4, a) : b] for key, rows in data.items()}).items():
            found[key] += own
        if restored:
            pool = StreamPool.restore(detector, pool.snapshot())
    for key, rows in data.items():
        live = detector.stream()
        alone = [*live.push_many(rows), *live.flush()]
        assert plain([*found[key], *pool.flush(key)]) == plain(alone)
        assert [event.id for event in pool.events[key]] == [event.id for event in live.events]


def test_windows_of_all_streams_are_scored_together(detector, monkeypatch):
    counts = []
    scored = Plan.scored

    def count(plan: Plan, asked: Asked):
        counts.append(len(asked.block.starts))
        return scored(plan, asked)

    monkeypatch.setattr(Plan, "scored", count)
    pool = StreamPool(detector)
    pool.push_many({key: rows_of(key, 20) for key in range(50)})
    assert counts == [50]


@pytest.mark.parametrize("name", ["m2n2", "moving_zscore", "sub_pca"])
def test_models_without_windows_to_share_work_too(name):
    known = make(name).get_params(deep=False)
    few = {key: value for key, value in {"window": 12, "max_steps": 2}.items() if key in known}
    fitted = make(name, **few).fit(waves(300))
    pool, live = StreamPool(fitted), fitted.stream()
    rows = waves(80, seed=1)
    found = [*pool.push_many({"a": rows[:50], "b": rows[:30]})["a"]]
    found += [verdict for row in rows[50:] for verdict in pool.push("a", row)]
    assert plain([*found, *pool.flush("a")]) == plain([*live.push_many(rows), *live.flush()])


def test_a_stream_that_is_refused_does_not_hold_up_the_others(detector):
    pool = StreamPool(detector)
    with pytest.raises(InputError, match=r"stream 'b': time goes back.*, and 1 more streams were refused; the rows"):
        pool.push_many(
            {"a": waves(30), "b": waves(30), "c": waves(30, channels=2)},
            {"a": np.arange(30.0), "b": np.arange(30.0)[::-1]},
        )
    assert pool.flush("a")[-1].index == 29
    assert pool.flush("b") == pool.flush("c") == ()


def test_one_row_of_one_stream(detector):
    pool = StreamPool(detector)
    assert pool.push("a", [0.0, 0.0, 0.0], 1.0) == ()
    with pytest.raises(InputError, match="time repeats"):
        pool.push("a", [0.0, 0.0, 0.0], 1.0)
    assert (len(pool), list(pool)) == (1, ["a"])
    assert pool.outlook("a").index == 0
    assert pool.changes("a") == ()
    pool.drop("a")
    for ask in (pool.flush, pool.outlook, pool.changes):
        with pytest.raises(InputError, match="there is no stream 'a'"):
            ask("a")


def test_a_snapshot_of_another_model_is_refused(detector):
    pool = StreamPool(make("sensor_range").fit(waves(100)))
    with pytest.raises(InputError, match="another model"):
        StreamPool.restore(detector, pool.snapshot())

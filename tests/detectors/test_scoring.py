"""Scores of PatchAD do not depend on how rows arrive, on where a series ends, or on rows before the context."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import waves

from patchad import PatchAD
from patchad.data.series import prepare
from patchad.data.stages import Scored

folds = st.sampled_from(["newest", "mean"])
hops = st.sampled_from([1, 3, 5])
cuts = st.lists(st.integers(0, 110), max_size=6)
quick = settings(max_examples=25, deadline=None)


def variant(detector: PatchAD, hop: int, fold: str, *, adapt: int = 10, **parameters) -> PatchAD:
    """Return a fitted detector with another grid of windows; it shares the net and all else that was learned."""
    other = copy.copy(detector).set_params(hop=hop, fold=fold, **parameters)
    other.hop_, other.adapt, other.rule_ = hop, adapt, replace(detector.rule_, adapt=adapt)
    return other


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare scores that were computed in batches of different sizes."""
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def odd_waves(rows: int, seed: int) -> np.ndarray:
    """Return waves with a level shift and a few missing cells."""
    values = waves(rows, seed=seed)
    values[rows // 2 :, 1] += 2
    values[40:43, 0] = np.nan
    return values


@quick
@given(hop=st.sampled_from([1, 3, 7, 30]), fold=folds, smoothing=st.integers(1, 4), bounds=cuts)
def test_rows_pushed_in_any_parts_are_scored_as_in_one(fitted, hop, fold, smoothing, bounds):
    detector = variant(fitted, hop, fold, smoothing=smoothing)
    rows = waves(110, seed=3)
    stage = detector._scorer(explain=True)
    parts = np.split(rows, sorted(bounds))
    found = Scored.join([*(stage.push(part) for part in parts), stage.flush()])
    whole = detector._score_all(prepare(rows, detector.channels_), explain=False)
    assert_same(found.scores, whole.scores)
    assert_same(found.unadapted, whole.unadapted)
    assert (found.local is None) == (whole.local is None) == (fold == "newest")
    if fold == "mean":
        assert_same(found.local, whole.local)
    shares = found.attribution / found.attribution.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, detector.explain(rows), atol=1e-5)


@pytest.mark.parametrize("fold", ["newest", "mean"])
@pytest.mark.parametrize("hop", [1, 7])
def test_rows_pushed_one_at_a_time_are_scored_as_in_one(fitted, hop, fold):
    detector = variant(fitted, hop, fold)
    rows = waves(70, seed=3)
    stage = detector._scorer(explain=False)
    parts = [stage.push(row[None]) for row in rows]
    assert_same(Scored.join([*parts, stage.flush()]).scores, detector.decision_function(rows))
    final = np.cumsum([len(part) for part in parts])
    seen = np.arange(1, len(rows) + 1)
    waited = seen[29:] - final[29:]  # from the first full window on
    assert waited.max() == detector.delay


@quick
@given(hop=hops, fold=folds, length=st.integers(30, 109), seed=st.integers(0, 5))
def test_a_series_may_end_anywhere_after_the_delay(fitted, hop, fold, length, seed):
    detector = variant(fitted, hop, fold)
    rows = odd_waves(110, seed)
    whole, short = detector.detect(rows), detector.detect(rows[:length])
    same = slice(0, length - detector.delay)
    assert_same(short.scores[same], whole.scores[same])
    np.testing.assert_allclose(short.contributions[same], whole.contributions[same], atol=1e-5)


@quick
@given(
    hop=hops,
    fold=folds,
    length=st.integers(30, 139),
    gaps=st.lists(st.tuples(st.integers(0, 139), st.integers(1, 14)), max_size=4),
)
def test_the_delay_counts_rows_that_are_kept_where_others_are_dropped(fitted, hop, fold, length, gaps):
    detector = variant(fitted, hop, fold, missing="drop")
    rows = waves(140, seed=4)
    for start, count in gaps:
        rows[start : start + count, 2] = np.nan
    if not np.isfinite(rows[:length]).all(axis=1).any():
        return
    whole, short = detector.decision_function(rows), detector.decision_function(rows[:length])
    *closed, last = prepare(rows[:length], detector.channels_, missing="drop").rows
    final = last[: len(last) - detector.delay] if len(last) >= 30 else last[:0]  # the first window waits until full
    for kept in (*closed, final):
        assert_same(short[kept], whole[kept])


@quick
@given(
    hop=hops,
    fold=folds,
    length=st.integers(60, 139),
    steps=st.lists(st.sampled_from([1, 1, 1, 1, 2, 40, 900]), min_size=139, max_size=139),
)
def test_times_after_the_delay_change_no_score(fitted, hop, fold, length, steps):
    detector = variant(fitted, hop, fold)
    index = np.cumsum([0, *steps]).astype("datetime64[m]")
    names = list(detector.channels_)
    frame = pd.DataFrame(waves(140, seed=4), index=index, columns=names)
    whole, short = (detector.decision_function(x).to_numpy() for x in (frame, frame[:length]))
    *closed, last = prepare(frame[:length].to_numpy(), detector.channels_, index[:length]).rows
    final = last[: len(last) - detector.delay] if len(last) >= 30 else last[:0]
    for rows in (*closed, final):
        assert_same(short[rows], whole[rows])


@quick
@given(
    hop=hops, fold=folds, row=st.integers(70, 139), smoothing=st.sampled_from([1, 4]), adapt=st.sampled_from([0, 1, 12])
)
def test_scores_depend_on_no_row_before_the_context(fitted, hop, fold, row, smoothing, adapt):
    detector = variant(fitted, hop, fold, adapt=adapt, smoothing=smoothing)
    rows = odd_waves(140, seed=2)
    rows[40:43] = waves(3)  # a filled value would depend on rows before the shard
    start = (row - max(detector.context, 30)) // hop * hop
    assert start > 0
    whole, shard = detector.decision_function(rows), detector.decision_function(rows[start:])
    assert_same(shard[row - start :], whole[row:])


@pytest.mark.parametrize(("smoothing", "adapt"), [(4, 0), (1, 12), (3, 9)])
def test_the_context_has_no_row_too_many(fitted, smoothing, adapt):
    detector = variant(fitted, 1, "newest", adapt=adapt, smoothing=smoothing)
    rows = odd_waves(140, seed=2)
    rows[40:43] = waves(3)
    whole = detector.decision_function(rows)
    differs = []
    for row in range(72, 100):
        start = row - detector.context + 1
        differs.append(abs(detector.decision_function(rows[start : row + 1])[-1] - whole[row]) > 1e-3)
    assert any(differs)


def test_the_delay_is_that_of_the_fit():
    detector = PatchAD(window=30, max_steps=2, d_model=4, layers=1, hop=3, fold="newest").fit(waves(200))
    assert detector.set_params(hop=9).delay == 2

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.data.stages import Scored
from patchad.data.windows import Block, WindowSampler, WindowStage, pad_left, views, window_ends
from patchad.detectors.windowed import WindowDetector

sizes = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12)).map(
    lambda x: (max(x[0], x[1]), x[1], min(x[2], x[1]))  # length >= window >= hop
)
any_sizes = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12)).map(
    lambda x: (x[0], x[1], min(x[2], x[1]))  # the series may be shorter than the window
)
cuts = st.lists(st.integers(0, 60), max_size=8)
folds = st.sampled_from(["newest", "mean"])


def score_window(window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score the steps of one window `(step, channel)`, in two columns that depend on all of its values."""
    steps = np.arange(len(window))
    whole = np.sin(window[:, 0] @ np.cos(steps + 1.0))
    return np.column_stack([whole * (1 + steps), whole + window[:, 0]]), np.abs(window) + steps[:, None]


def stage_of(window: int, hop: int, fold: str, batch: int, *, explain: bool = True) -> WindowStage:
    def score(block: Block, steps: int):
        assert len(block.starts) <= batch
        parts = [score_window(block.rows[start : start + window]) for start in block.starts]
        scores, attribution = (np.stack([part[i][-steps:] for part in parts]) for i in range(2))
        return scores, attribution if explain else None

    return WindowStage(window, hop, fold, batch, score)


def push_in_parts(stage: WindowStage, rows: np.ndarray, bounds: list[int]) -> tuple[Scored, list[int]]:
    """Push rows cut at these bounds, then flush; return the result, and how many rows were final after each push."""
    parts, final = [], []
    for part in np.split(rows, sorted(min(bound, len(rows)) for bound in bounds)):
        parts.append(stage.push(part))
        final.append(sum(map(len, parts)))
    return Scored.join([*parts, stage.flush()]), final


def slow_fold(rows: np.ndarray, window: int, hop: int, fold: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score row by row: from the windows on the grid that cover a row; one off the grid only where there is none.

    Return the mean scores, the mean attribution, and the least scores.
    """
    length, ends = len(rows), range(window, len(rows) + 1, hop)
    scores, attribution, least = [], [], []
    for row in range(length):
        covering = [end for end in ends if end - window <= row < end]
        if covering:
            chosen = covering[:1] if fold == "newest" else covering
            found = [(score_window(rows[end - window : end]), row - end) for end in chosen]
        else:
            found = [(score_window(pad_left(rows, window)[-window:]), row - length)]
        scores.append(np.mean([parts[0][step] for parts, step in found], axis=0))
        attribution.append(np.mean([parts[1][step] for parts, step in found], axis=0))
        least.append(np.min([parts[0][step] for parts, step in found], axis=0))
    return np.array(scores), np.array(attribution), np.array(least)


def numbered(length: int) -> np.ndarray:
    """Return rows whose first channel is their number: no two windows are alike."""
    return np.column_stack([np.arange(length), np.arange(length) % 7]).astype(float)


@given(any_sizes, folds, st.integers(1, 5), cuts)
def test_rows_pushed_in_any_parts_are_scored_as_row_by_row(size, fold, batch, bounds):
    length, window, hop = size
    rows = numbered(length)
    found, _ = push_in_parts(stage_of(window, hop, fold, batch), rows, bounds)
    scores, attribution, least = slow_fold(rows, window, hop, fold)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.attribution, attribution, rtol=1e-6)
    if fold == "mean":
        np.testing.assert_allclose(found.local, least, rtol=1e-9, atol=1e-9)
    else:
        assert found.local is None


@given(any_sizes, folds, st.integers(1, 5), cuts)
def test_the_parts_in_which_rows_are_pushed_change_no_bit(size, fold, batch, bounds):
    length, window, hop = size
    rows = numbered(length)
    whole, _ = push_in_parts(stage_of(window, hop, fold, 1000), rows, [])
    parts, _ = push_in_parts(stage_of(window, hop, fold, batch), rows, bounds)
    np.testing.assert_array_equal(parts.scores, whole.scores)
    np.testing.assert_array_equal(parts.attribution, whole.attribution)


@given(any_sizes, folds)
def test_a_row_is_final_once_no_later_window_scores_it(size, fold):
    length, window, hop = size
    _, final = push_in_parts(stage_of(window, hop, fold, 3), numbered(length), list(range(1, length)))
    for seen, count in enumerate(final, start=1):
        ends = list(range(window, seen + 1, hop))
        if fold == "newest" or not ends:
            assert count == (ends[-1] if ends else 0)
        else:
            assert count == ends[-1] + hop - window


@given(sizes, folds, st.integers(1, 30))
def test_where_a_segment_ends_changes_no_score_of_a_row_that_a_window_on_the_grid_covers(size, fold, more):
    length, window, hop = size
    rows = numbered(length + more)
    short, _ = push_in_parts(stage_of(window, hop, fold, 4), rows[:length], [])
    whole, _ = push_in_parts(stage_of(window, hop, fold, 4), rows, [])
    last = length - (length - window) % hop  # where the last window on the grid ends
    same = last if fold == "newest" else max(last + hop - window, 0)
    np.testing.assert_array_equal(short.scores[:same], whole.scores[:same])


@pytest.mark.parametrize("fold", ["newest", "mean"])
def test_the_window_off_the_grid_scores_only_what_no_other_covers(fold):
    rows = numbered(14)  # windows end at 5, 9, 13, and one off the grid at 14
    found, _ = push_in_parts(stage_of(5, 4, fold, 8), rows, [])
    np.testing.assert_array_equal(found.scores[13], score_window(rows[9:14])[0][4])
    np.testing.assert_array_equal(found.scores[12], score_window(rows[8:13])[0][4])


@pytest.mark.parametrize("fold", ["newest", "mean"])
def test_a_segment_shorter_than_the_window_is_padded_with_its_first_row(fold):
    rows = numbered(3) + 1
    found, _ = push_in_parts(stage_of(5, 2, fold, 8), rows, [1, 2])
    np.testing.assert_array_equal(found.scores, score_window(rows[[0, 0, 0, 1, 2]])[0][-3:])


@pytest.mark.parametrize("fold", ["newest", "mean"])
def test_without_attribution_there_is_none(fold):
    stage = stage_of(4, 3, fold, 2, explain=False)
    found, _ = push_in_parts(stage, numbered(12), [5])
    assert found.attribution is None
    assert len(found) == 12


def test_without_rows_nothing_is_scored():
    stage = stage_of(4, 3, "mean", 2)
    assert len(stage.flush()) == 0
    assert len(stage.push(np.empty((0, 2)))) == 0
    assert len(stage.flush()) == 0


@given(sizes)
def test_every_row_is_scored_by_a_window_that_ends_at_most_hop_rows_later(size):
    length, window, hop = size
    ends = window_ends(length, window, hop)
    assert ends[-1] == length
    for row in range(window, length):
        assert 0 < ends[ends > row].min() - row <= hop


def test_tiling_when_the_hop_is_the_window():
    assert window_ends(20, window=5, hop=5).tolist() == [5, 10, 15, 20]


def test_windows_are_views():
    values = np.arange(20.0).reshape(10, 2)
    found = views(values, 4)
    assert found.shape == (7, 4, 2)
    assert np.shares_memory(found, values)


def test_the_sampler_never_crosses_from_one_series_to_the_next():
    one, other = np.zeros((10, 1)), np.ones((7, 1))
    sampler = WindowSampler([one, np.zeros((2, 1)), other], window=4, stride=1)
    assert len(sampler) == 7 + 4
    windows = sampler[np.arange(11)]
    assert {float(w.min()) == float(w.max()) for w in windows} == {True}
    assert windows[:7].max() == 0
    assert windows[7:].min() == 1


@pytest.mark.parametrize("stride", [1, 3, 5])
def test_the_sampler_starts_a_window_every_stride_rows(stride):
    values = np.arange(20.0)[:, None]
    sampler = WindowSampler([values], window=4, stride=stride)
    assert sampler[np.arange(len(sampler))][:, 0, 0].tolist() == list(range(0, 17, stride))


def test_padding_repeats_the_first_row():
    values = np.array([[3.0, 1.0], [4.0, 1.0]])
    assert pad_left(values, 4).tolist() == [[3, 1], [3, 1], [3, 1], [4, 1]]
    assert pad_left(values, 2) is values


@dataclass(kw_only=True, eq=False, repr=False)
class NewestValue(WindowDetector):
    """Score windows by their newest value, without attribution."""

    def _learn(self, known, held_out):
        pass

    def _judge(self, windows, steps, *, explain):
        return windows[:, -1, :1].astype(np.float64), None


@pytest.mark.parametrize("fold", ["newest", "mean"])
def test_a_detector_without_attribution_gives_no_shares(fold):
    detector = NewestValue(window=5, fold=fold).fit(np.arange(80.0).reshape(40, 2))
    np.testing.assert_array_equal(detector.explain(np.arange(40.0).reshape(20, 2)), np.zeros((20, 2)))

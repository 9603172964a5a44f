from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.data.windows import Folder, WindowSampler, blocks, pad_left, trailing_mean, views, window_ends
from patchad.detectors.windowed import WindowDetector

sizes = st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12)).map(
    lambda x: (max(x[0], x[1]), x[1], min(x[2], x[1]))  # length >= window >= hop
)


def slow_fold(length: int, window: int, hop: int, fold: str, said: np.ndarray) -> np.ndarray:
    """Fold window by window, row by row; `said[e, i]` is what the window that ends at row e says of its point i."""
    ends = list(range(window, length + 1, hop))
    if ends[-1] != length:
        ends.append(length)
    values: list[list[float]] = [[] for _ in range(length)]
    for end in ends:
        for i in range(window):
            values[end - window + i].append(said[end, i])
    return np.array([v[0] if fold == "newest" else np.mean(v) for v in values])


@given(sizes, st.sampled_from(["newest", "mean"]), st.integers(1, 5))
def test_folding_in_blocks_equals_folding_row_by_row(size, fold, batch):
    length, window, hop = size
    said = np.random.default_rng(0).random((length + 1, window))
    folder = Folder(length, 1, fold)
    for block in blocks(length, window, hop, batch):
        ends = block.rows.start + block.starts + window
        steps = window if fold == "mean" else int(block.fresh.max())
        folder.add(block, said[ends][:, window - steps :, None])
    np.testing.assert_allclose(folder.result()[:, 0], slow_fold(length, window, hop, fold, said))


@pytest.mark.parametrize("fold", ["newest", "mean"])
def test_where_no_window_spoke_there_is_nothing(fold):
    assert Folder(4, 2, fold).result().tolist() == [[0.0, 0.0]] * 4


@given(sizes)
def test_every_row_is_scored_by_a_window_that_ends_at_most_hop_rows_later(size):
    length, window, hop = size
    ends = window_ends(length, window, hop)
    assert ends[-1] == length
    for row in range(window, length):
        assert 0 < ends[ends > row].min() - row <= hop


def test_what_no_window_spoke_of_is_zero():
    for fold in ("newest", "mean"):
        assert Folder(length=3, width=2, fold=fold).result().tolist() == [[0.0, 0.0]] * 3


def test_tiling_when_the_hop_is_the_window():
    assert window_ends(20, window=5, hop=5).tolist() == [5, 10, 15, 20]


@given(st.integers(1, 30), st.integers(1, 40))
def test_trailing_mean_looks_back_only(length, rows):
    values = np.random.default_rng(length).random(length)
    expected = [values[max(0, i - rows + 1) : i + 1].mean() for i in range(length)]
    np.testing.assert_allclose(trailing_mean(values, rows), expected)


def test_a_huge_value_leaves_no_trace_in_later_means():
    values = np.array([1e300, 1.0, 2.0, 3.0])
    assert trailing_mean(values, 2).tolist()[2:] == [1.5, 2.5]


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
class Blameless(WindowDetector):
    """Scores windows by their newest value and blames no channel."""

    def _learn(self, known, unseen):
        pass

    def _judge(self, windows, steps, *, explain):
        return windows[:, -1, :1].astype(np.float64), None


@pytest.mark.parametrize("fold", ["newest", "mean"])
def test_a_detector_that_blames_no_channel_gives_no_shares(fold):
    detector = Blameless(window=5, fold=fold).fit(np.arange(80.0).reshape(40, 2))
    np.testing.assert_array_equal(detector.explain(np.arange(40.0).reshape(20, 2)), np.zeros((20, 2)))

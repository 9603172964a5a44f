"""Series to windows and back: windows are views, and one rule says which window scores which row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray

Fold = Literal["newest", "mean"]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive windows of one series, to be scored together."""

    rows: slice
    """The rows of the series that the windows cover."""
    starts: NDArray[np.intp]
    """(window,), first row of every window, counted from `rows.start`."""
    fresh: NDArray[np.intp]
    """(window,), how many of its newest points each window is the first to cover."""


def pad_left(values: FloatArray, window: int) -> FloatArray:
    """Repeat the first row on the left until there are `window` rows.

    Examples
    --------
    >>> pad_left(np.array([[1.0], [2.0]]), 4).ravel().tolist()
    [1.0, 1.0, 1.0, 2.0]
    """
    lack = window - len(values)
    return values if lack <= 0 else np.concatenate([np.repeat(values[:1], lack, axis=0), values])


def shrink_window(most: int, window: int, patch_sizes: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Give the largest window of at most `most` rows, and the patch sizes that divide it; all of them if possible.

    Examples
    --------
    >>> shrink_window(50, 105, (3, 5))
    (45, (3, 5))
    >>> shrink_window(16, 105, (5, 7))
    (15, (5,))
    """
    if most >= window:
        return window, patch_sizes
    for count in range(len(patch_sizes), 0, -1):
        multiple = math.lcm(*patch_sizes[:count])
        if multiple <= most:
            return most - most % multiple, patch_sizes[:count]
    return most, (1,)


def window_ends(length: int, window: int, hop: int) -> NDArray[np.intp]:
    """Give the (exclusive) last row of every window: window, window + hop, ..., and one at the end for rows left over.

    Examples
    --------
    >>> window_ends(12, window=5, hop=3).tolist()
    [5, 8, 11, 12]
    """
    ends = np.arange(window, length + 1, hop, dtype=np.intp)
    return ends if len(ends) and ends[-1] == length else np.append(ends, length)


def blocks(length: int, window: int, hop: int, batch: int) -> Iterator[Block]:
    """Cut a series of `length >= window` rows into blocks of at most `batch` windows."""
    ends = window_ends(length, window, hop)
    fresh = np.diff(ends, prepend=0)
    for first in range(0, len(ends), batch):
        part = ends[first : first + batch]
        start = int(part[0]) - window
        yield Block(slice(start, int(part[-1])), part - window - start, fresh[first : first + batch])


def views(values: FloatArray, window: int) -> FloatArray:
    """Give every window of a series, `(window, step, channel)`, as a view."""
    return np.lib.stride_tricks.sliding_window_view(values, window, axis=0).swapaxes(1, 2)


class Folder:
    """Collect what windows say of their points into one value per row of the series.

    `newest`: the first window that covers a row speaks for it. `mean`: all windows that cover it, equally.

    Examples
    --------
    >>> fold = Folder(length=4, width=1, fold="mean")
    >>> for block in blocks(4, window=2, hop=1, batch=2):
    ...     fold.add(block, np.ones((len(block.starts), 2, 1)))
    >>> fold.result().ravel().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, length: int, width: int, fold: Fold, dtype: type[np.floating] = np.float64) -> None:
        self.fold = fold
        self._sum = np.zeros((length, width), dtype=dtype)
        self._count = np.zeros((length, 1), dtype=np.int32) if fold == "mean" else None

    def add(self, block: Block, points: FloatArray) -> None:
        """Take in `(window, step, width)`; the steps are the newest of each window, all of them for `mean`."""
        steps = points.shape[1]
        for start, fresh, values in zip(block.starts, block.fresh, points, strict=True):
            first = block.rows.start + int(start)
            if self._count is not None:
                self._sum[first : first + steps] += values
                self._count[first : first + steps] += 1
            else:
                last = first + self._window(block)
                self._sum[last - fresh : last] = values[steps - fresh :]

    @staticmethod
    def _window(block: Block) -> int:
        return int(block.rows.stop - block.rows.start - block.starts[-1])

    def result(self) -> FloatArray:
        """Give the `(time, width)` values, zero where no window spoke; it takes in no more."""
        if self._count is not None:
            self._sum /= np.maximum(self._count, 1)  # in place: blame has as many values as the series
            self._count = None
        return self._sum


def trailing_mean(values: FloatArray, rows: int) -> FloatArray:
    """Average each `(time,)` value with the ones before it, `rows` in all, fewer at the start.

    Examples
    --------
    >>> trailing_mean(np.array([3.0, 5.0, 7.0]), 2).tolist()
    [3.0, 4.0, 6.0]
    """
    rows = min(rows, len(values))
    total = values.astype(
        np.float64
    )  # a copy; sums of shifted copies, so that a spike leaves no trace in later rounding
    for lag in range(1, rows):
        total[lag:] += values[:-lag]
    return total / np.minimum(np.arange(1, len(values) + 1), max(rows, 1))


class WindowSampler:
    """Training windows of several series, drawn without ever making an array of them all.

    Parameters
    ----------
    series
        `(time, channel)` values of each series; those shorter than the window give none.
    window, stride
        Rows of a window, and between the starts of two.
    """

    def __init__(self, series: Sequence[FloatArray], window: int, stride: int = 1) -> None:
        self.series = [values for values in series if len(values) >= window]
        self.window, self.stride = window, stride
        self._views = [views(values, window)[::stride] for values in self.series]
        self._bounds = np.cumsum([0, *(len(view) for view in self._views)])

    def __len__(self) -> int:
        return int(self._bounds[-1])

    def places(self, numbers: NDArray[np.integer]) -> NDArray[np.intp]:
        """Give the first row of each of these windows, all series being laid end to end."""
        which = np.searchsorted(self._bounds, numbers, side="right") - 1
        before = np.cumsum([0, *(len(values) for values in self.series)])
        return np.asarray(before[which] + (numbers - self._bounds[which]) * self.stride)

    def __getitem__(self, numbers: NDArray[np.integer]) -> FloatArray:
        """Copy these windows out: `(window, step, channel)`."""
        which = np.searchsorted(self._bounds, numbers, side="right") - 1
        if len(self._views) == 1:
            return np.ascontiguousarray(self._views[0][numbers])
        return np.stack([self._views[s][n - self._bounds[s]] for s, n in zip(which, numbers, strict=True)])

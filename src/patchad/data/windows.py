"""Series to windows and back: windows are views, and one rule says which window scores which row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchad.data.stages import Scored
from patchad.data.table import FloatArray

Fold = Literal["newest", "mean"]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive windows to be scored together."""

    rows: FloatArray
    """(time, channel), the rows that the windows cover."""
    starts: NDArray[np.intp]
    """(window,), first row of every window, counted from the first of `rows`."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Windows of a stage that are to be scored."""

    block: Block
    steps: int
    """Newest steps of each window that are asked for."""
    ends: NDArray[np.intp]
    """(window,), where they end in the segment."""
    until: int
    """Where the last window that was asked for at once ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """Rows that some of their windows have scored."""

    rows: Scored
    """`(time, column)`; the attribution is a sum over the windows, and not to be written to."""
    ages: NDArray[np.int32]
    """(time,), windows that have covered a row so far."""
    start: int
    """The first row, counted in the segment."""


ScoreBlock = Callable[[Block, int], tuple[FloatArray, FloatArray | None]]
"""From a block and a number of steps to the scores of the newest steps of each window, `(window, step, column)`, and
their attribution, `(window, step, channel)` or None."""


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
    """Return the largest window of at most `most` rows, and the patch sizes that divide it; all of them if possible.

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
    """Return the exclusive end of every window: window, window + hop, ..., and one at the end for rows left over.

    Examples
    --------
    >>> window_ends(12, window=5, hop=3).tolist()
    [5, 8, 11, 12]
    """
    ends = np.arange(window, length + 1, hop, dtype=np.intp)
    return ends if len(ends) and ends[-1] == length else np.append(ends, length)


def views(values: FloatArray, window: int) -> FloatArray:
    """Return every window of a series, `(window, step, channel)`, as a view."""
    return np.lib.stride_tricks.sliding_window_view(values, window, axis=0).swapaxes(1, 2)


class WindowStage:
    """Cut rows into windows, score the windows, and fold their scores back into rows.

    Windows end at rows window, window + hop, ... of the segment. Rows left over at its end are scored by one last
    window off that grid, which scores no row that a window on the grid covers: where a segment ends changes no score
    before. A segment shorter than the window is padded on the left with its first row.

    Parameters
    ----------
    window, hop
        Rows of a window, and between the ends of two.
    fold
        `newest`: the first window that covers a row scores it; `mean`: all of them, equally.
    batch
        Windows that are scored together.
    score
        Scores a block of windows.

    Examples
    --------
    >>> def number(block, steps):
    ...     return np.broadcast_to(block.starts[:, None, None], (len(block.starts), steps, 1)), None
    >>> stage = WindowStage(2, 1, "mean", 8, number)
    >>> stage.push(np.zeros((3, 1))).scores.ravel().tolist(), stage.flush().scores.ravel().tolist()
    ([0.0, 0.5], [1.0])
    """

    state = ("_tail", "_seen", "_end", "_open")

    def __init__(self, window: int, hop: int, fold: Fold, batch: int, score: ScoreBlock) -> None:
        self._window, self._hop, self._batch, self._score = window, hop, batch, score
        self._mean = fold == "mean"
        self._tail: FloatArray | None = None
        """The last rows so far, at most a window of them."""
        self._seen = 0
        """Rows so far."""
        self._end = window
        """Where the next window on the grid ends."""
        self._open: Sums | None = None
        """Rows that later windows score too."""
        self._sums: Sums | None = None
        """Sums of the windows that are being answered."""

    def push(self, rows: FloatArray) -> Scored:
        """Return the rows that no later window scores."""
        for asked in self.ask(rows):
            self.answer(asked, *self._score(asked.block, asked.steps))
        return self.collect()

    def ask(self, rows: FloatArray) -> list[Asked]:
        """Take the next rows; return the windows that became full, to be scored and answered in this order."""
        first = self._seen - (0 if self._tail is None else len(self._tail))
        rows = rows if self._tail is None else np.concatenate([self._tail, rows])
        self._seen, self._tail = first + len(rows), rows[-self._window :].copy()
        if self._end > self._seen:
            return []
        ends = np.arange(self._end, self._seen + 1, self._hop, dtype=np.intp)
        asked = []
        for chosen in np.array_split(ends, range(self._batch, len(ends), self._batch)):
            start = int(chosen[0]) - self._window
            steps = self._window if self._mean or chosen[0] == self._window else self._hop
            block = Block(rows[start - first : int(chosen[-1]) - first], chosen - self._window - start)
            asked.append(Asked(block, steps, chosen, int(ends[-1])))
        return asked

    @property
    def missing(self) -> int:
        """Rows until the next window on the grid is full."""
        return self._end - self._seen

    def answer(self, asked: Asked, scores: FloatArray, attribution: FloatArray | None) -> None:
        """Take the scores and the attribution of windows that were asked for."""
        if self._sums is None:
            channels = None if attribution is None else attribution.shape[2]
            self._sums = Sums.zero(self._first_open(), asked.until, scores.shape[2], channels)
            if self._open is not None:
                self._sums.go_on(self._open)
        for number, end in enumerate(asked.ends.tolist()):
            own = slice(0 if self._mean or end == self._window else asked.steps - self._hop, None)
            said = None if attribution is None else attribution[number, own]
            self._sums.add(end - len(scores[number, own]), scores[number, own], said)

    def collect(self) -> Scored:
        """Return the rows that became final by the windows that were answered."""
        if self._sums is None:
            return _NOTHING
        sums, self._sums = self._sums, None
        self._end = sums.stop + self._hop
        found, self._open = sums.split(self._first_open())
        return found if self._mean else replace(found, local=None)

    def preview(self) -> Preview | None:
        """Return what the windows so far say of the rows that later ones score too; None where there are none."""
        sums = self._open
        if sums is None:
            return None
        scored = Scored(sums.scores / sums.count, sums.attribution, sums.least)
        return Preview(scored, sums.count[:, 0], sums.start)

    def flush(self) -> Scored:
        """Return the rows that waited for later windows, and those that no window on the grid covers."""
        covered = self._first_open() if self._open is None else self._open.stop
        found = _NOTHING if self._open is None else self._open.split(covered)[0]
        left = self._seen - covered
        if self._tail is None or left == 0:
            return found
        scores, attribution = self._score(Block(pad_left(self._tail, self._window), np.zeros(1, dtype=np.intp)), left)
        last = scores[0].astype(np.float64)
        attributed = None if attribution is None else attribution[0].astype(np.float32)
        return Scored.join([found, Scored(last, attributed, last.copy() if self._mean else None)])

    def _first_open(self) -> int:
        """Return the first row that the next window on the grid scores."""
        if self._mean or self._end == self._window:
            return self._end - self._window
        return self._end - self._hop


@dataclass(slots=True, eq=False)
class Sums:
    """Sums and minima over windows of rows `[start, stop)`, and how many windows each row has."""

    start: int
    stop: int
    count: NDArray[np.int32]
    scores: FloatArray
    least: FloatArray
    attribution: FloatArray | None

    @classmethod
    def zero(cls, start: int, stop: int, columns: int, channels: int | None) -> Sums:
        """Make sums of no window."""
        rows = stop - start
        return cls(
            start,
            stop,
            count=np.zeros((rows, 1), dtype=np.int32),
            scores=np.zeros((rows, columns)),
            least=np.full((rows, columns), np.inf),
            attribution=None if channels is None else np.zeros((rows, channels), dtype=np.float32),
        )

    def add(self, first: int, scores: FloatArray, attribution: FloatArray | None) -> None:
        """Add `(step, column)` scores and `(step, channel)` attribution of a window, from row `first` on."""
        rows = slice(first - self.start, first - self.start + len(scores))
        self.scores[rows] += scores
        self.count[rows] += 1
        np.minimum(self.least[rows], scores, out=self.least[rows])
        if self.attribution is not None and attribution is not None:
            self.attribution[rows] += attribution

    def go_on(self, before: Sums) -> None:
        """Take over the sums of rows that are still open."""
        rows = slice(before.start - self.start, before.stop - self.start)
        self.scores[rows], self.least[rows], self.count[rows] = before.scores, before.least, before.count
        if self.attribution is not None and before.attribution is not None:
            self.attribution[rows] = before.attribution

    def split(self, row: int) -> tuple[Scored, Sums | None]:
        """Return the means of the rows before `row`, and the sums of the rest."""
        final, rest = slice(None, row - self.start), slice(row - self.start, None)
        kept = None
        if row < self.stop:
            channels = None if self.attribution is None else self.attribution.shape[1]
            kept = Sums.zero(row, self.stop, self.scores.shape[1], channels)
            kept.scores[:], kept.least[:], kept.count[:] = self.scores[rest], self.least[rest], self.count[rest]
            if kept.attribution is not None and self.attribution is not None:
                kept.attribution[:] = self.attribution[rest]
        self.scores[final] /= self.count[final]  # in place: attribution has as many values as the series
        if self.attribution is not None:
            self.attribution[final] /= self.count[final]
        attribution = None if self.attribution is None else self.attribution[final]
        return Scored(self.scores[final], attribution, self.least[final]), kept


_NOTHING = Scored(np.empty((0, 1)))


class WindowSampler:
    """Training windows of several series, copied only when they are drawn.

    Parameters
    ----------
    series
        `(time, channel)` values of each series; shorter ones than the window have none.
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

    def first_rows(self, numbers: NDArray[np.integer]) -> NDArray[np.intp]:
        """Return the first row of each of these windows, counted over all series end to end."""
        which = np.searchsorted(self._bounds, numbers, side="right") - 1
        before = np.cumsum([0, *(len(values) for values in self.series)])
        return np.asarray(before[which] + (numbers - self._bounds[which]) * self.stride)

    def __getitem__(self, numbers: NDArray[np.integer]) -> FloatArray:
        """Copy these windows out: `(window, step, channel)`."""
        which = np.searchsorted(self._bounds, numbers, side="right") - 1
        if len(self._views) == 1:
            return np.ascontiguousarray(self._views[0][numbers])
        return np.stack([self._views[s][n - self._bounds[s]] for s, n in zip(which, numbers, strict=True)])

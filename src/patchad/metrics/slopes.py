"""Soft labels around events, counted per threshold instead of per point, for `patchad.metrics.ranges`.

Half-widths are visited in the order 0, 1, 2, ..., because each differs little from the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from patchad.metrics.checks import FloatArray, IntArray
from patchad.metrics.intervals import Intervals, spread


class Bins(NamedTuple):
    """Points grouped by the highest threshold they reach: bin 0 reaches all, the extra last bin none."""

    of_point: IntArray  # (time,)
    alarms: IntArray  # (threshold,), points that reach it

    @property
    def size(self) -> int:
        """Number of bins: one per threshold, and one for the points that reach none."""
        return self.alarms.size + 1


class Coverage(NamedTuple):
    """Normal points under slopes at one half-width."""

    once: FloatArray  # (distance, bin), points under one slope by their distance from its event
    twice: FloatArray  # (bin,), points under two or more

    def soft_labels(self, window: int) -> FloatArray:
        """Return the sum of soft labels in each bin, for a window of this half-width."""
        if self.once.shape[0] == 1:
            return self.twice
        distances = np.arange(1, self.once.shape[0])
        # Each slope weighs at least sqrt(1/2), so two sum to more than 1, where soft labels are clipped.
        soft: FloatArray = np.sqrt(1.0 - distances / window) @ self.once[1:] + self.twice
        return soft


class _Near(NamedTuple):
    """Normal points near events, and the half-widths at which a first and a second slope reach them."""

    first: IntArray
    second: IntArray
    distance: IntArray  # from the event whose slope comes first
    bin: IntArray


def bins(scores: FloatArray, thresholds: int) -> Bins:
    """Return the bins for thresholds that are scores evenly spaced by rank, highest first.

    >>> bins(np.array([0.1, 0.9, 0.5, 0.5]), thresholds=2)
    Bins(of_point=array([1, 0, 1, 1], dtype=int32), alarms=array([1, 4]))
    """
    ordered = np.sort(scores)
    ranks = np.linspace(0, scores.size - 1, thresholds).astype(np.intp)
    falling = ordered[scores.size - 1 - ranks]
    alarms = scores.size - np.searchsorted(ordered, falling, side="left")
    del ordered
    of_point = np.searchsorted(falling[::-1].copy(), scores, side="right").astype(np.int32)
    np.subtract(thresholds, of_point, out=of_point)
    return Bins(of_point, alarms)


def found_shares(binned: Bins, events: Intervals, widest: int, *, lag: int, touching: int) -> Iterator[FloatArray]:
    """Yield the share of widened events with an alarm at each threshold, for half-widths 0 to ``widest``.

    Widened events that meet are merged for good, and only n / h of half-width h fit into n points, so all half-widths
    together cost n log n, however many events there are.

    Parameters
    ----------
    binned, events, widest
        Points, labelled events, and the last half-width.
    lag
        Points by which the slope after an event is shorter than the one before it.
    touching
        1 if widened events merge when no point is between them, 0 if they must share a point.
    """
    end = binned.of_point.size - 1
    first, last = events.starts, events.stops - 1
    # Best bin inside each event; of an event at the end without its last point, which the first iteration adds.
    best = np.minimum.reduceat(binned.of_point, np.column_stack([first, np.minimum(last + 1, end)]).ravel())[::2]
    for half in range(widest + 1):
        after = max(half - lag, 0)
        # A point beyond either end of the series is replaced by the end itself, which is already included.
        np.minimum(best, binned.of_point[np.maximum(first - half, 0)], out=best)
        np.minimum(best, binned.of_point[np.minimum(last + after, end)], out=best)
        apart = first[1:] - last[:-1] > half + after + touching
        if not apart.all():
            heads = np.concatenate([[0], np.flatnonzero(apart) + 1])
            best = np.minimum.reduceat(best, heads)
            first, last = first[heads], last[np.concatenate([heads[1:], [last.size]]) - 1]
        yield np.bincount(best, minlength=binned.size).cumsum()[:-1] / first.size


def coverage(binned: Bins, events: Intervals, widest: int, *, lag: int) -> Iterator[Coverage]:
    """Yield the points under slopes for half-widths 0 to ``widest``; each item is valid only until the next."""
    reach = min(widest, binned.of_point.size)
    near = _near(binned, events, reach, lag)
    width = binned.size
    cells = near.distance.astype(np.int64) * width + near.bin
    entering = _grouped(near.first, cells, reach)
    inside = near.second <= reach
    leaving = _grouped(near.second[inside], cells[inside], reach)
    del near, cells, inside
    once, twice = np.zeros((reach + 1) * width), np.zeros(width)
    for half in range(widest + 1):
        if half <= reach:
            np.add.at(once, entering[half], 1.0)
            np.subtract.at(once, leaving[half], 1.0)
            twice += np.bincount(leaving[half] % width, minlength=width)
        yield Coverage(once.reshape(reach + 1, width)[: half + 1], twice)


def _near(binned: Bins, events: Intervals, reach: int, lag: int) -> _Near:
    """Return the points that some slope reaches within ``reach``."""
    size = binned.of_point.size
    kind: type[np.signedinteger] = np.int32 if size < 2**28 else np.int64
    far = 2 * (size + reach)
    # Row g describes the surroundings of the gap before event g: the two events that end before it and the two that
    # start after it.
    lasts: IntArray = np.concatenate([[-far, -far], events.stops - 1]).astype(kind)
    starts: IntArray = np.concatenate([events.starts, [far, far]]).astype(kind)
    begin, end = np.maximum(lasts[1:] + 1, 0), np.minimum(starts[:-1], size)
    ahead = np.where(lasts[1:] >= 0, np.minimum(begin + max(reach - lag, 0), end), begin)
    behind = np.where(starts[:-1] < size, np.maximum(end - reach, ahead), end)
    gap = np.tile(np.arange(begin.size, dtype=kind), 2)
    counts = np.concatenate([ahead - begin, end - behind])
    rows, gap = spread(np.concatenate([begin, behind]), counts), np.repeat(gap, counts)
    left, right = rows - lasts[gap + 1] + kind(lag), starts[gap] - rows
    first = np.minimum(left, right)
    distance = first - kind(lag) * (left < right)
    second = np.maximum(left, right, out=left)
    np.minimum(second, rows - lasts[gap] + kind(lag), out=second)
    np.minimum(second, starts[gap + 1] - rows, out=second)
    return _Near(first, second, distance, binned.of_point[rows])


def _grouped(keys: IntArray, values: IntArray, most: int) -> list[IntArray]:
    """Split values by key, for the keys 0 to ``most``."""
    narrow = keys.astype(np.uint16) if most < 2**16 else keys
    ends = np.bincount(keys, minlength=most + 1).cumsum()
    return np.split(values[np.argsort(narrow, kind="stable")], ends[:-1])

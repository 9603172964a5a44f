"""Masks as sorted, disjoint, half-open intervals, and their overlaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from patchad.metrics.checks import BoolArray, IntArray


class Intervals(NamedTuple):
    """Maximal runs of a mask: ``mask[start:stop]`` is true throughout."""

    starts: IntArray
    stops: IntArray

    @property
    def lengths(self) -> IntArray:
        """Points per interval."""
        return self.stops - self.starts


class Overlaps(NamedTuple):
    """Pairs of an event and an alarm run that share points, in time order, so that both indices are sorted."""

    events: IntArray
    alarms: IntArray
    lengths: IntArray


def intervals(mask: BoolArray) -> Intervals:
    """Return the maximal runs of true values.

    >>> intervals(np.array([True, True, False, True]))
    Intervals(starts=array([0, 3]), stops=array([2, 4]))
    """
    changes = np.empty(mask.size + 1, np.bool_)
    changes[0], changes[-1] = mask[0], mask[-1]
    np.not_equal(mask[1:], mask[:-1], out=changes[1:-1])
    edges = np.flatnonzero(changes)
    return Intervals(edges[0::2], edges[1::2])


def overlaps(labels: BoolArray, alarms: BoolArray, events: Intervals, runs: Intervals) -> Overlaps:
    """Return the overlapping pairs of labelled events and alarm runs.

    Two intervals overlap in one interval, so the pairs are the runs of ``labels & alarms``: no more than there are
    events and alarm runs together.
    """
    shared = intervals(labels & alarms)
    return Overlaps(
        np.searchsorted(events.starts, shared.starts, side="right") - 1,
        np.searchsorted(runs.starts, shared.starts, side="right") - 1,
        shared.lengths,
    )


def spread(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the row numbers of all points of the intervals, concatenated.

    >>> spread(np.array([2, 7]), np.array([3, 1]))
    array([2, 3, 4, 7])
    """
    offsets = np.cumsum(lengths) - lengths
    rows: IntArray = np.arange(int(lengths.sum()), dtype=starts.dtype)
    rows += np.repeat(starts - offsets.astype(starts.dtype), lengths)
    return rows

"""Affiliation precision and recall (Huet, Navarro and Rossi, KDD 2022), in closed form and vectorised.

Time is continuous: point ``i`` is the interval ``[i, i + 1)``. The zone of an event consists of the times that are
closer to it than to any other event. A predicted time earns the probability that a random time of the zone is farther
from the event; an event time earns the probability that a random time is farther from it than the nearest prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    labels_and_alarms,
    labels_and_scores,
    need_anomaly,
    whole_number,
    with_headroom,
)
from patchad.metrics.intervals import Intervals, intervals
from patchad.metrics.return_types import PrecisionRecallF1, harmonic

_BLOCK = 2**14  # zones, and alarm runs, processed at a time: bounds peak memory and fits the CPU cache


class _Zones(NamedTuple):
    """For each labelled event: the event ``[start, stop)`` and its zone ``[low, high)``."""

    start: FloatArray
    stop: FloatArray
    low: FloatArray
    high: FloatArray


class _Pieces(NamedTuple):
    """Alarm runs split at zone borders, in time order."""

    start: FloatArray
    stop: FloatArray
    zone: IntArray


def affiliation(*, labels: ArrayLike, alarms: ArrayLike) -> PrecisionRecallF1:
    """Return affiliation precision, recall and their harmonic mean.

    Zones without an alarm are excluded from precision and have recall 0. Without any alarm the result is
    ``(nan, 0, 0)``.

    Raises
    ------
    MetricError
        The labels are all normal.

    Examples
    --------
    >>> affiliation(labels=[0, 0, 1, 1, 0, 0], alarms=[0, 0, 1, 1, 0, 0])
    PrecisionRecallF1(precision=1.0, recall=1.0, f1=1.0)
    >>> affiliation(labels=[0, 0, 1, 1, 0, 0], alarms=[0, 0, 0, 0, 0, 0])
    PrecisionRecallF1(precision=nan, recall=0.0, f1=0.0)
    """
    truth, raised = labels_and_alarms(labels, alarms)
    need_anomaly(truth, "affiliation")
    return _affiliation(_zones(truth), raised)


def oracle_affiliation_f1(*, labels: ArrayLike, scores: ArrayLike, thresholds: int = 100) -> float:
    """Return the best affiliation F1 over evenly spaced thresholds, chosen from the labels.

    The thresholds range from the lowest to the highest score; a point alarms where its score is higher. 0 where all
    scores are equal, because then nothing alarms.

    Raises
    ------
    MetricError
        The labels are all normal.

    Examples
    --------
    >>> oracle_affiliation_f1(labels=[0, 0, 1, 1, 0, 0], scores=[0.1, 0.2, 0.9, 0.8, 0.3, 0.1])
    1.0
    """
    truth, values = labels_and_scores(labels, scores)
    need_anomaly(truth, "oracle_affiliation_f1")
    count = whole_number(thresholds, "thresholds", least=1)
    values, zones = with_headroom(values), _zones(truth)
    levels = np.unique(np.linspace(values.min(), values.max(), count))
    return max(_affiliation(zones, values > level).f1 for level in levels)


def _zones(labels: BoolArray) -> _Zones:
    events = intervals(labels)
    borders = np.concatenate([[0.0], (events.stops[:-1] + events.starts[1:]) / 2.0, [float(labels.size)]])
    return _Zones(events.starts.astype(np.float64), events.stops.astype(np.float64), borders[:-1], borders[1:])


def _affiliation(zones: _Zones, alarms: BoolArray) -> PrecisionRecallF1:
    runs = intervals(alarms)
    if runs.starts.size == 0:
        return PrecisionRecallF1(float("nan"), 0.0, 0.0)
    alarmed, precisions, recalls = 0, 0.0, 0.0
    for block in range(0, zones.start.size, _BLOCK):
        some = _Zones(*(column[block : block + _BLOCK] for column in zones))
        first = np.searchsorted(runs.stops, some.low[0], side="right")
        stop = np.searchsorted(runs.starts, some.high[-1], side="left")
        if first < stop:
            sums = _sums(some, Intervals(runs.starts[first:stop], runs.stops[first:stop]))
            alarmed, precisions, recalls = alarmed + sums[0], precisions + sums[1], recalls + sums[2]
    precision, recall = precisions / alarmed, recalls / zones.start.size
    return PrecisionRecallF1(precision, recall, harmonic(precision, recall))


def _sums(zones: _Zones, runs: Intervals) -> tuple[int, float, float]:
    """Return how many of these zones have an alarm, and the sums of their precisions and recalls."""
    lengths, gains, losses = np.zeros((3, zones.start.size))
    for pieces, own in _cut(zones, runs):
        first, zone = pieces.zone[own][0], pieces.zone[own] - pieces.zone[own][0]
        touched = slice(first, first + zone[-1] + 1)
        lengths[touched] += np.bincount(zone, weights=(pieces.stop - pieces.start)[own])
        gains[touched] += np.bincount(zone, weights=_precision_gain(zones, pieces)[own])
        losses[touched] += np.bincount(zone, weights=_recall_loss(zones, pieces)[own])
    alarmed = lengths > 0
    misses = losses / ((zones.high - zones.low) * (zones.stop - zones.start))
    precisions, recalls = gains[alarmed] / lengths[alarmed], 1.0 - misses[alarmed]
    return precisions.size, float(precisions.sum()), float(recalls.sum())


def _cut(zones: _Zones, runs: Intervals) -> Iterator[tuple[_Pieces, slice]]:
    """Yield the alarm runs that overlap the zones, split at zone borders, in blocks.

    A block also contains the run before and the run after its own, because gaps are between pieces; the slice selects
    its own pieces.
    """
    for block in range(0, runs.starts.size, _BLOCK):
        around = slice(max(block - 1, 0), block + _BLOCK + 1)
        starts, stops = np.maximum(runs.starts[around], zones.low[0]), np.minimum(runs.stops[around], zones.high[-1])
        first = np.searchsorted(zones.high, starts, side="right")
        counts = np.searchsorted(zones.low, stops, side="left") - first
        ends = np.cumsum(counts)
        zone = np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)
        start, stop = zones.low[zone], zones.high[zone]
        start[ends - counts], stop[ends - 1] = starts, stops
        own_from, own_to = block - around.start, min(block + _BLOCK, runs.starts.size) - around.start
        yield _Pieces(start, stop, zone), slice(ends[own_from] - counts[own_from], ends[own_to - 1])


def _precision_gain(zones: _Zones, pieces: _Pieces) -> FloatArray:
    """Integrate, over each piece, the probability that a random time of its zone is farther from the event."""
    start, stop = zones.start[pieces.zone], zones.stop[pieces.zone]
    low, high = zones.low[pieces.zone], zones.high[pieces.zone]
    nearer_side = np.minimum(start - low, high - stop)
    # Distances covered by the portion of a piece before the event, then by the portion after it; either may be empty.
    before = _farther_or_equal(np.maximum(start - pieces.stop, 0.0), np.maximum(start - pieces.start, 0.0), nearer_side)
    after = _farther_or_equal(np.maximum(pieces.start - stop, 0.0), np.maximum(pieces.stop - stop, 0.0), nearer_side)
    outside = np.maximum(start - pieces.start, 0.0) - np.maximum(start - pieces.stop, 0.0)
    outside += np.maximum(pieces.stop - stop, 0.0) - np.maximum(pieces.start - stop, 0.0)
    gain: FloatArray = (pieces.stop - pieces.start) - (before + after + (stop - start) * outside) / (high - low)
    return gain


def _farther_or_equal(near: FloatArray, far: FloatArray, nearer_side: FloatArray) -> FloatArray:
    """Integrate ``d + min(d, nearer_side)`` over distances d from near to far.

    The integrand is the time of the zone, outside the event, that is at most d from the event: d on one side, and as
    much as exists on the other.
    """
    low, high = np.minimum(near, nearer_side), np.minimum(far, nearer_side)
    both_sides = (high - low) * (high + low) / 2.0
    one_side = nearer_side * (np.maximum(far, nearer_side) - np.maximum(near, nearer_side))
    total: FloatArray = (far - near) * (far + near) / 2.0 + both_sides + one_side
    return total


def _recall_loss(zones: _Zones, pieces: _Pieces) -> FloatArray:
    """Integrate, over event times, the time as close as the nearest piece, charged to the piece beside a gap."""
    start, stop = zones.start[pieces.zone], zones.stop[pieces.zone]
    opens = np.diff(pieces.zone, prepend=-1) != 0
    loss = np.empty(pieces.zone.size)
    left = np.flatnonzero(~opens)
    loss[left] = _between(
        pieces.stop[left - 1],
        pieces.start[left],
        np.maximum(pieces.stop[left - 1], start[left]),
        np.minimum(pieces.start[left], stop[left]),
    )
    first = np.flatnonzero(opens)
    zone = pieces.zone[first]
    loss[first] = _towards_border(
        pieces.start[first] - zones.low[zone],
        pieces.start[first] - zones.stop[zone],
        pieces.start[first] - zones.start[zone],
    )
    last = np.concatenate([first[1:] - 1, [pieces.zone.size - 1]])
    zone = pieces.zone[last]
    loss[last] += _towards_border(
        zones.high[zone] - pieces.stop[last],
        zones.start[zone] - pieces.stop[last],
        zones.stop[zone] - pieces.stop[last],
    )
    return loss


def _between(left: FloatArray, right: FloatArray, start: FloatArray, stop: FloatArray) -> FloatArray:
    """Integrate twice the distance to the nearer of two predictions over the event times from start to stop."""
    middle = (left + right) / 2.0
    turn = np.clip(middle, start, np.maximum(start, stop))
    stop = np.maximum(start, stop)
    return (turn - start) * (turn + start - 2.0 * left) + (stop - turn) * (2.0 * right - turn - stop)


def _towards_border(reach: FloatArray, near: FloatArray, far: FloatArray) -> FloatArray:
    """Integrate ``min(2 d, reach)`` over distances d of event times to the only prediction on their side.

    While the prediction is closer than the border of the zone, twice the distance is as close; beyond, ``reach`` is.
    """
    near, far = np.maximum(near, 0.0), np.maximum(far, 0.0)
    half = reach / 2.0
    low, high = np.minimum(near, half), np.minimum(far, half)
    total: FloatArray = (high - low) * (high + low) + reach * (np.maximum(far, half) - np.maximum(near, half))
    return total

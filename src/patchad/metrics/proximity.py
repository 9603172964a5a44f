"""PATE, proximity-aware time-series evaluation (Ghorbani, Reinders and Tax, KDD 2024), without a loop over points.

Alarms in the buffers before and after an event are weighted by proximity; those before it count only if the event
itself is detected. Missed points of a detected event weigh less the later they are. The misses do not depend on the
buffers, so they are counted once per threshold.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import BoolArray, FloatArray, IntArray, labels_and_scores, whole_number, with_headroom
from patchad.metrics.intervals import Intervals, intervals, spread

_ROUNDING = 1e-12  # recalls closer than this are equal


def pate(*, labels: ArrayLike, scores: ArrayLike, window: int = 100, thresholds: int = 250) -> float:
    """Return the area under the proximity-aware precision-recall curve; 0 without anomalies.

    It is averaged over buffers of 0 and ``window`` points on either side of the events.

    Parameters
    ----------
    labels, scores
        Ground truth and anomaly scores, one per point.
    window
        Points in the buffer before an event, and in the buffer after it.
    thresholds
        Number of thresholds: evenly spaced percentiles of the distinct scores at which the ROC curve can turn.

    Examples
    --------
    >>> pate(labels=[0, 0, 1, 1, 0, 0], scores=[0.1, 0.2, 0.9, 0.8, 0.3, 0.1], window=2)
    1.0
    """
    truth, values = labels_and_scores(labels, scores)
    buffer = whole_number(window, "window", least=0)
    count = whole_number(thresholds, "thresholds", least=1)
    if not truth.any():
        return 0.0
    values = with_headroom(values)
    levels = _levels(truth, values, count)
    bins = (levels.size - np.searchsorted(levels[::-1].copy(), values, side="right")).astype(np.int32)
    alarms = np.bincount(bins, minlength=levels.size + 1)[:-1].cumsum()
    events = intervals(truth)
    best = np.minimum.reduceat(np.where(truth, bins, levels.size), events.starts)
    inside = bins[truth]
    found = np.bincount(inside, minlength=levels.size + 1)[:-1].cumsum()
    missed = _missed(inside, events.lengths, levels.size)
    areas = []
    for early, late in product((0, buffer), repeat=2):
        hits = found + _near_hits(bins, events, best, early, late, levels.size)
        areas.append(_area(hits, missed, alarms))
    return sum(areas) / len(areas)


def _levels(labels: BoolArray, scores: FloatArray, count: int) -> FloatArray:
    """Return percentiles, highest first, of the distinct scores at which the ROC curve can turn."""
    distinct = np.unique(scores)
    useful = np.zeros(distinct.size, np.bool_)
    anomalous = np.searchsorted(distinct, scores[labels])
    useful[anomalous] = True
    useful[anomalous[anomalous < distinct.size - 1] + 1] = True
    useful[[0, -1]] = True
    levels: FloatArray = np.percentile(distinct[useful], np.linspace(100, 0, count))
    return levels


def _near_hits(bins: IntArray, events: Intervals, best: IntArray, early: int, late: int, n_levels: int) -> FloatArray:
    """Return the total weight of the alarms in buffers at every threshold."""
    ends = np.minimum(events.stops + late, np.append(events.starts[1:], bins.size))
    begins = np.maximum(events.starts - early, np.concatenate([[0], ends[:-1]]))
    centre = (events.starts + events.stops - 1) / 2.0
    weights = np.zeros(n_levels + 1)
    for start, stop, farthest, is_early in (
        (events.stops, ends, ends - 1, False),
        (begins, events.starts, begins, True),
    ):
        counts = stop - start
        rows, event = spread(start, counts), np.repeat(np.arange(counts.size), counts)
        weight = 1.0 - (rows - centre[event]) / (farthest - centre)[event]
        # An early alarm counts from the threshold at which its event is detected.
        bin_of = np.maximum(bins[rows], best[event]) if is_early else bins[rows]
        weights += np.bincount(bin_of, weights=weight, minlength=n_levels + 1)
    return weights[:-1].cumsum()


def _missed(bins: IntArray, lengths: IntArray, n_levels: int) -> FloatArray:
    """Return the weighted misses at every threshold, from the bins of the anomalous points in time order.

    A miss weighs 1, minus a relief if its event is detected. Only events with new alarms can change their relief, so
    many short events cost no more than a few long ones.
    """
    silent = bins.size - np.bincount(bins, minlength=n_levels + 1)[:-1].cumsum()
    # The first two points of an event and the point after its first run get no relief, so shorter events never do.
    long = lengths > 2
    bins, lengths = bins[np.repeat(long, lengths)], lengths[long]
    offsets = np.cumsum(lengths) - lengths
    order = np.argsort(bins.astype(np.uint16) if n_levels < 2**16 else bins, kind="stable")
    changed = np.repeat(np.arange(lengths.size), lengths)[order]
    bounds = np.searchsorted(bins[order], np.arange(n_levels + 1))
    relief, total = np.zeros(lengths.size), np.zeros(n_levels)
    for level in range(n_levels):
        events = np.unique(changed[bounds[level] : bounds[level + 1]])
        if events.size == lengths.size:
            relief = _relief(bins > level, lengths)
        elif events.size:
            relief[events] = _relief(bins[spread(offsets[events], lengths[events])] > level, lengths[events])
        total[level] = relief.sum()
    return silent - total


def _relief(silent: BoolArray, lengths: IntArray) -> FloatArray:
    """Return the relief of each event, all of them detected, given which of their points have no alarm.

    It depends on the length r of the first run of alarms: misses at positions up to r weigh 1, later ones less by the
    sum of their distances to the positions 0 to r, divided by the sum of all distances to the last position.
    """
    stops = np.cumsum(lengths)
    starts = stops - lengths
    silences, loud = np.flatnonzero(silent), np.flatnonzero(~silent)
    opens = loud[np.searchsorted(loud, starts)]
    closes = np.append(silences, silent.size)[np.searchsorted(silences, opens)]
    run = np.minimum(closes, stops) - opens
    first, last = np.searchsorted(silences, np.minimum(starts + run + 1, stops)), np.searchsorted(silences, stops)
    rows = np.concatenate([[0], np.cumsum(silences)])
    positions = rows[last] - rows[first] - (last - first) * starts
    distances = (run + 1) * (positions - run / 2.0 * (last - first))
    relief: FloatArray = distances / (lengths * (lengths - 1) / 2.0)
    return relief


def _area(hits: FloatArray, missed: FloatArray, alarms: IntArray) -> float:
    """Return the trapezoidal area under the curve without the thresholds at which recall falls."""
    relevant = hits + missed
    recall = np.concatenate([[0.0], np.divide(hits, relevant, out=np.zeros_like(hits), where=relevant > 0)])
    precision = np.concatenate([[1.0], np.divide(hits, alarms, out=np.zeros_like(hits), where=alarms > 0)])
    kept = recall >= np.maximum.accumulate(recall) - _ROUNDING
    recall, precision = recall[kept], precision[kept]
    return float(np.dot(np.diff(recall), precision[1:] + precision[:-1]) / 2.0)

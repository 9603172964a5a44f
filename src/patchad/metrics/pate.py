"""PATE, proximity-aware time-series evaluation (Ghorbani, Reinders and Tax, KDD 2024), without a loop over points.

Alarms in the buffer before or after an event count in part, the less the farther away they are; alarms in the buffer
before an event only do if the event itself is found. Missed points of an event that was found count less the later
they are. The buffers decide which alarms count as hits, the misses do not depend on them: so the misses are counted
once per threshold.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import BoolArray, FloatArray, IntArray, labels_and_scores, whole_number, with_headroom
from patchad.metrics.intervals import Intervals, intervals, spread

_ROUNDING = 1e-12  # recalls closer than this are equal


def pate(*, labels: ArrayLike, scores: ArrayLike, window: int = 100, thresholds: int = 250) -> float:
    """Area under the proximity-aware precision-recall curve, the mean over early and late buffers of 0 and ``window``.

    It is 0 where no point is anomalous.

    Parameters
    ----------
    labels, scores
        Ground truth and strangeness, one per point.
    window
        Points of the buffer before and of the buffer after an event.
    thresholds
        How many percentiles of the distinct useful scores serve as thresholds.

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
    """Percentiles, the highest first, of the distinct scores at which the ROC curve can turn."""
    distinct = np.unique(scores)
    useful = np.zeros(distinct.size, np.bool_)
    anomalous = np.searchsorted(distinct, scores[labels])
    useful[anomalous] = True
    useful[anomalous[anomalous < distinct.size - 1] + 1] = True
    useful[[0, -1]] = True
    levels: FloatArray = np.percentile(distinct[useful], np.linspace(100, 0, count))
    return levels


def _near_hits(bins: IntArray, events: Intervals, best: IntArray, early: int, late: int, n_levels: int) -> FloatArray:
    """Weights of the alarms in buffers, at every threshold."""
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
        # An early alarm counts from the threshold on at which its event is found.
        bin_of = np.maximum(bins[rows], best[event]) if is_early else bins[rows]
        weights += np.bincount(bin_of, weights=weight, minlength=n_levels + 1)
    return weights[:-1].cumsum()


def _missed(bins: IntArray, lengths: IntArray, n_levels: int) -> FloatArray:
    """Weighted misses at every threshold, from the bins of the anomalous points, event after event.

    The first run of alarms in an event, of length r, sets what the misses weigh: 1 up to position r, and beyond it
    less and less, as the distance to the positions 0 to r grows. An event without alarms is missed whole.
    """
    ends = np.cumsum(lengths)
    offsets = ends - lengths
    position = np.arange(bins.size) - np.repeat(offsets, lengths)
    event = np.repeat(np.arange(lengths.size), lengths)
    changed = np.bincount(bins, minlength=n_levels + 1)[:-1] > 0
    missed = np.empty(n_levels)
    current = float(bins.size)
    for level in range(n_levels):
        if changed[level]:
            current = _missed_at(bins > level, position, event, offsets, lengths)
        missed[level] = current
    return missed


def _missed_at(silent: BoolArray, position: IntArray, event: IntArray, offsets: IntArray, lengths: IntArray) -> float:
    """Weighted misses, given which anomalous points have no alarm."""
    opens = np.flatnonzero(~silent & (np.append(True, silent[:-1]) | (position == 0)))
    touched, first = np.unique(event[opens], return_index=True)
    opens = opens[first]
    ends = offsets[touched] + lengths[touched]
    total = np.concatenate([[0], np.cumsum(silent)])
    # The end of the first run is where the first silence after its start begins, or the end of the event.
    silences = np.flatnonzero(silent)
    following = np.append(silences, silent.size)[total[opens]]
    run = np.minimum(following, ends) - opens
    beyond = np.minimum(offsets[touched] + run + 1, ends)
    moments = np.concatenate([[0], np.cumsum(silent * position)])
    late = total[ends] - total[beyond]
    late_positions = moments[ends] - moments[beyond]
    relief = (run + 1) * late_positions - run * (run + 1) / 2.0 * late
    scale = np.maximum(lengths[touched] * (lengths[touched] - 1) / 2.0, 1.0)
    return float(total[-1] - np.sum(relief / scale))


def _area(hits: FloatArray, missed: FloatArray, alarms: IntArray) -> float:
    """Trapezoids under the curve, leaving out the thresholds at which recall falls."""
    relevant = hits + missed
    recall = np.concatenate([[0.0], np.divide(hits, relevant, out=np.zeros_like(hits), where=relevant > 0)])
    precision = np.concatenate([[1.0], np.divide(hits, alarms, out=np.zeros_like(hits), where=alarms > 0)])
    kept = recall >= np.maximum.accumulate(recall) - _ROUNDING
    recall, precision = recall[kept], precision[kept]
    return float(np.dot(np.diff(recall), precision[1:] + precision[:-1]) / 2.0)

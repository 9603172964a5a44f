"""Point adjustment: one alarm inside an event counts as if the whole event had been detected.

These metrics are here because papers report them; random scores do very well on them, see ``docs/metrics.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import BoolArray, IntArray, labels_and_alarms, labels_and_scores, need_both_classes, share
from patchad.metrics.intervals import Intervals, intervals, overlaps, spread


def point_adjust(*, labels: ArrayLike, alarms: ArrayLike) -> BoolArray:
    """Return the alarms, extended to the whole of every event that contains an alarm.

    Examples
    --------
    >>> point_adjust(labels=[0, 1, 1, 1, 0, 1], alarms=[1, 0, 1, 0, 0, 0]).astype(int)
    array([1, 1, 1, 1, 0, 0])
    """
    truth, raised = labels_and_alarms(labels, alarms)
    events, hits = _hits(truth, raised)
    found = hits > 0
    adjusted = raised.copy()
    adjusted[spread(events.starts[found], events.lengths[found])] = True
    return adjusted


def pa_f1(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the point-wise F1 after point adjustment; 0 without a hit.

    Examples
    --------
    >>> pa_f1(labels=[0, 1, 1, 1, 0, 1], alarms=[1, 0, 1, 0, 0, 0])
    0.75
    """
    return pa_k_f1(labels=labels, alarms=alarms, k=0.0)


def pa_k_f1(*, labels: ArrayLike, alarms: ArrayLike, k: float = 20.0) -> float:
    """Return the point-wise F1 after PA%K (Kim et al., AAAI 2022).

    An event is adjusted if more than ``k`` percent of it alarms: ``k=0`` is point adjustment, ``k=100`` plain F1.

    Examples
    --------
    >>> pa_k_f1(labels=[0, 1, 1, 1, 0, 1], alarms=[1, 0, 1, 0, 0, 0], k=50)
    0.3333333333333333
    """
    truth, raised = labels_and_alarms(labels, alarms)
    needed = share(k, "k", most=100.0) / 100.0
    events, hits = _hits(truth, raised)
    lengths = events.lengths
    false_alarms = np.count_nonzero(raised) - hits.sum()
    adjusted = np.where(hits > needed * lengths, lengths, hits).sum()
    return float(2 * adjusted / (adjusted + false_alarms + lengths.sum())) if adjusted else 0.0


def oracle_pa_f1(*, labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the best point-adjusted F1 over all thresholds, chosen from the labels.

    Every score is a threshold, and a point alarms where its score is higher. 0 where all scores are equal, because then
    no threshold raises an alarm.

    Raises
    ------
    MetricError
        The labels are all normal or all anomalous.

    Examples
    --------
    >>> oracle_pa_f1(labels=[0, 1, 1, 1, 0, 1], scores=[0.5, 0.1, 0.6, 0.1, 0.2, 0.4])
    0.8888888888888888
    """
    truth, values = labels_and_scores(labels, scores)
    need_both_classes(truth, "oracle_pa_f1")
    events = intervals(truth)
    # Between the peaks of two events a lower threshold only adds false alarms. So the best thresholds are just below a
    # peak, where the normal points that alarm are those that score at least the peak.
    peaks = np.maximum.reduceat(np.where(truth, values, -np.inf), events.starts)
    order = np.argsort(-peaks, kind="stable")
    peaks, found = peaks[order], np.cumsum(events.lengths[order])
    last_of_tie = np.diff(peaks, append=-np.inf) != 0
    usable = last_of_tie & (peaks > values.min())
    if not usable.any():
        return 0.0
    peaks, found = peaks[usable], found[usable]
    normal = np.sort(values[~truth])
    false_alarms = normal.size - np.searchsorted(normal, peaks, side="left")
    return float(np.max(2 * found / (found + false_alarms + int(events.lengths.sum()))))


def _hits(labels: BoolArray, alarms: BoolArray) -> tuple[Intervals, IntArray]:
    """Return the labelled events and the number of alarms inside each."""
    events = intervals(labels)
    pairs = overlaps(labels, alarms, events, intervals(alarms))
    hits = np.bincount(pairs.events, weights=pairs.lengths, minlength=events.starts.size)
    return events, hits.astype(np.int64)

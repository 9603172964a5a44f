"""Metrics that count events: range-based and event-wise scores, composite F1, detection delay."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import FloatArray, IntArray, labels_and_alarms, need_anomaly, share
from patchad.metrics.intervals import intervals, overlaps
from patchad.metrics.points import confusion
from patchad.metrics.return_types import DetectionDelay, PrecisionRecallF1, harmonic


def event_f1(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the event-wise F1 (Sehili and Zhang, 2023).

    Recall is the share of events with an alarm. Precision is the number of these events, divided by their number plus
    that of the alarm runs that overlap no event, times the share of normal points without an alarm. 0 without an event
    or without an alarm.

    Examples
    --------
    >>> event_f1(labels=[0, 0, 0, 1, 1, 0, 0, 0], alarms=[1, 0, 0, 1, 1, 1, 0, 0])
    0.5
    """
    truth, raised = labels_and_alarms(labels, alarms)
    events, runs = intervals(truth), intervals(raised)
    pairs = overlaps(truth, raised, events, runs)
    if pairs.lengths.size == 0:
        return 0.0
    detected, false_runs = _distinct(pairs.events), runs.starts.size - _distinct(pairs.alarms)
    counts = confusion(truth, raised)
    normal = counts.fp + counts.tn
    specificity = counts.tn / normal if normal else 1.0
    return harmonic(detected / (detected + false_runs) * specificity, detected / events.starts.size)


def composite_f1(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the harmonic mean of point-wise precision and event-wise recall (Garg et al., TNNLS 2021).

    Examples
    --------
    >>> composite_f1(labels=[0, 1, 1, 1, 0, 1], alarms=[1, 0, 1, 0, 0, 0])
    0.5
    """
    truth, raised = labels_and_alarms(labels, alarms)
    events = intervals(truth)
    pairs = overlaps(truth, raised, events, intervals(raised))
    if pairs.lengths.size == 0:
        return 0.0
    return harmonic(confusion(truth, raised).precision, _distinct(pairs.events) / events.starts.size)


def range_based(*, labels: ArrayLike, alarms: ArrayLike, alpha: float = 0.2) -> PrecisionRecallF1:
    """Return range-based precision and recall (Tatbul et al., NeurIPS 2018), flat bias, reciprocal cardinality.

    An event earns ``alpha`` for being detected at all and the rest for the share of it that alarms, divided by the
    number of overlapping alarm runs. An alarm run earns the share of it that is anomalous, divided by the number of
    events it overlaps. All values are 0 without alarms.

    Raises
    ------
    MetricError
        The labels are all normal.

    Examples
    --------
    >>> range_based(labels=[0, 1, 1, 1, 1, 0], alarms=[0, 0, 1, 1, 0, 0])
    PrecisionRecallF1(precision=1.0, recall=0.6000000000000001, f1=0.7500000000000001)
    """
    truth, raised = labels_and_alarms(labels, alarms)
    need_anomaly(truth, "range_based")
    bonus = share(alpha, "alpha")
    if not raised.any():
        return PrecisionRecallF1(0.0, 0.0, 0.0)
    events, runs = intervals(truth), intervals(raised)
    pairs = overlaps(truth, raised, events, runs)
    detected = np.bincount(pairs.events, minlength=events.starts.size) > 0
    overlap = _reward(pairs.events, pairs.lengths, events.lengths)
    recall = float(np.mean(bonus * detected + (1.0 - bonus) * overlap))
    precision = float(np.mean(_reward(pairs.alarms, pairs.lengths, runs.lengths)))
    return PrecisionRecallF1(precision, recall, harmonic(precision, recall))


def detection_delay(*, labels: ArrayLike, alarms: ArrayLike) -> DetectionDelay:
    """Return the mean and median number of rows from the start of a detected event to the first alarm inside it.

    Alarms before an event do not count as early detections. Mean and median are NaN if no event is detected.

    Raises
    ------
    MetricError
        The labels are all normal.

    Examples
    --------
    >>> detection_delay(labels=[0, 1, 1, 1, 0, 1, 0, 1], alarms=[1, 0, 0, 1, 0, 1, 0, 0])
    DetectionDelay(mean=1.0, median=1.0, detected=2, missed=1)
    """
    truth, raised = labels_and_alarms(labels, alarms)
    need_anomaly(truth, "detection_delay")
    events, hits = intervals(truth), intervals(truth & raised)
    first = np.searchsorted(hits.starts, events.starts, side="left")
    candidates = np.append(hits.starts, truth.size)[first]
    detected = candidates < events.stops
    missed = int(np.count_nonzero(~detected))
    if missed == events.starts.size:
        return DetectionDelay(float("nan"), float("nan"), 0, missed)
    delays = candidates[detected] - events.starts[detected]
    return DetectionDelay(float(np.mean(delays)), float(np.median(delays)), delays.size, missed)


def _distinct(sorted_numbers: IntArray) -> int:
    return int(np.count_nonzero(np.diff(sorted_numbers))) + 1


def _reward(owners: IntArray, shared: IntArray, lengths: IntArray) -> FloatArray:
    """Return the share of each interval that overlaps, divided by its number of overlaps."""
    count = np.maximum(np.bincount(owners, minlength=lengths.size), 1)
    reward: FloatArray = np.bincount(owners, weights=shared, minlength=lengths.size) / lengths / count
    return reward

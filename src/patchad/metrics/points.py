"""Metrics that count points: ratios of the confusion matrix, ROC and precision-recall areas, best F1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    labels_and_alarms,
    labels_and_scores,
    need_both_classes,
)
from patchad.metrics.return_types import harmonic


class Confusion(NamedTuple):
    """Confusion matrix of points."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def precision(self) -> float:
        """Share of alarms that are anomalous, 0 without alarms."""
        return self.tp / (self.tp + self.fp) if self.tp else 0.0

    @property
    def recall(self) -> float:
        """Share of anomalous points with an alarm, 0 without anomalies."""
        return self.tp / (self.tp + self.fn) if self.tp else 0.0


def confusion(labels: BoolArray, alarms: BoolArray) -> Confusion:
    """Return the confusion matrix of checked masks."""
    tp = int(np.count_nonzero(labels & alarms))
    fp = int(np.count_nonzero(alarms)) - tp
    fn = int(np.count_nonzero(labels)) - tp
    return Confusion(tp, fp, fn, labels.size - tp - fp - fn)


def accuracy(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the share of points whose alarm equals their label.

    Examples
    --------
    >>> accuracy(labels=[0, 0, 1, 1], alarms=[0, 0, 0, 1])
    0.75
    """
    counts = confusion(*labels_and_alarms(labels, alarms))
    return (counts.tp + counts.tn) / sum(counts)


def precision(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the share of alarms that are anomalous; 0 without alarms.

    Examples
    --------
    >>> precision(labels=[0, 1, 1, 1], alarms=[1, 0, 1, 0])
    0.5
    """
    return confusion(*labels_and_alarms(labels, alarms)).precision


def recall(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the share of anomalous points with an alarm; 0 without anomalies.

    Examples
    --------
    >>> recall(labels=[0, 1, 1, 1, 1], alarms=[1, 0, 1, 0, 0])
    0.25
    """
    return confusion(*labels_and_alarms(labels, alarms)).recall


def f1(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the harmonic mean of point-wise precision and recall; 0 without a hit.

    Examples
    --------
    >>> f1(labels=[0, 1, 1, 0], alarms=[1, 0, 1, 0])
    0.5
    """
    counts = confusion(*labels_and_alarms(labels, alarms))
    return harmonic(counts.precision, counts.recall)


def mcc(*, labels: ArrayLike, alarms: ArrayLike) -> float:
    """Return the Matthews correlation of labels and alarms, from -1 to 1; 0 where either is constant.

    Examples
    --------
    >>> mcc(labels=[0, 0, 1, 1], alarms=[1, 1, 0, 0])
    -1.0
    """
    tp, fp, fn, tn = confusion(*labels_and_alarms(labels, alarms))
    # Python integers: the product of four counts overflows int64 from about 100,000 points on.
    scale = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return float((tp * tn - fp * fn) / scale**0.5) if scale else 0.0


def roc_auc(*, labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve.

    It is the probability that an anomalous point scores above a normal one, ties counting half.

    Raises
    ------
    MetricError
        The labels are all normal or all anomalous.

    Examples
    --------
    >>> roc_auc(labels=[0, 1, 0, 1], scores=[0.1, 0.4, 0.4, 0.8])
    0.875
    """
    truth, values = labels_and_scores(labels, scores)
    need_both_classes(truth, "roc_auc")
    anomalous, normal = values[truth], np.sort(values[~truth])
    anomalous.sort()
    below = (
        np.searchsorted(normal, anomalous, side="left").sum() + np.searchsorted(normal, anomalous, side="right").sum()
    )
    return float(below / (2 * anomalous.size * normal.size))


def pr_auc(*, labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision: the area under the precision-recall curve as a step function, as in scikit-learn.

    It is 0 without anomalies.

    Examples
    --------
    >>> pr_auc(labels=[0, 1, 0, 1], scores=[0.1, 0.4, 0.6, 0.8])
    0.8333333333333333
    """
    truth, values = labels_and_scores(labels, scores)
    hits, alarms = hits_and_alarms(truth, values)
    return float(np.sum(np.diff(hits, prepend=0) * (hits / alarms)) / hits[-1]) if hits.size else 0.0


def oracle_f1(*, labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the best F1 over all thresholds, chosen from the labels; 0 without anomalies.

    A point alarms where its score is at least the threshold. This is an upper bound on what a threshold rule can reach.

    Examples
    --------
    >>> oracle_f1(labels=[0, 1, 0, 1], scores=[0.1, 0.4, 0.6, 0.8])
    0.8
    """
    truth, values = labels_and_scores(labels, scores)
    hits, alarms = hits_and_alarms(truth, values)
    return float(np.max(2 * hits / (alarms + hits[-1]))) if hits.size else 0.0


def hits_and_alarms(labels: BoolArray, scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the hits and alarms at each distinct score of an anomalous point, from the highest down.

    Between two such scores only false alarms are added, so recall is constant and neither average precision nor the
    best F1 needs the thresholds there.
    """
    anomalous, normal = -scores[labels], -scores[~labels]
    anomalous.sort()
    normal.sort()
    hits = np.flatnonzero(np.diff(anomalous, append=np.inf)) + 1
    return hits, hits + np.searchsorted(normal, anomalous[hits - 1], side="right")

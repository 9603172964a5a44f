"""Range-AUC and the volume under the surface (Paparrizos et al., VLDB 2022), exact and in T log T time.

Around every event the label decays as ``sqrt(1 - d / window)`` up to a distance of half a window; a confusion matrix
with these soft labels yields one curve per window, and VUS is the mean area over the windows 0, 1, ..., ``window``.
Three facts make it fast. The thresholds sort the points into few bins, so counts per bin replace passes over the
series. Every weight is at least sqrt(1/2), so a point under two slopes has the label 1 whatever the distances, and a
point under one slope is described by its distance alone. And from one half-width to the next, only the outermost points
of the slopes change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from patchad.errors import MetricError
from patchad.metrics.checks import (
    BoolArray,
    FloatArray,
    labels_and_scores,
    need_both_classes,
    whole_number,
)
from patchad.metrics.intervals import intervals
from patchad.metrics.return_types import VUS
from patchad.metrics.slopes import bins, coverage, found_shares


class _Family(NamedTuple):
    """The differences between public implementations."""

    short_right: bool
    """The slope after an event is one point shorter than the slope before it."""
    joins_neighbours: bool
    """Widened events with no point between them are merged; otherwise only those that share a point."""
    hits_add_positives: bool
    """Soft labels count as positives only where they alarm."""
    trapezoid: bool
    """The precision-recall area uses trapezoids; otherwise the precision at the end with more alarms."""


_VUS_FAMILIES = {
    "opt": _Family(short_right=False, joins_neighbours=False, hits_add_positives=True, trapezoid=False),
    "legacy": _Family(short_right=True, joins_neighbours=True, hits_add_positives=False, trapezoid=True),
}
_RANGE_AUC_FAMILIES = {
    "opt": _Family(short_right=False, joins_neighbours=True, hits_add_positives=False, trapezoid=True),
    "legacy": _VUS_FAMILIES["legacy"],
}


def vus(*, labels: ArrayLike, scores: ArrayLike, window: int = 100, thresholds: int = 250, family: str = "opt") -> VUS:
    """Return the volumes under the range-aware ROC and precision-recall surfaces.

    Parameters
    ----------
    labels, scores
        Ground truth and anomaly scores, one per point.
    window
        The largest window; slopes extend over half of it on either side of an event.
    thresholds
        Number of thresholds: scores evenly spaced by rank.
    family
        ``"opt"`` as in TSB-AD and the ``vus`` package, ``"legacy"`` as in the code of 2022 that DCdetector and PatchAD
        include. The values differ; state the family with every result.

    Raises
    ------
    MetricError
        The labels are all normal or all anomalous.

    Notes
    -----
    The cost for n points is n log n, plus ``window ** 2 * thresholds``.

    Examples
    --------
    >>> vus(labels=[0, 0, 1, 1, 0, 0], scores=[0.1, 0.2, 0.9, 0.8, 0.3, 0.1], window=0)
    VUS(roc=1.0, pr=1.0)
    """
    rules = _choose(family, _VUS_FAMILIES)
    truth, values = labels_and_scores(labels, scores)
    need_both_classes(truth, "vus")
    widest = whole_number(window, "window", least=0)
    count = whole_number(thresholds, "thresholds", least=1)
    areas = list(_areas(truth, values, range(widest + 1), count, rules))
    return VUS(sum(roc for roc, _ in areas) / len(areas), sum(pr for _, pr in areas) / len(areas))


def range_auc(
    *, labels: ArrayLike, scores: ArrayLike, window: int = 100, thresholds: int = 250, family: str = "opt"
) -> VUS:
    """Return the range-aware ROC and precision-recall areas for one window.

    The parameters are those of `vus`. The family ``"opt"`` follows ``RangeAUC`` of the ``vus`` package, which is not a
    slice of its volume: it counts all soft labels as positives and uses trapezoids under the precision-recall curve.

    Examples
    --------
    >>> range_auc(labels=[0, 0, 1, 1, 0, 0], scores=[0.1, 0.2, 0.9, 0.8, 0.3, 0.1], window=0)
    VUS(roc=1.0, pr=1.0)
    """
    rules = _choose(family, _RANGE_AUC_FAMILIES)
    truth, values = labels_and_scores(labels, scores)
    need_both_classes(truth, "range_auc")
    width = whole_number(window, "window", least=0)
    count = whole_number(thresholds, "thresholds", least=1)
    return VUS(*next(_areas(truth, values, range(width, width + 1), count, rules)))


def _choose(family: str, families: dict[str, _Family]) -> _Family:
    if family not in families:
        raise MetricError(f'family must be "opt" or "legacy", got {family!r}; "opt" is what TSB-AD reports')
    return families[family]


def _areas(
    labels: BoolArray, scores: FloatArray, windows: range, thresholds: int, rules: _Family
) -> Iterator[tuple[float, float]]:
    """Yield the ROC and precision-recall areas for each of the consecutive windows."""
    events, binned = intervals(labels), bins(scores, thresholds)
    anomalous = int(events.lengths.sum())
    hard_hits = np.bincount(binned.of_point[labels], minlength=binned.size).cumsum()[:-1]
    widest, lag = windows[-1] // 2, int(rules.short_right)
    shares = found_shares(binned, events, widest, lag=lag, touching=int(rules.joins_neighbours))
    covered = coverage(binned, events, widest, lag=lag)
    for half, (found, under) in enumerate(zip(shares, covered, strict=True)):
        for window in (2 * half, 2 * half + 1):
            if window in windows:
                soft = under.soft_labels(window)
                soft_hits = soft[:-1].cumsum()
                hits = hard_hits + soft_hits
                positives = anomalous + (soft_hits if rules.hits_add_positives else soft.sum()) / 2.0
                tpr = np.minimum(hits / positives, 1.0) * found
                fpr = (binned.alarms - hits) / (labels.size - positives)
                yield _under(tpr, fpr, hits / binned.alarms, rules.trapezoid)


def _under(tpr: FloatArray, fpr: FloatArray, precision: FloatArray, trapezoid: bool) -> tuple[float, float]:
    """Return the areas under the ROC curve, from (0, 0) to (1, 1), and the precision-recall curve, from (0, 1)."""
    rise = np.diff(tpr, prepend=0.0)
    if trapezoid:
        precision = (precision + np.concatenate([[1.0], precision[:-1]])) / 2.0
    tpr, fpr = np.concatenate([[0.0], tpr, [1.0]]), np.concatenate([[0.0], fpr, [1.0]])
    roc = np.dot(np.diff(fpr), tpr[1:] + tpr[:-1]) / 2.0
    return float(roc), float(np.dot(rise, precision))

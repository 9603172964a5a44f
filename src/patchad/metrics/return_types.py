"""Named tuples that metrics with several values return."""

from __future__ import annotations

from typing import NamedTuple


class PrecisionRecallF1(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


class VUS(NamedTuple):
    """Areas or volumes under the range-aware ROC and precision-recall curves."""

    roc: float
    pr: float


class DetectionDelay(NamedTuple):
    """Rows from the start of a detected event to its first alarm, and the numbers of events detected and missed."""

    mean: float
    median: float
    detected: int
    missed: int


def harmonic(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0.

    >>> harmonic(0.5, 1.0)
    0.6666666666666666
    """
    total = precision + recall
    return 2.0 * precision * recall / total if total > 0.0 else 0.0

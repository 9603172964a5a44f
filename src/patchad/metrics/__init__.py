"""Metrics of time-series anomaly detection: pure functions of labels, alarms and scores.

Keywords only. ``labels=`` and ``alarms=`` are bool (or 0/1 integers), ``scores=`` are floats, higher meaning more
anomalous. Inputs are never modified; invalid ones raise `patchad.errors.MetricError`. Functions whose name begins with
``oracle_`` choose their threshold from the labels. ``docs/metrics.md`` explains each metric.
"""

from patchad.metrics.adjusted import oracle_pa_f1, pa_f1, pa_k_f1, point_adjust
from patchad.metrics.affiliation_zones import affiliation, oracle_affiliation_f1
from patchad.metrics.events import composite_f1, detection_delay, event_f1, range_based
from patchad.metrics.points import accuracy, f1, mcc, oracle_f1, pr_auc, precision, recall, roc_auc
from patchad.metrics.proximity import pate
from patchad.metrics.ranges import range_auc, vus
from patchad.metrics.registry import evaluate, evaluate_random
from patchad.metrics.return_types import VUS, DetectionDelay, PrecisionRecallF1
from patchad.metrics.time_aware import etapr

__all__ = [
    "VUS",
    "DetectionDelay",
    "PrecisionRecallF1",
    "accuracy",
    "affiliation",
    "composite_f1",
    "detection_delay",
    "etapr",
    "evaluate",
    "evaluate_random",
    "event_f1",
    "f1",
    "mcc",
    "oracle_affiliation_f1",
    "oracle_f1",
    "oracle_pa_f1",
    "pa_f1",
    "pa_k_f1",
    "pate",
    "point_adjust",
    "pr_auc",
    "precision",
    "range_auc",
    "range_based",
    "recall",
    "roc_auc",
    "vus",
]

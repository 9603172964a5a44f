"""Every metric by name, and `evaluate`, which computes them all into one flat dictionary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from patchad.errors import MetricError
from patchad.metrics.adjusted import oracle_pa_f1, pa_f1, pa_k_f1
from patchad.metrics.affiliation_zones import affiliation, oracle_affiliation_f1
from patchad.metrics.checks import (
    BoolArray,
    FloatArray,
    as_mask,
    labels_and_alarms,
    labels_and_scores,
    need_both_classes,
    whole_number,
)
from patchad.metrics.events import composite_f1, detection_delay, event_f1, range_based
from patchad.metrics.points import accuracy, f1, mcc, oracle_f1, pr_auc, precision, recall, roc_auc
from patchad.metrics.proximity import pate
from patchad.metrics.ranges import range_auc, vus
from patchad.metrics.time_aware import etapr


class _Series(NamedTuple):
    """The inputs of a metric of scores."""

    labels: BoolArray
    scores: FloatArray
    window: int
    thresholds: int


Values = dict[str, float]


def _range_auc(series: _Series, family: str) -> Values:
    roc, pr = range_auc(**series._asdict(), family=family)
    return {f"range_auc_roc_{family}": roc, f"range_auc_pr_{family}": pr}


def _vus(series: _Series, family: str) -> Values:
    roc, pr = vus(**series._asdict(), family=family)
    return {f"vus_roc_{family}": roc, f"vus_pr_{family}": pr}


def _affiliation(labels: BoolArray, alarms: BoolArray) -> Values:
    return _prefixed("affiliation", affiliation(labels=labels, alarms=alarms)._asdict())


def _delay(labels: BoolArray, alarms: BoolArray) -> Values:
    delay = detection_delay(labels=labels, alarms=alarms)
    return {"delay_mean": delay.mean, "delay_median": delay.median, "events_missed": float(delay.missed)}


def _prefixed(prefix: str, values: Mapping[str, float]) -> Values:
    return {f"{prefix}_{name}": value for name, value in values.items()}


SCORE_METRICS: Mapping[str, Callable[[_Series], Values]] = {
    "roc_auc": lambda s: {"roc_auc": roc_auc(labels=s.labels, scores=s.scores)},
    "pr_auc": lambda s: {"pr_auc": pr_auc(labels=s.labels, scores=s.scores)},
    "range_auc": lambda s: _range_auc(s, "opt") | _range_auc(s, "legacy"),
    "vus": lambda s: _vus(s, "opt") | _vus(s, "legacy"),
    "pate": lambda s: {"pate": pate(**s._asdict())},
    "oracle_f1": lambda s: {"oracle_f1": oracle_f1(labels=s.labels, scores=s.scores)},
    "oracle_pa_f1": lambda s: {"oracle_pa_f1": oracle_pa_f1(labels=s.labels, scores=s.scores)},
    "oracle_affiliation_f1": lambda s: {
        "oracle_affiliation_f1": oracle_affiliation_f1(labels=s.labels, scores=s.scores)
    },
}
"""Metrics of labels and scores by function name, in the order of the keys that `evaluate` returns."""

ALARM_METRICS: Mapping[str, Callable[[BoolArray, BoolArray], Values]] = {
    "accuracy": lambda y, a: {"accuracy": accuracy(labels=y, alarms=a)},
    "precision": lambda y, a: {"precision": precision(labels=y, alarms=a)},
    "recall": lambda y, a: {"recall": recall(labels=y, alarms=a)},
    "f1": lambda y, a: {"f1": f1(labels=y, alarms=a)},
    "mcc": lambda y, a: {"mcc": mcc(labels=y, alarms=a)},
    "affiliation": _affiliation,
    "range_based": lambda y, a: _prefixed("range", range_based(labels=y, alarms=a)._asdict()),
    "etapr": lambda y, a: _prefixed("etapr", etapr(labels=y, alarms=a)._asdict()),
    "event_f1": lambda y, a: {"event_f1": event_f1(labels=y, alarms=a)},
    "composite_f1": lambda y, a: {"composite_f1": composite_f1(labels=y, alarms=a)},
    "detection_delay": _delay,
    "pa_f1": lambda y, a: {"pa_f1": pa_f1(labels=y, alarms=a)},
    "pa_k_f1": lambda y, a: {"pa_k20_f1": pa_k_f1(labels=y, alarms=a, k=20.0)},
}
"""Metrics of labels and alarms by function name, likewise."""


def evaluate(
    *,
    labels: ArrayLike,
    scores: ArrayLike,
    alarms: ArrayLike | None = None,
    window: int = 100,
    thresholds: int = 250,
    metrics: Collection[str] | None = None,
) -> dict[str, float]:
    """Compute all metrics of one series, as floats in one flat dictionary whose keys name the variant.

    Parameters
    ----------
    labels, scores, alarms
        Ground truth, anomaly scores and decisions, one per point. Without alarms, only metrics of scores are computed.
    window, thresholds
        Parameters of range-AUC, VUS and PATE.
    metrics
        Names of the functions to compute; all by default.

    Returns
    -------
    dict
        From scores: ``roc_auc``, ``pr_auc``, ``range_auc_roc_opt``, ``range_auc_pr_opt``, ``range_auc_roc_legacy``,
        ``range_auc_pr_legacy``, ``vus_roc_opt``, ``vus_pr_opt``, ``vus_roc_legacy``, ``vus_pr_legacy``, ``pate``,
        ``oracle_f1``, ``oracle_pa_f1``, ``oracle_affiliation_f1``. From alarms: ``accuracy``, ``precision``,
        ``recall``, ``f1``, ``mcc``, ``affiliation_*``, ``range_*`` and ``etapr_*`` with ``precision``, ``recall`` and
        ``f1`` each, ``event_f1``, ``composite_f1``, ``delay_mean`` and ``delay_median`` in rows, ``events_missed``,
        ``pa_f1``, ``pa_k20_f1``. Undefined values are NaN: affiliation precision without alarms, delays without a
        detection.

    Raises
    ------
    MetricError
        The labels are all normal or all anomalous, or an input is invalid.

    Examples
    --------
    >>> labels, scores = [0, 0, 1, 1, 0, 0], [0.1, 0.2, 0.9, 0.8, 0.3, 0.1]
    >>> evaluate(labels=labels, scores=scores, window=0, metrics=["roc_auc", "vus"])
    {'roc_auc': 1.0, 'vus_roc_opt': 1.0, 'vus_pr_opt': 1.0, 'vus_roc_legacy': 1.0, 'vus_pr_legacy': 1.0}
    """
    truth, values = labels_and_scores(labels, scores)
    need_both_classes(truth, "evaluate")
    chosen = _chosen(metrics, with_alarms=alarms is not None)
    count, widest = whole_number(thresholds, "thresholds", least=1), whole_number(window, "window", least=0)
    series = _Series(truth, values, widest, count)
    result: Values = {}
    for name, of_scores in SCORE_METRICS.items():
        if name in chosen:
            result |= of_scores(series)
    if alarms is not None:
        _, raised = labels_and_alarms(truth, alarms)
        for name, of_alarms in ALARM_METRICS.items():
            if name in chosen:
                result |= of_alarms(truth, raised)
    return result


def evaluate_random(
    *,
    labels: ArrayLike,
    alarms: ArrayLike | None = None,
    window: int = 100,
    thresholds: int = 250,
    metrics: Collection[str] | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Evaluate uniform random scores, the baseline to report beside every result.

    If alarms are given, the random scores raise equally many, at their highest points.

    Examples
    --------
    >>> labels = [0] * 450 + [1] * 100 + [0] * 450
    >>> evaluate_random(labels=labels, metrics=["oracle_pa_f1"])["oracle_pa_f1"] > 0.9
    True
    """
    truth = as_mask(labels, "labels")
    scores = np.random.default_rng(seed).random(truth.size)
    raised = None
    if alarms is not None:
        _, given = labels_and_alarms(truth, alarms)
        raised = np.zeros(truth.size, np.bool_)
        raised[np.argsort(-scores, kind="stable")[: np.count_nonzero(given)]] = True
    return evaluate(labels=truth, scores=scores, alarms=raised, window=window, thresholds=thresholds, metrics=metrics)


def _chosen(metrics: Collection[str] | None, *, with_alarms: bool) -> frozenset[str]:
    known = [*SCORE_METRICS, *ALARM_METRICS]
    if metrics is None:
        return frozenset(known)
    names = frozenset([metrics] if isinstance(metrics, str) else metrics)
    unknown = sorted(names - frozenset(known))
    if unknown:
        raise MetricError(
            f"metrics must name functions of patchad.metrics, got {', '.join(unknown)}; known are {', '.join(known)}"
        )
    orphans = sorted(names & frozenset(ALARM_METRICS))
    if orphans and not with_alarms:
        raise MetricError(
            f"alarms are needed for {', '.join(orphans)}, got none; pass alarms= or leave these out of metrics="
        )
    return names

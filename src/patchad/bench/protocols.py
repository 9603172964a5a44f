"""Protocols: how a fitted detector is judged.

`open` takes nothing from the test side; `tsb-ad` measures as the benchmark of that name. `paper` follows the paper: its
threshold depends on the test scores, and its metrics include point adjustment and `oracle_` metrics, which depend on
the labels. `code` follows the paper's public code: all of its metrics, `searched_` by name, are those of alarms whose
threshold was searched against the labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from patchad import metrics
from patchad.bench.fits import Fit
from patchad.bench.period import period
from patchad.data.table import BoolArray, FloatArray
from patchad.datasets.entity import Entity
from patchad.errors import InputError, listed
from patchad.results.detection import alarm_runs
from patchad.thresholds import Ratio

Metrics = dict[str, float | str | None]
"""Values by name, None where a metric is undefined; or only `skipped`, the reason why there are none."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A threshold, what it may depend on, and the metrics to compute."""

    threshold: str
    """For a detector whose variant sets none."""
    sees_test: bool
    """Whether the threshold may depend on the test scores."""
    measure: Callable[[Entity, FloatArray, BoolArray], Metrics]
    """Computes the metrics from the entity, and scores and alarms of its test rows, `(time,)` each."""
    whole: bool = False
    """Whether the rows of train are scored too, as the first rows of test."""


def judge(fit: Fit, entity: Entity, protocol: str, threshold: str | float) -> Metrics:
    """Compute the metrics of a protocol for a fit, with alarms from this threshold.

    Examples
    --------
    >>> from patchad.bench.fits import fit_and_score
    >>> from patchad.detectors.baselines.random import RandomScore
    >>> from patchad.datasets.synthetic import one_channel
    >>> entity = one_channel("trend")
    >>> found = judge(fit_and_score(RandomScore(), entity), entity, "open", "quantile:0.99")
    >>> next(iter(found)), 0.4 < found["roc_auc"] < 0.6
    ('vus_pr_opt', True)
    """
    rule = find_protocol(protocol)
    if fit.detector is None or fit.scores is None:
        return {"skipped": fit.skipped}
    fit.detector.set_threshold(threshold)
    if isinstance(fit.detector.threshold_, Ratio) and not rule.sees_test:
        raise InputError(
            f"threshold {threshold!r} depends on the test scores, which protocol {protocol!r} forbids; use 'auto'"
        )
    alarms = fit.scores > fit.detector.threshold_.levels(fit.scores)
    found = rule.measure(entity, fit.scores, alarms)
    return {name: _json_number(value) for name, value in found.items()}


def find_protocol(name: str) -> Protocol:
    """Look up a protocol by name."""
    if name not in PROTOCOLS:
        raise InputError(f"there is no protocol {name!r}; use one of {listed(tuple(PROTOCOLS))}")
    return PROTOCOLS[name]


def _open_metrics(entity: Entity, scores: FloatArray, alarms: BoolArray) -> Metrics:
    labels = entity.labels
    volume = metrics.vus(labels=labels, scores=scores)
    affiliation = metrics.affiliation(labels=labels, alarms=alarms)
    delay = metrics.detection_delay(labels=labels, alarms=alarms)
    return {
        "vus_pr_opt": volume.pr,
        "vus_roc_opt": volume.roc,
        "pr_auc": metrics.pr_auc(labels=labels, scores=scores),
        "roc_auc": metrics.roc_auc(labels=labels, scores=scores),
        "f1": metrics.f1(labels=labels, alarms=alarms),
        "precision": metrics.precision(labels=labels, alarms=alarms),
        "recall": metrics.recall(labels=labels, alarms=alarms),
        "affiliation_precision": affiliation.precision,
        "affiliation_recall": affiliation.recall,
        "affiliation_f1": affiliation.f1,
        "event_f1": metrics.event_f1(labels=labels, alarms=alarms),
        "events_found": float(delay.detected),
        "events_missed": float(delay.missed),
        "delay_mean": delay.mean,
        "delay_median": delay.median,
        "false_events_per_10k": false_events_per_10k(labels, alarms),
        "peak_hit": peak_hit(labels, scores),
    }


def _paper_metrics(entity: Entity, scores: FloatArray, alarms: BoolArray) -> Metrics:
    labels = entity.labels
    adjusted = metrics.point_adjust(labels=labels, alarms=alarms)
    affiliation = metrics.affiliation(labels=labels, alarms=alarms)
    volume = metrics.vus(labels=labels, scores=scores, family="legacy")
    return {
        "pa_accuracy": metrics.accuracy(labels=labels, alarms=adjusted),
        "pa_precision": metrics.precision(labels=labels, alarms=adjusted),
        "pa_recall": metrics.recall(labels=labels, alarms=adjusted),
        "pa_f1": metrics.pa_f1(labels=labels, alarms=alarms),
        "oracle_pa_f1": metrics.oracle_pa_f1(labels=labels, scores=scores),
        "roc_auc": metrics.roc_auc(labels=labels, scores=scores),
        "f1": metrics.f1(labels=labels, alarms=alarms),
        "oracle_f1": metrics.oracle_f1(labels=labels, scores=scores),
        "affiliation_precision": affiliation.precision,
        "affiliation_recall": affiliation.recall,
        "affiliation_f1": affiliation.f1,
        "vus_roc_legacy": volume.roc,
        "vus_pr_legacy": volume.pr,
        "alarm_share": float(alarms.mean()),
    }


def _tsb_ad_metrics(entity: Entity, scores: FloatArray, alarms: BoolArray) -> Metrics:  # noqa: ARG001
    labels, window = entity.labels, period(entity.test[:, 0])
    volume = metrics.vus(labels=labels, scores=scores, window=window)
    return {
        "vus_pr_period": volume.pr,
        "vus_roc_period": volume.roc,
        "pr_auc": metrics.pr_auc(labels=labels, scores=scores),
        "roc_auc": metrics.roc_auc(labels=labels, scores=scores),
        "oracle_f1": metrics.oracle_f1(labels=labels, scores=scores),
        "oracle_pa_f1": metrics.oracle_pa_f1(labels=labels, scores=scores),
        "oracle_affiliation_f1": metrics.oracle_affiliation_f1(labels=labels, scores=scores),
        "period": float(window),
    }


def _code_metrics(entity: Entity, scores: FloatArray, alarms: BoolArray) -> Metrics:  # noqa: ARG001 - it searches
    """Measure as the paper's public code does, its mistakes included.

    ROC-AUC and VUS are those of the 0/1 predictions instead of the scores; in the affiliation, truth and prediction
    are swapped.
    """
    labels = entity.labels
    share, found = searched_alarms(labels, scores)
    binary = found.astype(np.float64)
    adjusted = metrics.point_adjust(labels=labels, alarms=found)
    volume = metrics.vus(labels=labels, scores=binary, family="legacy")
    swapped = metrics.affiliation(labels=found, alarms=labels) if found.any() else None
    return {
        "searched_share": share,
        "searched_pa_accuracy": metrics.accuracy(labels=labels, alarms=adjusted),
        "searched_pa_precision": metrics.precision(labels=labels, alarms=adjusted),
        "searched_pa_recall": metrics.recall(labels=labels, alarms=adjusted),
        "searched_pa_f1": metrics.pa_f1(labels=labels, alarms=found),
        "searched_roc_auc": metrics.roc_auc(labels=labels, scores=binary),
        "searched_f1": metrics.f1(labels=labels, alarms=found),
        "searched_affiliation_f1": swapped.f1 if swapped else None,
        "searched_vus_roc_legacy": volume.roc,
        "searched_vus_pr_legacy": volume.pr,
    }


def searched_alarms(labels: BoolArray, scores: FloatArray) -> tuple[float, BoolArray]:
    """Return the share of alarms, of 1 to 90 % in steps of one, that has the highest F1, and those alarms.

    Examples
    --------
    >>> labels = np.arange(100) >= 97
    >>> share, alarms = searched_alarms(labels, np.arange(100.0))
    >>> round(share, 2), int(alarms.sum())
    (0.03, 3)
    """
    best = 0.0, 0.0, np.zeros(len(labels), dtype=bool)
    for percent in range(1, 91):
        alarms = scores > np.quantile(scores, 1 - percent / 100)
        found = metrics.f1(labels=labels, alarms=alarms)
        if found > best[0]:
            best = found, percent / 100, alarms
    return best[1], best[2]


PROTOCOLS: Mapping[str, Protocol] = {
    "open": Protocol(threshold="auto", sees_test=False, measure=_open_metrics),
    "tsb-ad": Protocol(threshold="auto", sees_test=False, measure=_tsb_ad_metrics, whole=True),
    "paper": Protocol(threshold="ratio:1", sees_test=True, measure=_paper_metrics),
    "code": Protocol(threshold="ratio:1", sees_test=True, measure=_code_metrics),
}


def peak_hit(labels: BoolArray, scores: FloatArray, slack: int = 100) -> float:
    """Return 1 if the highest score lies within `slack` rows of a labelled event, else 0: the UCR archive's score.

    Examples
    --------
    >>> labels = np.array([False] * 8 + [True] * 2)
    >>> peak_hit(labels, np.array([0.0, 5, 0, 0, 0, 0, 1, 0, 0, 0]), slack=2)
    0.0
    >>> peak_hit(labels, np.array([0.0, 5, 0, 0, 0, 0, 9, 0, 0, 0]), slack=2)
    1.0
    """
    peak = int(np.argmax(scores))
    return float(labels[max(peak - slack, 0) : peak + slack + 1].any())


def false_events_per_10k(labels: BoolArray, alarms: BoolArray) -> float:
    """Count runs of alarms without a labelled row, per 10,000 normal rows.

    Examples
    --------
    >>> labels = np.array([False] * 8 + [True] * 2)
    >>> alarms = np.array([True, True, False, True, False, False, False, True, True, False])
    >>> false_events_per_10k(labels, alarms)
    2500.0
    """
    false = sum(not labels[start:stop].any() for start, stop in alarm_runs(alarms))
    return 10_000 * false / int((~labels).sum())


def _json_number(value: float | str | None) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value

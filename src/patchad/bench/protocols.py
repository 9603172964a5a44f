"""One detector, one protocol, one entity: fit, score, and hold the alarms against the labels.

Two protocols. `open` takes nothing from the test side. `paper` follows the paper: its threshold looks at the test
scores, and its figures include point adjustment and `oracle_` metrics that look at the labels.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from patchad import __version__
from patchad import metrics as measure
from patchad.data.table import BoolArray, FloatArray
from patchad.datasets.entity import Entity
from patchad.detectors.base import Detector
from patchad.errors import InputError, MissingExtraError, MissingWeightsError, PatchADError, listed
from patchad.results.detection import alarm_runs
from patchad.thresholds import Ratio

Metrics = dict[str, float | str | None]
"""Numbers by name, None for what has no value; or one text, `skipped`, the reason why there are none."""


UNAVAILABLE = (MissingExtraError, MissingWeightsError)
"""Errors of a detector that cannot run on this machine as it is, whatever the entity."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a fitted detector is judged."""

    threshold: str
    """For a detector that is given none."""
    sees_test: bool
    """Whether the threshold may look at the scores of test."""
    judge: Callable[[BoolArray, FloatArray, BoolArray], Metrics]
    """From labels, scores and alarms, `(time,)` each."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted detector with what the fit and the scores of test cost; or the reason why there is none."""

    detector: Detector | None
    scores: FloatArray | None
    fit_seconds: float | None = None
    score_seconds: float | None = None
    peak_memory: int | None = None
    """Bytes of the process at its peak during fit and score, all of it: libraries and data included."""
    skipped: str = ""


def fit_and_score(detector: Detector, entity: Entity) -> Fit:
    """Fit on train and score test. An entity that cannot be judged, or fitted, gives a `Fit` that says why.

    What is `UNAVAILABLE` is raised: it says nothing of the entity.
    """
    if not entity.labels.any() or entity.labels.all():
        kind = "normal" if not entity.labels.any() else "anomalous"
        return Fit(None, None, skipped=f"every test row is labelled {kind}; the metrics have no value")
    _reset_peak()
    began = time.perf_counter()
    try:
        detector.fit(entity.train)
    except UNAVAILABLE:
        raise
    except PatchADError as error:
        return Fit(None, None, skipped=str(error))
    fitted = time.perf_counter()
    scores = np.asarray(detector.decision_function(entity.test), dtype=np.float64)
    return Fit(detector, scores, fitted - began, time.perf_counter() - fitted, _peak())


def judge(fit: Fit, entity: Entity, protocol: str, threshold: str | float) -> Metrics:
    """Judge a fit by a protocol, with alarms from this threshold.

    Examples
    --------
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
            f"threshold {threshold!r} looks at the scores of test, which protocol {protocol!r} forbids; use 'auto'"
        )
    alarms = fit.scores > fit.detector.threshold_.levels(fit.scores)
    found = rule.judge(entity.labels, fit.scores, alarms)
    return {name: _json_number(value) for name, value in found.items()}


def find_protocol(name: str) -> Protocol:
    """Look up a protocol by name."""
    if name not in PROTOCOLS:
        raise InputError(f"there is no protocol {name!r}; use one of {listed(tuple(PROTOCOLS))}")
    return PROTOCOLS[name]


def _judge_open(labels: BoolArray, scores: FloatArray, alarms: BoolArray) -> Metrics:
    volume = measure.vus(labels=labels, scores=scores)
    near = measure.affiliation(labels=labels, alarms=alarms)
    delay = measure.detection_delay(labels=labels, alarms=alarms)
    return {
        "vus_pr_opt": volume.pr,
        "vus_roc_opt": volume.roc,
        "pr_auc": measure.pr_auc(labels=labels, scores=scores),
        "roc_auc": measure.roc_auc(labels=labels, scores=scores),
        "f1": measure.f1(labels=labels, alarms=alarms),
        "precision": measure.precision(labels=labels, alarms=alarms),
        "recall": measure.recall(labels=labels, alarms=alarms),
        "affiliation_precision": near.precision,
        "affiliation_recall": near.recall,
        "affiliation_f1": near.f1,
        "event_f1": measure.event_f1(labels=labels, alarms=alarms),
        "events_found": float(delay.detected),
        "events_missed": float(delay.missed),
        "delay_mean": delay.mean,
        "delay_median": delay.median,
        "false_events_per_10k": false_events_per_10k(labels, alarms),
        "peak_hit": peak_hit(labels, scores),
    }


def _judge_paper(labels: BoolArray, scores: FloatArray, alarms: BoolArray) -> Metrics:
    adjusted = measure.point_adjust(labels=labels, alarms=alarms)
    near = measure.affiliation(labels=labels, alarms=alarms)
    volume = measure.vus(labels=labels, scores=scores, family="legacy")
    return {
        "pa_accuracy": measure.accuracy(labels=labels, alarms=adjusted),
        "pa_precision": measure.precision(labels=labels, alarms=adjusted),
        "pa_recall": measure.recall(labels=labels, alarms=adjusted),
        "pa_f1": measure.pa_f1(labels=labels, alarms=alarms),
        "oracle_pa_f1": measure.oracle_pa_f1(labels=labels, scores=scores),
        "roc_auc": measure.roc_auc(labels=labels, scores=scores),
        "f1": measure.f1(labels=labels, alarms=alarms),
        "oracle_f1": measure.oracle_f1(labels=labels, scores=scores),
        "affiliation_precision": near.precision,
        "affiliation_recall": near.recall,
        "affiliation_f1": near.f1,
        "vus_roc_legacy": volume.roc,
        "vus_pr_legacy": volume.pr,
        "alarm_share": float(alarms.mean()),
    }


PROTOCOLS: Mapping[str, Protocol] = {
    "open": Protocol(threshold="auto", sees_test=False, judge=_judge_open),
    "paper": Protocol(threshold="ratio:1", sees_test=True, judge=_judge_paper),
}


def peak_hit(labels: BoolArray, scores: FloatArray, slack: int = 100) -> float:
    """Say whether the highest score lies in a labelled event or within `slack` rows of one: the UCR archive's score.

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
    """Count runs of alarms that meet no labelled row, per 10,000 normal rows.

    Examples
    --------
    >>> labels = np.array([False] * 8 + [True] * 2)
    >>> alarms = np.array([True, True, False, True, False, False, False, True, True, False])
    >>> false_events_per_10k(labels, alarms)
    2500.0
    """
    false = sum(not labels[start:stop].any() for start, stop in alarm_runs(alarms))
    return 10_000 * false / int((~labels).sum())


def checksum(entity: Entity) -> str:
    """Give the SHA-256 of an entity's shapes, values and labels."""
    digest = hashlib.sha256()
    for part in (entity.train, entity.test, entity.labels):
        digest.update(repr((part.shape, part.dtype.str)).encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Give the versions that figures depend on."""
    libraries = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    return {"patchad": __version__, "python": platform.python_version(), **libraries}


def hardware() -> str:
    """Say in words what this machine computes with."""
    import torch

    model = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        named = [line.split(":")[1].strip() for line in facts.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{model}, {os.cpu_count()} cores, {gpu}"


def _json_number(value: float | str | None) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _reset_peak() -> None:
    """Start the kernel's high-water mark of this process anew, where it can be: on Linux."""
    mark = Path("/proc/self/clear_refs")
    try:
        mark.write_text("5")
    except OSError:
        return


def _peak() -> int:
    """Give the most memory since `_reset_peak`, in bytes; elsewhere than on Linux, since the process began."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def n_parameters(detector: Any) -> int | None:
    """Give the number of trained numbers, where a detector counts them."""
    count = getattr(detector, "n_parameters_", None)
    return None if count is None else int(count)

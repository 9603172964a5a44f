"""Fit a detector on train, score test, and measure the time and the peak memory that this takes."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchad.data.table import FloatArray
from patchad.datasets.entity import Entity
from patchad.detectors.base import Detector
from patchad.errors import MissingExtraError, MissingWeightsError, PatchADError

UNAVAILABLE = (MissingExtraError, MissingWeightsError)
"""Errors of a detector that cannot run on this machine, whatever the entity."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted detector with its scores of test and what they cost; or the reason why there is none."""

    detector: Detector | None
    scores: FloatArray | None
    fit_seconds: float | None = None
    score_seconds: float | None = None
    peak_memory: int | None = None
    """Peak bytes of the whole process during fit and score, libraries and data included."""
    skipped: str = ""
    """Why the entity was skipped."""


def fit_and_score(detector: Detector, entity: Entity) -> Fit:
    """Fit on train and score test.

    An entity that cannot be judged or fitted gives a `Fit` with the reason in `skipped`. Errors in `UNAVAILABLE` are
    raised, since they say nothing about the entity.
    """
    if not entity.labels.any() or entity.labels.all():
        kind = "normal" if not entity.labels.any() else "anomalous"
        return Fit(None, None, skipped=f"every test row is labelled {kind}; the metrics have no value")
    _reset_peak_memory()
    began = time.perf_counter()
    try:
        detector.fit(entity.train)
    except UNAVAILABLE:
        raise
    except PatchADError as error:
        return Fit(None, None, skipped=str(error))
    fitted = time.perf_counter()
    scores = np.asarray(detector.decision_function(entity.test), dtype=np.float64)
    return Fit(detector, scores, fitted - began, time.perf_counter() - fitted, _peak_memory())


def n_parameters(detector: object) -> int | None:
    """Return the number of trained parameters, or None if the detector does not count them."""
    count = getattr(detector, "n_parameters_", None)
    return None if count is None else int(count)


def _reset_peak_memory() -> None:
    """Reset the kernel's high-water mark of this process. Only Linux can."""
    mark = Path("/proc/self/clear_refs")
    try:
        mark.write_text("5")
    except OSError:
        return


def _peak_memory() -> int:
    """Return the peak in bytes since `_reset_peak_memory`, or since the process began where that has no effect."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

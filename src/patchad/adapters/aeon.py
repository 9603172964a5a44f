"""A detector of ours as one of aeon's: one score per time point."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from patchad.data.table import FloatArray
from patchad.detectors.base import Detector
from patchad.detectors.patchad import PatchAD
from patchad.errors import MissingExtraError

try:
    from aeon.anomaly_detection.series.base import BaseSeriesAnomalyDetector
except ImportError as error:
    raise MissingExtraError("aeon", "aeon") from error


class AeonDetector(BaseSeriesAnomalyDetector):  # type: ignore[misc]
    """A semi-supervised detector of aeon: `fit` on a normal series, `predict` gives the score of every time point.

    Parameters
    ----------
    detector
        What to fit; it is not changed. By default `PatchAD()`.

    Examples
    --------
    >>> from patchad import make
    >>> rows = np.random.default_rng(0).normal(size=(300, 2))
    >>> rows[200] = 9
    >>> int(AeonDetector(make("moving_zscore")).fit(rows[:150], axis=0).predict(rows, axis=0).argmax())
    200
    """

    _tags: ClassVar[dict[str, Any]] = {
        "capability:univariate": True,
        "capability:multivariate": True,
        "capability:missing_values": True,
        "fit_is_empty": False,
        "requires_y": False,
        "anomaly_output_type": "anomaly_scores",
        "learning_type:semi_supervised": True,
        "learning_type:unsupervised": True,
    }

    def __init__(self, detector: Detector | None = None) -> None:
        self.detector = detector
        super().__init__(axis=0)

    def _fit(self, X: FloatArray, y: Any = None) -> AeonDetector:  # noqa: ARG002 - y is aeon's
        self.detector_ = PatchAD() if self.detector is None else clone(self.detector)
        self.detector_.fit(X)
        return self

    def _predict(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.detector_.decision_function(X), dtype=np.float64)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:  # noqa: ARG003 - aeon's
        return {"detector": PatchAD(window=15, max_steps=3, d_model=4, layers=1)}

"""A detector of ours as one of PyOD's: `decision_scores_`, `labels_`, `predict_proba`, `predict_confidence`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from patchad.data.table import FloatArray
from patchad.detectors.base import Detector
from patchad.detectors.patchad import PatchAD
from patchad.errors import MissingExtraError

try:
    from pyod.models.base import BaseDetector
except ImportError as error:
    raise MissingExtraError("pyod", "baselines") from error


class PyODDetector(BaseDetector):  # type: ignore[misc]
    """A detector of PyOD that judges rows in their order.

    PyOD's threshold is the share `contamination` of the train rows; ours, and the events, are in `detector_`.

    Parameters
    ----------
    detector
        What to fit; it is not changed. By default `PatchAD()`.
    contamination
        PyOD's: the share of train rows that are labelled outliers.

    Examples
    --------
    >>> from patchad import make
    >>> rows = np.random.default_rng(0).normal(size=(300, 2))
    >>> rows[200] = 9
    >>> outlier = PyODDetector(make("moving_zscore"), contamination=0.01).fit(rows)
    >>> int(outlier.labels_.sum()), int(outlier.decision_scores_.argmax())
    (3, 200)
    """

    def __init__(self, detector: Detector | None = None, contamination: float = 0.1) -> None:
        super().__init__(contamination=contamination)
        self.detector = detector

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what is normal from `(time, channel)`; y is ignored."""
        self._set_n_classes(y)
        self.detector_ = PatchAD() if self.detector is None else clone(self.detector)
        self.detector_.fit(X)
        self.decision_scores_ = self.decision_function(X)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Score every row, higher is stranger; a row that was dropped is as normal as can be."""
        scores = np.asarray(self.detector_.decision_function(X), dtype=np.float64)
        return np.where(np.isnan(scores), np.nanmin(scores), scores)

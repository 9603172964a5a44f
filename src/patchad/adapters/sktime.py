"""A detector of ours as one of sktime's: rows of events by number, events as intervals, scores."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import clone

from patchad.detectors.base import Detector
from patchad.detectors.patchad import PatchAD
from patchad.detectors.registry import make
from patchad.errors import MissingExtraError

try:
    from sktime.detection.base import BaseDetector
except ImportError as error:
    raise MissingExtraError("sktime", "sktime") from error


class SktimeDetector(BaseDetector):  # type: ignore[misc]
    """A detector of sktime for the task `anomaly_detection`.

    `predict` gives the numbers of the rows inside events, `transform` 0 or 1 for every row, `transform_scores` the
    scores, `predict_scores` those of the rows that `predict` gives. The events themselves are in
    `detector_.detect(X)`.

    Parameters
    ----------
    detector
        What to fit; it is not changed. By default `PatchAD()`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from patchad import make
    >>> from patchad.adapters.sktime import SktimeDetector
    >>> rows = pd.DataFrame(np.sin(np.arange(300)))
    >>> rows.iloc[200:204] = 9
    >>> SktimeDetector(make("sensor_range")).fit(rows[:150]).predict(rows)["ilocs"].tolist()
    [200, 201, 202, 203]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The PatchAD authors",
        "maintainers": "The PatchAD authors",
        "task": "anomaly_detection",
        "learning_type": "unsupervised",
        "capability:multivariate": True,
        "capability:missing_values": True,
        "X_inner_mtype": "pd.DataFrame",
        "fit_is_empty": False,
    }

    def __init__(self, detector: Detector | None = None) -> None:
        self.detector = detector
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: Any = None) -> SktimeDetector:  # noqa: ARG002 - y is sktime's
        self.detector_ = PatchAD() if self.detector is None else clone(self.detector)
        self.detector_.fit(_named(X))
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"ilocs": np.flatnonzero(np.asarray(self.detector_.predict(_named(X))))})

    def _transform_scores(self, X: pd.DataFrame) -> pd.DataFrame:
        scores = np.asarray(self.detector_.decision_function(_named(X)))
        return pd.DataFrame({"scores": scores}, index=X.index)

    def _predict_scores(self, X: pd.DataFrame) -> pd.Series:
        return self._transform_scores(X)["scores"].iloc[self._predict(X)["ilocs"]].reset_index(drop=True)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003 - sktime's
        """Return the parameters that sktime's own checks use: detectors that fit in no time."""
        quick = PatchAD(window=15, max_steps=3, d_model=4, layers=1)
        return [{"detector": quick}, {"detector": make("sensor_range")}]


def _named(X: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """Return a frame with names that are text, and times that are points in time."""
    X = X.to_frame() if isinstance(X, pd.Series) else X  # `predict_points` passes it on as it is
    index = X.index.to_timestamp() if isinstance(X.index, pd.PeriodIndex) else X.index
    return X.set_axis([str(name) for name in X.columns], axis=1).set_axis(index, axis=0)

"""What anybody can do with a spreadsheet. A method that does not beat these has found nothing.

The three are the usual trivial detectors of critical benchmarks, as in Sarfraz et al., "Position: Quo Vadis,
Unsupervised Time Series Anomaly Detection?" (2024); none has anything to simplify.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patchad.baselines.rows import RowDetector
from patchad.containers import FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class SensorRange(RowDetector):
    """How far outside the range of train the channels are.

    Examples
    --------
    >>> t = np.arange(100.0)[:, None]
    >>> SensorRange().fit(np.sin(t)).decision_function(np.array([[0.0], [5.0]])).round(1).tolist()
    [0.0, 5.7]
    """

    name = "sensor_range"
    kept: ClassVar[tuple[str, ...]] = ("low_", "high_")

    @property
    def n_parameters_(self) -> int:
        """Two for each channel."""
        return len(self.low_) + len(self.high_)

    def _learn(self, rows: FloatArray) -> None:
        self.low_, self.high_ = rows.min(axis=0), rows.max(axis=0)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        outside = np.maximum(rows - self.high_, 0) + np.maximum(self.low_ - rows, 0)
        return outside.max(axis=1), outside if explain else None


@dataclass(kw_only=True, eq=False, repr=False)
class LastDifference(RowDetector):
    """How far the channels moved since the row before, in usual moves of each."""

    name = "last_difference"
    context: ClassVar[int] = 1
    kept: ClassVar[tuple[str, ...]] = ("usual_",)

    @property
    def n_parameters_(self) -> int:
        """One for each channel."""
        return len(self.usual_)

    def _learn(self, rows: FloatArray) -> None:
        self.usual_ = np.maximum(np.diff(rows, axis=0).std(axis=0), 1e-3)  # of a standard deviation: less is rounding

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        moves = np.abs(np.diff(rows, axis=0, prepend=rows[:1])) / self.usual_
        return moves.mean(axis=1), moves if explain else None

"""Rules simple enough for a spreadsheet; a method that does not beat them adds nothing.

The first two are the usual trivial detectors of critical benchmarks, as in Sarfraz et al., "Position: Quo
Vadis, Unsupervised Time Series Anomaly Detection?" (2024); none has anything to simplify.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from patchad.data.table import FloatArray
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.rows import RowDetector
from patchad.detectors.windowed import WindowDetector


@dataclass(kw_only=True, eq=False, repr=False)
class SensorRange(RowDetector):
    """Largest distance of a channel outside its range in train.

    Examples
    --------
    >>> t = np.arange(100.0)[:, None]
    >>> SensorRange().fit(np.sin(t)).decision_function(np.array([[0.0], [5.0]])).round(1).tolist()
    [0.0, 5.7]
    """

    name = "sensor_range"
    learned: ClassVar[Mapping[str, Any] | None] = {"low_": np.ndarray, "high_": np.ndarray}

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
    """Absolute difference to the previous row, in units of each channel's usual difference."""

    name = "last_difference"
    reach: ClassVar[int] = 1
    learned: ClassVar[Mapping[str, Any] | None] = {"usual_": np.ndarray}

    @property
    def n_parameters_(self) -> int:
        """One for each channel."""
        return len(self.usual_)

    def _learn(self, rows: FloatArray) -> None:
        # The floor is in standard deviations of the channel: smaller differences are rounding.
        self.usual_ = np.maximum(np.diff(rows, axis=0).std(axis=0), 1e-3)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        differences = np.abs(np.diff(rows, axis=0, prepend=rows[:1])) / self.usual_
        return differences.mean(axis=1), differences if explain else None


@dataclass(kw_only=True, eq=False, repr=False)
class MovingZScore(WindowDetector):
    """Distance of each channel from its mean over the previous rows, in their standard deviations.

    The rule of control charts, with nothing learned but the scale. The score is the mean over channels. The first rows
    of a series, which have no full window before them, share the first available score.

    Parameters
    ----------
    window
        The rows before, and the row to score.
    floor
        Smallest deviation to divide by, in the channel's standard deviations over train, or in its unit where it is
        constant there: a small change of a nearly constant channel must not drown out all others.
    """

    name = "moving_zscore"

    window: int = 101
    floor: float = 0.05

    @property
    def n_parameters_(self) -> int:
        """0: nothing is learned but the scale."""
        return 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=3)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        """Learn nothing: the scale is already known."""

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - a window scores its newest row only
        *,
        explain: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        before = windows[:, :-1].astype(np.float64)
        deviations = np.maximum(before.std(axis=1), self.floor)
        distances = np.abs(windows[:, -1] - before.mean(axis=1)) / deviations
        return distances.mean(axis=1, keepdims=True), distances[:, None] if explain else None

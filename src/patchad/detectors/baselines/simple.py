"""What anybody can do with a spreadsheet. A method that does not beat these has found nothing.

The first two are the usual trivial detectors of critical benchmarks, as in Sarfraz et al., "Position: Quo
Vadis, Unsupervised Time Series Anomaly Detection?" (2024); none has anything to simplify.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from patchad.data.table import FloatArray
from patchad.detectors.rows import RowDetector
from patchad.detectors.windowed import WindowDetector
from patchad.errors import InputError


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
    """How far the channels moved since the row before, in usual moves of each."""

    name = "last_difference"
    reach: ClassVar[int] = 1
    learned: ClassVar[Mapping[str, Any] | None] = {"usual_": np.ndarray}

    @property
    def n_parameters_(self) -> int:
        """One for each channel."""
        return len(self.usual_)

    def _learn(self, rows: FloatArray) -> None:
        self.usual_ = np.maximum(np.diff(rows, axis=0).std(axis=0), 1e-3)  # of a standard deviation: less is rounding

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        moves = np.abs(np.diff(rows, axis=0, prepend=rows[:1])) / self.usual_
        return moves.mean(axis=1), moves if explain else None


@dataclass(kw_only=True, eq=False, repr=False)
class MovingZScore(WindowDetector):
    """How far each channel is from its mean over the rows before, in their standard deviations.

    The chart rule of every control room, with nothing learned but the scale. The score is the mean over channels.
    The first rows of a series, which have no full window before them, share the first score that can be given.

    Parameters
    ----------
    window
        Rows before, and the row to judge.
    floor
        Smallest deviation to divide by, in the channel's standard deviations over train, or in its unit where it
        never moved there: a still channel that moves a little must not drown all others.
    """

    name = "moving_zscore"

    window: int = 101
    floor: float = 0.05

    @property
    def n_parameters_(self) -> int:
        """None but the scale."""
        return 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.window < 3:
            raise InputError(f"window={self.window} is too small; it must be at least 3, two rows to compare with")

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        """Learn nothing: the scale is known already."""

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - a window judges its newest row alone
        *,
        explain: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        before = windows[:, :-1].astype(np.float64)
        deviations = np.maximum(before.std(axis=1), self.floor)
        moves = np.abs(windows[:, -1] - before.mean(axis=1)) / deviations
        return moves.mean(axis=1, keepdims=True), moves[:, None] if explain else None

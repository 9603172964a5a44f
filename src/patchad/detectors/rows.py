"""RowDetector: judge rows one by one, or beside the few before them. A subclass writes `_learn` and `_judge`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patchad.data.scaling import ZScore
from patchad.data.series import Series
from patchad.data.table import FloatArray
from patchad.detectors.base import Detector

ROWS_TOGETHER = 10_000


@dataclass(kw_only=True, eq=False, repr=False)
class RowDetector(Detector):
    """A detector that looks at z-scored rows."""

    context: ClassVar[int] = 0
    """Rows before a row that its score needs."""

    @abstractmethod
    def _learn(self, rows: FloatArray) -> None:
        """Learn from the scaled rows of train, `(time, channel)`, all series together."""

    @abstractmethod
    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        """Score scaled rows `(time, channel)`; give the blame of each channel, not negative, if asked for and known."""

    def _fit(self, train: Sequence[Series], tails: Sequence[int]) -> None:
        known = [series.values[:tail] for series, tail in zip(train, tails, strict=True)]
        self.scaler_ = ZScore.fit(known)
        self._learn(np.concatenate([self.scaler_(values) for values in known]))

    def _score(self, series: Series, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        scores = np.empty(len(series))
        blame = np.zeros(series.values.shape, dtype=np.float32) if explain else None
        for first in range(0, len(series), ROWS_TOGETHER):
            before = min(first, self.context)
            part = slice(first, first + ROWS_TOGETHER)
            rows = self.scaler_(series.values[first - before : part.stop])
            judged, blamed = self._judge(rows, explain=explain)
            scores[part] = judged[before:]
            if blame is not None and blamed is not None:
                blame[part] = blamed[before:]
        return scores, blame

    def _sample(self, rows: FloatArray, most: int) -> FloatArray:
        """Take at most `most` rows, evenly."""
        return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.intp))]

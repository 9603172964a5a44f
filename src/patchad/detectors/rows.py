"""RowDetector: score rows one by one, or beside the few before them. A subclass writes `_learn` and `_judge`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from patchad.data.holdout import known_parts
from patchad.data.scaling import ZScore
from patchad.data.series import Series
from patchad.data.stages import Immediate, Scored, Stage
from patchad.data.table import FloatArray
from patchad.detectors.base import Detector

CHUNK_ROWS = 10_000
"""Rows that are scaled and scored together."""


class RowStage(Immediate):
    """Score rows beside the `context` rows before them.

    Parameters
    ----------
    context
        Rows before a row that its score needs.
    score
        From consecutive rows to their scores and attribution; those of the first `context` rows are ignored, except at
        the start of the segment.
    carried
        What `score` carries from one call to the next: an object with a `state`.
    """

    state: ClassVar[tuple[str, ...]] = ("_before", "_carried")

    def __init__(self, context: int, score: Callable[[FloatArray], Scored], carried: object = None) -> None:
        self._context, self._score, self._carried = context, score, carried
        self._before: FloatArray | None = None

    def push(self, rows: FloatArray) -> Scored:
        """Return the scores of all rows."""
        parts = [self._push(rows[first : first + CHUNK_ROWS]) for first in range(0, len(rows), CHUNK_ROWS)]
        return Scored.join(parts) if parts else Scored(np.empty(0))

    def _push(self, rows: FloatArray) -> Scored:
        both = rows if self._before is None else np.concatenate([self._before, rows])
        known = len(both) - len(rows)
        self._before = both[max(len(both) - self._context, 0) :].copy() if self._context else None
        found = self._score(both)
        return Scored(found.scores[known:], None if found.attribution is None else found.attribution[known:])


@dataclass(kw_only=True, eq=False, repr=False)
class RowDetector(Detector):
    """A detector of scaled rows."""

    learned: ClassVar[Mapping[str, Any] | None] = {"scaler_": ZScore}
    reach: ClassVar[int] = 0
    """Rows before a row that its score needs."""

    @abstractmethod
    def _learn(self, rows: FloatArray) -> None:
        """Learn from the scaled rows of train, `(time, channel)`, all series together."""

    @abstractmethod
    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        """Score scaled rows `(time, channel)`; return the non-negative attribution too, if requested and known."""

    @property
    def context(self) -> int | None:
        """Rows before a row that its score can depend on."""
        return self.reach

    def _fit(self, train: Sequence[Series], held_out: Sequence[Sequence[slice]]) -> None:
        known = known_parts(train, held_out)
        self.scaler_ = ZScore.fit(known)
        self._learn(np.concatenate([self.scaler_(values) for values in known]))

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        def score(rows: FloatArray) -> Scored:
            scores, attribution = self._judge(self.scaler_(rows), explain=explain)
            return Scored(scores, None if attribution is None else attribution.astype(np.float32))

        return RowStage(self.reach, score)

    def _sample(self, rows: FloatArray, most: int) -> FloatArray:
        """Take at most `most` rows, evenly."""
        return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.intp))]

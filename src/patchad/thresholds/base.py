"""Threshold: a rule that returns the level for each score, fitted on scores of train."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np

from patchad.data.table import FloatArray
from patchad.errors import InputError


class Threshold(ABC):
    """A rule that returns the level for each score."""

    level: float
    """The level for the next score, once fitted."""
    uses_all_train: ClassVar[bool] = False
    """Whether `fit` wants the scores of all of train rather than the held-out ones."""
    needs_all_scores: ClassVar[bool] = False
    """Whether the level depends on scores to come, so that a stream cannot have it."""

    @abstractmethod
    def fit(self, calibration: FloatArray) -> Self:
        """Learn from `(time,)` scores of train; NaN separates stretches that do not follow each other."""

    def step(self, score: float) -> float:  # noqa: ARG002 - a fixed level ignores it
        """Return the level for this score, and adapt afterwards where the rule does."""
        return self.level

    def levels(self, scores: FloatArray) -> FloatArray:
        """Return the level for every score of a series, starting from the fitted state, which stays as it is.

        A row without a score (NaN) has the level that the next score would have.
        """
        return copy.deepcopy(self).advance(scores)

    def advance(self, scores: FloatArray) -> FloatArray:
        """Return the level for each of the next scores of a stream, and adapt where the rule does."""
        if type(self).step is Threshold.step:
            return np.full(len(scores), self.level)
        return np.array([self.step(score) for score in scores.tolist()], dtype=np.float64)


def finite(scores: FloatArray) -> FloatArray:
    """Return the finite scores as float64; refuse an empty array."""
    kept = np.asarray(scores, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    require(len(kept) > 0, "a threshold needs scores to be fitted on, and got none")
    return kept


def require(condition: bool, message: str) -> None:
    """Raise `InputError` unless a condition holds."""
    if not condition:
        raise InputError(message)

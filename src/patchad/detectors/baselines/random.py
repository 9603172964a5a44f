"""Random scores: the row that every result has to beat."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchad.data.series import Series
from patchad.data.table import FloatArray
from patchad.detectors.base import Detector


@dataclass(kw_only=True, eq=False, repr=False)
class RandomScore(Detector):
    """Uniform random numbers, one a row, whatever the row holds.

    The number of row k comes from the seed, the first row of the series and k, so that it depends on no later row and
    is the same every time.

    Examples
    --------
    >>> rows = np.zeros((100, 2))
    >>> detector = RandomScore(random_state=7).fit(rows)
    >>> bool((detector.decision_function(rows)[:50] == detector.decision_function(rows[:50])).all())
    True
    """

    name = "random"

    @property
    def n_parameters_(self) -> int:
        """Nothing is learned."""
        return 0

    def _fit(self, train: Sequence[Series], tails: Sequence[int]) -> None:  # noqa: ARG002 - nothing to learn
        self.seed_ = self._seed()

    def _score(self, series: Series, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        first = zlib.crc32(np.ascontiguousarray(series.values[:1], dtype=np.float64).tobytes())
        scores = np.random.Generator(np.random.Philox(key=[self.seed_, first])).random(len(series))
        return scores, np.zeros(series.values.shape, dtype=np.float32) if explain else None

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"seed": self.seed_, "n_parameters": 0}

    def _restore(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:  # noqa: ARG002 - there are none
        self.seed_ = facts["seed"]

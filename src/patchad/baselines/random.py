"""Random scores: the row that every result has to beat."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from patchad.containers import FloatArray
from patchad.detector import Detector
from patchad.series import Missing, Series
from patchad.thresholds import Threshold


class RandomScore(Detector):
    """Uniform random numbers, one a row, whatever the row holds.

    The number of row k comes from the seed, the first row of the series and k, so that it depends on no later row and
    is the same every time.

    Parameters
    ----------
    threshold
        `auto`, `spot`, `dspot`, `quantile:q`, `sigma:k`, `mad:k`, `ratio:r`, a number, or a `Threshold`.
    risk
        Expected share of normal rows that alarm, for `auto`, `spot` and `dspot`.
    min_duration, merge_gap
        Shortest event, and the longest pause inside one, in rows.
    missing
        `interpolate` (hold the last value), `error`, or `drop`.
    max_gap
        Steps in time, in usual steps, over which a new segment starts; and rows without any value that are filled.
    calibration
        Share of train, at its end, whose scores the threshold is fitted on.
    random_state
        Seed.

    Examples
    --------
    >>> rows = np.zeros((100, 2))
    >>> detector = RandomScore(random_state=7).fit(rows)
    >>> bool((detector.decision_function(rows)[:50] == detector.decision_function(rows[:50])).all())
    True
    """

    name = "random"

    def __init__(
        self,
        *,
        threshold: str | float | Threshold = "auto",
        risk: float = 1e-4,
        min_duration: int = 1,
        merge_gap: int = 0,
        missing: Missing = "interpolate",
        max_gap: float = 10,
        calibration: float = 0.2,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.threshold = threshold
        self.risk = risk
        self.min_duration = min_duration
        self.merge_gap = merge_gap
        self.missing = missing
        self.max_gap = max_gap
        self.calibration = calibration
        self.random_state = random_state

    @property
    def n_parameters_(self) -> int:
        """Nothing is learned."""
        return 0

    def _fit(self, train: Sequence[Series], tails: Sequence[int]) -> None:  # noqa: ARG002 - nothing to learn
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))

    def _score(self, series: Series, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        first = zlib.crc32(np.ascontiguousarray(series.values[:1], dtype=np.float64).tobytes())
        scores = np.random.Generator(np.random.Philox(key=[self.seed_, first])).random(len(series))
        return scores, np.zeros(series.values.shape, dtype=np.float32) if explain else None

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"seed": self.seed_, "n_parameters": 0}

    def _restore(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:  # noqa: ARG002 - there are none
        self.seed_ = facts["seed"]

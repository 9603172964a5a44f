"""Random scores: the baseline that every method has to beat."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from patchad.data.series import Series
from patchad.data.stages import Immediate, Scored, Stage
from patchad.data.table import FloatArray
from patchad.detectors.base import Detector

WORDS = 4
"""Numbers that the generator makes at once."""


@dataclass(kw_only=True, eq=False, repr=False)
class RandomScore(Detector):
    """Uniform random score for each row, independent of its values.

    The score of row k is derived from the seed, the first row of the series and k, so that it depends on no later row
    and is reproducible.

    Examples
    --------
    >>> rows = np.zeros((100, 2))
    >>> detector = RandomScore(random_state=7).fit(rows)
    >>> bool((detector.decision_function(rows)[:50] == detector.decision_function(rows[:50])).all())
    True
    """

    name = "random"
    learned: ClassVar[Mapping[str, Any] | None] = {"seed_": int}

    @property
    def n_parameters_(self) -> int:
        """0: nothing is learned."""
        return 0

    def _fit(self, train: Sequence[Series], held_out: Sequence[Sequence[slice]]) -> None:  # noqa: ARG002 - nothing to learn
        self.seed_ = self._seed()

    @property
    def context(self) -> None:
        """None: the first row of a segment seeds all of its scores."""
        return

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        return _RandomStage(self.seed_, explain=explain)


class _RandomStage(Immediate):
    state: ClassVar[tuple[str, ...]] = ("_first", "_drawn")

    def __init__(self, seed: int, *, explain: bool) -> None:
        self._seed, self._explain = seed, explain
        self._first: int | None = None
        self._drawn = 0

    def push(self, rows: FloatArray) -> Scored:
        if self._first is None:
            self._first = zlib.crc32(np.ascontiguousarray(rows[:1], dtype=np.float64).tobytes())
        bits = np.random.Philox(key=[self._seed, self._first])
        bits.advance(self._drawn // WORDS)
        drawn = np.random.Generator(bits).random(self._drawn % WORDS + len(rows))[self._drawn % WORDS :]
        self._drawn += len(rows)
        attribution = np.zeros(rows.shape, dtype=np.float32) if self._explain else None
        return Scored(drawn, attribution)

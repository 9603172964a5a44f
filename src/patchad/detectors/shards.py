"""Shards: stretches of a segment that are scored by themselves, with the scores of one pass over all of it.

A score depends on at most `Detector.context` rows before its row and `Detector.delay` after it, and windows lie on a
grid that begins with the segment. So a shard takes that many more rows along, from a row of the grid on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from patchad.data.stages import Scored
from patchad.data.table import FloatArray

if TYPE_CHECKING:
    from patchad.detectors.base import Detector


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """Rows of a segment to be scored, with those that their scores depend on."""

    values: FloatArray
    """(time, channel)."""
    wanted: slice
    """Which of them, where the rest is context."""
    ends: bool
    """Whether the segment ends with them."""


class Cutter:
    """Cut the rows of one segment into shards as they come.

    Parameters
    ----------
    detector
        Fitted, with a `context`.
    rows
        Rows that a shard scores, about.
    """

    def __init__(self, detector: Detector, rows: int) -> None:
        self._context, self._delay = int(detector.context or 0), detector.delay
        self._hop = int(getattr(detector, "hop_", 1))
        self._rows = max(rows, detector._window())
        self._kept: list[FloatArray] = []
        self._first = self._next = self._length = 0
        """First row that is kept, first that no shard scores yet, and rows so far."""

    def push(self, values: FloatArray) -> list[Shard]:
        """Take the next rows; return the shards that can be scored."""
        self._kept.append(values)
        self._length += len(values)
        shards = []
        while self._length >= self._next + self._rows + self._delay:
            shards.append(self._shard(self._next + self._rows, self._next + self._rows + self._delay, ends=False))
        return shards

    def flush(self) -> list[Shard]:
        """End the segment; return the shard of the rows that are left."""
        return [self._shard(self._length, self._length, ends=True)] if self._length > self._next else []

    def _shard(self, stop: int, last: int, *, ends: bool) -> Shard:
        kept = self._kept[0] if len(self._kept) == 1 else np.concatenate(self._kept)
        start = self._begin(self._next)
        found = kept[start - self._first : last - self._first]
        wanted = slice(self._next - start, stop - start)
        self._next = stop
        self._kept, self._first = [kept[self._begin(stop) - self._first :]], self._begin(stop)
        return Shard(found, wanted, ends)

    def _begin(self, row: int) -> int:
        """Return the row of the grid from which on the context of a row lies."""
        return max(row - self._context, 0) // self._hop * self._hop


def score_shard(detector: Detector, shard: Shard) -> Scored:
    """Score the wanted rows of a shard, with their attribution."""
    scorer = detector._scorer(explain=True)
    parts = [scorer.push(shard.values[chunk]) for chunk in detector._chunks(len(shard.values))]
    if shard.ends:
        parts.append(scorer.flush())
    return Scored.join(parts)[shard.wanted]

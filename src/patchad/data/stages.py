"""Stages: the path from rows to scores in steps that can be fed row by row.

A stage takes consecutive rows of one segment and returns the rows that became final, in order. Pushing all rows at once
or one at a time gives the same result, so that batch, stream and shards share one implementation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray

FEW_ROWS = 1024
"""Rows up to which all channels are averaged at once."""

In_contra = TypeVar("In_contra", contravariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Consecutive rows with their scores."""

    scores: FloatArray
    """(time,), or (time, column) before the columns are combined."""
    attribution: FloatArray | None = None
    """(time, channel), non-negative; None where it was not requested or the detector cannot tell channels apart."""
    local: FloatArray | None = None
    """Like `scores`, by the least strange window that covers a row: sharp where an event begins and ends. None where a
    score is sharp already."""
    unadapted: FloatArray | None = None
    """(time,), the score before adaptation to what lasts; None where nothing adapts."""

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def join(cls, parts: Sequence[Scored]) -> Scored:
        """Concatenate consecutive parts; a single non-empty one is returned as it is.

        Examples
        --------
        >>> Scored.join([Scored(np.zeros(0)), Scored(np.ones(2)), Scored(np.ones(1))]).scores.tolist()
        [1.0, 1.0, 1.0]
        """
        filled = [part for part in parts if len(part)] or list(parts[:1])
        if len(filled) == 1:
            return filled[0]
        scores = np.concatenate([part.scores for part in filled])
        return cls(scores, *(_joined([getattr(part, name) for part in filled]) for name in OPTIONAL))

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Scored:
        return Scored(
            self.scores[rows],
            None if self.attribution is None else self.attribution[rows],
            None if self.local is None else self.local[rows],
            None if self.unadapted is None else self.unadapted[rows],
        )


def shares_of(attribution: FloatArray) -> FloatArray:
    """Divide each row of `(time, channel)` attribution by its sum, in place.

    Examples
    --------
    >>> shares_of(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    total = attribution.sum(axis=1, keepdims=True)
    np.divide(attribution, total, out=attribution, where=total > 0)
    return attribution


OPTIONAL = ("attribution", "local", "unadapted")
"""Fields of `Scored` that may be None."""


def _joined(values: Sequence[FloatArray | None]) -> FloatArray | None:
    known = [value for value in values if value is not None]
    return np.concatenate(known) if len(known) == len(values) else None


class Stage(Protocol[In_contra]):
    """One step on the path of a row.

    A stage that carries something from one push to the next names those attributes in `state`: arrays, numbers, plain
    containers of these, dataclasses that `patchad.streaming.snapshot` knows, or objects that have a `state` themselves.
    """

    def push(self, rows: In_contra) -> Scored:
        """Take the next rows of the segment; return the rows that became final."""

    def flush(self) -> Scored:
        """End the segment; return the rows that were still open."""


class Chain:
    """Stages in a row, as one stage."""

    state: ClassVar[tuple[str, ...]] = ("first", "rest")

    def __init__(self, first: Stage[FloatArray], *rest: Stage[Scored]) -> None:
        self.first, self.rest = first, rest

    def push(self, rows: FloatArray) -> Scored:
        """Pass rows through all stages."""
        return self.go_on(self.first.push(rows))

    def go_on(self, found: Scored) -> Scored:
        """Pass what the first stage found through the others."""
        for stage in self.rest:
            found = stage.push(found)
        return found

    def preview(self, found: Scored) -> Scored:
        """Return what the others would make of rows that the first stage may change yet; all stay as they are."""
        for stage in self.rest:
            found = cast("Immediate", stage).preview(found)
        return found

    def flush(self) -> Scored:
        """Flush the stages one after the other, each after the rest of the one before."""
        found = self.first.flush()
        for stage in self.rest:
            found = Scored.join([stage.push(found), stage.flush()])
        return found


class Immediate:
    """Base of stages that hold no row back: nothing is left to flush."""

    state: ClassVar[tuple[str, ...]] = ()

    def preview(self, rows: Scored) -> Scored:
        """Return what the next rows would become, and stay as it is; their attribution is left as it is."""
        stage: Any = copy.deepcopy(self)
        found: Scored = stage.push(replace(rows, attribution=None))
        return replace(found, attribution=rows.attribution)

    def flush(self) -> Scored:
        """Return no rows."""
        return Scored(np.empty(0))


class Map(Immediate):
    """Apply a function of rows to their scores: one score per row, from that row alone.

    Examples
    --------
    >>> Map(lambda columns: columns[:, 0]).push(Scored(np.array([[1.0, 2.0]]))).scores.tolist()
    [1.0]
    """

    def __init__(self, function: Callable[[FloatArray], FloatArray]) -> None:
        self._function = function

    def push(self, rows: Scored) -> Scored:
        """Return the rows with their new scores."""
        local = None if rows.local is None else self._function(rows.local)
        return replace(rows, scores=self._function(rows.scores), local=local)


class TrailingMean(Immediate):
    """Average scores and attribution over the last `rows` rows, fewer at the start of the segment.

    Local scores stay as they are.

    Examples
    --------
    >>> mean = TrailingMean(2)
    >>> mean.push(Scored(np.array([3.0, 5.0]))).scores.tolist(), mean.push(Scored(np.array([7.0]))).scores.tolist()
    ([3.0, 4.0], [6.0])
    """

    state: ClassVar[tuple[str, ...]] = ("_before",)

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._before: Scored | None = None

    def preview(self, rows: Scored) -> Scored:
        """Return the scores, averaged with those before them."""
        before = np.empty(0) if self._before is None else self._before.scores
        both = np.concatenate([before, rows.scores])
        return replace(rows, scores=trailing_mean(both, self._rows)[len(before) :])

    def push(self, rows: Scored) -> Scored:
        """Return the rows, averaged with those before them."""
        if self._rows == 1 or not len(rows):
            return rows
        found: dict[str, FloatArray] = {}
        kept: dict[str, FloatArray] = {}
        same = rows.unadapted is rows.scores and (self._before is None or self._before.unadapted is self._before.scores)
        for name in ("scores", "unadapted", "attribution"):
            values = getattr(rows, name)
            if name == "unadapted" and same:  # nothing has lasted
                found[name], kept[name] = found["scores"], kept["scores"]
            elif values is not None:
                before = None if self._before is None else getattr(self._before, name)
                both = values if before is None else np.concatenate([before, values])
                kept[name] = both[max(len(both) - self._rows + 1, 0) :].copy()
                found[name] = _averaged(values, both, self._rows)
        self._before = Scored(**kept)
        return replace(rows, **found)


def _averaged(values: FloatArray, both: FloatArray, rows: int) -> FloatArray:
    """Average the last of `both`; many rows of channels into `values`: a second such array might not fit."""
    known = len(both) - len(values)
    if both.ndim == 1 or len(both) <= FEW_ROWS:
        return trailing_mean(both, rows)[known:].astype(values.dtype, copy=False)
    for channel in range(both.shape[1]):
        values[:, channel] = trailing_mean(both[:, channel], rows)[known:]
    return values


def trailing_mean(values: FloatArray, rows: int) -> FloatArray:
    """Average each value along the first axis with the ones before it, `rows` in all, fewer at the start.

    Examples
    --------
    >>> trailing_mean(np.array([3.0, 5.0, 7.0]), 2).tolist()
    [3.0, 4.0, 6.0]
    """
    rows = min(rows, len(values))
    total = values.astype(np.float64)  # sums of shifted copies, so that a spike leaves no trace in later rounding
    for lag in range(1, rows):
        total[lag:] += values[:-lag]
    count = np.minimum(np.arange(1, len(values) + 1), max(rows, 1))
    return total / (count if values.ndim == 1 else count[:, None])

"""Score: from the evidence of the witnesses to one number per row, and to the attribution among channels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchad.data.scaling import TailScale
from patchad.data.stages import Immediate, Scored
from patchad.data.table import BoolArray, FloatArray
from patchad.errors import InputError
from patchad.model.relations import Relations
from patchad.model.reliability import column_weights
from patchad.model.witnesses import Evidence, Witness
from patchad.model.witnesses.base import Counting

ScoreKind = Literal["discrepancy", "residual", "fused", "softmax", "error"]
READS: dict[ScoreKind, str] = {
    "discrepancy": "discrepancy",
    "residual": "residual",
    "softmax": "discrepancy",
    "error": "residual",
}
"""The witness that a score of one witness reads."""

RELATION_WEIGHT = 0.2
"""Weight of a broken relation in the attribution: the faulty channel stays first, its partners precede the noise."""
COLUMN_FLOOR = 1e-3
"""Least spread of a folded column, as a share of its median."""
STRONGEST = 2
"""Columns that make the score: one alone may be mistaken, and the others need not have seen the anomaly."""
EMPHASIS = 1.25
"""Power of the fused score."""
LASTING = 1.0
"""Median of a column below which nothing of it is discounted."""
FEW_ROWS = 20
"""Rows up to which medians are found from the ranks of what all have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRule:
    """How the witnesses become one score.

    `fused` takes the mean of the two strongest columns; `discrepancy` and `residual` take that witness alone. Both are
    always fitted, because attribution uses them. `softmax` is the softmax over the window of the discrepancy, `error`
    the squared error of the reconstruction, as the paper's public code has them.
    """

    kind: ScoreKind
    witnesses: tuple[Witness, ...]
    relations: Relations
    """Between channels, for the attribution."""
    adapt: int
    """Rows of the past that say what is usual now; 0: none."""
    emphasis: float = EMPHASIS
    scale: TailScale | None = None
    """Of the folded columns, (column,); learned last."""
    local_scale: TailScale | None = None
    """Of the columns of the least strange window, (column,), where windows are averaged."""
    weights: FloatArray = field(default_factory=lambda: np.ones(1))
    """Of the scaled columns, (column,)."""

    def __post_init__(self) -> None:
        if not 0 < self.emphasis < np.inf:
            raise InputError(f"the emphasis of a score is {self.emphasis}; a positive, finite number is needed")

    def with_scale(self, folded: Scored) -> Self:
        """Learn the scale of each column from folded held-out rows, `(time, column)`."""
        floor = np.array([one.floor for one in self.counting])
        local = None if folded.local is None else _column_scale(folded.local, floor)
        return replace(self, scale=_column_scale(folded.scores, floor), local_scale=local)

    def with_weights(self, folded: Scored, faulty: BoolArray) -> Self:
        """Learn how much each column counts from folded held-out rows with faults in them."""
        most = np.array([one.most for one in self.counting])
        weighed = np.array([one.weighed for one in self.counting])
        return replace(self, weights=column_weights(folded.scores, faulty, most, weighed))

    @property
    def counting(self) -> tuple[Counting, ...]:
        """How each column counts in the fused score."""
        return tuple(one.counting for one in self.witnesses for _ in range(one.width))

    @property
    def whole(self) -> bool:
        """Whether a step's score depends on all steps of its window, so that all have to be observed."""
        return self.kind == "softmax"

    def needed(self, *, explain: bool) -> tuple[str, ...]:
        """Return the witnesses that have to be observed: those of the score, and those of the attribution."""
        names = [witness.name for witness in self.witnesses]
        if self.kind == "fused":
            return tuple(names)
        return tuple(name for name in names if name == READS[self.kind] or (explain and name == "residual"))

    def columns(self, evidence: Evidence) -> Tensor:
        """Return how strange points are, `(window, step, column)`, on the device of the evidence."""
        if self.kind == "fused":
            return torch.cat([one.columns(evidence.observed[one.name]) for one in self.witnesses], -1)
        name = READS[self.kind]
        if self.kind == "error":
            return evidence.observed[name].double().square().mean(-1, keepdim=True)
        alone = next(one for one in self.witnesses if one.name == name).alone(evidence.observed[name])
        return alone.softmax(1) if self.kind == "softmax" else alone

    def without(self, evidence: Evidence, absent: Tensor) -> Evidence:
        """Leave out what was observed of channels that are absent from a window, `(window, channel)`."""
        own = {one.name: one for one in self.witnesses}
        observed = {name: own[name].without(values, absent) for name, values in evidence.observed.items()}
        return replace(evidence, observed=observed)

    def calmed(self, columns: Tensor, windows: Tensor) -> Tensor:
        """Return columns in which witnesses that look at all channels together find these windows usual."""
        if self.kind != "fused" or self.scale is None:
            return columns
        joint = torch.tensor([one.joint for one in self.witnesses for _ in range(one.width)], device=columns.device)
        usual = torch.as_tensor(self.scale.median, dtype=columns.dtype, device=columns.device)
        return torch.where(windows[:, None, None] & joint, usual, columns)

    def attribution(self, evidence: Evidence) -> FloatArray:
        """Return how far each channel is out of its ordinary, `(window, step, channel)`, broken relations included."""
        found = RELATION_WEIGHT * self.relations.attribution(evidence.windows.cpu().numpy())
        for witness in self.witnesses:
            if witness.name in evidence.observed:
                own = witness.attribution(evidence.observed[witness.name].cpu().numpy())
                found = found if own is None else found + own
        return found


def _column_scale(folded: FloatArray, floor: FloatArray) -> TailScale:
    return TailScale.fit(folded, np.maximum(COLUMN_FLOOR * np.abs(np.median(folded, axis=0)), floor))


class Fusion(Immediate):
    """Combine folded columns into the fused score, row by row.

    The score is the mean of the strongest columns, each in its own scale and by its weight, to a power. Of what a
    column has reached for most of the last `adapt` rows only the square root counts, so that what lasts grows quieter.
    """

    state: ClassVar[tuple[str, ...]] = ("_lasting",)

    def __init__(self, rule: ScoreRule) -> None:
        if rule.scale is None:
            raise ValueError("the rule has no scale of its columns yet")
        self._scale, self._local_scale, self._emphasis = rule.scale, rule.local_scale, rule.emphasis
        self._weights, self._least = rule.weights, np.array([one.least for one in rule.counting])
        self._lasting = RollingMedian(rule.adapt, least=LASTING) if rule.adapt else None

    def push(self, rows: Scored) -> Scored:
        """Combine `(time, column)` into `(time,)`."""
        if not len(rows):
            return Scored(np.empty(0), rows.attribution)
        columns = self._scale(rows.scores)
        medians = None if self._lasting is None else self._lasting.push(columns)
        unadapted, scores, local = self._combined(columns, medians, rows.local)
        return Scored(scores, rows.attribution, local, unadapted)

    def preview(self, rows: Scored) -> Scored:
        """Combine `(time, column)` into `(time,)`, given what has lasted until now."""
        medians = None if self._lasting is None else self._lasting.newest
        _, scores, local = self._combined(self._scale(rows.scores), medians, rows.local)
        return Scored(scores, rows.attribution, local)

    def _combined(
        self, columns: FloatArray, medians: FloatArray | None, local: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return the scores of scaled columns, the same without what has lasted, and those of the local columns."""
        adapts = medians is not None and bool((medians > LASTING).any())
        is_scaled = local is not None and self._local_scale is not None
        parts = [columns]
        parts += [columns - lasting(medians)] if medians is not None and adapts else []
        parts += [self._local_scale(local)] if local is not None and self._local_scale is not None else []
        found = self._strongest(columns if len(parts) == 1 else np.concatenate(parts))  # calls cost more than rows
        unadapted = found[: len(columns)]
        scores = found[len(columns) : 2 * len(columns)] if adapts else unadapted
        return unadapted, scores, found[-len(columns) :] if is_scaled else local

    def _strongest(self, columns: FloatArray) -> FloatArray:
        counted = np.where(columns < self._least, 0.0, columns)
        chosen = np.sort(self._weights * counted, axis=1)[:, -STRONGEST:]
        strongest = np.add.reduce(chosen, axis=1) / chosen.shape[1]
        return np.asarray(np.copysign(np.abs(strongest) ** self._emphasis, strongest))


class RollingMedian:
    """Median of the last `rows` rows of each column, fewer at the start; `least` for those that are not over it.

    Examples
    --------
    >>> median = RollingMedian(3)
    >>> median.push(np.array([[0.5], [0.5], [16.0]])).ravel().tolist(), median.push(np.array([[16.0]])).tolist()
    ([0.5, 0.5, 0.5], [[16.0]])
    """

    state = ("before", "newest")

    def __init__(self, rows: int, least: float = -np.inf) -> None:
        self._rows, self._least = rows, least
        self.newest: FloatArray | None = None
        """(column,), the medians of the newest row."""
        self._store: FloatArray | None = None
        """(time, column), the rows so far, until there is no room for the next: then all but the newest are dropped."""
        self._stop = 0
        """Rows of it that are filled."""
        self._over: NDArray[np.intp] | int = 0
        """(column,), how many of `before` are over `least`."""

    @property
    def before(self) -> FloatArray | None:
        """The newest rows, with which the next ones are ranked."""
        return None if self._store is None else self._store[max(self._stop - self._rows + 1, 0) : self._stop]

    @before.setter
    def before(self, rows: FloatArray | None) -> None:
        self._store, self._stop = rows, 0 if rows is None else len(rows)
        self._over = 0 if rows is None else (rows > self._least).sum(axis=0)

    def push(self, columns: FloatArray) -> FloatArray:
        """Return the medians `(time, column)` of the next rows."""
        if not len(columns):
            return columns
        both = self._append(columns)
        over = self._over + (columns > self._least).sum(axis=0)
        self._over = over - (both[: max(len(both) - self._rows + 1, 0)] > self._least).sum(axis=0)
        shortest = min(len(both) - len(columns) + 1, self._rows)
        medians = np.full_like(columns, self._least)
        chosen = np.flatnonzero(over > (shortest - 1) // 2)  # no other median can be over it
        if len(chosen) and len(columns) <= FEW_ROWS < self._rows:
            medians[:, chosen] = _last_medians(both[:, chosen], len(columns), self._rows)
        else:
            for number in chosen:
                rolling = pd.Series(both[:, number]).rolling(self._rows, min_periods=1)
                medians[:, number] = rolling.median().to_numpy()[len(both) - len(columns) :]
        self.newest = medians[-1].copy()
        return medians

    def _append(self, columns: FloatArray) -> FloatArray:
        """Return the rows before and these."""
        before = self.before
        first = 0 if before is None else len(before)
        if self._store is None or self._stop + len(columns) > len(self._store):
            room = max(self._rows + self._rows // 4, first + len(columns))
            self._store, self._stop = np.empty((room, columns.shape[1])), first
            if before is not None:
                self._store[:first] = before
        self._store[self._stop : self._stop + len(columns)] = columns
        self._stop += len(columns)
        return self._store[self._stop - len(columns) - first : self._stop]


def _last_medians(values: FloatArray, count: int, rows: int) -> FloatArray:
    """Return the medians of the last few rows, each with those before it, `rows` in all: `(count, column)`.

    What all of them have in common is ranked once: the few rows that it differs by move a median by as few ranks.
    """
    stops = range(len(values) - count + 1, len(values) + 1)
    starts = [max(stop - rows, 0) for stop in stops]
    common = values[starts[-1] : stops[0]]
    low, high = max(len(common) // 2 - count, 0), min(len(common) // 2 + count, len(common) - 1)
    middle = np.partition(common, (low, high), axis=0)[low : high + 1]
    found = np.empty((count, values.shape[1]))
    for row, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        near = np.sort(np.concatenate([values[start : starts[-1]], middle, values[stops[0] : stop]]), axis=0)
        ranks = (stop - start - 1) // 2 - low, (stop - start) // 2 - low
        found[row] = (near[ranks[0]] + near[ranks[1]]) / 2
    return found


def lasting(medians: FloatArray) -> FloatArray:
    """Return what is discounted of values with these medians: all but the square root, nothing below 1.

    Examples
    --------
    >>> lasting(np.array([0.5, 16.0])).tolist()
    [0.0, 12.0]
    """
    level = np.maximum(medians, LASTING)
    return np.asarray(level - np.sqrt(level))

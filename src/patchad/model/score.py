"""Score: from the evidence of the witnesses to one number per row, and to the attribution among channels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from patchad.data.scaling import TailScale
from patchad.data.stages import Immediate, Scored
from patchad.data.table import BoolArray, FloatArray
from patchad.errors import InputError
from patchad.model.relations import Relations
from patchad.model.reliability import column_weights
from patchad.model.witnesses import Evidence, Witness
from patchad.model.witnesses.coupling import MOST_WEIGHT, Coupling

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
"""Rows up to which medians are taken one by one."""


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
        local = None if folded.local is None else _column_scale(folded.local)
        return replace(self, scale=_column_scale(folded.scores), local_scale=local)

    def with_weights(self, folded: Scored, faulty: BoolArray) -> Self:
        """Learn how much each column counts from folded held-out rows with faults in them."""
        most = np.ones(folded.scores.shape[1])
        if any(isinstance(one, Coupling) for one in self.witnesses):
            most[-1] = MOST_WEIGHT  # its column is the last
        return replace(self, weights=column_weights(folded.scores, faulty, most))

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

    def attribution(self, evidence: Evidence) -> FloatArray:
        """Return how far each channel is out of its ordinary, `(window, step, channel)`, broken relations included."""
        found = RELATION_WEIGHT * self.relations.attribution(evidence.windows.cpu().numpy())
        for witness in self.witnesses:
            if witness.name in evidence.observed:
                own = witness.attribution(evidence.observed[witness.name].cpu().numpy())
                found = found if own is None else found + own
        return found


def _column_scale(folded: FloatArray) -> TailScale:
    floor = np.maximum(COLUMN_FLOOR * np.abs(np.median(folded, axis=0)), 1e-6)
    return TailScale.fit(folded, floor)


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
        self._weights = rule.weights
        self._lasting = RollingMedian(rule.adapt) if rule.adapt else None

    def push(self, rows: Scored) -> Scored:
        """Combine `(time, column)` into `(time,)`."""
        if not len(rows):
            return Scored(np.empty(0), rows.attribution)
        columns = self._scale(rows.scores)
        unadapted = self._combined(columns)
        scores = unadapted
        if self._lasting is not None:
            scores = self._combined(columns - lasting(self._lasting.push(columns, least=LASTING)))
        local = rows.local
        if local is not None and self._local_scale is not None:
            local = self._combined(self._local_scale(local))
        return Scored(scores, rows.attribution, local, unadapted)

    def preview(self, rows: Scored) -> Scored:
        """Combine `(time, column)` into `(time,)`, given what has lasted until now."""
        columns = self._scale(rows.scores)
        known = None if self._lasting is None else self._lasting.newest
        scores = self._combined(columns if known is None else columns - lasting(known))
        local = rows.local
        if local is not None and self._local_scale is not None:
            local = self._combined(self._local_scale(local))
        return Scored(scores, rows.attribution, local)

    def _combined(self, columns: FloatArray) -> FloatArray:
        strongest = np.sort(self._weights * columns, axis=1)[:, -STRONGEST:].mean(axis=1)
        return np.asarray(np.sign(strongest) * np.abs(strongest) ** self._emphasis)


class RollingMedian:
    """Median of the last `rows` rows of each column, fewer at the start.

    Examples
    --------
    >>> median = RollingMedian(3)
    >>> median.push(np.array([[0.5], [0.5], [16.0]])).ravel().tolist(), median.push(np.array([[16.0]])).tolist()
    ([0.5, 0.5, 0.5], [[16.0]])
    """

    state = ("_before", "newest")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._before: FloatArray | None = None
        self.newest: FloatArray | None = None
        """(column,), the medians of the newest row."""

    def push(self, columns: FloatArray, least: float = -np.inf) -> FloatArray:
        """Return the medians `(time, column)` of the next rows; `least` stands for all that are not over it."""
        medians = self._medians(columns, least)
        self.newest = medians[-1].copy() if len(medians) else self.newest
        return medians

    def _medians(self, columns: FloatArray, least: float) -> FloatArray:
        both = columns if self._before is None else np.concatenate([self._before, columns])
        self._before = both[max(len(both) - self._rows + 1, 0) :].copy()
        known = len(both) - len(columns)
        shortest = min(known + 1, self._rows)
        medians = np.full_like(columns, least)
        chosen = np.flatnonzero((both > least).sum(axis=0) > (shortest - 1) // 2)  # no other median can be over it
        if not len(chosen):
            return medians
        if len(columns) <= FEW_ROWS:  # what pandas costs for each column is more than the medians do
            both = both[:, chosen]
            for row, end in enumerate(range(known + 1, len(both) + 1)):
                medians[row, chosen] = _median(both[max(end - self._rows, 0) : end])
            return medians
        for number in chosen:
            rolling = pd.Series(both[:, number]).rolling(self._rows, min_periods=1)
            medians[:, number] = rolling.median().to_numpy()[known:]
        return medians


def _median(rows: FloatArray) -> FloatArray:
    """Return the median of each column; for a few rows, faster than numpy's, which looks for NaN too."""
    half = len(rows) // 2
    if len(rows) % 2:
        return np.asarray(np.partition(rows, half, axis=0)[half])
    low, high = np.partition(rows, (half - 1, half), axis=0)[half - 1 : half + 1]
    return np.asarray((low + high) / 2)


def lasting(medians: FloatArray) -> FloatArray:
    """Return what is discounted of values with these medians: all but the square root, nothing below 1.

    Examples
    --------
    >>> lasting(np.array([0.5, 16.0])).tolist()
    [0.0, 12.0]
    """
    level = np.maximum(medians, LASTING)
    return np.asarray(level - np.sqrt(level))

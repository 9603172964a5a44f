"""From what the net and the memory say of a point to its score and to the channels to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray
from patchad.model.relations import Relations

Score = Literal["discrepancy", "residual", "fused"]

RESIDUAL_FLOOR = 0.02
"""Least spread of a residual, in standard deviations of its channel: a smaller one is rounding, not noise."""
RELATIVE_FLOOR = 0.01
"""Least spread of a channel's distance, as a share of its usual size."""
PART_FLOOR = 0.05
"""Least spread of a part of the fused score: a twentieth of a usual residual, or a distance that grows by 5 %."""
RELATION_WEIGHT = 0.2
"""Weight of a broken relation in the blame: the faulty channel stays first, its partners come before the noise."""
WITNESS_FLOOR = 1e-3
"""Least spread of a witness, as a share of what it usually says."""
HEARD = 2
"""Witnesses that make the score: one alone may be mistaken, and the others need not have seen it."""
EMPHASIS = 1.25
"""Power of the fused score: a level that keeps its margin from the tail of normal rows lies nearer to them then."""
SCALES = ("residual", "discrepancy", "parts", "witnesses")
"""Scales of a rule."""
GROUPS = 21
"""Groups of neighbouring steps of a window with scales of their own: a net knows less of a window's edges."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRule:
    """How residual and discrepancy become one score, with scales from held-out train.

    Every scale has one row per step of the window. Points are given by the newest steps of their windows, so that the
    last row of a scale is for the last step.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rule = ScoreRule.fit("fused", 1, rng.random((100, 6, 2)), rng.random((100, 6, 2)))
    >>> calm, odd = torch.full((1, 1, 2), 0.5), torch.tensor([[[0.5, 9.0]]])
    >>> seen, said = rule.columns(calm, calm), rule.columns(odd, calm)
    >>> bool((said >= seen).all() and (said > seen).any()), int(rule.blame(odd.numpy(), calm.numpy()).argmax())
    (True, 1)
    """

    kind: Score
    orientation: int
    """+1: a large distance between the views is strange; -1: a small one."""
    residual: TailScale
    """Of each channel's residual, (step, channel)."""
    discrepancy: TailScale
    """Of the distance between the views of each channel, (step, channel), or of all, (step, 1)."""
    parts: TailScale
    """Of what the net says: logarithm of the distance, mean and maximum of the scaled residuals, (step, part)."""
    relations: Relations
    """Of the channels, for the blame."""
    witnesses: TailScale | None = None
    """Of the columns of the fused score when windows are folded, (column,)."""

    @classmethod
    def fit(
        cls,
        kind: Score,
        orientation: int,
        residual: FloatArray,
        discrepancy: FloatArray,
        windows: FloatArray | None = None,
    ) -> ScoreRule:
        """Learn the scales from whole held-out windows.

        Parameters
        ----------
        kind, orientation
            What to score by.
        residual, discrepancy
            (window, step, channel) and (window, step, channel or 1).
        windows
            The z-scored windows themselves, (window, step, channel); without them no relation is learned.
        """
        residual_scale = _scale_by_step(residual, lambda usual: np.full_like(usual, RESIDUAL_FLOOR))
        discrepancy_scale = _scale_by_step(discrepancy, lambda usual: np.maximum(RELATIVE_FLOOR * usual, 1e-9))
        scaled = torch.from_numpy(residual_scale(residual))
        parts = _parts(scaled, torch.from_numpy(discrepancy), orientation)
        parts_scale = _scale_by_step(parts.numpy(), lambda usual: np.full_like(usual, PART_FLOOR))
        relations = Relations.none() if windows is None else Relations.fit(windows.reshape(-1, windows.shape[-1]))
        return cls(kind, orientation, residual_scale, discrepancy_scale, parts_scale, relations)

    def with_witnesses(self, folded: FloatArray) -> ScoreRule:
        """Learn the scale of each witness from folded held-out rows, `(time, column)`."""
        floor = np.maximum(WITNESS_FLOOR * np.abs(np.median(folded, axis=0)), 1e-6)
        return replace(self, witnesses=TailScale.fit(folded, floor))

    def to_arrays(self) -> dict[str, FloatArray]:
        """Give the scales by name, for a file."""
        scales = {part: getattr(self, part) for part in SCALES if getattr(self, part) is not None}
        medians = {f"rule.{part}.median": scale.median for part, scale in scales.items()}
        spreads = {f"rule.{part}.spread": scale.spread for part, scale in scales.items()}
        return medians | spreads | self.relations.to_arrays()

    @classmethod
    def from_arrays(cls, kind: Score, orientation: int, arrays: Mapping[str, FloatArray]) -> ScoreRule:
        """Take back what `to_arrays` gave."""
        scales = {
            part: TailScale(arrays[f"rule.{part}.median"], arrays[f"rule.{part}.spread"])
            for part in SCALES
            if f"rule.{part}.median" in arrays
        }
        return cls(kind, orientation, **scales, relations=Relations.from_arrays(arrays))

    def columns(self, residual: Tensor, discrepancy: Tensor, memory: Tensor | None = None) -> Tensor:
        """Say how strange `(window, step)` points are: `(window, step, column)`, a column for every witness.

        The two that come from the net, its views' discrepancy and its residuals, and the parts of the memory, where
        the score is fused; else the one that is asked for. All of it where the tensors are, on a GPU too.
        """
        if self.kind == "discrepancy":
            return self.orientation * discrepancy.mean(-1, keepdim=True, dtype=torch.float64)
        parts = _parts(_scaled(residual, self.residual), discrepancy, self.orientation)
        if self.kind == "residual":
            return parts[..., 1:2]
        scaled = _scaled(parts, self.parts)
        said = [scaled[..., :1], scaled[..., 1:].sum(-1, keepdim=True)]
        return torch.cat(said if memory is None else [*said, memory.double()], -1)

    def combine(self, folded: FloatArray, adapt: int = 0, emphasis: float = EMPHASIS) -> FloatArray:
        """Make one score of the folded columns `(time, column)`: the two strongest witnesses' mean, to a power.

        Of what a witness has said for most of the last `adapt` rows only the root counts; 0: all of it counts. Without
        scales of the witnesses, as in files from before there were any, it is the sum of the columns.
        """
        if self.witnesses is None:
            return np.asarray(folded.sum(axis=1))
        said = self.witnesses(folded)
        if adapt:
            for column in said.T:  # one at a time and in place: a long series has room for few copies
                column -= _lasting(column, adapt)
        said.sort(axis=1)
        heard = said[:, -HEARD:].mean(axis=1)
        return np.asarray(np.sign(heard) * np.abs(heard) ** emphasis)

    def blame(self, residual: FloatArray, discrepancy: FloatArray, windows: FloatArray | None = None) -> FloatArray:
        """Say how much each channel is out of its ordinary: `(window, step, channel)`, not negative.

        With the z-scored steps themselves, `(window, step, channel)`, broken relations count too.
        """
        blame = np.maximum(self.residual(residual), 0)
        if self.kind != "residual" and discrepancy.shape[-1] == residual.shape[-1] > 1:
            blame += np.maximum(self.orientation * self.discrepancy(discrepancy), 0)
        if windows is not None:
            blame += RELATION_WEIGHT * self.relations.blame(windows)
        return blame


def _lasting(said: FloatArray, rows: int) -> FloatArray:
    """Give what of `(time,)` values has lasted, less its root: the median of the rows so far; nothing below 1.

    Examples
    --------
    >>> _lasting(np.array([0.5, 0.5, 16.0, 16.0, 0.5]), 3).tolist()
    [0.0, 0.0, 0.0, 12.0, 12.0]
    """
    level = np.maximum(pd.Series(said).rolling(rows, min_periods=1).median().to_numpy(), 1.0)
    return np.asarray(level - np.sqrt(level))


def _scaled(values: Tensor, scale: TailScale) -> Tensor:
    """Scale the newest steps of windows `(window, step, value)` where they are."""
    newest = slice(-values.shape[1], None)
    median, spread = (torch.as_tensor(a[newest], dtype=values.dtype) for a in (scale.median, scale.spread))
    return (values - median.to(values.device)) / spread.to(values.device)


def _parts(residual: Tensor, discrepancy: Tensor, orientation: int) -> Tensor:
    """Give logarithm of the distance, mean and maximum of the scaled residuals: `(window, step, 3)`.

    A divergence grows with the square of a deviation and faster; its logarithm has a tail as light as the residuals',
    so that no rare but normal state drowns them.
    """
    distance = orientation * discrepancy.mean(-1, dtype=torch.float64).clamp_min(1e-12).log()
    return torch.stack([distance, residual.mean(-1, dtype=torch.float64), residual.amax(-1).double()], -1)


def _scale_by_step(values: FloatArray, floor: Callable[[FloatArray], FloatArray]) -> TailScale:
    """Fit a scale to each group of steps of `(window, step, value)`; give it for each step, counted from the end."""
    steps = values.shape[1]
    size = max(steps // GROUPS, 1)
    median, spread = np.empty(values.shape[1:]), np.empty(values.shape[1:])
    for stop in range(steps, 0, -size):
        group = slice(max(stop - size, 0), stop)
        points = values[:, group].reshape(-1, values.shape[2])
        scale = TailScale.fit(points, floor(np.median(points, axis=0)))
        median[group], spread[group] = scale.median, scale.spread
    return TailScale(median, spread)

"""Coupling: where a channel is not what the others say it should be, something is wrong.

It adds back what a net that sees one channel at a time cannot know. Each channel is predicted from all others at the
same row by ridge regression; all of these regressions come from one inverse of the covariance. Channels that the others
say little about are left out, and so are those of few values: that a switch moves is no deviation from a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import ByChannel, Counting, Training

RIDGE = 0.02
"""Added to the variances of all channels, which are 1."""
LEAST_SHARE = 0.3
"""Share of its variance that the others must explain of a channel, or it is left out."""
LEAST_VALUES = 20
"""Different values of a channel under which it is a switch or a counter of states, and left out."""
MOST_ROWS = 20_000
"""Rows that the regressions are learned from."""
CLIP = 20.0
"""Scaled values are clipped here: one wild channel must not drown what all others say."""
ROWS = 5
"""Rows of a centred mean over the differences: noise goes, and what lasts stays."""
DIFFERENCE_FLOOR = 0.1
"""Least spread of a difference, in deviations of its channel."""


@dataclass(frozen=True, slots=True, eq=False)
class Coupling(ByChannel):
    """Difference between each channel and what the others predict of it."""

    name: ClassVar[str] = "coupling"
    from_net: ClassVar[bool] = False
    from_reconstruction: ClassVar[bool] = False
    floor: ClassVar[float] = DIFFERENCE_FLOOR
    counting: ClassVar[Counting] = Counting(most=0.5)  # it sees each fault put into one channel; real ones come in many
    joint: ClassVar[bool] = True

    matrix: Tensor
    """(channel, channel): scaled rows times this are the differences, in deviations of each channel."""
    offset: Tensor
    """(channel,), taken from the product."""

    @classmethod
    def fit(cls, training: Training) -> Self | None:
        """Learn the regressions; None where no channel says anything about another."""
        if not training.coupling or training.known[0].shape[1] < 2:
            return None
        stride = max(sum(map(len, training.known)) // MOST_ROWS, 1)
        rows = np.concatenate([training.scaler(values[::stride]) for values in training.known])
        rows = np.clip(rows, -CLIP, CLIP).astype(np.float64)
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        measured = np.array([len(np.unique(column)) >= LEAST_VALUES for column in rows.T]) & (deviation > 1e-6)
        unit = np.where(measured, deviation, np.inf)  # what is not measured says nothing, and nothing is said of it
        standard = (rows - mean) / unit
        covariance = standard.T @ standard / len(rows)
        precision = np.linalg.inv(covariance + RIDGE * np.eye(len(mean)))
        differences = precision / np.diag(precision)
        explained = 1 - np.square(standard @ differences).mean(axis=0)
        coupled = (explained >= LEAST_SHARE) & measured
        if not coupled.any():
            return None
        matrix = np.where(coupled, differences, 0.0) / unit[:, None]
        return cls(torch.from_numpy(matrix.astype(np.float32)), torch.from_numpy((mean @ matrix).astype(np.float32)))

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:  # noqa: ARG002
        """Return the sizes of the differences `(window, step, channel)`."""
        found = windows.clamp(-CLIP, CLIP) @ self.matrix - self.offset
        rows = min(ROWS, found.shape[1] - 1 + found.shape[1] % 2)
        # Repeated at both ends, so that the mean is as long everywhere.
        padded = functional.pad(found.transpose(1, 2), (rows // 2, rows // 2), mode="replicate")
        return functional.avg_pool1d(padded, rows, stride=1).transpose(1, 2)[:, -steps:].abs()

    @property
    def size(self) -> int:
        """Stored values."""
        return self.matrix.numel() + self.offset.numel()

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return replace(self, matrix=self.matrix.to(device), offset=self.offset.to(device))

"""Surprise: a row that does not follow from the few rows before it is strange.

Windows see what lasts; a value that is wrong for a row or two hardly changes any of them. So each channel is predicted
from its own last rows by ridge regression, and what was not predicted counts where it happened. Channels of few values
are left out: that a switch moves is no surprise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from patchad.data.scaling import TailScale, ZScore
from patchad.data.table import FloatArray
from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import ByChannel, Counting, Training, mean_and_maximum, scaled

ROWS = 3
"""Rows that the next one is predicted from."""
RIDGE = 1e-3
"""Added to the variances of these rows, as a share of them."""
LEAST_ROWS = 1000
"""Rows of train that tell how far a row may be from its prediction; with fewer, there is no such witness."""
LEAST_VALUES = 20
"""Different values of a channel under which it is a switch or a counter of states, and left out."""
MOST_VALUES = 400_000
"""Values that are predicted to learn from them."""
CLIP = 20.0
"""Scaled values are clipped here, before and after a prediction."""
FLOOR = 0.02
"""Least spread of a difference, in deviations of its channel: a smaller one is rounding, not noise."""
OFTEN = 3
"""Differences as large as this many of train are no surprise: some machines jump, and train may have a fault or two."""
APART = 20
"""Rows of train that count once for that."""
BLOCK_ROWS = 100_000
"""Rows that are looked at together, a multiple of those: RAM stays bounded."""
LEAST = 7.0
"""Surprise that counts: small ones come all the time, and would drown what windows see."""


@dataclass(frozen=True, slots=True, eq=False)
class Surprise(ByChannel):
    """Difference between each row and what the rows before it predict, by channel."""

    name: ClassVar[str] = "surprise"
    from_net: ClassVar[bool] = False
    from_reconstruction: ClassVar[bool] = False
    floor: ClassVar[float] = FLOOR
    # It tells where a fault begins, not which rows are in it; and a few held-out rows make it no keener than train.
    counting: ClassVar[Counting] = Counting(weighed=False, least=LEAST, floor=1.0)

    kernel: Tensor
    """(row, channel): of the last rows and this one, the oldest first; zeros where a channel is left out."""
    offset: Tensor
    """(channel,), taken from the product."""

    @classmethod
    def fit(cls, training: Training) -> Self | None:
        """Learn the regressions; None where train is short, values are few, or the score has no use for them."""
        series = [values for values in training.known if len(values) > ROWS]
        if not training.surprise or sum(map(len, series)) < LEAST_ROWS:
            return None
        stride = max(sum(values.size for values in series) // MOST_VALUES, 1)
        runs = np.concatenate([sliding_window_view(values, ROWS + 1, axis=0)[::stride] for values in series])
        runs = training.scaler(runs.transpose(0, 2, 1)).astype(np.float64).clip(-CLIP, CLIP)  # (run, row, channel)
        measured = np.array([len(np.unique(column)) >= LEAST_VALUES for column in runs[:, -1].T])
        if not measured.any():
            return None
        mean = runs.mean(axis=0)
        runs -= mean
        moments = np.einsum("npc,nqc->cpq", runs, runs) / len(runs)
        before, with_this = moments[:, :-1, :-1], moments[:, :-1, -1:]
        ridge = RIDGE * np.trace(before, axis1=1, axis2=2) / ROWS + 1e-12
        weights = np.linalg.solve(before + ridge[:, None, None] * np.eye(ROWS), with_this)[..., 0]
        kernel = np.where(measured, np.vstack([-weights.T, np.ones(len(weights))]), 0.0)
        offset = (kernel * mean).sum(axis=0)
        learned = (torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)) for array in (kernel, offset))
        # Four numbers fit no noise, so that train, which has more rows, gives better scales than what was held out.
        found = ByChannel.calibrated(cls(*learned), np.abs((runs * kernel).sum(axis=1))[:, None])
        median, spread = found.by_channel.median, found.by_channel.spread
        known = (_often(found, series, training.scaler) - median) / (LEAST - 1)
        return replace(found, by_channel=TailScale(median, np.maximum(spread, known)))

    def calibrated(self, observed: FloatArray) -> Self:  # noqa: ARG002 - `fit` learned the scales
        """Return itself."""
        return self

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:  # noqa: ARG002
        """Return the sizes of the differences `(window, step, channel)`."""
        rows = windows[:, -(steps + ROWS) :].clamp(-CLIP, CLIP)
        missing = steps + ROWS - rows.shape[1]  # the first rows of a window follow from its first row alone
        if missing > 0:
            rows = torch.cat([rows[:, :1].expand(-1, missing, -1), rows], 1)
        found = rows[:, ROWS:] - self.offset
        for row in range(ROWS):
            found = found + rows[:, row : row + steps] * self.kernel[row]
        return (found * self.kernel[ROWS]).abs().clamp(max=CLIP)

    def columns(self, observed: Tensor) -> Tensor:
        """Return the largest of the channels, scaled: what all share, windows see."""
        both = mean_and_maximum(scaled(observed, self.by_channel))
        return scaled(both, self.summary)[..., 1:]

    @property
    def size(self) -> int:
        """Stored values."""
        return self.kernel.numel() + self.offset.numel()

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return replace(self, kernel=self.kernel.to(device), offset=self.offset.to(device))


def _often(witness: Surprise, series: Sequence[FloatArray], scaler: ZScore) -> FloatArray:
    """Return the largest difference of each channel, `(channel,)`, that train has `OFTEN` times."""
    largest = np.zeros((OFTEN, witness.kernel.shape[1]))
    for values in series:
        for start in range(0, len(values) - ROWS, BLOCK_ROWS):
            rows = torch.from_numpy(scaler(values[start : start + BLOCK_ROWS + ROWS]))[None]
            found = witness.observe(rows, (), rows.shape[1] - ROWS)[0].numpy()
            apart = np.maximum.reduceat(found, np.arange(0, len(found), APART))  # one jump surprises for some rows
            largest = np.sort(np.concatenate([largest, apart]), axis=0)[-OFTEN:]
    return np.asarray(largest[0])

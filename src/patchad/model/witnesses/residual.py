"""Residual: what the net cannot reconstruct is strange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray
from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import Training, mean_and_maximum, scale_by_step, scaled, uncalibrated

RESIDUAL_FLOOR = 0.02
"""Least spread of a residual, in standard deviations of its channel: a smaller one is rounding, not noise."""
SUMMARY_FLOOR = 0.05
"""Least spread of the mean and of the maximum: a twentieth of a usual residual."""


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """Absolute error of the mean reconstruction of all scales, by channel."""

    name: ClassVar[str] = "residual"
    from_net: ClassVar[bool] = True
    from_reconstruction: ClassVar[bool] = True

    by_channel: TailScale = field(default_factory=uncalibrated)
    """Of the error of each channel, (step, channel)."""
    summary: TailScale = field(default_factory=uncalibrated)
    """Of mean and maximum of the scaled errors over the channels, (step, 2)."""

    @classmethod
    def fit(cls, training: Training) -> Self:  # noqa: ARG003 - scales come with `calibrated`
        """Return a witness without scales."""
        return cls()

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:
        """Return the errors `(window, step, channel)`."""
        reconstruction = torch.stack([out.reconstruction[:, -steps:] for out in outputs]).mean(0)
        return (windows[:, -steps:] - reconstruction).abs()

    def calibrated(self, observed: FloatArray) -> Self:
        """Learn the scales of each channel, then of their mean and maximum."""
        by_channel = scale_by_step(observed, lambda usual: np.full_like(usual, RESIDUAL_FLOOR))
        both = mean_and_maximum(torch.from_numpy(by_channel(observed))).numpy()
        summary = scale_by_step(both, lambda usual: np.full_like(usual, SUMMARY_FLOOR))
        return replace(self, by_channel=by_channel, summary=summary)

    def columns(self, observed: Tensor) -> Tensor:
        """Return the sum of mean and maximum, each scaled: what all channels share, and what one has alone."""
        both = mean_and_maximum(scaled(observed, self.by_channel))
        return scaled(both, self.summary).sum(-1, keepdim=True)

    def alone(self, observed: Tensor) -> Tensor:
        """Return the mean of the scaled errors."""
        return mean_and_maximum(scaled(observed, self.by_channel))[..., :1]

    def attribution(self, observed: FloatArray) -> FloatArray:
        """Return how far the error of each channel is over its usual value."""
        return np.maximum(self.by_channel(observed), 0)

    @property
    def size(self) -> int:
        """None but scales."""
        return 0

    def to(self, device: torch.device) -> Self:  # noqa: ARG002 - it holds no tensor
        """Return itself."""
        return self

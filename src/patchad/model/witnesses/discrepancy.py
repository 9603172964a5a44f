"""Discrepancy: where the two views of a window disagree, something is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray
from patchad.model.distances import DistanceName, discrepancy
from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import Counting, Training, scale_by_step, scaled, uncalibrated, usual_where

RELATIVE_FLOOR = 0.01
"""Least spread of a channel's distance, as a share of its usual size."""
LOG_FLOOR = 0.05
"""Least spread of the logarithm of the distance: a distance that grows by 5 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Discrepancy:
    """Distance between the views of each channel, or of their mean where the net pools channels."""

    name: ClassVar[str] = "discrepancy"
    from_net: ClassVar[bool] = True
    from_reconstruction: ClassVar[bool] = False
    counting: ClassVar[Counting] = Counting()
    joint: ClassVar[bool] = False
    width: ClassVar[int] = 1

    distance: DistanceName
    orientation: int
    by_channel: TailScale = field(default_factory=uncalibrated)
    """Of the distance of each channel, (step, channel)."""
    by_point: TailScale = field(default_factory=uncalibrated)
    """Of the logarithm of the mean distance, (step, 1)."""

    @classmethod
    def fit(cls, training: Training) -> Self:
        """Take distance and orientation; scales come with `calibrated`."""
        return cls(training.distance, training.orientation)

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:  # noqa: ARG002
        """Return the distances `(window, step, channel or 1)`, averaged over scales."""
        return discrepancy(outputs, self.distance, steps)

    def calibrated(self, observed: FloatArray) -> Self:
        """Learn the scales of each channel and of the whole."""
        logs = self._log(torch.from_numpy(observed)).numpy()
        return replace(
            self,
            by_channel=scale_by_step(observed, lambda usual: np.maximum(RELATIVE_FLOOR * usual, 1e-9)),
            by_point=scale_by_step(logs, lambda usual: np.full_like(usual, LOG_FLOOR)),
        )

    def without(self, observed: Tensor, absent: Tensor) -> Tensor:
        """Return what was observed, as usual for the channels that are absent; all together have one distance."""
        return observed if observed.shape[-1] == 1 else usual_where(absent, observed, self.by_channel)

    def columns(self, observed: Tensor) -> Tensor:
        """Return the scaled logarithm of the mean distance.

        A divergence grows with the square of a deviation and faster; its logarithm has a tail as light as that of the
        residuals, so that no rare but normal state drowns them.
        """
        return scaled(self._log(observed), self.by_point)

    def alone(self, observed: Tensor) -> Tensor:
        """Return the mean distance, oriented so that high is strange."""
        return self.orientation * observed.mean(-1, keepdim=True, dtype=torch.float64)

    def attribution(self, observed: FloatArray) -> FloatArray | None:
        """Return how far the distance of each channel is over its usual value."""
        if observed.shape[-1] == 1:
            return None
        return np.maximum(self.orientation * self.by_channel(observed), 0)

    @property
    def size(self) -> int:
        """None but scales."""
        return 0

    def to(self, device: torch.device) -> Self:  # noqa: ARG002 - it holds no tensor
        """Return itself."""
        return self

    def _log(self, observed: Tensor) -> Tensor:
        return self.orientation * observed.mean(-1, keepdim=True, dtype=torch.float64).clamp_min(1e-12).log()

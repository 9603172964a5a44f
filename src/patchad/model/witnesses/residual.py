"""Residual: what the net cannot reconstruct is strange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import ByChannel, Training

RESIDUAL_FLOOR = 0.02
"""Least spread of a residual, in standard deviations of its channel: a smaller one is rounding, not noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Residual(ByChannel):
    """Absolute error of the mean reconstruction of all scales, by channel."""

    name: ClassVar[str] = "residual"
    from_net: ClassVar[bool] = True
    from_reconstruction: ClassVar[bool] = True
    floor: ClassVar[float] = RESIDUAL_FLOOR

    @classmethod
    def fit(cls, training: Training) -> Self:  # noqa: ARG003 - scales come with `calibrated`
        """Return a witness without scales."""
        return cls()

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:
        """Return the errors `(window, step, channel)`."""
        reconstruction = torch.stack([out.reconstruction[:, -steps:] for out in outputs]).mean(0)
        return (windows[:, -steps:] - reconstruction).abs()

    @property
    def size(self) -> int:
        """None but scales."""
        return 0

    def to(self, device: torch.device) -> Self:  # noqa: ARG002 - it holds no tensor
        """Return itself."""
        return self

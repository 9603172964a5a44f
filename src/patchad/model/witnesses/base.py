"""Witness: one source of evidence about the points of a window. `patchad.model.witnesses` registers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from patchad.data.scaling import TailScale, ZScore
from patchad.data.table import FloatArray
from patchad.model.distances import DistanceName
from patchad.model.net import ScaleOutput

SUMMARY_FLOOR = 0.05
"""Least spread of mean and maximum of the channels: a twentieth of a usual error."""
GROUPS = 21
"""Groups of neighbouring steps of a window with scales of their own: the net knows less about a window's edges."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What the witnesses observed at the newest steps of a batch of windows."""

    windows: Tensor
    """(window, step, channel), the scaled values themselves."""
    observed: Mapping[str, Tensor]
    """By witness: (window, step, value)."""


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What a witness can learn from before the held-out windows are observed."""

    known: Sequence[FloatArray]
    """(time, channel) series as measured, those that the net is trained on."""
    held_out: Sequence[FloatArray]
    scaler: ZScore
    window: int
    distance: DistanceName
    orientation: int
    """+1: a large distance between the views is strange; -1: a small one."""
    memory: int
    """Approximate memory size in values; 0 disables it."""
    seed: int
    coupling: bool = False
    """Whether a channel is predicted from the others: the net does not do so."""
    surprise: bool = False
    """Whether rows are predicted from those before them."""


@dataclass(frozen=True, slots=True)
class Counting:
    """How the columns of a witness count in the fused score."""

    most: float = 1.0
    """Largest weight."""
    weighed: bool = True
    """Whether the weight depends on how well they tell faults that were put into held-out rows."""
    least: float = -np.inf
    """Scaled value from which on they count; below, rows are as usual."""
    floor: float = 1e-6
    """Least spread of the columns of held-out rows."""


class Witness(Protocol):
    """A fitted source of evidence; a frozen dataclass of numbers, arrays and tensors.

    Points come as the newest steps of their windows, so the last row of a scale per step belongs to the last step.
    """

    name: ClassVar[str]
    """Its name in the registry, in evidence and in files."""
    from_net: ClassVar[bool]
    """Whether it reads the net's outputs, rather than the windows alone."""
    from_reconstruction: ClassVar[bool]
    """Whether it reads the reconstruction among them."""
    counting: ClassVar[Counting]
    """How its columns count in the fused score."""
    joint: ClassVar[bool]
    """Whether it looks at all channels together, so that it says nothing where one of them is absent."""

    @property
    def width(self) -> int:
        """Columns that it adds to the fused score."""

    @classmethod
    def fit(cls, training: Training) -> Self | None:
        """Learn from train; None where the settings leave this witness out."""

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:
        """Return `(window, step, value)` for the newest steps of scaled windows `(b, t, c)`.

        What holds for a whole window is repeated for each of its steps.
        """

    def calibrated(self, observed: FloatArray) -> Self:
        """Learn scales from what was observed in whole held-out windows, `(window, step, value)`."""

    def without(self, observed: Tensor, absent: Tensor) -> Tensor:
        """Return what was observed, as usual for the channels that are absent from a window, `(window, channel)`.

        A witness that is `joint` leaves it as it is.
        """

    def columns(self, observed: Tensor) -> Tensor:
        """Return scaled strangeness `(window, step, column)`, float64, for the fused score."""

    def alone(self, observed: Tensor) -> Tensor:
        """Return the strangeness `(window, step, 1)` of a score that is made of this witness only."""

    def attribution(self, observed: FloatArray) -> FloatArray | None:
        """Return how far each channel is out of the ordinary, `(window, step, channel)`; None where it cannot tell."""

    @property
    def size(self) -> int:
        """Stored values that count as parameters."""

    def to(self, device: torch.device) -> Self:
        """Return the same witness on a device."""


def scale_by_step(values: FloatArray, floor: Callable[[FloatArray], FloatArray]) -> TailScale:
    """Fit a scale to each group of steps of `(window, step, value)`; return it by step, `(step, value)`."""
    steps = values.shape[1]
    size = max(steps // GROUPS, 1)
    median, spread = np.empty(values.shape[1:]), np.empty(values.shape[1:])
    for stop in range(steps, 0, -size):
        group = slice(max(stop - size, 0), stop)
        scale = TailScale.fit(values[:, group].reshape(-1, values.shape[2]), 0.0)
        median[group], spread[group] = scale.median, np.maximum(scale.spread, floor(scale.median))
    return TailScale(median, spread)


def scaled(values: Tensor, scale: TailScale) -> Tensor:
    """Scale the newest steps of windows `(window, step, value)` on their device."""
    newest = slice(-values.shape[1], None)
    median, spread = (torch.as_tensor(a[newest], dtype=values.dtype) for a in (scale.median, scale.spread))
    return (values - median.to(values.device)) / spread.to(values.device)


def usual_where(absent: Tensor, values: Tensor, scale: TailScale) -> Tensor:
    """Return the newest steps of windows `(window, step, channel)` with the median where a channel is absent."""
    median = torch.as_tensor(scale.median[-values.shape[1] :], dtype=values.dtype, device=values.device)
    return torch.where(absent[:, None], median, values)


def mean_and_maximum(values: Tensor) -> Tensor:
    """Return the mean and the largest of the channels, `(..., 2)`: what all share, and what one has alone."""
    return torch.stack([values.mean(-1, dtype=torch.float64), values.amax(-1).double()], -1)


def uncalibrated() -> TailScale:
    """Return the scale of a witness that has not seen held-out windows: it changes nothing."""
    return TailScale(np.zeros((1, 1)), np.ones((1, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class ByChannel:
    """What witnesses have in common that observe the size of an error of each channel."""

    counting: ClassVar[Counting] = Counting()
    joint: ClassVar[bool] = False
    width: ClassVar[int] = 1
    floor: ClassVar[float]
    """Least spread of an error, in deviations of its channel: a smaller one is rounding, not noise."""

    by_channel: TailScale = field(default_factory=uncalibrated, kw_only=True)
    """Of the error of each channel, (step, channel)."""
    summary: TailScale = field(default_factory=uncalibrated, kw_only=True)
    """Of mean and maximum of the scaled errors over the channels, (step, 2)."""

    def calibrated(self, observed: FloatArray) -> Self:
        """Learn the scales of each channel, then of their mean and maximum."""
        by_channel = scale_by_step(observed, lambda usual: np.full_like(usual, self.floor))
        both = mean_and_maximum(torch.from_numpy(by_channel(observed))).numpy()
        summary = scale_by_step(both, lambda usual: np.full_like(usual, SUMMARY_FLOOR))
        return replace(self, by_channel=by_channel, summary=summary)

    def columns(self, observed: Tensor) -> Tensor:
        """Return the sum of mean and maximum, each scaled: what all channels share, and what one has alone."""
        both = mean_and_maximum(scaled(observed, self.by_channel))
        return scaled(both, self.summary).sum(-1, keepdim=True)

    def without(self, observed: Tensor, absent: Tensor) -> Tensor:
        """Return what was observed, as usual for the channels that are absent from a window, `(window, channel)`."""
        return usual_where(absent, observed, self.by_channel)

    def alone(self, observed: Tensor) -> Tensor:
        """Return the mean of the scaled errors."""
        return mean_and_maximum(scaled(observed, self.by_channel))[..., :1]

    def attribution(self, observed: FloatArray) -> FloatArray:
        """Return how far the error of each channel is over its usual value."""
        return np.maximum(self.by_channel(observed), 0)

"""The training loss of the two views: pure functions.

Axes: c channel (one when the views are pooled), n patch, p step in the patch, b batch, d feature, t step of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from patchad._kernels.cuda_graphs import parallel_calls
from patchad.errors import InputError, listed
from patchad.model.distances import DISTANCES, DistanceName
from patchad.model.net import ScaleOutput

Objective = Literal["agreement", "adversarial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveConfig:
    """How the two views are trained."""

    objective: Objective
    """`agreement`: the views are trained to agree; `adversarial`: the paper's difference of the two terms."""
    distance: DistanceName
    constraint: float
    """Weight c of the terms with projected views."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise InputError(f"objective={self.objective!r} is unknown; use one of {listed(get_args(Objective))}")
        if self.distance not in DISTANCES:
            raise InputError(f"distance={self.distance!r} is unknown; use one of {listed(tuple(DISTANCES))}")
        if not 0 <= self.constraint <= 1:
            raise InputError(f"constraint={self.constraint} is out of range; it must lie between 0 and 1")


def loss(outputs: Sequence[ScaleOutput], target: Tensor, config: ObjectiveConfig) -> Tensor:
    """Return the training loss, summed over scales: (1 - c) contrast + c (contrast of the projected) + MSE.

    Parameters
    ----------
    outputs
        The outputs of the net for the windows.
    target
        The z-scored windows, `(b, t, c)`, without positions.
    config
        The objective.
    """

    def of_scale(out: ScaleOutput) -> Tensor:
        return view_loss(out, config) + functional.mse_loss(out.reconstruction, target)

    return torch.stack(parallel_calls([partial(of_scale, out) for out in outputs], target)).sum()


def view_loss(out: ScaleOutput, config: ObjectiveConfig) -> Tensor:
    """Return (1 - c) contrast(N, P) + c (contrast(N', P) + contrast(N, P')).

    `agreement`: contrast = d(N, sg P) + d(P, sg N), sg being stop-gradient. As d is symmetric, its value is twice
    d(N, P) and its gradient that of d(N, P), so one distance replaces the two. `adversarial`: the difference of the
    two, which is zero everywhere; its gradient pulls N towards P and pushes P away from N, so that the views come to
    differ on the training data. Reversing the sign of P's gradient achieves the same with one distance.
    """
    distance, c = DISTANCES[config.distance], config.constraint
    adversarial = config.objective == "adversarial"

    def contrast(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
        value = distance.mean(one, other)
        return value - value.detach() if adversarial else value + value.detach()

    def reversed_summary(view: Tensor) -> tuple[Tensor, ...]:
        found = distance.summary(view)
        return tuple(2 * one.detach() - one for one in found) if adversarial else found

    inter, intra = distance.summary(out.inter), reversed_summary(out.intra)
    if c == 0 or out.inter_projected is None or out.intra_projected is None:
        return contrast(inter, intra)
    inter_projected, intra_projected = distance.summary(out.inter_projected), reversed_summary(out.intra_projected)
    constraint = contrast(inter_projected, intra) + contrast(inter, intra_projected)
    return (1 - c) * contrast(inter, intra) + c * constraint

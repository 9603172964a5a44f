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

Objective = Literal["agreement", "adversarial", "reversed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveConfig:
    """How the two views are trained."""

    objective: Objective
    """`agreement`: the views are trained to agree; `adversarial`: the paper's difference of the two terms.

    `reversed`: minus that difference.
    """
    distance: DistanceName
    constraint: float
    """Weight c of the terms with projected views."""
    reconstruction: float = 1.0
    """Weight of the squared error of the reconstruction; 0: it is not trained."""
    averaged: bool = False
    """Whether contrasts and reconstructions are averaged over the outputs, and only the terms of c summed."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise InputError(f"objective={self.objective!r} is unknown; use one of {listed(get_args(Objective))}")
        if self.distance not in DISTANCES:
            raise InputError(f"distance={self.distance!r} is unknown; use one of {listed(tuple(DISTANCES))}")
        if not 0 <= self.constraint <= 1:
            raise InputError(f"constraint={self.constraint} is out of range; it must lie between 0 and 1")
        if not self.reconstruction >= 0:
            raise InputError(f"reconstruction={self.reconstruction} is out of range; it must be 0 or above")


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
    weight = config.reconstruction
    if config.averaged:
        terms = [view_loss(out, config, len(outputs)) for out in outputs]
        if weight:
            found = torch.stack([out.reconstruction for out in outputs]).mean(0)
            terms.append(weight * functional.mse_loss(found, target))
        return torch.stack(terms).sum()

    def of_scale(out: ScaleOutput) -> Tensor:
        found = view_loss(out, config)
        return found + weight * functional.mse_loss(out.reconstruction, target) if weight else found

    return torch.stack(parallel_calls([partial(of_scale, out) for out in outputs], target)).sum()


def view_loss(out: ScaleOutput, config: ObjectiveConfig, outputs: int = 1) -> Tensor:
    """Return (1 - c) contrast(N, P) / outputs + c (contrast(N', P) + contrast(N, P')).

    `agreement`: contrast = d(N, sg P) + d(P, sg N), sg being stop-gradient. As d is symmetric, its value is twice
    d(N, P) and its gradient that of d(N, P), so one distance replaces the two. `adversarial`: the difference of the
    two, which is zero everywhere; its gradient pulls N towards P and pushes P away from N, so that the views come to
    differ on the training data. Reversing the sign of P's gradient achieves the same with one distance; reversing
    that of N's instead gives minus the difference, `reversed`.
    """
    distance, c = DISTANCES[config.distance], config.constraint
    agreement = config.objective == "agreement"

    def contrast(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
        value = distance.mean(one, other)
        return value + value.detach() if agreement else value - value.detach()

    def summary(view: Tensor, pushed: str) -> tuple[Tensor, ...]:
        found = distance.summary(view)
        return tuple(2 * one.detach() - one for one in found) if config.objective == pushed else found

    inter, intra = summary(out.inter, "reversed"), summary(out.intra, "adversarial")
    if c == 0 or out.inter_projected is None or out.intra_projected is None:
        return contrast(inter, intra) / outputs
    projected = summary(out.inter_projected, "reversed"), summary(out.intra_projected, "adversarial")
    constraint = contrast(projected[0], intra) + contrast(inter, projected[1])
    return (1 - c) / outputs * contrast(inter, intra) + c * constraint

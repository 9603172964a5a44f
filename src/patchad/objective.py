"""How far two views differ, the loss that trains them, and what a window says of its points: pure functions.

Axes: b batch, c channel (one when the views are pooled), n patch, p step in the patch, d feature, t step of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from patchad.errors import InputError, listed
from patchad.model import ScaleOutput

Objective = Literal["agreement", "adversarial"]
OBJECTIVES = ("agreement", "adversarial")


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between every patch of one view and every step of the other."""

    features: Callable[[Tensor], tuple[Tensor, Tensor]]
    """What is compared of a view `(b, c, n or p, d)`; worked out once, used against several partners."""
    pairwise: Callable[[tuple[Tensor, Tensor], tuple[Tensor, Tensor]], Tensor]
    """(b, c, n, p), the distance of every pair."""
    mean: Callable[[tuple[Tensor, Tensor], tuple[Tensor, Tensor]], Tensor]
    """The mean over all pairs, which training needs; cheaper than the pairs where the distance is a product."""

    def __call__(self, inter: Tensor, intra: Tensor) -> Tensor:
        """Give the distance of every pair: `(b, c, n, p)`."""
        return self.pairwise(self.features(inter), self.features(intra))


def _centred(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Subtract the common mean: the products below become as small as their sum, so that nothing cancels."""
    a_mean, b_mean = (
        0.5 * (x.mean(-2, keepdim=True) + y.mean(-2, keepdim=True)) for x, y in zip(one, other, strict=True)
    )
    return one[0] - a_mean, one[1] - b_mean, other[0] - a_mean, other[1] - b_mean


def _product_pairwise(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """Give sum_d (a_n - a_p)(b_n - b_p) for every pair of patch n and step p."""
    a_n, b_n, a_p, b_p = _centred(one, other)
    own = (a_n * b_n).sum(-1).unsqueeze(-1) + (a_p * b_p).sum(-1).unsqueeze(-2)
    cross = a_n @ b_p.transpose(-1, -2) + b_n @ a_p.transpose(-1, -2)
    return (own - cross).clamp_min(0)  # rounding may leave a value a hair under zero


def _product_mean(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """Give the mean of `_product_pairwise`: the cross terms are products of means."""
    a_n, b_n, a_p, b_p = _centred(one, other)
    own = (a_n * b_n).sum(-1).mean(-1) + (a_p * b_p).sum(-1).mean(-1)
    cross = (a_n.mean(-2) * b_p.mean(-2)).sum(-1) + (b_n.mean(-2) * a_p.mean(-2)).sum(-1)
    return (own - cross).mean()


def _kl_features(view: Tensor) -> tuple[Tensor, Tensor]:
    logs = view.log_softmax(-1)
    return logs.exp(), logs


def _l2_features(view: Tensor) -> tuple[Tensor, Tensor]:
    scaled = view * view.shape[-1] ** -0.5
    return scaled, scaled


def _jsd_pairwise(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    (p, log_p), (q, log_q) = (x.unsqueeze(-2) for x in one), (x.unsqueeze(-3) for x in other)  # b c n 1 d, b c 1 p d
    middle = (0.5 * (p + q)).log()
    return 0.5 * (p * (log_p - middle) + q * (log_q - middle)).sum(-1)


def _wasserstein_features(view: Tensor) -> tuple[Tensor, Tensor]:
    cumulated = view.softmax(-1).cumsum(-1)
    return cumulated, cumulated


def _wasserstein_pairwise(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    return (one[0].unsqueeze(-2) - other[0].unsqueeze(-3)).abs().sum(-1)


DISTANCES: dict[str, Distance] = {
    # Symmetric Kullback-Leibler divergence of the softmax over features: sum_d (p - q)(log p - log q).
    "kl": Distance(_kl_features, _product_pairwise, _product_mean),
    # Jensen-Shannon divergence of the softmax over features.
    "jsd": Distance(_kl_features, _jsd_pairwise, lambda one, other: _jsd_pairwise(one, other).mean()),
    # Mean squared difference of the features themselves.
    "l2": Distance(_l2_features, _product_pairwise, _product_mean),
    # Earth mover's distance of the softmax over features, a step from one feature to the next costing one.
    "wasserstein": Distance(
        _wasserstein_features, _wasserstein_pairwise, lambda one, other: _wasserstein_pairwise(one, other).mean()
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveConfig:
    """What training asks of the views."""

    objective: Objective
    """`agreement`: both views are pulled together; `adversarial`: the paper's difference of the two terms."""
    distance: str
    constraint: float
    """Weight c of the terms with projected views."""

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InputError(f"objective={self.objective!r} is unknown; use one of {listed(OBJECTIVES)}")
        if self.distance not in DISTANCES:
            raise InputError(f"distance={self.distance!r} is unknown; use one of {listed(tuple(DISTANCES))}")
        if not 0 <= self.constraint <= 1:
            raise InputError(f"constraint={self.constraint} is out of range; it must lie between 0 and 1")


def loss(outputs: Sequence[ScaleOutput], target: Tensor, config: ObjectiveConfig) -> Tensor:
    """Give the training loss, summed over scales: (1 - c) contrast + c (contrast of the projected) + MSE.

    Parameters
    ----------
    outputs
        What the net said of the windows.
    target
        The z-scored windows, `(b, t, c)`, without positions.
    config
        What is asked.
    """
    total = target.new_zeros(())
    for out in outputs:
        total = total + view_loss(out, config) + functional.mse_loss(out.reconstruction, target)
    return total


def view_loss(out: ScaleOutput, config: ObjectiveConfig) -> Tensor:
    """Give (1 - c) contrast(N, P) + c (contrast(N', P) + contrast(N, P')).

    `agreement`: contrast = d(N, sg P) + d(P, sg N), sg being stop-gradient. As d is symmetric, its value is twice
    d(N, P) and its gradient that of d(N, P), so one distance does for the two. `adversarial`: the difference of the
    two, which is zero everywhere; its gradient pulls N to P and pushes P from N, so that the views come to differ on
    what they are trained on. Turning the sign of the gradient of P around gives just that from one distance.
    """
    distance, c = DISTANCES[config.distance], config.constraint
    adversarial = config.objective == "adversarial"

    def contrast(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
        value = distance.mean(one, other)
        return value - value.detach() if adversarial else value + value.detach()

    def turned(view: Tensor) -> Tensor:
        return 2 * view.detach() - view if adversarial else view

    inter, intra = distance.features(out.inter), distance.features(turned(out.intra))
    if c == 0 or out.inter_projected is None or out.intra_projected is None:
        return contrast(inter, intra)
    inter_projected = distance.features(out.inter_projected)
    intra_projected = distance.features(turned(out.intra_projected))
    constraint = contrast(inter_projected, intra) + contrast(inter, intra_projected)
    return (1 - c) * contrast(inter, intra) + c * constraint


def discrepancy(outputs: Sequence[ScaleOutput], distance: str) -> Tensor:
    """Give the distance between the views at every step, averaged over scales: `(b, t, c)`, one channel when pooled.

    Step t lies in patch t // P at position t % P: the inter-patch view is repeated inside each patch and the
    intra-patch view tiled over the patches, without making either copy.
    """
    measure = DISTANCES[distance]
    per_scale = [measure(out.inter, out.intra).flatten(2) for out in outputs]  # b c (n p)
    return torch.stack(per_scale).mean(0).transpose(1, 2)


def residual(outputs: Sequence[ScaleOutput], target: Tensor) -> Tensor:
    """Give the absolute error of the mean reconstruction of all scales: `(b, t, c)`."""
    reconstruction = torch.stack([out.reconstruction for out in outputs]).mean(0)
    return (target - reconstruction).abs()

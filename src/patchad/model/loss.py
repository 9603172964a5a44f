"""How far two views differ, the loss that trains them, and what a window says of its points: pure functions.

Axes: c channel (one when the views are pooled), n patch, p step in the patch, b batch, d feature, t step of the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad._kernels.cuda_graphs import at_once
from patchad._kernels.mixing import kernels_for
from patchad.errors import InputError, listed
from patchad.model.net import ScaleOutput

Objective = Literal["agreement", "adversarial"]
OBJECTIVES = ("agreement", "adversarial")


Pair = tuple[Tensor, Tensor]
"""What is compared of a view: two tensors `(c, n or p, b, d)`."""


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between every patch of one view and every step of the other."""

    features: Callable[[Tensor], Pair]
    """What is compared of a view `(c, n or p, b, d)`."""
    pairwise: Callable[[Pair, Pair], Tensor]
    """(c, n, p, b), the distance of every pair, from the features of both views."""
    summary: Callable[[Tensor], tuple[Tensor, ...]]
    """What the mean needs of a view; worked out once, used against several partners."""
    mean: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]
    """The mean over all pairs, which training needs, from the summaries of both views."""

    softmax: bool | None = None
    """Where kernels may know the distance: whether it is that of the softmax over features, not of the features."""

    def __call__(self, inter: Tensor, intra: Tensor) -> Tensor:
        """Give the distance of every pair: `(c, n, p, b)`."""
        known = getattr(kernels_for(inter), "distances", None)
        followed = torch.is_grad_enabled() and (inter.requires_grad or intra.requires_grad)
        if known is not None and self.softmax is not None and not followed:
            found: Tensor = known(inter, intra, softmax=self.softmax)
            return found
        return self.pairwise(self.features(inter), self.features(intra))


def _product_pairwise(one: Pair, other: Pair) -> Tensor:
    """Give sum_d (a_n - a_p)(b_n - b_p) for every pair of patch n and step p."""
    # Differences first, so that nothing cancels; patch by patch or step by step, whichever are fewer.
    few, many, axis = (other, one, 2) if other[0].shape[1] <= one[0].shape[1] else (one, other, 1)
    found = [
        (many[0] - few[0][:, i : i + 1]).mul(many[1] - few[1][:, i : i + 1]).sum(-1) for i in range(few[0].shape[1])
    ]
    return torch.stack(found, dim=axis).clamp_min(0)  # rounding may leave a value a hair under zero


def _product_mean(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
    """Give the mean of `_product_pairwise`: the cross terms are products of means."""
    (own, a_mean, b_mean), (other_own, a_other, b_other) = one, other
    pairs = a_mean.shape[0] * a_mean.shape[1]
    return own + other_own - ((a_mean * b_other).sum() + (b_mean * a_other).sum()) / pairs


def _kl_features(view: Tensor) -> Pair:
    logs = view.log_softmax(-1)
    return logs.exp(), logs


class _KLSummary(torch.autograd.Function):
    """Mean of sum_d p log p, and the means of p and log p over the patches, `(c, b, d)`."""

    @staticmethod
    def forward(ctx: Any, view: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        p, logs = _kl_features(view)
        ctx.save_for_backward(p, logs)
        return (p * logs).sum() / p[..., 0].numel(), p.mean(1), logs.mean(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        p, logs = ctx.saved_tensors
        own, of_p, of_logs = gradients[0] / p[..., 0].numel(), gradients[1] / p.shape[1], gradients[2] / p.shape[1]
        lower = torch.addcmul((own + of_p).unsqueeze(1), logs, own).mul_(p).add_(of_logs.unsqueeze(1))
        return lower.addcmul_(p, lower.sum(-1, keepdim=True), value=-1)


def _kl_summary(view: Tensor) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = _KLSummary.apply(view)  # type: ignore[no-untyped-call]
    return found


def _l2_summary(view: Tensor) -> tuple[Tensor, ...]:
    scaled, _ = _l2_features(view)
    mean = scaled.mean(1)
    return scaled.square().sum() / scaled[..., 0].numel(), mean, mean


def _l2_features(view: Tensor) -> tuple[Tensor, Tensor]:
    scaled = view * view.shape[-1] ** -0.5
    return scaled, scaled


def _jsd_pairwise(one: Pair, other: Pair) -> Tensor:
    (p, log_p), (q, log_q) = (x.unsqueeze(2) for x in one), (x.unsqueeze(1) for x in other)  # c n 1 b d, c 1 p b d
    middle = (0.5 * (p + q)).log()
    return 0.5 * (p * (log_p - middle) + q * (log_q - middle)).sum(-1)


def _wasserstein_features(view: Tensor) -> Pair:
    cumulated = view.softmax(-1).cumsum(-1)
    return cumulated, cumulated


def _wasserstein_pairwise(one: Pair, other: Pair) -> Tensor:
    return (one[0].unsqueeze(2) - other[0].unsqueeze(1)).abs().sum(-1)


def _by_pairs(features: Callable[[Tensor], Pair], pairwise: Callable[[Pair, Pair], Tensor]) -> Distance:
    """Give a distance whose mean has no shorter way than over all pairs."""
    return Distance(
        features, pairwise, features, lambda one, other: pairwise(cast("Pair", one), cast("Pair", other)).mean()
    )


DISTANCES: dict[str, Distance] = {
    # Symmetric Kullback-Leibler divergence of the softmax over features: sum_d (p - q)(log p - log q).
    "kl": Distance(_kl_features, _product_pairwise, _kl_summary, _product_mean, softmax=True),
    # Jensen-Shannon divergence of the softmax over features.
    "jsd": _by_pairs(_kl_features, _jsd_pairwise),
    # Mean squared difference of the features themselves.
    "l2": Distance(_l2_features, _product_pairwise, _l2_summary, _product_mean, softmax=False),
    # Earth mover's distance of the softmax over features, a step from one feature to the next costing one.
    "wasserstein": _by_pairs(_wasserstein_features, _wasserstein_pairwise),
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

    def of_scale(out: ScaleOutput) -> Tensor:
        return view_loss(out, config) + functional.mse_loss(out.reconstruction, target)

    return torch.stack(at_once([partial(of_scale, out) for out in outputs], target)).sum()


def view_loss(out: ScaleOutput, config: ObjectiveConfig) -> Tensor:
    """Give (1 - c) contrast(N, P) + c (contrast(N', P) + contrast(N, P')).

    `agreement`: contrast = d(N, sg P) + d(P, sg N), sg being stop-gradient. As d is symmetric, its value is twice
    d(N, P) and its gradient that of d(N, P), so one distance does for the two. `adversarial`: the difference of the
    two, which is zero everywhere; its gradient pulls N to P and pushes P from N, so that the views come to differ on
    what they are trained on. Turning the sign of the gradient of P around gives just that from one distance.
    """
    distance, c = DISTANCES[config.distance], config.constraint
    adversarial = config.objective == "adversarial"

    def contrast(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
        value = distance.mean(one, other)
        return value - value.detach() if adversarial else value + value.detach()

    def turned(view: Tensor) -> tuple[Tensor, ...]:
        found = distance.summary(view)
        return tuple(2 * part.detach() - part for part in found) if adversarial else found

    inter, intra = distance.summary(out.inter), turned(out.intra)
    if c == 0 or out.inter_projected is None or out.intra_projected is None:
        return contrast(inter, intra)
    inter_projected, intra_projected = distance.summary(out.inter_projected), turned(out.intra_projected)
    constraint = contrast(inter_projected, intra) + contrast(inter, intra_projected)
    return (1 - c) * contrast(inter, intra) + c * constraint


def discrepancy(outputs: Sequence[ScaleOutput], distance: str, steps: int | None = None) -> Tensor:
    """Give the distance of the views at the newest steps, averaged over scales: `(b, t, c)`, one channel if pooled.

    Step t lies in patch t // P at position t % P: the inter-patch view is repeated inside each patch and the
    intra-patch view tiled over the patches, without making either copy.
    """
    measure = DISTANCES[distance]
    per_scale = []
    for out in outputs:
        patches, size = out.inter.shape[1], out.intra.shape[1]
        wanted = patches * size if steps is None else steps
        newest = out.inter[:, patches - math.ceil(wanted / size) :]  # the patches that hold them
        per_scale.append(measure(newest, out.intra).flatten(1, 2)[:, -wanted:])  # c (n p) b
    return torch.stack(per_scale).mean(0).permute(2, 1, 0)


def residual(outputs: Sequence[ScaleOutput], target: Tensor, steps: int | None = None) -> Tensor:
    """Give the absolute error of the mean reconstruction of all scales at the newest steps: `(b, t, c)`."""
    newest = slice(None if steps is None else -steps, None)
    reconstruction = torch.stack([out.reconstruction[:, newest] for out in outputs]).mean(0)
    return (target[:, newest] - reconstruction).abs()


def evidence(
    net: nn.Module,
    memory: Callable[[Tensor], Tensor] | None,
    windows: Tensor,
    distance: str,
    steps: int,
    *,
    reconstruct: bool = True,
) -> tuple[Tensor, ...]:
    """Give what a score is made of, for the newest steps of scaled windows `(b, t, c)`.

    Residuals `(b, step, channel)`, without a channel where the reconstruction is not asked for; distances of the views
    `(b, step, channel or 1)`; and, where there is a memory, the distances to it, `(b, step, part)`.
    """
    outputs = net(windows, project=False, reconstruct=reconstruct)
    missed = residual(outputs, windows, steps) if reconstruct else windows.new_empty((len(windows), steps, 0))
    found = missed, discrepancy(outputs, distance, steps)
    return found if memory is None else (*found, memory(windows)[:, -steps:])

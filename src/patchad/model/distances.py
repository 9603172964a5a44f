"""Distances between the two views of a window, pairwise and on average: pure functions.

Axes: c channel (one when the views are pooled), n patch, p step in the patch, b batch, d feature, t step of the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor

from patchad._kernels.mixing import kernels_for
from patchad.model.net import ScaleOutput

DistanceName = Literal["kl", "jsd", "l2", "wasserstein"]
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


DISTANCES: dict[DistanceName, Distance] = {
    # Symmetric Kullback-Leibler divergence of the softmax over features: sum_d (p - q)(log p - log q).
    "kl": Distance(_kl_features, _product_pairwise, _kl_summary, _product_mean, softmax=True),
    # Jensen-Shannon divergence of the softmax over features.
    "jsd": _by_pairs(_kl_features, _jsd_pairwise),
    # Mean squared difference of the features themselves.
    "l2": Distance(_l2_features, _product_pairwise, _l2_summary, _product_mean, softmax=False),
    # Earth mover's distance of the softmax over features, a step from one feature to the next costing one.
    "wasserstein": _by_pairs(_wasserstein_features, _wasserstein_pairwise),
}


def discrepancy(outputs: Sequence[ScaleOutput], distance: DistanceName, steps: int | None = None) -> Tensor:
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

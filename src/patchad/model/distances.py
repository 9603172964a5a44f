"""Distances between the two views of a window, pair by pair and on average: pure functions.

Axes: c channel (one when the views are pooled), n patch, p step in the patch, b batch, d feature, t step of the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from patchad._kernels import eager
from patchad._kernels.backend import Backend, backend_for, is_stacked
from patchad.model.net import ScaleOutput

DistanceName = Literal["kl", "jsd", "l2", "wasserstein"]
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between every patch of one view and every step of the other."""

    pairwise: Callable[[Tensor, Tensor], Tensor]
    """(c, n, p, b), the distance of every pair, from the views `(c, n, b, d)` and `(c, p, b, d)`."""
    summary: Callable[[Tensor], Tensors]
    """What `mean` needs of a view; computed once and used against several partners."""
    mean: Callable[[Tensors, Tensors], Tensor]
    """The mean over all pairs, for training, from the summaries of both views."""


def _product_pairwise(inter: Tensor, intra: Tensor, *, softmax: bool) -> Tensor:
    differentiable = torch.is_grad_enabled() and (inter.requires_grad or intra.requires_grad)
    backend: Backend = eager if differentiable else backend_for(inter)
    return backend.distances(inter, intra, softmax=softmax)


def _product_mean(one: Tensors, other: Tensors) -> Tensor:
    """Return the mean of `_product_pairwise`: its cross terms are products of means."""
    (own, a_mean, b_mean), (other_own, a_other, b_other) = one, other
    pairs = a_mean.shape[0] * a_mean.shape[1]
    return own + other_own - ((a_mean * b_other).sum() + (b_mean * a_other).sum()) / pairs


class _KLSummary(torch.autograd.Function):
    """Mean of sum_d p log p, and the means of p and log p over the patches, `(c, b, d)`; of many nets, for each."""

    @staticmethod
    def forward(ctx: Any, view: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        p, logs = eager.distance_features(view, softmax=True)
        ctx.save_for_backward(p, logs)
        return (p * logs).sum((-4, -3, -2, -1)) / math.prod(p.shape[-4:-1]), p.mean(-3), logs.mean(-3)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        p, logs = ctx.saved_tensors
        own = (gradients[0] / math.prod(p.shape[-4:-1])).reshape(*p.shape[:-4], 1, 1, 1, 1)
        of_p, of_logs = (gradient.unsqueeze(-3) / p.shape[-3] for gradient in gradients[1:])
        lower = torch.addcmul(own + of_p, logs, own).mul_(p).add_(of_logs)
        return lower.addcmul_(p, lower.sum(-1, keepdim=True), value=-1)


class _StackedKLSummary(torch.autograd.Function):
    """`_KLSummary` under `torch.vmap`."""

    @staticmethod
    def forward(view: Tensor) -> Tensor:
        raise NotImplementedError("stacked nets run under torch.vmap only")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save nothing: `_KLSummary` does."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], view: Tensor) -> tuple[Tensors, tuple[int, ...]]:  # noqa: ARG004 - torch's
        """Take the axis of the nets to the front."""
        return _KLSummary.apply(view.movedim(in_dims[0], 0)), (0, 0, 0)  # type: ignore[no-untyped-call]


def _kl_summary(view: Tensor) -> Tensors:
    function = _StackedKLSummary if is_stacked() else _KLSummary
    found: Tensors = function.apply(view)  # type: ignore[no-untyped-call]
    return found


def _l2_summary(view: Tensor) -> Tensors:
    scaled, _ = eager.distance_features(view, softmax=False)
    mean = scaled.mean(1)
    return scaled.square().sum() / scaled[..., 0].numel(), mean, mean


def _jsd_pairwise(one: Tensors, other: Tensors) -> Tensor:
    (p, log_p), (q, log_q) = (x.unsqueeze(2) for x in one), (x.unsqueeze(1) for x in other)  # c n 1 b d, c 1 p b d
    middle = (0.5 * (p + q)).log()
    return 0.5 * (p * (log_p - middle) + q * (log_q - middle)).sum(-1)


def _wasserstein_features(view: Tensor) -> Tensors:
    return (view.softmax(-1).cumsum(-1),)


def _wasserstein_pairwise(one: Tensors, other: Tensors) -> Tensor:
    return (one[0].unsqueeze(2) - other[0].unsqueeze(1)).abs().sum(-1)


def _by_pairs(features: Callable[[Tensor], Tensors], pairwise: Callable[[Tensors, Tensors], Tensor]) -> Distance:
    """Return a distance whose mean can only be taken over all pairs."""
    return Distance(
        lambda inter, intra: pairwise(features(inter), features(intra)),
        features,
        lambda one, other: pairwise(one, other).mean(),
    )


DISTANCES: dict[DistanceName, Distance] = {
    # Symmetric Kullback-Leibler divergence of the softmax over features: sum_d (p - q)(log p - log q).
    "kl": Distance(partial(_product_pairwise, softmax=True), _kl_summary, _product_mean),
    # Jensen-Shannon divergence of the softmax over features.
    "jsd": _by_pairs(partial(eager.distance_features, softmax=True), _jsd_pairwise),
    # Mean squared difference of the features themselves.
    "l2": Distance(partial(_product_pairwise, softmax=False), _l2_summary, _product_mean),
    # Earth mover's distance of the softmax over features, where moving to the next feature costs one.
    "wasserstein": _by_pairs(_wasserstein_features, _wasserstein_pairwise),
}


def discrepancy(outputs: Sequence[ScaleOutput], distance: DistanceName, steps: int | None = None) -> Tensor:
    """Return the distance of the views at the newest steps, averaged over scales: `(b, t, c)`, one channel if pooled.

    Step t lies in patch t // P at position t % P: the inter-patch view is repeated inside each patch and the
    intra-patch view tiled over the patches, without copying either.
    """
    pairwise = DISTANCES[distance].pairwise
    per_scale = []
    for out in outputs:
        patches, size = out.inter.shape[1], out.intra.shape[1]
        count = patches * size if steps is None else steps
        newest = out.inter[:, patches - math.ceil(count / size) :]  # the patches that hold these steps
        per_scale.append(pairwise(newest, out.intra).flatten(1, 2)[:, -count:])  # c (n p) b
    return torch.stack(per_scale).mean(0).permute(2, 1, 0)

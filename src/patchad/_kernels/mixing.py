"""The mixers' arithmetic: `FC(act(FC(LayerNorm(x)))) + x` along any axis, without moving an axis.

The norm's scale and shift are fused into the first matrix. What is left is two matrix products along the axis, and
between them a few passes over memory, in place where no gradient is wanted.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

PRECISIONS = {"highest": "tf32x3", "high": "tf32", "medium": "tf32"}
"""How a GPU multiplies, by torch's `float32_matmul_precision`: in three parts, as good as float32, or in one."""
GRADIENTS = "tf32"
"""How a GPU multiplies for gradients: ten bits are far more than two batches have in common."""
EPSILON = 1e-5
"""Added to the variance, as LayerNorm does."""
MISSING = {"cuda": "triton is not installed", "cpu": "patchad was installed without a C compiler"}
"""Why a device that has kernels may be without them."""
Activation = Literal["gelu", "relu"]


class FusedWeights(NamedTuple):
    """A mixer's weights, ready to be applied."""

    widen: Tensor
    """(hidden, axis), the first matrix times the norm's scale and the root of the axis: see `_normal`."""
    shift: Tensor
    """(hidden,), what the norm's shift and the first bias come to."""
    narrow: Tensor
    """(axis, hidden), the second matrix."""
    bias: Tensor
    """(axis,), the second bias."""


def fuse(norm: nn.LayerNorm, widen: nn.Linear, narrow: nn.Linear) -> FusedWeights:
    """Bring the weights of a mixer into the form that `mix` takes."""
    if _gpu_kernels(widen.weight) is not None:
        first, shift = _Fuse.apply(norm.weight, norm.bias, widen.weight, widen.bias)  # type: ignore[no-untyped-call]
        return FusedWeights(first, shift, narrow.weight, narrow.bias)
    shift = torch.addmv(widen.bias, widen.weight, norm.bias)
    return FusedWeights(widen.weight * (norm.weight * widen.in_features**0.5), shift, narrow.weight, narrow.bias)


class _Fuse(torch.autograd.Function):
    """The first matrix and shift of a mixer, one kernel each way: torch's operations cost more than the mixing."""

    @staticmethod
    def forward(ctx: Any, scale: Tensor, offset: Tensor, matrix: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(scale, offset, matrix)
        fused: tuple[Tensor, Tensor] = _gpu_kernels(matrix).fuse(scale, offset, matrix, bias)
        return fused

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        of_widen, of_shift = (gradient.contiguous() for gradient in gradients)
        return *_gpu_kernels(of_widen).fuse_backward(*ctx.saved_tensors, of_widen, of_shift), of_shift


class MixerSpan(NamedTuple):
    """Places along the second axis that one mixer works on."""

    start: int
    stop: int
    weights: FusedWeights


def mix(
    x: Tensor, axis: Literal[0, 1, 3], parts: Sequence[MixerSpan], activation: Activation, *, keep: bool = True
) -> Tensor:
    """Mix a tensor `(c, n, b, d)` along channels (0), patches (1) or features (3).

    Parameters
    ----------
    x
        Contiguous.
    axis
        What is mixed.
    parts
        Mixers, each with the places of the second axis that are its own; together they cover all of them.
    activation
        `gelu` or `relu`.
    keep
        False: x may be overwritten with the result, and is where no gradient is wanted.
    """
    if torch.is_grad_enabled():
        bounds = [(part.start, part.stop) for part in parts]
        weights = [tensor for part in parts for tensor in part.weights]
        mixed: Tensor = _Mix.apply(x, axis, bounds, activation, *weights)  # type: ignore[no-untyped-call]
        return mixed
    if torch.compiler.is_exporting():
        return _out_of_place(x, axis, parts, activation)
    last, kernels = axis == 3, kernels_for(x)
    mixed = torch.empty_like(x) if keep else x
    for part in parts:
        seen, out = _seen(x, axis, part.start, part.stop), _seen(mixed, axis, part.start, part.stop)
        if kernels is not None and part.weights.widen.shape[1] <= kernels.WIDEST_AXIS:
            precision = PRECISIONS[torch.get_float32_matmul_precision()]
            kernels.forward(seen, out, last, part.weights, gelu=activation == "gelu", precision=precision)
            continue
        hidden = _activated(_before(_normal(seen, last)[0], part.weights, last), activation, in_place=True)
        _residual(seen, hidden, part.weights, last, out)
    return mixed


def weighted_sum(views: Iterable[Tensor], weights: Tensor) -> Tensor:
    """Sum `(c, n, b, d)` tensors, each with its weights `(n,)`; all those are `(layer, n)`.

    On a CPU each is added before the next is asked for, which may be written over it.
    """
    if _gpu_kernels(weights) is not None:
        weighed: Tensor = _WeightedSum.apply(weights, *views)  # type: ignore[no-untyped-call]
        return weighed
    pairs = zip(views, weights[..., None, None], strict=True)
    total = torch.mul(*next(pairs))
    for view, weight in pairs:
        total = total.addcmul_(view, weight)
    return total


class _WeightedSum(torch.autograd.Function):
    """`weighted_sum` in one pass over the views each way."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *views: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *views)
        total: Tensor = _gpu_kernels(weights).weighted_sum(views, weights)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        weights, *views = ctx.saved_tensors
        found: tuple[Any, ...] = _gpu_kernels(weights).weighted_sum_backward(
            tuple(views), weights, gradients[0].contiguous()
        )
        return found


def _out_of_place(x: Tensor, axis: int, parts: Sequence[MixerSpan], activation: Activation) -> Tensor:
    """Mix in operations that an exported graph can hold: none of them writes over another's result."""
    last = axis == 3
    found = []
    for part in parts:
        seen, weights = _seen(x, axis, part.start, part.stop), part.weights
        hidden = _activated(_before(_normal(seen, last)[0], weights, last), activation, in_place=False)
        added = hidden @ weights.narrow.T + weights.bias if last else weights.narrow @ hidden + weights.bias[:, None]
        found.append((seen + added).reshape(x.shape[0], part.stop - part.start, *x.shape[2:]))
    return torch.cat(found, dim=1)


def kernels_for(x: Tensor) -> Any:
    """Give the module with kernels for x, or None where it is left to torch."""
    known = x.dtype == torch.float32 and x.device.type in MISSING and not torch.compiler.is_exporting()
    kernels = _loaded(x.device.type) if known else None
    return kernels if kernels is not None and x.numel() < kernels.LARGEST else None


def _gpu_kernels(x: Tensor) -> Any:
    """Give the module with kernels for a GPU, if x is there: some work is worth one only where launches are dear."""
    return kernels_for(x) if x.is_cuda else None


@functools.cache
def _loaded(device: str) -> Any:
    kernels: Any
    try:
        if device == "cuda":
            from patchad._kernels import gpu as kernels
        else:
            from patchad._kernels import cpu as kernels
    except ImportError:
        logger.info("%s; the net runs without its own kernels, at a lower speed", MISSING[device])
        return None
    if device == "cpu" and kernels.INSTRUCTIONS == 0:
        logger.info("this processor has no AVX2; torch's own operations are quicker on it than kernels without")
        return None
    return kernels


def _seen(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """See a part of `(c, n, b, d)` as `(axis, rest)`, `(rest, axis, rest)` or, for the last axis, `(rest, axis)`."""
    if axis == 0:
        size = x.shape[2] * x.shape[3]
        return x.view(x.shape[0], -1)[:, start * size : stop * size]
    if axis == 1:
        return x.view(x.shape[0], x.shape[1], -1)[:, start:stop]
    return x.view(-1, x.shape[3])


def _normal(x: Tensor, last: bool) -> tuple[Tensor, Tensor]:
    """Bring x to sum zero and sum of squares one along the axis; give it, and what it was multiplied by.

    LayerNorm brings the mean of the squares to one; the difference, a root, is in the first matrix.
    """
    along = -1 if last else -2
    size = x.shape[along]
    centred = torch.sub(x, x.sum(along, keepdim=True), alpha=1 / size)
    scale = (centred * centred).sum(along, keepdim=True).add_(size * EPSILON).rsqrt_()
    return centred.mul_(scale), scale


def _before(normal: Tensor, weights: FusedWeights, last: bool) -> Tensor:
    """Give the hidden units before the activation."""
    if last:
        return torch.addmm(weights.shift, normal, weights.widen.T)
    return _left(weights.widen, normal).add_(weights.shift[:, None])


def _activated(before: Tensor, activation: Activation, *, in_place: bool) -> Tensor:
    if activation == "gelu":
        activated: Tensor = torch.ops.aten.gelu_(before) if in_place else nn.functional.gelu(before)
        return activated
    return torch.relu_(before) if in_place else torch.relu(before)


def _residual(x: Tensor, hidden: Tensor, weights: FusedWeights, last: bool, out: Tensor) -> None:
    """Write x plus the second matrix times the hidden units to `out`, which may be x."""
    if last:
        torch.addmm(x, hidden, weights.narrow.T, out=out).add_(weights.bias)
    elif x.ndim == 2:
        torch.addmm(x, weights.narrow, hidden, out=out).add_(weights.bias[:, None])
    else:  # baddbmm would go matrix by matrix into such a place
        torch.add(x, _left(weights.narrow, hidden).add_(weights.bias[:, None]), out=out)


def _left(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply from the left: `(axis, rest)`, or each of `(rest, axis, rest)`."""
    return matrix @ x if x.ndim == 2 else torch.bmm(matrix.expand(x.shape[0], -1, -1), x)


class _Mix(torch.autograd.Function):
    """`mix` with a gradient worked out by hand: six matrix products in all, and no tensor kept twice."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, axis: int, bounds: list[tuple[int, int]], activation: Activation, *weights: Tensor
    ) -> Tensor:
        ctx.axis, ctx.bounds, ctx.activation, ctx.kernels = axis, bounds, activation, kernels_for(x)
        last, gelu = axis == 3, activation == "gelu"
        mixed = torch.empty_like(x)
        saved: list[Tensor] = []
        for number, (start, stop) in enumerate(bounds):
            fused = FusedWeights(*weights[4 * number : 4 * number + 4])
            seen, out = _seen(x, axis, start, stop), _seen(mixed, axis, start, stop)
            if ctx.kernels is not None and len(fused.shift) <= ctx.kernels.WIDEST_TRAINED:
                precision = PRECISIONS[torch.get_float32_matmul_precision()]
                ctx.kernels.forward(seen, out, last, fused, gelu=gelu, precision=precision)
                saved += [x, *fused]
                continue
            normal, scale = _normal(seen, last)
            before = _before(normal, fused, last)
            hidden = _activated(before, activation, in_place=False)
            _residual(seen, hidden, fused, last, out)
            saved += [normal, scale, before, hidden, fused.widen, fused.narrow]
        ctx.save_for_backward(*saved)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        upper = gradients[0].contiguous()
        lower = torch.empty_like(upper)
        last, gelu = ctx.axis == 3, ctx.activation == "gelu"
        found: list[Tensor] = []
        saved = list(ctx.saved_tensors)
        for start, stop in ctx.bounds:
            above, below = (_seen(tensor, ctx.axis, start, stop) for tensor in (upper, lower))
            if saved[0].ndim == 4:  # x itself: the kernels work the rest out again
                seen, weights, saved = _seen(saved[0], ctx.axis, start, stop), saved[1:5], saved[5:]
                found += ctx.kernels.backward(seen, above, below, last, weights, gelu=gelu, precision=GRADIENTS)
            else:
                kept, saved = saved[:6], saved[6:]
                found += _backward(above, below, *kept, last=last, activation=ctx.activation)
        return lower, None, None, None, *found


def _backward(
    upper: Tensor,
    lower: Tensor,
    normal: Tensor,
    scale: Tensor,
    before: Tensor,
    hidden: Tensor,
    widen: Tensor,
    narrow: Tensor,
    *,
    last: bool,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Write the gradient of x to `lower`, given that of the result, `upper`; give those of the weights."""
    along = -1 if last else -2
    rest = [dim for dim in range(upper.ndim) if dim != upper.ndim + along]
    of_narrow, of_bias = _products(upper, hidden, last), upper.sum(rest)
    inner = upper @ narrow if last else _left(narrow.T.contiguous(), upper)
    if activation == "gelu":
        torch.ops.aten.gelu_backward.grad_input(inner, before, grad_input=inner)
    else:
        inner *= before > 0
    of_widen, of_shift = _products(inner, normal, last), inner.sum(rest)
    passed = inner @ widen if last else _left(widen.T.contiguous(), inner)
    # The norm holds sum and sum of squares still: whatever would move them is taken off.
    total, squares = passed.sum(along, keepdim=True), (passed * normal).sum(along, keepdim=True)
    passed.addcmul_(normal, squares, value=-1).sub_(total, alpha=1 / normal.shape[along])
    torch.addcmul(upper, passed, scale, out=lower)
    return of_widen, of_shift, of_narrow, of_bias


def _products(one: Tensor, other: Tensor, last: bool) -> Tensor:
    """Sum one times other over all but their mixed axes."""
    if last:
        return one.T @ other
    products = one @ other.mT
    return products.sum(0) if products.ndim == 3 else products

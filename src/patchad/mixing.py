"""The mixers' arithmetic: `FC(act(FC(LayerNorm(x)))) + x` along any axis, without moving an axis.

The norm's scale and shift are folded into the first matrix. What is left is two matrix products along the axis, and
between them a few passes over memory, in place where no gradient is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

EPSILON = 1e-5
"""Added to the variance, as LayerNorm does."""
Activation = Literal["gelu", "relu"]


class Folded(NamedTuple):
    """A mixer's weights, ready to be applied."""

    widen: Tensor
    """(hidden, axis), the first matrix times the norm's scale."""
    shift: Tensor
    """(hidden,), what the norm's shift and the first bias come to."""
    narrow: Tensor
    """(axis, hidden), the second matrix."""
    bias: Tensor
    """(axis,), the second bias."""


def fold(norm: nn.LayerNorm, widen: nn.Linear, narrow: nn.Linear) -> Folded:
    """Bring the weights of a mixer into the form that `mix` takes."""
    shift = torch.addmv(widen.bias, widen.weight, norm.bias)
    return Folded(widen.weight * norm.weight, shift, narrow.weight, narrow.bias)


class Part(NamedTuple):
    """Places along the second axis that one mixer works on."""

    start: int
    stop: int
    weights: Folded


def mix(x: Tensor, axis: Literal[0, 1, 3], parts: Sequence[Part], activation: Activation) -> Tensor:
    """Mix a tensor `(c, n, b, d)` along channels (0), patches (1) or features (3).

    Parameters
    ----------
    x
        Contiguous. Where no gradient is wanted, it is overwritten with the result.
    axis
        What is mixed.
    parts
        Mixers, each with the places of the second axis that are its own; together they cover all of them.
    activation
        `gelu` or `relu`.
    """
    if torch.is_grad_enabled():
        bounds = [(part.start, part.stop) for part in parts]
        weights = [tensor for part in parts for tensor in part.weights]
        mixed: Tensor = _Mix.apply(x, axis, bounds, activation, *weights)  # type: ignore[no-untyped-call]
        return mixed
    for part in parts:
        seen, last = _seen(x, axis, part.start, part.stop), axis == 3
        hidden = _activated(_before(_normal(seen, last)[0], part.weights, last), activation, in_place=True)
        _residual(seen, hidden, part.weights, last, seen)
    return x


def _seen(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """See a part of `(c, n, b, d)` as `(axis, rest)`, `(rest, axis, rest)` or, for the last axis, `(rest, axis)`."""
    if axis == 0:
        size = x.shape[2] * x.shape[3]
        return x.view(x.shape[0], -1)[:, start * size : stop * size]
    if axis == 1:
        return x.view(x.shape[0], x.shape[1], -1)[:, start:stop]
    return x.view(-1, x.shape[3])


def _normal(x: Tensor, last: bool) -> tuple[Tensor, Tensor]:
    """Bring x to mean zero and variance one along the axis; give it, and what it was multiplied by."""
    along = -1 if last else -2
    centred = x - x.mean(along, keepdim=True)
    scale = centred.square().mean(along, keepdim=True).add_(EPSILON).rsqrt_()
    return centred.mul_(scale), scale


def _before(normal: Tensor, weights: Folded, last: bool) -> Tensor:
    """Give the hidden units before the activation."""
    if last:
        return torch.addmm(weights.shift, normal, weights.widen.T)
    return _left(weights.widen, normal).add_(weights.shift[:, None])


def _activated(before: Tensor, activation: Activation, *, in_place: bool) -> Tensor:
    if activation == "gelu":
        activated: Tensor = torch.ops.aten.gelu_(before) if in_place else nn.functional.gelu(before)
        return activated
    return torch.relu_(before) if in_place else torch.relu(before)


def _residual(x: Tensor, hidden: Tensor, weights: Folded, last: bool, out: Tensor) -> None:
    """Write x plus the second matrix times the hidden units to `out`, which may be x."""
    if last:
        torch.addmm(x, hidden, weights.narrow.T, out=out).add_(weights.bias)
    elif x.ndim == 2:
        torch.addmm(x, weights.narrow, hidden, out=out).add_(weights.bias[:, None])
    else:  # baddbmm would go matrix by matrix into such a place
        torch.add(x, _left(weights.narrow, hidden).add_(weights.bias[:, None]), out=out)


def _left(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply from the left: `(axis, rest)`, or each of `(rest, axis, rest)`."""
    return matrix @ x if x.ndim == 2 else torch.bmm(matrix.expand(len(x), -1, -1), x)


class _Mix(torch.autograd.Function):
    """`mix` with a gradient worked out by hand: six matrix products in all, and no tensor kept twice."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, axis: int, bounds: list[tuple[int, int]], activation: Activation, *weights: Tensor
    ) -> Tensor:
        last = axis == 3
        ctx.axis, ctx.bounds, ctx.activation = axis, bounds, activation
        mixed = torch.empty_like(x)
        saved: list[Tensor] = []
        for number, (start, stop) in enumerate(bounds):
            folded = Folded(*weights[4 * number : 4 * number + 4])
            seen = _seen(x, axis, start, stop)
            normal, scale = _normal(seen, last)
            before = _before(normal, folded, last)
            hidden = _activated(before, activation, in_place=False)
            _residual(seen, hidden, folded, last, _seen(mixed, axis, start, stop))
            saved += [normal, scale, before, hidden, folded.widen, folded.narrow]
        ctx.save_for_backward(*saved)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        upper = gradients[0].contiguous()
        lower = torch.empty_like(upper)
        found: list[Tensor] = []
        for number, (start, stop) in enumerate(ctx.bounds):
            seen = [_seen(tensor, ctx.axis, start, stop) for tensor in (upper, lower)]
            saved = ctx.saved_tensors[6 * number : 6 * number + 6]
            found += _backward(*seen, *saved, last=ctx.axis == 3, activation=ctx.activation)
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
    # The norm holds mean and variance still: whatever would move them is taken off.
    mean, variance = passed.mean(along, keepdim=True), (passed * normal).mean(along, keepdim=True)
    passed.addcmul_(normal, variance, value=-1).sub_(mean)
    torch.addcmul(upper, passed, scale, out=lower)
    return of_widen, of_shift, of_narrow, of_bias


def _products(one: Tensor, other: Tensor, last: bool) -> Tensor:
    """Sum one times other over all but their mixed axes."""
    if last:
        return one.T @ other
    products = one @ other.mT
    return products.sum(0) if products.ndim == 3 else products

"""The backend in torch's operations: on any device, in any precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from patchad._kernels.backend import EPSILON, Activation, FusedWeights, is_stacked


def handles(x: Tensor, weights: FusedWeights, *, training: bool) -> bool:  # noqa: ARG001 - any
    """Return True: every size is handled."""
    return True


def forward(
    x: Tensor, out: Tensor, weights: FusedWeights, *, last: bool, activation: Activation, save: bool
) -> Sequence[Tensor]:
    """Mix x into `out`; `backward` needs the intermediate results."""
    normal, scale = _normalise(x, last)
    before = _first_product(normal, weights, last)
    hidden = _activate(before, activation, in_place=not save)
    if last:
        torch.addmm(x, hidden, weights.narrow.T, out=out).add_(weights.bias)
    elif x.ndim == 2:
        torch.addmm(x, weights.narrow, hidden, out=out).add_(weights.bias[:, None])
    else:  # baddbmm into a strided output would multiply matrix by matrix
        torch.add(x, _left_product(weights.narrow, hidden).add_(weights.bias[:, None]), out=out)
    return (normal, scale, before, hidden, weights.widen, weights.narrow) if save else ()


def backward(
    saved: Sequence[Tensor], grad_out: Tensor, grad_x: Tensor, *, last: bool, activation: Activation
) -> Sequence[Tensor]:
    """Write the gradient of x into `grad_x` and return those of the weights: four matrix products."""
    normal, scale, before, hidden, widen, narrow = saved
    along = -1 if last else -2
    rest = [dim for dim in range(grad_out.ndim) if dim != grad_out.ndim + along]
    grad_narrow, grad_bias = _outer_product(grad_out, hidden, last), grad_out.sum(rest)
    inner = grad_out @ narrow if last else _left_product(narrow.T.contiguous(), grad_out)
    if activation == "gelu":
        torch.ops.aten.gelu_backward.grad_input(inner, before, grad_input=inner)
    else:
        inner *= before > 0
    grad_widen, grad_shift = _outer_product(inner, normal, last), inner.sum(rest)
    passed = inner @ widen if last else _left_product(widen.T.contiguous(), inner)
    # The norm fixes sum and sum of squares: the components along both are removed.
    total, squares = passed.sum(along, keepdim=True), (passed * normal).sum(along, keepdim=True)
    passed.addcmul_(normal, squares, value=-1).sub_(total, alpha=1 / normal.shape[along])
    torch.addcmul(grad_out, passed, scale, out=grad_x)
    return grad_widen, grad_shift, grad_narrow, grad_bias


def mix_out_of_place(x: Tensor, weights: FusedWeights, *, last: bool, activation: Activation) -> Tensor:
    """Mix x in operations that an exported graph can hold: none of them writes into a tensor."""
    hidden = _activate(_first_product(_normalise(x, last)[0], weights, last), activation, in_place=False)
    return x + (hidden @ weights.narrow.T + weights.bias if last else weights.narrow @ hidden + weights.bias[:, None])


def mix_differentiably(x: Tensor, weights: FusedWeights, *, last: bool, activation: Activation) -> Tensor:
    """Mix x in operations whose gradients torch knows: none of them writes into a tensor that one needs."""
    along = -1 if last else -2
    centred = x - x.mean(along, keepdim=True)
    scale = (centred.square().sum(along, keepdim=True) + x.shape[along] * EPSILON).rsqrt()
    hidden = _activate(_first_product(centred * scale, weights, last), activation, in_place=False)
    return x + (hidden @ weights.narrow.T + weights.bias if last else weights.narrow @ hidden + weights.bias[:, None])


def fuse(scale: Tensor, offset: Tensor, matrix: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Fuse the scale and shift of a LayerNorm into the linear map after it."""
    shift = torch.addmv(bias, matrix, offset)
    return matrix * (scale * matrix.shape[1] ** 0.5), shift


def weighted_sum(views: Iterable[Tensor], weights: Tensor) -> Tensor:
    """Sum weighted views; each is added before the next is drawn, so that the next may overwrite it."""
    pairs = zip(views, weights[..., None, None], strict=True)
    total = torch.mul(*next(pairs))
    for view, weight in pairs:  # vmap knows no addcmul_
        total = total + view * weight if is_stacked() else total.addcmul_(view, weight)
    return total


def distances(inter: Tensor, intra: Tensor, *, softmax: bool) -> Tensor:
    """Return the distance of every patch to every step; differentiable."""
    one, other = (distance_features(view, softmax=softmax) for view in (inter, intra))
    # Differences first, so that nothing cancels; patch by patch or step by step, whichever are fewer.
    few, many, axis = (other, one, 2) if intra.shape[1] <= inter.shape[1] else (one, other, 1)
    found = [
        (many[0] - few[0][:, i : i + 1]).mul(many[1] - few[1][:, i : i + 1]).sum(-1) for i in range(few[0].shape[1])
    ]
    return torch.stack(found, dim=axis).clamp_min(0)  # rounding may leave a value slightly below zero


def distance_features(view: Tensor, *, softmax: bool) -> tuple[Tensor, Tensor]:
    """Return the two tensors whose differences `distances` multiplies."""
    if softmax:
        logs = view.log_softmax(-1)
        return logs.exp(), logs
    scaled = view * view.shape[-1] ** -0.5
    return scaled, scaled


def _normalise(x: Tensor, last: bool) -> tuple[Tensor, Tensor]:
    """Scale x to sum zero and sum of squares one along the axis; return it and the factor.

    LayerNorm scales the mean of the squares to one; the difference, a root, is in the first matrix.
    """
    along = -1 if last else -2
    size = x.shape[along]
    centred = torch.sub(x, x.sum(along, keepdim=True), alpha=1 / size)
    scale = (centred * centred).sum(along, keepdim=True).add_(size * EPSILON).rsqrt_()
    return centred.mul_(scale), scale


def _first_product(normal: Tensor, weights: FusedWeights, last: bool) -> Tensor:
    """Return the hidden units before the activation."""
    if last:
        return torch.addmm(weights.shift, normal, weights.widen.T)
    return _left_product(weights.widen, normal).add_(weights.shift[:, None])


def _activate(before: Tensor, activation: Activation, *, in_place: bool) -> Tensor:
    if activation == "gelu":
        activated: Tensor = torch.ops.aten.gelu_(before) if in_place else nn.functional.gelu(before)
        return activated
    return torch.relu_(before) if in_place else torch.relu(before)


def _left_product(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply from the left: `(axis, rest)`, or each of `(rest, axis, rest)`."""
    return matrix @ x if x.ndim == 2 else torch.bmm(matrix.expand(x.shape[0], -1, -1), x)


def _outer_product(one: Tensor, other: Tensor, last: bool) -> Tensor:
    """Sum one times other over all axes but the mixed one."""
    if last:
        return one.T @ other
    products = one @ other.mT
    return products.sum(0) if products.ndim == 3 else products

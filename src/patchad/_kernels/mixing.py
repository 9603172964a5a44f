"""The mixers: `FC(act(FC(LayerNorm(x)))) + x` along any axis of a tensor, without moving an axis.

LayerNorm's scale and shift are fused into the first matrix. What is left is two matrix products along the axis and a
few passes over the tensor between them, in place where no gradient is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from patchad._kernels import eager
from patchad._kernels.backend import Activation, Backend, FusedWeights, backend_for, is_stacked

Axis = Literal[0, 1, 3]


class MixerSpan(NamedTuple):
    """A mixer and the positions along the second axis that it works on."""

    start: int
    stop: int
    weights: FusedWeights


def fuse(norm: nn.LayerNorm, widen: nn.Linear, narrow: nn.Linear) -> FusedWeights:
    """Return the weights of a mixer in the form that `mix` takes."""
    fused = backend_for(widen.weight).fuse(norm.weight, norm.bias, widen.weight, widen.bias)
    return FusedWeights(*fused, narrow.weight, narrow.bias)


def mix(x: Tensor, axis: Axis, spans: Sequence[MixerSpan], activation: Activation, *, in_place: bool = False) -> Tensor:
    """Mix a tensor `(c, n, b, d)` along channels (0), patches (1) or features (3).

    Parameters
    ----------
    x
        Contiguous.
    axis
        The mixed axis.
    spans
        Mixers, each with its positions along the second axis; together they cover all of them.
    activation
        `gelu` or `relu`.
    in_place
        Overwrite x with the result, unless gradients are enabled.
    """
    last = axis == 3
    if is_stacked() and any(_backend(x, span.weights, training=True) is eager for span in spans):
        return _mix_plainly(x, axis, spans, activation)
    if torch.is_grad_enabled():
        bounds = [(span.start, span.stop) for span in spans]
        tensors = [tensor for span in spans for tensor in span.weights]
        function = _StackedMix if is_stacked() else _Mix
        mixed: Tensor = function.apply(x, axis, bounds, activation, *tensors)  # type: ignore[no-untyped-call]
        return mixed
    if torch.compiler.is_exporting():
        found = [
            eager.mix_out_of_place(_view(x, axis, start, stop), weights, last=last, activation=activation)
            for start, stop, weights in spans
        ]
        return torch.cat([one.reshape(x.shape[0], -1, *x.shape[2:]) for one in found], dim=1)
    mixed = x if in_place else torch.empty_like(x)
    for start, stop, weights in spans:
        one, out = _view(x, axis, start, stop), _view(mixed, axis, start, stop)
        backend = _backend(x, weights, training=False)
        backend.forward(one, out, weights, last=last, activation=activation, save=False)
    return mixed


class _Mix(torch.autograd.Function):
    """`mix` with a gradient written by hand: six matrix products in all, and no tensor kept twice."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, axis: Axis, bounds: list[tuple[int, int]], activation: Activation, *weights: Tensor
    ) -> Tensor:
        mixed = torch.empty_like(x)
        remaining, spans = iter(weights), []
        saved: list[Tensor] = []
        for start, stop in bounds:
            fused = FusedWeights(*islice(remaining, 4))
            backend = _backend(x, fused, training=True)
            one, out = _view(x, axis, start, stop), _view(mixed, axis, start, stop)
            kept = backend.forward(one, out, fused, last=axis == 3, activation=activation, save=True)
            spans.append((start, stop, backend, len(kept)))
            saved += kept
        ctx.axis, ctx.activation, ctx.spans = axis, activation, spans
        ctx.save_for_backward(*saved)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        grad_out = gradients[0].contiguous()
        grad_x = torch.empty_like(grad_out)
        remaining, found = iter(ctx.saved_tensors), []
        for start, stop, backend, count in ctx.spans:
            above, below = (_view(gradient, ctx.axis, start, stop) for gradient in (grad_out, grad_x))
            saved = tuple(islice(remaining, count))
            found += backend.backward(saved, above, below, last=ctx.axis == 3, activation=ctx.activation)
        return grad_x, None, None, None, *found


class _StackedMix(torch.autograd.Function):
    """`_Mix` under `torch.vmap`: the axis of the nets is moved to the front, and all of them are mixed at once."""

    @staticmethod
    def forward(
        x: Tensor, axis: Axis, bounds: list[tuple[int, int]], activation: Activation, *weights: Tensor
    ) -> Tensor:
        raise NotImplementedError("stacked nets run under torch.vmap only")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save nothing: `_Mix` does."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:  # noqa: ARG004 - torch's
        """Mix with one more axis in front of all tensors."""
        x, axis, bounds, activation, *weights = (
            one.movedim(dim, 0).contiguous() if isinstance(one, Tensor) else one
            for one, dim in zip(inputs, in_dims, strict=True)
        )
        return _Mix.apply(x, axis, bounds, activation, *weights), 0  # type: ignore[no-untyped-call]


def _mix_plainly(x: Tensor, axis: Axis, spans: Sequence[MixerSpan], activation: Activation) -> Tensor:
    """Mix in operations that `torch.vmap` and autograd know."""
    found = [
        eager.mix_differentiably(_view(x, axis, start, stop), weights, last=axis == 3, activation=activation)
        for start, stop, weights in spans
    ]
    return torch.cat([one.reshape(x.shape[0], -1, *x.shape[2:]) for one in found], dim=1)


def _backend(x: Tensor, weights: FusedWeights, *, training: bool) -> Backend:
    backend = backend_for(x, stacked=True)
    return backend if backend.handles(x, weights, training=training) else eager


def _view(x: Tensor, axis: Axis, start: int, stop: int) -> Tensor:
    """View a span of `(c, n, b, d)` as `(axis, rest)`, `(rest, axis, rest)` or, for the last axis, `(rest, axis)`.

    Tensors of many nets have their axis in front.
    """
    nets, (channels, positions, batch, features) = x.shape[:-4], x.shape[-4:]
    if axis == 0:
        size = batch * features
        return x.view(*nets, channels, -1)[..., start * size : stop * size]
    if axis == 1:
        return x.view(*nets, channels, positions, -1)[..., start:stop, :]
    return x.view(*nets, -1, features)

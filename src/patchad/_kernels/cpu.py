"""The backend for a CPU: one pass over a tensor, tile by tile, in C.

Importing this module needs the compiled `_mixing`, which an installation builds where it finds a C compiler. A call
runs on one core; `patchad._kernels.threads` runs several in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from patchad._kernels import _mixing
from patchad._kernels.backend import Activation, FusedWeights, layout
from patchad._kernels.eager import fuse, handles, weighted_sum
from patchad._kernels.tapes import note

__all__ = ["INSTRUCTIONS", "backward", "distances", "forward", "fuse", "handles", "weighted_sum"]

INSTRUCTIONS = _mixing.BEST
"""The instruction set in use, of those compiled: 0 is plain, 1 is AVX2, 2 is AVX-512."""


def forward(
    x: Tensor, out: Tensor, weights: FusedWeights, *, last: bool, activation: Activation, save: bool
) -> Sequence[Tensor]:
    """Mix x into `out`; `backward` computes the rest again from x."""
    if weights.widen.ndim == 3:  # of many nets
        for one, below, *own in zip(x, out, *weights, strict=True):
            forward(one, below, FusedWeights(*own), last=last, activation=activation, save=False)
        return (x, *weights) if save else ()
    weights = FusedWeights(*(tensor.contiguous() for tensor in weights))
    hidden, gelu = len(weights.shift), activation == "gelu"
    sizes = layout(x, last=last)
    call = (INSTRUCTIONS, *sizes, last, _addresses(weights), hidden, gelu, x.data_ptr(), out.data_ptr())
    _mixing.forward(*call)
    note(_mixing.forward, call, weights)
    return (x, *weights) if save else ()


def backward(
    saved: Sequence[Tensor], grad_out: Tensor, grad_x: Tensor, *, last: bool, activation: Activation
) -> Sequence[Tensor]:
    """Write the gradient of x into `grad_x` and return those of the weights."""
    x, *weights = saved
    widen, shift, narrow, _ = weights
    if widen.ndim == 3:  # of many nets
        calls = zip(zip(*saved, strict=True), grad_out, grad_x, strict=True)
        each = [backward(own, above, below, last=last, activation=activation) for own, above, below in calls]
        return [torch.stack(found) for found in zip(*each, strict=True)]
    transposed = widen.T.contiguous(), narrow.T.contiguous()
    found = [torch.empty_like(tensor) for tensor in weights]
    _mixing.backward(
        INSTRUCTIONS,
        *layout(x, last=last),
        last,
        _addresses(weights),
        len(shift),
        activation == "gelu",
        x.data_ptr(),
        grad_out.data_ptr(),
        grad_x.data_ptr(),
        _addresses(transposed),
        _addresses(found),
    )
    return found


def distances(inter: Tensor, intra: Tensor, *, softmax: bool) -> Tensor:
    """Return the distance of every patch to every step."""
    inter, intra = (view if view[0].is_contiguous() else view.contiguous() for view in (inter, intra))
    channels, patches, batch, features = inter.shape
    steps = intra.shape[1]
    out = inter.new_empty(channels, patches, steps, batch)
    sizes, strides = (channels, patches, steps, batch, features), (inter.stride(0), intra.stride(0))
    call = (INSTRUCTIONS, sizes, strides, softmax, inter.data_ptr(), intra.data_ptr(), out.data_ptr())
    _mixing.distances(*call)
    note(_mixing.distances, call, ())
    return out


def _addresses(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)

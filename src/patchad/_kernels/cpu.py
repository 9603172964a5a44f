"""The mixers' arithmetic on a CPU, and that of comparing views: one pass over a tensor, tile by tile, in C.

Importing this module needs the compiled `_mixing`, which an installation builds where it finds a C compiler.
`patchad._kernels.mixing` says what is computed. A call works on one core; `patchad._kernels.threads` runs several at
once.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from patchad._kernels import _mixing

WIDEST_AXIS = WIDEST_TRAINED = LARGEST = sys.maxsize
"""Axis, hidden width and values of a tensor up to which the kernels are used: any."""
INSTRUCTIONS = _mixing.BEST
"""The instruction set that is used, of those that were compiled: 0 is plain, 1 is AVX2, 2 is AVX-512."""


def forward(x: Tensor, out: Tensor, last: bool, weights: tuple[Tensor, ...], *, gelu: bool, precision: str) -> None:
    """Mix `(axis, rest)`, `(rest, axis, rest)` or `(rest, axis)`, as `mixing` sees them, into `out`."""
    del precision  # always that of the numbers
    weights = tuple(tensor.contiguous() for tensor in weights)
    hidden = len(weights[1])
    _mixing.forward(INSTRUCTIONS, *_form(x, last), last, _places(*weights), hidden, gelu, x.data_ptr(), out.data_ptr())


def backward(
    x: Tensor, upper: Tensor, lower: Tensor, last: bool, weights: tuple[Tensor, ...], *, gelu: bool, precision: str
) -> tuple[Tensor, ...]:
    """Write the gradient of x to `lower`; give those of the weights."""
    del precision
    weights = tuple(tensor.contiguous() for tensor in weights)
    widen, shift, narrow, _ = weights
    turned = widen.T.contiguous(), narrow.T.contiguous()
    found = tuple(torch.empty_like(tensor) for tensor in weights)
    _mixing.backward(
        INSTRUCTIONS,
        *_form(x, last),
        last,
        _places(*weights),
        len(shift),
        gelu,
        x.data_ptr(),
        upper.data_ptr(),
        lower.data_ptr(),
        _places(*turned),
        _places(*found),
    )
    return found


def distances(inter: Tensor, intra: Tensor, *, softmax: bool) -> Tensor:
    """Give the distance of every pair of a patch and a step, `(c, n, p, b)`, from `(c, n, b, d)` and `(c, p, b, d)`.

    It is sum_d (a_n - a_p)(b_n - b_p): of the softmax over features and its logarithm, or, twice, of the features over
    the root of their number.
    """
    inter, intra = (view if view[0].is_contiguous() else view.contiguous() for view in (inter, intra))
    channels, patches, batch, features = inter.shape
    steps = intra.shape[1]
    out = inter.new_empty(channels, patches, steps, batch)
    sizes, strides = (channels, patches, steps, batch, features), (inter.stride(0), intra.stride(0))
    _mixing.distances(INSTRUCTIONS, sizes, strides, softmax, inter.data_ptr(), intra.data_ptr(), out.data_ptr())
    return out


def _places(*tensors: Tensor) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)


def _form(x: Tensor, last: bool) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Give outer, axis and inner size, and the strides from outer to outer and from row to row."""
    if last:
        return (1, x.shape[1], x.shape[0]), (0, x.stride(0))
    if x.ndim == 2:
        return (1, x.shape[0], x.shape[1]), (0, x.stride(0))
    return (x.shape[0], x.shape[1], x.shape[2]), (x.stride(0), x.stride(1))

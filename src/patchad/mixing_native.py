"""The mixers' arithmetic on a CPU: one pass over the tensor, tile by tile, in C.

Importing this module needs the compiled `_mixing`, which an installation builds where it finds a C compiler.
`patchad.mixing` says what is computed. A call works on one core; `patchad.threads` runs several side by side.
"""

from __future__ import annotations

import sys

from torch import Tensor

from patchad import _mixing

WIDEST_AXIS = sys.maxsize
"""Axis up to which the forward kernel is used: any."""
WIDEST_TRAINED = 0
"""Axis and hidden width up to which the backward kernel is used: there is none."""
INSTRUCTIONS = _mixing.BEST
"""The instruction set that is used, of those that were compiled: 0 is plain, 1 is AVX2, 2 is AVX-512."""


def forward(
    x: Tensor,
    out: Tensor,
    last: bool,
    weights: tuple[Tensor, ...],
    *,
    gelu: bool,
    precision: str,  # noqa: ARG001 - the GPU's kernels know several
) -> None:
    """Mix `(axis, rest)`, `(rest, axis, rest)` or `(rest, axis)`, as `patchad.mixing` sees them, into `out`."""
    held = [tensor.contiguous() for tensor in weights]
    sizes, strides = _form(x, last)
    addresses = tuple(map(Tensor.data_ptr, held))
    _mixing.forward(x.data_ptr(), out.data_ptr(), addresses, sizes, len(held[1]), strides, last, gelu, INSTRUCTIONS)


def _form(x: Tensor, last: bool) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Give outer, axis and inner size, and the strides from outer to outer and from row to row."""
    if last:
        return (1, x.shape[1], x.shape[0]), (0, x.stride(0))
    if x.ndim == 2:
        return (1, x.shape[0], x.shape[1]), (0, x.stride(0))
    return (x.shape[0], x.shape[1], x.shape[2]), (x.stride(0), x.stride(1))

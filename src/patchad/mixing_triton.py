"""The mixers' arithmetic on a GPU: one kernel reads a tile, norms it, multiplies, activates, multiplies and writes it.

Importing this module needs the library triton, which torch brings where there is a GPU. `patchad.mixing` says what is
computed; here the tile is kept in registers from the first to the last of it. Matrices of a mixer are small enough to
be read by every tile.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST_AXIS = 128
"""Axis up to which the forward kernel holds a tile."""
WIDEST_TRAINED = 64
"""Axis and hidden width up to which the backward kernel holds both gradients of the matrices."""
FORWARD_INNER, BACKWARD_INNER = 64, 32
"""Columns of a tile, by measurement on an H200."""
PROGRAMS = 264
"""Programs of the backward kernel, each of which sums the matrices' gradients over its tiles: two for each
multiprocessor of an H100 or H200."""


@triton.jit  # type: ignore[untyped-decorator]
def _activate(x, GELU: tl.constexpr):  # type: ignore[no-untyped-def]
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)) if GELU else tl.maximum(x, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _slope(x, GELU: tl.constexpr):  # type: ignore[no-untyped-def]
    if GELU:
        return 0.5 * (1 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)
    return tl.where(x > 0, 1.0, 0.0)


@triton.jit
def _norm(x, axis, AXIS):  # type: ignore[no-untyped-def]
    """Give a tile `(inner, axis)` with sum zero and sum of squares one along the axis, and its multiplier."""
    mean = tl.sum(x, axis=1) / AXIS
    centred = tl.where(axis[None, :] < AXIS, x - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) + AXIS * 1e-5)
    return centred * scale[:, None], scale


@triton.jit
def _matrix(pointer, rows, columns, ROWS, COLUMNS, row_stride, column_stride):  # type: ignore[no-untyped-def]
    """Load a whole small matrix, or its transpose, with zeros around it."""
    place = rows[:, None] * row_stride + columns[None, :] * column_stride
    return tl.load(pointer + place, mask=(rows[:, None] < ROWS) & (columns[None, :] < COLUMNS), other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    widen_ptr,
    shift_ptr,
    narrow_ptr,
    bias_ptr,
    outer_stride,
    axis_stride,
    inner_stride,
    AXIS,
    HIDDEN,
    INNERS,
    BLOCK_A: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_I: tl.constexpr,
    GELU: tl.constexpr,
    PRECISION: tl.constexpr,
):
    axis, inner = tl.arange(0, BLOCK_A), tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    place = (
        tl.program_id(1).to(tl.int64) * outer_stride
        + inner[:, None].to(tl.int64) * inner_stride
        + axis[None, :] * axis_stride
    )
    inside = (inner[:, None] < INNERS) & (axis[None, :] < AXIS)
    x = tl.load(x_ptr + place, mask=inside, other=0.0)
    normal, _ = _norm(x, axis, AXIS)
    total = x + tl.load(bias_ptr + axis, mask=axis < AXIS, other=0.0)[None, :]
    for first in range(0, HIDDEN, BLOCK_H):
        hidden = first + tl.arange(0, BLOCK_H)
        before = tl.dot(normal, _matrix(widen_ptr, axis, hidden, AXIS, HIDDEN, 1, AXIS), input_precision=PRECISION)
        before += tl.load(shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)[None, :]
        narrow = _matrix(narrow_ptr, hidden, axis, HIDDEN, AXIS, 1, HIDDEN)
        total += tl.dot(_activate(before, GELU), narrow, input_precision=PRECISION)
    tl.store(y_ptr + place, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    upper_ptr,
    lower_ptr,
    widen_ptr,
    shift_ptr,
    narrow_ptr,
    of_widen_ptr,
    of_shift_ptr,
    of_narrow_ptr,
    of_bias_ptr,
    outer_stride,
    axis_stride,
    inner_stride,
    AXIS,
    HIDDEN,
    INNERS,
    across,
    tiles,
    BLOCK_A: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_I: tl.constexpr,
    GELU: tl.constexpr,
    PRECISION: tl.constexpr,
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    axis, hidden = tl.arange(0, BLOCK_A), tl.arange(0, BLOCK_H)
    widen = _matrix(widen_ptr, hidden, axis, HIDDEN, AXIS, AXIS, 1)
    widen_turned = _matrix(widen_ptr, axis, hidden, AXIS, HIDDEN, 1, AXIS)
    narrow = _matrix(narrow_ptr, axis, hidden, AXIS, HIDDEN, HIDDEN, 1)
    shift = tl.load(shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    of_widen, of_narrow = tl.zeros((BLOCK_H, BLOCK_A), tl.float32), tl.zeros((BLOCK_A, BLOCK_H), tl.float32)
    of_shift, of_bias = tl.zeros((BLOCK_H,), tl.float32), tl.zeros((BLOCK_A,), tl.float32)
    for tile in range(program, tiles, programs):
        inner = (tile % across) * BLOCK_I + tl.arange(0, BLOCK_I)
        place = (
            (tile // across).to(tl.int64) * outer_stride
            + inner[:, None].to(tl.int64) * inner_stride
            + axis[None, :] * axis_stride
        )
        inside = (inner[:, None] < INNERS) & (axis[None, :] < AXIS)
        normal, scale = _norm(tl.load(x_ptr + place, mask=inside, other=0.0), axis, AXIS)
        upper = tl.load(upper_ptr + place, mask=inside, other=0.0)
        before = tl.dot(normal, widen_turned, input_precision=PRECISION) + shift[None, :]
        of_narrow += tl.dot(tl.trans(upper), _activate(before, GELU), input_precision=PRECISION)
        of_bias += tl.sum(upper, axis=0)
        gradient = tl.dot(upper, narrow, input_precision=PRECISION) * _slope(before, GELU)
        of_widen += tl.dot(tl.trans(gradient), normal, input_precision=PRECISION)
        of_shift += tl.sum(gradient, axis=0)
        passed = tl.dot(gradient, widen, input_precision=PRECISION)
        mean, squares = tl.sum(passed, axis=1) / AXIS, tl.sum(passed * normal, axis=1)
        passed = (passed - mean[:, None] - normal * squares[:, None]) * scale[:, None]
        tl.store(lower_ptr + place, upper + passed, mask=inside)
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    turned = (axis[:, None] < AXIS) & (hidden[None, :] < HIDDEN)
    tl.store(of_widen_ptr + program * HIDDEN * AXIS + hidden[:, None] * AXIS + axis[None, :], of_widen, mask=known)
    tl.store(of_narrow_ptr + program * HIDDEN * AXIS + axis[:, None] * HIDDEN + hidden[None, :], of_narrow, mask=turned)
    tl.store(of_shift_ptr + program * HIDDEN + hidden, of_shift, mask=hidden < HIDDEN)
    tl.store(of_bias_ptr + program * AXIS + axis, of_bias, mask=axis < AXIS)


def forward(x: Tensor, out: Tensor, last: bool, weights: tuple[Tensor, ...], *, gelu: bool, precision: str) -> None:
    """Mix `(axis, rest)`, `(rest, axis, rest)` or `(rest, axis)`, as `patchad.mixing` sees them, into `out`."""
    widen, shift, narrow, bias = weights
    outers, axis, inners, strides = _form(x, last)
    hidden, block = len(shift), _columns(axis, FORWARD_INNER)
    _forward_kernel[(triton.cdiv(inners, block), outers)](
        x,
        out,
        widen,
        shift,
        narrow,
        bias,
        *strides,
        axis,
        hidden,
        inners,
        BLOCK_A=_block(axis),
        BLOCK_H=min(_block(hidden), 64),
        BLOCK_I=block,
        GELU=gelu,
        PRECISION=precision,
        num_stages=1,
    )


def backward(
    x: Tensor, upper: Tensor, lower: Tensor, last: bool, weights: tuple[Tensor, ...], *, gelu: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Write the gradient of x to `lower`; give those of the weights."""
    widen, shift, narrow, _ = weights
    outers, axis, inners, strides = _form(x, last)
    hidden = len(shift)
    block = _columns(axis, BACKWARD_INNER)
    across = triton.cdiv(inners, block)
    programs = min(across * outers, PROGRAMS)
    found = [
        torch.empty((programs, *shape), device=x.device)
        for shape in ((hidden, axis), (hidden,), (axis, hidden), (axis,))
    ]
    _backward_kernel[(programs,)](
        x,
        upper,
        lower,
        widen,
        shift,
        narrow,
        *found,
        *strides,
        axis,
        hidden,
        inners,
        across,
        across * outers,
        BLOCK_A=_block(axis),
        BLOCK_H=_block(hidden),
        BLOCK_I=block,
        GELU=gelu,
        PRECISION=precision,
        num_stages=1,
    )
    of_widen, of_shift, of_narrow, of_bias = (part.sum(0) for part in found)
    return of_widen, of_shift, of_narrow, of_bias


def _columns(axis: int, most: int) -> int:
    """Give the columns of a tile: more of them where the axis is short."""
    return most if axis > 16 else 128


def _block(size: int) -> int:
    return max(int(triton.next_power_of_2(size)), 16)


def _form(x: Tensor, last: bool) -> tuple[int, int, int, tuple[int, int, int]]:
    """Give outer, axis and inner size, and their strides."""
    if last:
        return 1, x.shape[1], x.shape[0], (0, x.stride(1), x.stride(0))
    if x.ndim == 2:
        return 1, x.shape[0], x.shape[1], (0, x.stride(0), x.stride(1))
    return x.shape[0], x.shape[1], x.shape[2], (x.stride(0), x.stride(1), x.stride(2))

"""The mixers' arithmetic on a GPU: one kernel reads a tile, norms it, multiplies, activates, multiplies and writes it.

Importing this module needs the library triton, which torch brings where there is a GPU. `mixing` says what is
computed; here the tile is kept near the arithmetic from the first to the last of it. A program holds the matrices of
its mixer and works on one tile after another. Sizes of a mixer are constants to the compiler, so that it reads and
writes four numbers at once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchad._kernels.gpu_weights import block, fuse, fuse_backward, weighted_sum, weighted_sum_backward

__all__ = [
    "LARGEST",
    "WIDEST_AXIS",
    "WIDEST_TRAINED",
    "backward",
    "forward",
    "fuse",
    "fuse_backward",
    "weighted_sum",
    "weighted_sum_backward",
]

WIDEST_AXIS = 128
"""Axis up to which the forward kernel holds a tile."""
WIDEST_TRAINED = 64
"""Axis and hidden width up to which the backward kernel holds both gradients of the matrices."""
LARGEST = 2**31
"""Values of a tensor over which a place in it does not fit into 32 bits."""
HELD, READ = 64, 32
"""Hidden width up to which the forward kernel holds the matrices; and how much of wider ones it reads at a time."""
WIDE = 32
"""Axis and hidden width over which a kernel needs most of the registers there are."""


@triton.jit
def _tail(x):  # type: ignore[no-untyped-def]
    """Give what a normal variable exceeds |x| with, to 1e-7 (Abramowitz and Stegun, 26.2.17), and exp(-x^2 / 2)."""
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    bell = tl.exp(-0.5 * x * x)
    series = 0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)))
    return t * series * bell, bell


@triton.jit  # type: ignore[untyped-decorator]
def _activate(x, GELU: tl.constexpr):  # type: ignore[no-untyped-def]
    """Give the activation of x, and its slope."""
    if GELU:
        tail, bell = _tail(x)
        below = tl.where(x > 0, 1.0 - tail, tail)
        return x * below, below + x * 0.3989422804014327 * bell
    return tl.maximum(x, 0.0), tl.where(x > 0, 1.0, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _norm(x, axis, AXIS: tl.constexpr):  # type: ignore[no-untyped-def]
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
def _tile(  # type: ignore[no-untyped-def]
    tile,
    across,
    outer_stride,
    axis_stride,
    INNERS,
    axis,
    AXIS: tl.constexpr,
    BLOCK_I: tl.constexpr,
    LAST: tl.constexpr,
):
    """Give where tile `(inner, axis)` number `tile` begins, the places of its values from there, and which exist."""
    first, inner = (tile % across) * BLOCK_I, tl.arange(0, BLOCK_I)
    inside = (first + inner[:, None] < INNERS) & (axis[None, :] < AXIS)
    if LAST:
        return first.to(tl.int64) * AXIS, inner[:, None] * AXIS + axis[None, :], inside
    start = (tile // across).to(tl.int64) * outer_stride + first
    return start, inner[:, None] + axis[None, :] * axis_stride, inside


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
    INNERS,
    across,
    tiles,
    AXIS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_I: tl.constexpr,
    LAST: tl.constexpr,
    GELU: tl.constexpr,
    PRECISION: tl.constexpr,
):
    axis, hidden = tl.arange(0, BLOCK_A), tl.arange(0, BLOCK_H)
    if HIDDEN <= BLOCK_H:  # else it is too wide to be held, and read for every tile
        widen = _matrix(widen_ptr, axis, hidden, AXIS, HIDDEN, 1, AXIS)
        narrow = _matrix(narrow_ptr, hidden, axis, HIDDEN, AXIS, 1, HIDDEN)
        shift = tl.load(shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    bias = tl.load(bias_ptr + axis, mask=axis < AXIS, other=0.0)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        start, place, inside = _tile(tile, across, outer_stride, axis_stride, INNERS, axis, AXIS, BLOCK_I, LAST)
        x = tl.load(x_ptr + start + place, mask=inside, other=0.0)
        normal, _ = _norm(x, axis, AXIS)
        total = tl.zeros((BLOCK_I, BLOCK_A), tl.float32) + bias[None, :]
        if HIDDEN <= BLOCK_H:
            before = tl.dot(normal, widen, input_precision=PRECISION) + shift[None, :]
            total += tl.dot(_activate(before, GELU)[0], narrow, input_precision=PRECISION)
        else:
            for first in range(0, HIDDEN, BLOCK_H):
                some = first + hidden
                part = _matrix(widen_ptr, axis, some, AXIS, HIDDEN, 1, AXIS)
                before = tl.dot(normal, part, input_precision=PRECISION)
                before += tl.load(shift_ptr + some, mask=some < HIDDEN, other=0.0)[None, :]
                part = _matrix(narrow_ptr, some, axis, HIDDEN, AXIS, 1, HIDDEN)
                total += tl.dot(_activate(before, GELU)[0], part, input_precision=PRECISION)
        tl.store(y_ptr + start + place, x + total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    upper_ptr,
    lower_ptr,
    widen_ptr,
    shift_ptr,
    narrow_ptr,
    found_ptr,
    outer_stride,
    axis_stride,
    INNERS,
    across,
    tiles,
    AXIS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_I: tl.constexpr,
    LAST: tl.constexpr,
    GELU: tl.constexpr,
    PRECISION: tl.constexpr,
):
    axis, hidden = tl.arange(0, BLOCK_A), tl.arange(0, BLOCK_H)
    widen = _matrix(widen_ptr, hidden, axis, HIDDEN, AXIS, AXIS, 1)
    narrow = _matrix(narrow_ptr, axis, hidden, AXIS, HIDDEN, HIDDEN, 1)
    shift = tl.load(shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    of_widen, of_narrow = tl.zeros((BLOCK_H, BLOCK_A), tl.float32), tl.zeros((BLOCK_A, BLOCK_H), tl.float32)
    of_shift, of_bias = tl.zeros((BLOCK_H,), tl.float32), tl.zeros((BLOCK_A,), tl.float32)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        start, place, inside = _tile(tile, across, outer_stride, axis_stride, INNERS, axis, AXIS, BLOCK_I, LAST)
        x = tl.load(x_ptr + start + place, mask=inside, other=0.0)
        upper = tl.load(upper_ptr + start + place, mask=inside, other=0.0)
        normal, scale = _norm(x, axis, AXIS)
        before = tl.dot(normal, tl.trans(widen), input_precision=PRECISION) + shift[None, :]
        active, slope = _activate(before, GELU)
        of_narrow = tl.dot(tl.trans(upper), active, of_narrow, input_precision=PRECISION)
        of_bias += tl.sum(upper, axis=0)
        gradient = tl.dot(upper, narrow, input_precision=PRECISION) * slope
        of_widen = tl.dot(tl.trans(gradient), normal, of_widen, input_precision=PRECISION)
        of_shift += tl.sum(gradient, axis=0)
        passed = tl.dot(gradient, widen, input_precision=PRECISION)
        mean, squares = tl.sum(passed, axis=1) / AXIS, tl.sum(passed * normal, axis=1)
        passed = (passed - mean[:, None] - normal * squares[:, None]) * scale[:, None]
        tl.store(lower_ptr + start + place, upper + passed, mask=inside)
    found_ptr += tl.program_id(0) * (2 * HIDDEN * AXIS + HIDDEN + AXIS)  # in the order of a mixer's weights
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    tl.store(found_ptr + hidden[:, None] * AXIS + axis[None, :], of_widen, mask=known)
    tl.store(found_ptr + HIDDEN * AXIS + hidden, of_shift, mask=hidden < HIDDEN)
    found_ptr += HIDDEN * AXIS + HIDDEN
    turned = (axis[:, None] < AXIS) & (hidden[None, :] < HIDDEN)
    tl.store(found_ptr + axis[:, None] * HIDDEN + hidden[None, :], of_narrow, mask=turned)
    tl.store(found_ptr + HIDDEN * AXIS + axis, of_bias, mask=axis < AXIS)


def forward(x: Tensor, out: Tensor, last: bool, weights: Sequence[Tensor], *, gelu: bool, precision: str) -> None:
    """Mix `(axis, rest)`, `(rest, axis, rest)` or `(rest, axis)`, as `mixing` sees them, into `out`."""
    _, axis, _, _ = _form(x, last)
    wide = max(axis, len(weights[1])) > WIDE
    programs, sizes = _plan(x, last, weights, columns=64, each=6 if wide else 8)
    if sizes["BLOCK_H"] > HELD:
        sizes["BLOCK_H"] = READ
    sizes["num_warps"] = 2 if sizes["BLOCK_A"] == 16 else 4
    _forward_kernel[(programs,)](x, out, *weights, **sizes, GELU=gelu, PRECISION=precision, num_stages=1)


def backward(
    x: Tensor, upper: Tensor, lower: Tensor, last: bool, weights: Sequence[Tensor], *, gelu: bool, precision: str
) -> tuple[Tensor, ...]:
    """Write the gradient of x to `lower`; give those of the weights."""
    wide = max(len(weights[1]), len(weights[3])) > WIDE
    programs, sizes = _plan(x, last, weights, columns=32, each=2 if wide else 8)
    sizes |= {"num_warps": 4 if wide else 2}
    counts = [weight.numel() for weight in weights]
    found = torch.empty((programs, sum(counts)), device=x.device)  # every program sums over its own tiles
    _backward_kernel[(programs,)](
        x, upper, lower, *weights[:3], found, **sizes, GELU=gelu, PRECISION=precision, num_stages=1
    )
    pieces = torch.split(_summed(found), counts)
    return tuple(piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True))


@triton.jit  # type: ignore[untyped-decorator]
def _sum_kernel(found_ptr, total_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(found_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(total_ptr + column, tl.sum(total, axis=0), mask=column < columns)


def _summed(found: Tensor) -> Tensor:
    """Sum over the rows: many of few columns, where torch's own sum leaves most of a GPU idle."""
    rows, columns = found.shape
    total = torch.empty(columns, device=found.device)
    _sum_kernel[(-(-columns // 16),)](found, total, rows, columns, ROWS=128, COLUMNS=16)
    return total


def _plan(
    x: Tensor, last: bool, weights: Sequence[Tensor], *, columns: int, each: int
) -> tuple[int, dict[str, int | bool]]:
    """Give how many programs run, `each` on every multiprocessor at most, and the sizes a kernel wants to know."""
    outers, axis, inners, (outer_stride, axis_stride) = _form(x, last)
    hidden, across = len(weights[1]), -(-inners // columns)
    sizes = {
        "outer_stride": outer_stride,
        "axis_stride": axis_stride,
        "INNERS": inners,
        "across": across,
        "tiles": across * outers,
        "AXIS": axis,
        "HIDDEN": hidden,
        "BLOCK_A": block(axis),
        "BLOCK_H": block(hidden),
        "BLOCK_I": columns,
        "LAST": last,
    }
    return min(across * outers, each * _multiprocessors(x.device)), sizes


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4  # where kernels are interpreted, to test them
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _form(x: Tensor, last: bool) -> tuple[int, int, int, tuple[int, int]]:
    """Give outer, axis and inner size, and the strides of the first two; that of the last is one."""
    if last:
        return 1, x.shape[1], x.shape[0], (0, 1)
    if x.ndim == 2:
        return 1, x.shape[0], x.shape[1], (0, x.stride(0))
    return x.shape[0], x.shape[1], x.shape[2], (x.stride(0), x.stride(1))

"""The backend for a GPU: one kernel reads a tile, normalises, multiplies, activates, multiplies and writes it.

Importing this module needs triton, which torch brings where there is a GPU. A program holds the matrices of its mixer
and works on one tile after another. The sizes of a mixer are constants to the compiler, so that it reads and writes
four values at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchad._kernels.backend import Activation, FusedWeights, layout
from patchad._kernels.eager import distances
from patchad._kernels.gpu_weights import block, fuse, weighted_sum

__all__ = ["backward", "distances", "forward", "fuse", "handles", "weighted_sum"]

MAX_AXIS = 128
"""Axis up to which the forward kernel holds a tile."""
MAX_TRAINED = 64
"""Axis and hidden width up to which the backward kernel holds both gradients of the matrices."""
MAX_VALUES = 2**31
"""Values of a tensor above which an offset into it does not fit into 32 bits."""
HELD, READ = 64, 32
"""Hidden width up to which the forward kernel holds the matrices, and the columns of wider ones read at a time."""
WIDE = 32
"""Axis and hidden width above which a kernel needs most of the registers."""
PRECISIONS = {"highest": "tf32x3", "high": "tf32", "medium": "tf32"}
"""Products by torch's `float32_matmul_precision`: three TF32 products, as good as float32, or one."""
GRADIENT_PRECISION = "tf32"
"""Of the products for gradients: ten bits are far more than two batches have in common."""


@triton.jit
def _tail(x):  # type: ignore[no-untyped-def]
    """Return P(X > |x|) of a normal X, to 1e-7 (Abramowitz and Stegun, 26.2.17), and exp(-x^2 / 2)."""
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    bell = tl.exp(-0.5 * x * x)
    series = 0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)))
    return t * series * bell, bell


@triton.jit  # type: ignore[untyped-decorator]
def _activate(x, GELU: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the activation of x and its slope."""
    if GELU:
        tail, bell = _tail(x)
        below = tl.where(x > 0, 1.0 - tail, tail)
        return x * below, below + x * 0.3989422804014327 * bell
    return tl.maximum(x, 0.0), tl.where(x > 0, 1.0, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _normalise(x, axis, AXIS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Scale a tile `(inner, axis)` to sum zero and sum of squares one along the axis; return it and the factor."""
    mean = tl.sum(x, axis=1) / AXIS
    centred = tl.where(axis[None, :] < AXIS, x - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) + AXIS * 1e-5)
    return centred * scale[:, None], scale


@triton.jit
def _matrix(pointer, rows, columns, ROWS, COLUMNS, row_stride, column_stride):  # type: ignore[no-untyped-def]
    """Load a whole small matrix, or its transpose, padded with zeros."""
    offset = rows[:, None] * row_stride + columns[None, :] * column_stride
    return tl.load(pointer + offset, mask=(rows[:, None] < ROWS) & (columns[None, :] < COLUMNS), other=0.0)


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
    """Return where a tile `(inner, axis)` begins, the offsets of its values from there, and which of them exist."""
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
    net_stride,
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
    net = tl.program_id(1).to(tl.int64)  # of many that are mixed at once
    x_ptr += net * net_stride
    y_ptr += net * net_stride
    widen_ptr += net * HIDDEN * AXIS
    shift_ptr += net * HIDDEN
    narrow_ptr += net * HIDDEN * AXIS
    bias_ptr += net * AXIS
    axis, hidden = tl.arange(0, BLOCK_A), tl.arange(0, BLOCK_H)
    if HIDDEN <= BLOCK_H:  # wider matrices are read for every tile
        widen = _matrix(widen_ptr, axis, hidden, AXIS, HIDDEN, 1, AXIS)
        narrow = _matrix(narrow_ptr, hidden, axis, HIDDEN, AXIS, 1, HIDDEN)
        shift = tl.load(shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    bias = tl.load(bias_ptr + axis, mask=axis < AXIS, other=0.0)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        start, offset, inside = _tile(tile, across, outer_stride, axis_stride, INNERS, axis, AXIS, BLOCK_I, LAST)
        x = tl.load(x_ptr + start + offset, mask=inside, other=0.0)
        normal, _ = _normalise(x, axis, AXIS)
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
        tl.store(y_ptr + start + offset, x + total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    grad_out_ptr,
    grad_x_ptr,
    widen_ptr,
    shift_ptr,
    narrow_ptr,
    partial_ptr,
    net_stride,
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
    net = tl.program_id(1).to(tl.int64)  # of many that are mixed at once
    x_ptr += net * net_stride
    grad_out_ptr += net * net_stride
    grad_x_ptr += net * net_stride
    widen_ptr += net * HIDDEN * AXIS
    shift_ptr += net * HIDDEN
    narrow_ptr += net * HIDDEN * AXIS
    axis, hidden = tl.arange(0, BLOCK_A), tl.arange(0, BLOCK_H)
    widen = _matrix(widen_ptr, hidden, axis, HIDDEN, AXIS, AXIS, 1)
    narrow = _matrix(narrow_ptr, axis, hidden, AXIS, HIDDEN, HIDDEN, 1)
    shift = tl.load(shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    grad_widen, grad_narrow = tl.zeros((BLOCK_H, BLOCK_A), tl.float32), tl.zeros((BLOCK_A, BLOCK_H), tl.float32)
    grad_shift, grad_bias = tl.zeros((BLOCK_H,), tl.float32), tl.zeros((BLOCK_A,), tl.float32)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        start, offset, inside = _tile(tile, across, outer_stride, axis_stride, INNERS, axis, AXIS, BLOCK_I, LAST)
        x = tl.load(x_ptr + start + offset, mask=inside, other=0.0)
        grad_out = tl.load(grad_out_ptr + start + offset, mask=inside, other=0.0)
        normal, scale = _normalise(x, axis, AXIS)
        before = tl.dot(normal, tl.trans(widen), input_precision=PRECISION) + shift[None, :]
        active, slope = _activate(before, GELU)
        grad_narrow = tl.dot(tl.trans(grad_out), active, grad_narrow, input_precision=PRECISION)
        grad_bias += tl.sum(grad_out, axis=0)
        gradient = tl.dot(grad_out, narrow, input_precision=PRECISION) * slope
        grad_widen = tl.dot(tl.trans(gradient), normal, grad_widen, input_precision=PRECISION)
        grad_shift += tl.sum(gradient, axis=0)
        passed = tl.dot(gradient, widen, input_precision=PRECISION)
        mean, squares = tl.sum(passed, axis=1) / AXIS, tl.sum(passed * normal, axis=1)
        passed = (passed - mean[:, None] - normal * squares[:, None]) * scale[:, None]
        tl.store(grad_x_ptr + start + offset, grad_out + passed, mask=inside)
    partial_ptr += (net * tl.num_programs(0) + tl.program_id(0)) * (
        2 * HIDDEN * AXIS + HIDDEN + AXIS
    )  # in the order of a mixer's weights
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    tl.store(partial_ptr + hidden[:, None] * AXIS + axis[None, :], grad_widen, mask=known)
    tl.store(partial_ptr + HIDDEN * AXIS + hidden, grad_shift, mask=hidden < HIDDEN)
    partial_ptr += HIDDEN * AXIS + HIDDEN
    transposed = (axis[:, None] < AXIS) & (hidden[None, :] < HIDDEN)
    tl.store(partial_ptr + axis[:, None] * HIDDEN + hidden[None, :], grad_narrow, mask=transposed)
    tl.store(partial_ptr + HIDDEN * AXIS + axis, grad_bias, mask=axis < AXIS)


def handles(x: Tensor, weights: FusedWeights, *, training: bool) -> bool:
    """Return whether a program can hold the tiles, and in training the gradients, of these sizes."""
    narrow = weights.shift.shape[-1] <= MAX_TRAINED if training else weights.bias.shape[-1] <= MAX_AXIS
    return narrow and x.numel() < MAX_VALUES


def forward(
    x: Tensor, out: Tensor, weights: FusedWeights, *, last: bool, activation: Activation, save: bool
) -> Sequence[Tensor]:
    """Mix x into `out`; `backward` computes the rest again from x."""
    wide = max(weights.bias.shape[-1], weights.shift.shape[-1]) > WIDE
    grid, sizes = _plan(x, last, weights, columns=64, each=6 if wide else 8)
    if sizes["BLOCK_H"] > HELD:
        sizes["BLOCK_H"] = READ
    sizes["num_warps"] = 2 if sizes["BLOCK_A"] == 16 else 4
    precision = PRECISIONS[torch.get_float32_matmul_precision()]
    _forward_kernel[grid](x, out, *weights, **sizes, GELU=activation == "gelu", PRECISION=precision, num_stages=1)
    return (x, *weights) if save else ()


def backward(
    saved: Sequence[Tensor], grad_out: Tensor, grad_x: Tensor, *, last: bool, activation: Activation
) -> Sequence[Tensor]:
    """Write the gradient of x into `grad_x` and return those of the weights."""
    x, weights = saved[0], FusedWeights(*saved[1:])
    wide = max(weights.shift.shape[-1], weights.bias.shape[-1]) > WIDE
    grid, sizes = _plan(x, last, weights, columns=32, each=2 if wide else 8)
    sizes |= {"num_warps": 4 if wide else 2, "GELU": activation == "gelu"}
    programs, nets = grid
    counts = [weight.numel() // nets for weight in weights]
    partial = torch.empty((nets, programs, sum(counts)), device=x.device)  # every program sums over its own tiles
    _backward_kernel[grid](
        x, grad_out, grad_x, *weights[:3], partial, **sizes, PRECISION=GRADIENT_PRECISION, num_stages=1
    )
    total = _column_sums(partial[0])[None] if nets == 1 else partial.sum(1)
    pieces = torch.split(total, counts, dim=1)
    return [piece.reshape(weight.shape) for piece, weight in zip(pieces, weights, strict=True)]


@triton.jit  # type: ignore[untyped-decorator]
def _sum_kernel(partial_ptr, total_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(partial_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(total_ptr + column, tl.sum(total, axis=0), mask=column < columns)


def _column_sums(partial: Tensor) -> Tensor:
    """Sum over the rows: many, of few columns, where torch's own sum leaves most of a GPU idle."""
    rows, columns = partial.shape
    total = torch.empty(columns, device=partial.device)
    _sum_kernel[(-(-columns // 16),)](partial, total, rows, columns, ROWS=128, COLUMNS=16)
    return total


def _plan(
    x: Tensor, last: bool, weights: FusedWeights, *, columns: int, each: int
) -> tuple[tuple[int, int], dict[str, int | bool]]:
    """Return the numbers of programs of a net and of nets, and the sizes that a kernel takes.

    There are at most `each` programs per multiprocessor, or one for each net.
    """
    stacked = weights.shift.ndim == 2
    (outers, axis, inners), (outer_stride, axis_stride) = layout(x[0] if stacked else x, last=last)
    hidden, across = weights.shift.shape[-1], -(-inners // columns)
    nets = len(x) if stacked else 1
    sizes = {
        "net_stride": x.stride(0) if stacked else 0,
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
    programs = -(-each * _multiprocessors(x.device) // nets)
    return (min(across * outers, programs), nets), sizes


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4  # interpreted kernels, in tests
    return int(torch.cuda.get_device_properties(device).multi_processor_count)

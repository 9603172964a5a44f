"""What a GPU does around the mixers, a kernel each: a mixer's weights are fused, and layers are weighed and summed.

As torch's operations these cost more than the mixing, for their launches or for their passes over memory.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def block(size: int) -> int:
    """Give the power of two that holds this many, as kernels want their sizes."""
    return max(int(triton.next_power_of_2(size)), 16)


# -- a mixer's weights, fused and back --------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _fuse_kernel(  # type: ignore[no-untyped-def]
    scale_ptr,
    offset_ptr,
    matrix_ptr,
    bias_ptr,
    widen_ptr,
    shift_ptr,
    ROOT,
    AXIS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK: tl.constexpr,
):
    axis, hidden = tl.arange(0, BLOCK_A), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = hidden[:, None] * AXIS + axis[None, :]
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    matrix = tl.load(matrix_ptr + place, mask=known, other=0.0)
    scale = tl.load(scale_ptr + axis, mask=axis < AXIS, other=0.0) * ROOT
    offset = tl.load(offset_ptr + axis, mask=axis < AXIS, other=0.0)
    tl.store(widen_ptr + place, matrix * scale[None, :], mask=known)
    shift = tl.load(bias_ptr + hidden, mask=hidden < HIDDEN, other=0.0) + tl.sum(matrix * offset[None, :], axis=1)
    tl.store(shift_ptr + hidden, shift, mask=hidden < HIDDEN)


@triton.jit  # type: ignore[untyped-decorator]
def _fuse_backward_kernel(  # type: ignore[no-untyped-def]
    scale_ptr,
    offset_ptr,
    matrix_ptr,
    of_widen_ptr,
    of_shift_ptr,
    of_scale_ptr,
    of_offset_ptr,
    of_matrix_ptr,
    ROOT,
    AXIS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    axis, hidden = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_H)
    place = hidden[:, None] * AXIS + axis[None, :]
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    matrix = tl.load(matrix_ptr + place, mask=known, other=0.0)
    of_widen = tl.load(of_widen_ptr + place, mask=known, other=0.0) * ROOT
    of_shift = tl.load(of_shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    scale = tl.load(scale_ptr + axis, mask=axis < AXIS, other=0.0)
    offset = tl.load(offset_ptr + axis, mask=axis < AXIS, other=0.0)
    tl.store(of_matrix_ptr + place, of_widen * scale[None, :] + of_shift[:, None] * offset[None, :], mask=known)
    tl.store(of_scale_ptr + axis, tl.sum(of_widen * matrix, axis=0), mask=axis < AXIS)
    tl.store(of_offset_ptr + axis, tl.sum(of_shift[:, None] * matrix, axis=0), mask=axis < AXIS)


def fuse(scale: Tensor, offset: Tensor, matrix: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Give the first matrix and shift of a mixer from the norm's scale and shift and the first linear map."""
    hidden, axis = matrix.shape
    widen, shift = torch.empty_like(matrix), torch.empty_like(bias)
    _fuse_kernel[(-(-hidden // 16),)](
        scale, offset, matrix, bias, widen, shift, axis**0.5, AXIS=axis, HIDDEN=hidden, BLOCK_A=block(axis), BLOCK=16
    )
    return widen, shift


def fuse_backward(
    scale: Tensor, offset: Tensor, matrix: Tensor, of_widen: Tensor, of_shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients of the norm's scale and shift and of the first linear map's matrix."""
    hidden, axis = matrix.shape
    found = torch.empty_like(scale), torch.empty_like(offset), torch.empty_like(matrix)
    inputs = scale, offset, matrix, of_widen, of_shift
    _fuse_backward_kernel[(-(-axis // 16),)](
        *inputs, *found, axis**0.5, AXIS=axis, HIDDEN=hidden, BLOCK=16, BLOCK_H=block(hidden)
    )
    return found


# -- the weighted sum of the layers ------------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _weighted_sum_kernel(  # type: ignore[no-untyped-def]
    views, weights_ptr, total_ptr, places, size, LAYERS: tl.constexpr, BLOCK: tl.constexpr
):
    row, inner = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    start, inside = row.to(tl.int64) * size, inner < size
    total = tl.zeros((BLOCK,), tl.float32)
    for layer in tl.static_range(LAYERS):
        weight = tl.load(weights_ptr + layer * places + row % places)
        total += weight * tl.load(views[layer] + start + inner, mask=inside, other=0.0)
    tl.store(total_ptr + start + inner, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _weighted_sum_backward_kernel(  # type: ignore[no-untyped-def]
    views,
    lowers,
    weights_ptr,
    upper_ptr,
    found_ptr,
    channels,
    size,
    LAYERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place, places = tl.program_id(0), tl.num_programs(0)
    part, parts = tl.program_id(1), tl.num_programs(1)
    across = tl.cdiv(size, BLOCK)
    for layer in tl.static_range(LAYERS):
        weight = tl.load(weights_ptr + layer * places + place)
        products = tl.zeros((BLOCK,), tl.float32)
        for tile in range(part, channels * across, parts):
            start = ((tile // across) * places + place).to(tl.int64) * size
            inner = (tile % across) * BLOCK + tl.arange(0, BLOCK)
            upper = tl.load(upper_ptr + start + inner, mask=inner < size, other=0.0)
            products += upper * tl.load(views[layer] + start + inner, mask=inner < size, other=0.0)
            tl.store(lowers[layer] + start + inner, upper * weight, mask=inner < size)
        tl.store(found_ptr + (layer * places + place) * parts + part, tl.sum(products))


def weighted_sum(views: tuple[Tensor, ...], weights: Tensor) -> Tensor:
    """Sum `(c, n, b, d)` views, a weight `(layer, n)` each."""
    channels, places = views[0].shape[:2]
    total, size = torch.empty_like(views[0]), views[0][0, 0].numel()
    grid = (channels * places, -(-size // 1024))
    _weighted_sum_kernel[grid](views, weights, total, places, size, LAYERS=len(views), BLOCK=1024)
    return total


def weighted_sum_backward(views: tuple[Tensor, ...], weights: Tensor, upper: Tensor) -> tuple[Any, ...]:
    """Give the gradients of the weights and of each view."""
    channels, places = upper.shape[:2]
    lowers = tuple(torch.empty_like(upper) for _ in views)
    size, parts = upper[0, 0].numel(), 32
    found = torch.empty((len(views), places, parts), device=upper.device)
    grid = (places, parts)
    _weighted_sum_backward_kernel[grid](
        views, lowers, weights, upper, found, channels, size, LAYERS=len(views), BLOCK=1024
    )
    return found.sum(-1), *lowers

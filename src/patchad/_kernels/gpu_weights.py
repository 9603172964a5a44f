"""GPU kernels around the mixers: LayerNorm fused into a matrix, and the weighted sum of the layers.

As torch's operations these would cost more than the mixing, in launches or in passes over the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def block(size: int) -> int:
    """Return the next power of two, at least 16, as kernels need their sizes."""
    return max(int(triton.next_power_of_2(size)), 16)


# -- LayerNorm fused into the first matrix -----------------------------------------------------------------------------


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
    offsets = hidden[:, None] * AXIS + axis[None, :]
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    matrix = tl.load(matrix_ptr + offsets, mask=known, other=0.0)
    scale = tl.load(scale_ptr + axis, mask=axis < AXIS, other=0.0) * ROOT
    offset = tl.load(offset_ptr + axis, mask=axis < AXIS, other=0.0)
    tl.store(widen_ptr + offsets, matrix * scale[None, :], mask=known)
    shift = tl.load(bias_ptr + hidden, mask=hidden < HIDDEN, other=0.0) + tl.sum(matrix * offset[None, :], axis=1)
    tl.store(shift_ptr + hidden, shift, mask=hidden < HIDDEN)


@triton.jit  # type: ignore[untyped-decorator]
def _fuse_backward_kernel(  # type: ignore[no-untyped-def]
    scale_ptr,
    offset_ptr,
    matrix_ptr,
    grad_widen_ptr,
    grad_shift_ptr,
    grad_scale_ptr,
    grad_offset_ptr,
    grad_matrix_ptr,
    ROOT,
    AXIS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    axis, hidden = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_H)
    offsets = hidden[:, None] * AXIS + axis[None, :]
    known = (hidden[:, None] < HIDDEN) & (axis[None, :] < AXIS)
    matrix = tl.load(matrix_ptr + offsets, mask=known, other=0.0)
    grad_widen = tl.load(grad_widen_ptr + offsets, mask=known, other=0.0) * ROOT
    grad_shift = tl.load(grad_shift_ptr + hidden, mask=hidden < HIDDEN, other=0.0)
    scale = tl.load(scale_ptr + axis, mask=axis < AXIS, other=0.0)
    offset = tl.load(offset_ptr + axis, mask=axis < AXIS, other=0.0)
    tl.store(grad_matrix_ptr + offsets, grad_widen * scale[None, :] + grad_shift[:, None] * offset[None, :], mask=known)
    tl.store(grad_scale_ptr + axis, tl.sum(grad_widen * matrix, axis=0), mask=axis < AXIS)
    tl.store(grad_offset_ptr + axis, tl.sum(grad_shift[:, None] * matrix, axis=0), mask=axis < AXIS)


def fuse(scale: Tensor, offset: Tensor, matrix: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Fuse the scale and shift of a LayerNorm into the linear map after it."""
    fused: tuple[Tensor, Tensor] = _Fuse.apply(scale, offset, matrix, bias)  # type: ignore[no-untyped-call]
    return fused


class _Fuse(torch.autograd.Function):
    """`fuse` in one kernel each way."""

    @staticmethod
    def forward(ctx: Any, scale: Tensor, offset: Tensor, matrix: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(scale, offset, matrix)
        hidden, axis = matrix.shape
        widen, shift = torch.empty_like(matrix), torch.empty_like(bias)
        sizes = {"AXIS": axis, "HIDDEN": hidden, "BLOCK_A": block(axis), "BLOCK": 16}
        _fuse_kernel[(-(-hidden // 16),)](scale, offset, matrix, bias, widen, shift, axis**0.5, **sizes)
        return widen, shift

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        grad_widen, grad_shift = (gradient.contiguous() for gradient in gradients)
        inputs = *ctx.saved_tensors, grad_widen, grad_shift
        hidden, axis = grad_widen.shape
        found = tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors)
        sizes = {"AXIS": axis, "HIDDEN": hidden, "BLOCK": 16, "BLOCK_H": block(hidden)}
        _fuse_backward_kernel[(-(-axis // 16),)](*inputs, *found, axis**0.5, **sizes)
        return *found, grad_shift


# -- the weighted sum of the layers ------------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _weighted_sum_kernel(  # type: ignore[no-untyped-def]
    views, weights_ptr, total_ptr, positions, size, LAYERS: tl.constexpr, BLOCK: tl.constexpr
):
    row, inner = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    start, inside = row.to(tl.int64) * size, inner < size
    total = tl.zeros((BLOCK,), tl.float32)
    for layer in tl.static_range(LAYERS):
        weight = tl.load(weights_ptr + layer * positions + row % positions)
        total += weight * tl.load(views[layer] + start + inner, mask=inside, other=0.0)
    tl.store(total_ptr + start + inner, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _weighted_sum_backward_kernel(  # type: ignore[no-untyped-def]
    views,
    grad_views,
    weights_ptr,
    grad_out_ptr,
    partial_ptr,
    channels,
    size,
    LAYERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    position, positions = tl.program_id(0), tl.num_programs(0)
    part, parts = tl.program_id(1), tl.num_programs(1)
    across = tl.cdiv(size, BLOCK)
    for layer in tl.static_range(LAYERS):
        weight = tl.load(weights_ptr + layer * positions + position)
        products = tl.zeros((BLOCK,), tl.float32)
        for tile in range(part, channels * across, parts):
            start = ((tile // across) * positions + position).to(tl.int64) * size
            inner = (tile % across) * BLOCK + tl.arange(0, BLOCK)
            grad_out = tl.load(grad_out_ptr + start + inner, mask=inner < size, other=0.0)
            products += grad_out * tl.load(views[layer] + start + inner, mask=inner < size, other=0.0)
            tl.store(grad_views[layer] + start + inner, grad_out * weight, mask=inner < size)
        tl.store(partial_ptr + (layer * positions + position) * parts + part, tl.sum(products))


def weighted_sum(views: Iterable[Tensor], weights: Tensor) -> Tensor:
    """Sum weighted views."""
    total: Tensor = _WeightedSum.apply(weights, *views)  # type: ignore[no-untyped-call]
    return total


class _WeightedSum(torch.autograd.Function):
    """`weighted_sum` in one pass over the views each way."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *views: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *views)
        channels, positions = views[0].shape[:2]
        total, size = torch.empty_like(views[0]), views[0][0, 0].numel()
        grid = (channels * positions, -(-size // 1024))
        _weighted_sum_kernel[grid](views, weights, total, positions, size, LAYERS=len(views), BLOCK=1024)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        weights, *views = ctx.saved_tensors
        grad_out = gradients[0].contiguous()
        channels, positions = grad_out.shape[:2]
        grad_views = tuple(torch.empty_like(grad_out) for _ in views)
        size, parts = grad_out[0, 0].numel(), 32
        partial = torch.empty((len(views), positions, parts), device=grad_out.device)
        _weighted_sum_backward_kernel[(positions, parts)](
            tuple(views), grad_views, weights, grad_out, partial, channels, size, LAYERS=len(views), BLOCK=1024
        )
        return partial.sum(-1), *grad_views

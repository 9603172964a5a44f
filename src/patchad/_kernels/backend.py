"""The arithmetic that each device provides, and which implementation a tensor gets."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

Activation = Literal["gelu", "relu"]
EPSILON = 1e-5
"""Added to the variance, as LayerNorm does."""


class FusedWeights(NamedTuple):
    """The weights of a mixer, LayerNorm fused into the first matrix."""

    widen: Tensor
    """(hidden, axis), the first matrix times the norm's scale and the root of the axis: see `eager._normalise`."""
    shift: Tensor
    """(hidden,), the first bias plus the first matrix times the norm's shift."""
    narrow: Tensor
    """(axis, hidden), the second matrix."""
    bias: Tensor
    """(axis,), the second bias."""


class Backend(Protocol):
    """The operations of the net. Modules implement it: `eager`, `cpu` and `gpu`.

    A backend without a kernel of its own for an operation re-exports that of `eager`. A mixer reads and writes
    `(axis, rest)`, `(rest, axis, rest)` or, where `last`, `(rest, axis)`. `cpu` and `gpu` also mix tensors of many nets
    with one axis more in front, which their weights then have too.
    """

    def handles(self, x: Tensor, weights: FusedWeights, *, training: bool) -> bool:
        """Return whether `forward`, and in training `backward`, take these sizes; elsewhere `eager` does the work."""

    def forward(
        self, x: Tensor, out: Tensor, weights: FusedWeights, *, last: bool, activation: Activation, save: bool
    ) -> Sequence[Tensor]:
        """Mix x into `out` and return the tensors that `backward` needs; without `save` none, and `out` may be x."""

    def backward(
        self, saved: Sequence[Tensor], grad_out: Tensor, grad_x: Tensor, *, last: bool, activation: Activation
    ) -> Sequence[Tensor]:
        """Write the gradient of x into `grad_x` and return those of the weights."""

    def fuse(self, scale: Tensor, offset: Tensor, matrix: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Fuse the scale and shift of a LayerNorm into the linear map after it: `widen` and `shift`; differentiable."""

    def weighted_sum(self, views: Iterable[Tensor], weights: Tensor) -> Tensor:
        """Sum `(c, n, b, d)` views, each times its row of the weights `(layer, n)`; differentiable."""

    def distances(self, inter: Tensor, intra: Tensor, *, softmax: bool) -> Tensor:
        """Return sum_d (a_n - a_p)(b_n - b_p) of all pairs, `(c, n, p, b)`, from `(c, n, b, d)` and `(c, p, b, d)`.

        a and b are the softmax over features and its logarithm or, both, the features over the root of their number.
        Only `eager` provides a gradient.
        """


def backend_for(x: Tensor, *, stacked: bool = False) -> Backend:
    """Return the backend for x: that of its device in single precision, elsewhere and in an exported graph `eager`.

    For stacked nets that is `eager` too, but for operations that take such tensors themselves (`stacked`).
    """
    plain = x.dtype != torch.float32 or torch.compiler.is_exporting() or is_plain()
    return _load("any" if plain or (is_stacked() and not stacked) else x.device.type)


_plain: ContextVar[bool] = ContextVar("plain", default=False)
_stacked: ContextVar[bool] = ContextVar("stacked", default=False)


@contextmanager
def stacked_nets() -> Iterator[None]:
    """Announce that `torch.vmap` runs many nets of one shape at once: operations then have to be ones that it knows."""
    token = _stacked.set(True)
    try:
        yield
    finally:
        _stacked.reset(token)


def is_stacked() -> bool:
    """Return whether many nets are run at once."""
    return _stacked.get()


def is_plain() -> bool:
    """Return whether torch's own operations have to do the work in this thread."""
    return _plain.get()


@contextmanager
def plain_arithmetic() -> Iterator[None]:
    """Let torch's own operations do the work in this thread, so that its counter of operations sees it."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def layout(x: Tensor, *, last: bool) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Return the outer, mixed and inner size of a mixer's tensor, and its outer stride and that from row to row."""
    if x.ndim == 3:
        return (x.shape[0], x.shape[1], x.shape[2]), (x.stride(0), x.stride(1))
    rows, columns = x.shape
    return (1, columns, rows) if last else (1, rows, columns), (0, x.stride(0))


@functools.cache
def _load(device: str) -> Backend:
    from patchad._kernels import eager

    try:
        if device == "cuda":
            from patchad._kernels import gpu

            return gpu
        if device == "cpu":
            from patchad._kernels import cpu

            if cpu.INSTRUCTIONS:
                return cpu
            logger.info("this processor has no AVX2; torch's operations are faster on it than plain kernels")
    except ImportError:
        reason = "triton is not installed" if device == "cuda" else "patchad was installed without a C compiler"
        logger.info("%s; the net runs on torch's operations, more slowly", reason)
    return eager

"""Batch sizes for a core and for a GPU. The size of a window is the number of values in both of its views."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

CACHED_VALUES = 650_000
"""Values of a batch up to which a core is fastest: about what its cache holds."""
MIN_PARALLEL_VALUES = 160_000
"""Values of a batch above which two cores train faster than one."""
MAX_GRAPH_VALUES = 10_000_000
"""Values of a batch up to which scoring is replayed as a CUDA graph: launches cost more than the arithmetic."""
MAX_TAPE_VALUES = 150_000
"""Values of a batch up to which scoring on a CPU is replayed from a tape: Python costs more than the arithmetic."""
MAX_CORE_WINDOWS = 512
"""Most windows in a batch of a core."""
MAX_GPU_VALUES, MAX_GPU_WINDOWS = 100_000_000, 2048
"""Most values and windows in a batch of a GPU, which holds several tensors of this size."""


def batch_size_for_core(values: float) -> int:
    """Return how many windows a core scores at a time: as many as its cache holds.

    Examples
    --------
    >>> batch_size_for_core(65_000), batch_size_for_core(1)
    (10, 512)
    """
    return min(max(int(CACHED_VALUES / values), 1), MAX_CORE_WINDOWS)


def batch_size_for_gpu(values: float) -> int:
    """Return how many windows a GPU scores at a time.

    Examples
    --------
    >>> batch_size_for_gpu(15_000), batch_size_for_gpu(500_000)
    (2048, 200)
    """
    return min(max(int(MAX_GPU_VALUES / values), 1), MAX_GPU_WINDOWS)


def micro_batch_size(batch: int, values: float) -> int:
    """Return how many windows of a training batch a core takes at a time: all of a small batch.

    It does not depend on the number of cores, as rounding would then do so too.

    Examples
    --------
    >>> micro_batch_size(32, 1_000), micro_batch_size(32, 10_000), micro_batch_size(32, 65_000)
    (32, 16, 8)
    """
    total = batch * values
    parts = 2 * math.ceil(total / (2 * CACHED_VALUES)) if total > MIN_PARALLEL_VALUES else 1
    return math.ceil(batch / parts)


def split_batch(windows: Tensor, values: float) -> Sequence[Tensor]:
    """Split windows into batches for single cores: one, or an even number of nearly equal size."""
    most = batch_size_for_core(values)
    parts = 2 * math.ceil(len(windows) / (2 * most)) if len(windows) > most else 1
    return torch.split(windows, math.ceil(len(windows) / parts))

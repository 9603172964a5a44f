"""How many windows a core or a GPU works on at once. A window's size is given in values: those of both views."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

CACHED_VALUES = 650_000
"""Values of some windows, up to which a core is quickest."""
MIN_PARALLEL_VALUES = 160_000
"""Values of a batch over which two cores train sooner than one."""
MAX_GRAPH_VALUES = 10_000_000
"""Values of some windows, up to which a GPU replays their scoring: launches cost it more than numbers."""
MAX_CORE_WINDOWS = 512
"""Windows at most that a core scores at once."""
MAX_GPU_VALUES, MAX_GPU_WINDOWS = 100_000_000, 2048
"""Values and windows at most that a GPU scores at once: it holds several tensors of this size."""


def batch_size_for_core(values: float) -> int:
    """Give how many windows a core scores at once: as many as its nearer memory holds.

    Examples
    --------
    >>> batch_size_for_core(65_000), batch_size_for_core(1)
    (10, 512)
    """
    return min(max(int(CACHED_VALUES / values), 1), MAX_CORE_WINDOWS)


def batch_size_for_gpu(values: float) -> int:
    """Give how many windows a GPU scores at once.

    Examples
    --------
    >>> batch_size_for_gpu(15_000), batch_size_for_gpu(500_000)
    (2048, 200)
    """
    return min(max(int(MAX_GPU_VALUES / values), 1), MAX_GPU_WINDOWS)


def micro_batch_size(batch: int, values: float) -> int:
    """Give how many windows of a batch a core trains on at once; a small batch is not worth two cores.

    Whatever the number of cores, as rounding depends on it.
    """
    whole = batch * values
    parts = 2 * math.ceil(whole / (2 * CACHED_VALUES)) if whole > MIN_PARALLEL_VALUES else 1
    return math.ceil(batch / parts)


def split_batch(windows: Tensor, values: float) -> Sequence[Tensor]:
    """Cut windows into parts for one core each, an even number of the same size."""
    most = batch_size_for_core(values)
    parts = 2 * math.ceil(len(windows) / (2 * most)) if len(windows) > most else 1
    return torch.split(windows, math.ceil(len(windows) / parts))

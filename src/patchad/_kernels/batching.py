"""How many windows a core or a GPU works on at once. A window's size is given in values: those of both views."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

CACHED_VALUES = 650_000
"""Values of some windows, up to which a core is quickest."""
WORTH_TWO_CORES = 160_000
"""Values of a batch over which two cores train sooner than one."""
RECORDED_VALUES = 10_000_000
"""Values of some windows, up to which a GPU replays their scoring: launches cost it more than numbers."""
MOST_WINDOWS = 512
"""Windows at most that a core scores at once."""
GPU_VALUES, GPU_WINDOWS = 100_000_000, 2048
"""Values and windows at most that a GPU scores at once: it holds several tensors of this size."""


def scored_at_once(values: float) -> int:
    """Give how many windows a core scores at once: as many as its nearer memory holds.

    Examples
    --------
    >>> scored_at_once(65_000), scored_at_once(1)
    (10, 512)
    """
    return min(max(int(CACHED_VALUES / values), 1), MOST_WINDOWS)


def scored_on_a_gpu(values: float) -> int:
    """Give how many windows a GPU scores at once.

    Examples
    --------
    >>> scored_on_a_gpu(15_000), scored_on_a_gpu(500_000)
    (2048, 200)
    """
    return min(max(int(GPU_VALUES / values), 1), GPU_WINDOWS)


def trained_at_once(batch: int, values: float) -> int:
    """Give how many windows of a batch a core trains on at once; a small batch is not worth two cores.

    Whatever the number of cores, as rounding depends on it.
    """
    whole = batch * values
    parts = 2 * math.ceil(whole / (2 * CACHED_VALUES)) if whole > WORTH_TWO_CORES else 1
    return math.ceil(batch / parts)


def apart(windows: Tensor, values: float) -> Sequence[Tensor]:
    """Cut windows into parts for one core each, an even number of the same size."""
    most = scored_at_once(values)
    parts = 2 * math.ceil(len(windows) / (2 * most)) if len(windows) > most else 1
    return torch.split(windows, math.ceil(len(windows) / parts))

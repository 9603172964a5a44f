"""Work side by side on torch's cores: torch's own threads meet at the end of every small operation, these do not."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function with each item, as many at once as torch has threads; give the results in order.

    Examples
    --------
    >>> parallel_map(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """
    threads = torch.get_num_threads()
    if threads > 1 and len(items) > 1:
        return list(_pool(threads).map(function, items))
    torch.set_num_threads(1)
    try:
        return [function(item) for item in items]
    finally:
        torch.set_num_threads(threads)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Give threads that compute on one core each."""
    pool = ThreadPoolExecutor(threads, "patchad", initializer=torch.set_num_threads, initargs=(1,))
    met = threading.Barrier(threads)
    list(pool.map(lambda _: met.wait(), range(threads)))  # all of them are started now,
    torch.set_num_threads(threads)  # and what they set for themselves is not what other new threads begin with
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads

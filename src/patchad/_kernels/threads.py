"""Threads of one core each: torch's own threads synchronise after every small operation, these do not."""

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
    """Call a function with each item, in as many threads as torch has, and return the results in order.

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
    """Start threads that compute on one core each."""
    pool = ThreadPoolExecutor(threads, "patchad", initializer=torch.set_num_threads, initargs=(1,))
    barrier = threading.Barrier(threads)
    list(pool.map(lambda _: barrier.wait(), range(threads)))  # wait until all have started:
    # Their setting of 1 must not be the default of other new threads. That their own first operation may take over the
    # caller's setting is left as it is: more OpenMP threads than cores wait without spinning, and where other work runs
    # on the machine that was measured to be several times faster.
    torch.set_num_threads(threads)
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has none of its parent's threads

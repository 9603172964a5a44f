"""Work for several processes: one function, many tasks, each with its result as soon as it is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

import torch

from patchad.errors import PatchADError

Task = TypeVar("Task")
Result = TypeVar("Result")


def results(function: Callable[[Task], Result], tasks: Iterator[Task], workers: int) -> Iterator[tuple[Task, Result]]:
    """Run tasks, a few ahead of what is done; give each with its result. One worker is this process itself."""
    if workers == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield from ((task, function(task)) for task in tasks)
        finally:
            torch.set_num_threads(threads)
        return
    with _pool(workers) as pool:
        running: dict[Future[Result], Task] = {}
        for task in tasks:
            running[pool.submit(function, task)] = task
            if len(running) > workers:
                yield from _finished(running)
        while running:
            yield from _finished(running)


def _finished(running: dict[Future[Result], Task]) -> Iterator[tuple[Task, Result]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        try:
            yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise PatchADError(
                "a worker was killed, perhaps for want of memory; the records so far are kept: run the same command "
                "again, with --workers 1 if memory is short"
            ) from None


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give workers with one thread each that end when this process does, however it does."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _start_worker() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent's end; a killed parent leaves no one else to end this process."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)

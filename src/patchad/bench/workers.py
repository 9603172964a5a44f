"""Apply one function to many inputs in several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

from patchad.errors import PatchADError

Input = TypeVar("Input")
Output = TypeVar("Output")


def as_completed(
    function: Callable[[Input], Output], inputs: Iterator[Input], workers: int
) -> Iterator[tuple[Input, Output]]:
    """Yield each input with its output, in the order of completion.

    At most `workers + 1` inputs are taken ahead of what has been yielded, so that `inputs` may be lazy and may react to
    earlier outputs. An exception of `function` ends the iteration.

    Parameters
    ----------
    function
        Importable from a module, as are its inputs and outputs, unless there is only one worker.
    inputs
        Consumed lazily, in this process.
    workers
        Processes with one thread each. One worker is this process itself; outputs then come in the order of the inputs.

    Raises
    ------
    PatchADError
        A worker was killed.
    """
    if workers == 1:
        import torch  # here, so that a worker starts without it

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield from ((value, function(value)) for value in inputs)
        finally:
            torch.set_num_threads(threads)
        return
    with _pool(workers) as pool:
        running: dict[Future[Output], Input] = {}
        for value in inputs:
            running[pool.submit(function, value)] = value
            if len(running) > workers:
                yield from _completed(running)
        while running:
            yield from _completed(running)


def _completed(running: dict[Future[Output], Input]) -> Iterator[tuple[Input, Output]]:
    """Wait for at least one future; remove and yield all that are done."""
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        try:
            yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise PatchADError(
                "a worker was killed, perhaps because RAM ran out; the records so far are kept: run the same command "
                "again, with --workers 1 if RAM is short"
            ) from None


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Start workers that have one thread each and end with this process, even if it is killed."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_follow_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _follow_parent() -> None:
    """Let this worker exit when its parent does: a killed parent cannot end its workers."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)

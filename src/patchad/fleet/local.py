"""The runner of one machine: processes of joblib, or this process where one is enough."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self

from patchad.errors import PatchADError
from patchad.fleet.runner import FEW_BYTES, RETRIES, Input, Output, Runner, Shared

LOOK = 1.0
"""Seconds between two looks of a worker whether its parent lives."""


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file that every worker can read."""

    path: Path

    def get(self) -> bytes:
        """Return its content."""
        return self.path.read_bytes()


class LocalRunner:
    """Does tasks in processes of this machine; tasks whose worker was killed are done again.

    Parameters
    ----------
    workers
        Processes; one is this process itself.
    fixed
        Whether there have to be as many, however little there is to do.

    Examples
    --------
    >>> with LocalRunner(1) as runner:
    ...     sorted(output for _, output in runner.run(abs, [-1, -2]))
    [1, 2]
    """

    def __init__(self, workers: int, *, fixed: bool = True) -> None:
        self.workers, self._fixed = workers, fixed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.workers > 1:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=False, kill_workers=True)

    def suited(self, size: int) -> Runner:
        """Return one process for little work, unless the number was asked for."""
        return self if self._fixed or size >= FEW_BYTES else LocalRunner(1)

    def share(self, path: Path) -> Shared:
        """Let workers read the file themselves."""
        return OnDisk(path)

    def run(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Yield each input with its output, in the order of completion."""
        if self.workers == 1:
            yield from ((one, function(one)) for one in inputs)
            return
        waiting = _Waiting(inputs)
        broken = 0
        while not waiting.ended:
            try:
                for number, output in self._results(function, waiting):
                    broken = 0
                    yield waiting.taken.pop(number), output
            except _killed_workers():
                broken += 1
                if broken > RETRIES:
                    raise PatchADError(
                        "workers were killed again and again, perhaps because RAM ran out; what is finished is kept: "
                        "run the same command again, with --workers 1"
                    ) from None

    def train(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Yield each input with its output: a net is trained by one process."""
        return self.run(function, inputs)

    def _results(self, function: Callable[[Input], Output], waiting: _Waiting[Input]) -> Iterator[tuple[int, Output]]:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(
                n_jobs=self.workers,
                return_as="generator_unordered",
                pre_dispatch="2 * n_jobs",
                max_nbytes=None,  # files for arrays would be kept until the end
            )
            yield from pool(delayed(_call)(function, number, one) for number, one in waiting)


class _Waiting(Generic[Input]):
    """Inputs with their numbers: first those that were taken and not finished, then those never taken."""

    def __init__(self, inputs: Iterable[Input]) -> None:
        self._inputs = enumerate(inputs)
        self.taken: dict[int, Input] = {}
        self._all_taken = False
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        return self._all_taken and not self.taken

    def __iter__(self) -> Iterator[tuple[int, Input]]:
        yield from sorted(self.taken.items(), key=lambda item: item[0])
        while True:
            with self._lock:
                found = next(self._inputs, None)
                if found is None:
                    self._all_taken = True
                    return
                self.taken[found[0]] = found[1]
            yield found


def _killed_workers() -> tuple[type[Exception], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool

    return (BrokenProcessPool,)


def _call(function: Callable[[Any], Any], number: int, one: Any) -> tuple[int, Any]:
    follow_parent()
    return number, function(one)


@cache
def follow_parent() -> None:
    """Let this worker end when its parent, which may be killed, has gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""Runners: who does the tasks of a fleet. One function, many inputs, results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol, TypeVar, get_args

from patchad.errors import InputError

Engine = Literal["local", "ray"]
Input = TypeVar("Input")
Output = TypeVar("Output")

FEW_BYTES = 2**23
"""Bytes of files that one process judges sooner than others start."""
RETRIES = 3
"""Times that a task is tried again whose worker was killed."""


class Shared(Protocol):
    """A file that many tasks need."""

    def get(self) -> bytes:
        """Return its content, wherever this is called."""


class Runner(Protocol):
    """Does tasks, in whatever order they end, each with one thread: there are as many workers as cores."""

    workers: int

    def suited(self, size: int) -> Runner:
        """Return who is best to do work on so many bytes of files."""

    def share(self, path: Path) -> Shared:
        """Let all workers have the content of a file, sent once to each machine where they cannot read it."""

    def run(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Yield each input with its output, in the order of completion.

        Parameters
        ----------
        function
            Importable from a module; it catches what it can, for an exception ends the run.
        inputs
            Taken as workers become free, a few ahead.
        """

    def train(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Do likewise with tasks that each train one net, which may take all processes there are."""


def make_runner(engine: str, workers: int | None, address: str | None) -> AbstractContextManager[Runner]:
    """Return the runner of an engine, to be used in a `with` statement.

    Parameters
    ----------
    engine
        `local`, the cores of this machine; or `ray`, a cluster.
    workers
        Tasks at a time; None: one for each core, or one where there is little to do.
    address
        Of a Ray cluster that runs already; None: one is started on this machine.
    """
    if engine not in get_args(Engine):
        raise InputError(f"--engine {engine!r} is unknown; use local or ray")
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} is out of range; it must be at least 1")
    if engine == "ray":
        from patchad.fleet.cluster import RayRunner

        return RayRunner(workers, address)
    if address is not None:
        raise InputError(f"--address {address!r} is for a cluster; add --engine ray")
    from joblib import cpu_count

    from patchad.fleet.local import LocalRunner

    return LocalRunner(workers or cpu_count(), fixed=workers is not None)

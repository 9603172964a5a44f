"""The runner of a cluster: tasks of Ray, which tries those again whose worker or machine was lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patchad.errors import InputError, MissingExtraError, PatchADError, reason_of
from patchad.fleet.runner import RETRIES, Input, Output, Runner, Shared

AHEAD = 2
"""Tasks for each worker that are handed over at a time."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes in the object store of the cluster, which each machine fetches once."""

    reference: Any

    def get(self) -> bytes:
        """Return them."""
        content: bytes = _ray().get(self.reference)
        return content


class RayRunner:
    """Does tasks on a Ray cluster.

    Parameters
    ----------
    workers
        Tasks at a time; None: one for each core of the cluster.
    address
        Of a cluster that runs already; None: one is started on this machine, and ended with the run.
    """

    def __init__(self, workers: int | None, address: str | None) -> None:
        self.workers = workers or 1
        self._asked, self._address, self._started = workers, address, False

    def __enter__(self) -> Self:
        from joblib import cpu_count

        ray = _ray()
        if not ray.is_initialized():
            own: dict[str, Any] = {"num_cpus": self._asked or cpu_count(), "include_dashboard": False}
            try:
                ray.init(
                    address=self._address or "local",
                    log_to_driver=False,
                    logging_level="error",
                    **(own if self._address is None else {}),
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"no Ray cluster answers at {self._address or 'this machine'!r} ({reason_of(error)}); start one, "
                    "or use --engine local"
                ) from None
            self._started = True
        self.workers = self._asked or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            _ray().shutdown()

    def suited(self, _: int) -> Runner:
        """Return this runner: who names a cluster wants it used."""
        return self

    def share(self, path: Path) -> Shared:
        """Put a file into the object store."""
        return Stored(_ray().put(path.read_bytes()))

    def run(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Yield each input with its output, in the order of completion."""
        ray = _ray()
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        running: dict[Any, Input] = {}
        for one in inputs:
            running[task.remote(str(Path.cwd()), function, one)] = one
            if len(running) >= AHEAD * self.workers:
                yield from self._completed(running)
        while running:
            yield from self._completed(running)

    def train(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Yield each input with its output: a net is trained by one task."""
        return self.run(function, inputs)

    def _completed(self, running: dict[Any, Input]) -> Iterator[tuple[Input, Any]]:
        """Wait for at least one task; remove and yield all that are done."""
        ray = _ray()
        done, _ = ray.wait(list(running), num_returns=1)
        for reference in done:
            one = running.pop(reference)
            try:
                yield one, ray.get(reference)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                raise PatchADError(
                    f"workers were killed again and again ({reason_of(error)}); what is finished is kept: run the same "
                    "command again, with fewer --workers if RAM is short"
                ) from None


def _call(folder: str, function: Callable[[Any], Any], one: Any) -> Any:
    """Do a task in the folder of the driver, so that relative paths lead to the same files."""
    if Path(folder).is_dir():
        os.chdir(folder)
    return function(one)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "fleet") from None
    return ray

"""`fleet fit` under torchrun: all of its processes train the shared nets, the first one does all the rest.

    torchrun --standalone --nproc-per-node 2 --max-restarts 3 -m patchad fleet fit plant/ -o models --mode global

Where a process is lost, torchrun starts all of them again; training then goes on from its file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from patchad.errors import InputError
from patchad.fleet.local import LocalRunner
from patchad.fleet.runner import Input, Output, Runner, make_runner

LONGEST = timedelta(days=7)
"""How long processes wait for the first one, which reads the whole fleet before it trains."""


def is_launched() -> bool:
    """Return whether torchrun started this process and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_follower() -> bool:
    """Return whether this is a process of torchrun that is not the first."""
    return is_launched() and os.environ["RANK"] != "0"


def make_fit_runner(engine: str, workers: int | None, address: str | None) -> AbstractContextManager[Runner]:
    """Return the runner of an engine; under torchrun one that trains shared nets with all processes."""
    if not is_launched():
        return make_runner(engine, workers, address)
    if engine != "local":
        raise InputError(f"--engine {engine} starts processes of its own; leave torchrun or the option out")
    return TorchrunRunner(workers or 1)


class TorchrunRunner(LocalRunner):
    """Does tasks as one machine does, but those that train one net with all processes of torchrun."""

    def __enter__(self) -> Self:
        join()
        self._following = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None:  # after an error torchrun ends the others
            self._dismiss()
        leave()

    def train(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[tuple[Input, Output]]:
        """Yield each input with its output; all processes work on one input at a time."""
        from patchad.model.ranks import joint_training

        for one in inputs:
            _tell((function, one))
            with joint_training():
                output = function(one)
            yield one, output
        self._dismiss()

    def _dismiss(self) -> None:
        """Let the other processes end."""
        if self._following:
            _tell(None)
            self._following = False


def follow() -> None:
    """Train with the first process until it has no more to train."""
    from patchad.model.ranks import joint_training

    join()
    while (told := _tell(None)) is not None:
        function, one = told
        with joint_training():
            function(one)
    leave()


def join() -> None:
    """Form a group with the other processes."""
    import torch
    from torch import distributed
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    gpu, known = torch.cuda.is_available(), os.environ
    if gpu:
        torch.cuda.set_device(int(known["LOCAL_RANK"]))
    agent = TCPStore(known["MASTER_ADDR"], int(known["MASTER_PORT"]), is_master=False, timeout=LONGEST)
    # Names of their own for every start: else processes that are started again may look for those that were killed.
    store = PrefixStore(f"patchad/{known['TORCHELASTIC_RESTART_COUNT']}", agent)
    number, count = int(known["RANK"]), int(known["WORLD_SIZE"])
    backend = "nccl" if gpu else "gloo"
    distributed.init_process_group(backend, store=store, rank=number, world_size=count, timeout=LONGEST)


def leave() -> None:
    """Leave the group."""
    from torch import distributed

    distributed.destroy_process_group()


def _tell(message: Any) -> Any:
    """Send a message from the first process to all others, where its own is of no account; return it."""
    from torch import distributed

    held = [message]
    distributed.broadcast_object_list(held, src=0)
    return held[0]

"""Training one net in several processes: each takes its part of every batch, and their gradients are averaged.

The processes form a group of `torch.distributed`, as `torchrun` starts it. All of them draw the same batches, so that
the net is the one that a single process trains, up to rounding. Nets outside of `joint_training` are trained as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes that train a net, and which of them this is."""

    number: int = 0
    count: int = 1
    joint: bool = False
    """Whether they are a group; otherwise this process is alone."""

    def wrap(self, net: nn.Module, *, all_used: bool) -> nn.Module:
        """Return a net whose gradients are averaged over all processes, with the weights of the first.

        `all_used` says whether the loss depends on all parameters: the others cost a search in every step.
        """
        return nn.parallel.DistributedDataParallel(net, find_unused_parameters=not all_used)

    def part(self, chosen: NDArray[np.intp]) -> tuple[NDArray[np.intp], float]:
        """Return the windows of a batch that are this process's, and the weight of their mean loss among all.

        A batch with fewer windows than there are processes is taken by each as a whole.

        Examples
        --------
        >>> Ranks(1, 2).part(np.arange(5))
        (array([3, 4]), 0.8)
        """
        if len(chosen) < self.count:
            return chosen, 1.0
        own = np.array_split(chosen, self.count)[self.number]
        return own, len(own) * self.count / len(chosen)

    def mean(self, value: Tensor) -> float:
        """Average a number over all processes."""
        if self.joint:
            value = value.clone()
            distributed.all_reduce(value)
            value /= self.count
        return float(value)

    def agree(self, value: float, device: torch.device) -> float:
        """Return the number of the first process: all have to decide alike."""
        if not self.joint:
            return value
        held = torch.tensor([value], dtype=torch.float64, device=device)
        distributed.broadcast(held, 0)
        return float(held[0])


_joint: ContextVar[bool] = ContextVar("joint", default=False)


@contextmanager
def joint_training() -> Iterator[None]:
    """Let nets that are trained inside the block be trained by all processes of the group, which call this alike."""
    token = _joint.set(True)
    try:
        yield
    finally:
        _joint.reset(token)


def current_ranks() -> Ranks:
    """Return who trains the next net: this process, or inside `joint_training` the whole group."""
    if not _joint.get():
        return Ranks()
    return Ranks(distributed.get_rank(), distributed.get_world_size(), joint=True)

"""Torch's global generator, borrowed: what torch offers no generator argument for, seeded for one fit at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

GENERATORS = threading.RLock()
"""Held by whoever seeds the global generators, one thread at a time."""


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator inside the block, and leave it as it was afterwards.

    Layers initialise themselves, and dropout draws, from the global generator only. One thread at a time may hold it,
    so that fits in several threads give what each would give alone.

    Examples
    --------
    >>> with seeded(0, torch.device("cpu")):
    ...     first = torch.rand(1)
    >>> with seeded(0, torch.device("cpu")):
    ...     bool(torch.rand(1) == first)
    True
    """
    devices = [device] if device.type == "cuda" else []
    with GENERATORS, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield

"""Work of a GPU, recorded once and replayed: one launch in place of hundreds, which cost more than small work.

What does not depend on each other is recorded to run at once.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
MAX_GRAPHS = 4
"""Shapes at most that are recorded: each holds on to the memory that its work needs."""


class GraphedFunction:
    """A function of a tensor on a GPU that runs the same operations for every tensor of one shape.

    Parameters
    ----------
    function
        Takes a tensor, and settings that say which operations run; gives a tuple of tensors. It may change tensors that
        it does not give, as a training step changes weights.
    warmup
        Calls with a shape before its next one is recorded.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], *, warmup: int) -> None:
        self._function, self._warmup = function, warmup
        self._calls: Counter[Hashable] = Counter()
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor, tuple[Tensor, ...]]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave recordings out of copies and pickles."""
        return _rebuild, (self._function, self._warmup)

    def __call__(self, x: Tensor, *settings: Hashable) -> tuple[Tensor, ...]:
        """Run, record or replay."""
        if not x.is_cuda:
            return self._function(x, *settings)
        key = (x.shape, settings, torch.get_float32_matmul_precision())
        with self._lock:
            if key not in self._graphs and self._calls[key] >= self._warmup and len(self._graphs) < MAX_GRAPHS:
                self._capture(key, x, settings)
            if key in self._graphs:
                graph, place, found = self._graphs[key]
                place.copy_(x)
                graph.replay()
                return tuple(one.clone() for one in found)
            self._calls[key] += 1
            # Off the main stream, as torch asks of what is run before a recording.
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found = self._function(x, *settings)
            torch.cuda.current_stream().wait_stream(stream)
            return found

    def _capture(self, key: Hashable, x: Tensor, settings: tuple[Hashable, ...]) -> None:
        place, graph = x.clone(), torch.cuda.CUDAGraph()
        with _nothing_collected(), torch.cuda.graph(graph):
            found = self._function(place, *settings)
        self._graphs[key] = (graph, place, found)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep Python from collecting garbage: an older recording among it would spoil the one that is being made."""
    gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _rebuild(function: Callable[..., tuple[Tensor, ...]], warmup: int) -> GraphedFunction:
    return GraphedFunction(function, warmup=warmup)


def is_capturing(x: Tensor) -> bool:
    """Say whether the work on a tensor is being recorded, not done."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def parallel_calls(calls: Sequence[Callable[[], Result]], x: Tensor) -> list[Result]:
    """Make independent calls that read x; while a CUDA graph is captured, on parallel streams.

    The result of call i may be passed to call i of a later `parallel_calls`: both are captured on one stream.
    """
    if not is_capturing(x):
        return [call() for call in calls]
    main = torch.cuda.current_stream()
    streams = [main, *(_stream(x.device, number) for number in range(1, len(calls)))]
    for stream in streams[1:]:
        stream.wait_stream(main)
    found = []
    for call, stream in zip(calls, streams, strict=True):
        with torch.cuda.stream(stream):
            found.append(call())
    for stream in streams[1:]:
        main.wait_stream(stream)
    return found


@functools.cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:  # noqa: ARG001 - one of each number
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

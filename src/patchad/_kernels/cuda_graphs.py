"""CUDA graphs: work of a GPU, captured once and replayed in one launch in place of hundreds.

Independent calls are captured on parallel streams.
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
"""Most graphs of a function: each keeps the GPU memory that its work needs."""


class GraphedFunction:
    """A function of a tensor, on a GPU replayed as a CUDA graph.

    Parameters
    ----------
    function
        Takes a tensor and settings, and returns a tuple of tensors. For one shape and one choice of settings it must
        always run the same operations. It may change other tensors, as a training step changes weights.
    warmup
        Calls with a shape before the next one is captured.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], *, warmup: int) -> None:
        self._function, self._warmup = function, warmup
        self._calls: Counter[Hashable] = Counter()
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor, tuple[Tensor, ...]]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave graphs out of copies and pickles."""
        return _rebuild, (self._function, self._warmup)

    def __call__(self, x: Tensor, *settings: Hashable) -> tuple[Tensor, ...]:
        """Run the function, or capture or replay its graph."""
        if not x.is_cuda:
            return self._function(x, *settings)
        key = (x.shape, settings, torch.get_float32_matmul_precision())
        with self._lock:
            if key not in self._graphs and self._calls[key] >= self._warmup and len(self._graphs) < MAX_GRAPHS:
                self._capture(key, x, settings)
            if key in self._graphs:
                graph, inputs, outputs = self._graphs[key]
                inputs.copy_(x)
                graph.replay()
                return tuple(output.clone() for output in outputs)
            self._calls[key] += 1
            # On a side stream, as torch requires of the runs before a capture.
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outputs = self._function(x, *settings)
            torch.cuda.current_stream().wait_stream(stream)
            return outputs

    def _capture(self, key: Hashable, x: Tensor, settings: tuple[Hashable, ...]) -> None:
        inputs, graph = x.clone(), torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(graph):
            outputs = self._function(inputs, *settings)
        self._graphs[key] = (graph, inputs, outputs)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection: freeing an older graph would invalidate a capture in progress."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _rebuild(function: Callable[..., tuple[Tensor, ...]], warmup: int) -> GraphedFunction:
    return GraphedFunction(function, warmup=warmup)


def is_capturing(x: Tensor) -> bool:
    """Return whether operations on x are being captured into a CUDA graph, not run."""
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

"""CUDA graphs without a GPU: which calls run, are captured or replayed. `test_gpu.py` captures real ones."""

from __future__ import annotations

import copy
import gc
import pickle
from contextlib import contextmanager

import pytest
import torch

from patchad._kernels import cuda_graphs
from patchad._kernels.cuda_graphs import MAX_GRAPHS, GraphedFunction, is_capturing, parallel_calls


class OnGPU(torch.Tensor):
    """A tensor that claims to be on a GPU."""

    is_cuda = True


def on_gpu(*values: float) -> torch.Tensor:
    return torch.tensor(values).as_subclass(OnGPU)


class Stream:
    """A stream that logs what waits for it."""

    def __init__(self, name: object, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: Stream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


class Fake:
    """Stands in for torch.cuda: one main stream; a replayed graph calls its function again on the captured input."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.main = self.current = Stream("main", self.log)
        self.capturing = False
        self.replay = lambda: None

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def graph(self, graph):
        self.capturing = True
        try:
            yield
        finally:
            self.capturing = False


@pytest.fixture
def cuda(monkeypatch) -> Fake:
    fake = Fake()
    replaced = {
        "Stream": lambda *_: Stream("side", fake.log),
        "current_stream": lambda: fake.current,
        "stream": fake.stream,
        "graph": fake.graph,
        "CUDAGraph": lambda: fake,
        "is_current_stream_capturing": lambda: fake.capturing,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return fake


class Doubled:
    """Doubles a tensor; every call is listed with whether it was captured."""

    def __init__(self, cuda: Fake) -> None:
        self.cuda, self.calls = cuda, []

    def __call__(self, x, *settings):
        self.calls.append("captured" if self.cuda.capturing else "run")
        out = 2 * x
        if self.cuda.capturing:
            assert not gc.isenabled()
            self.cuda.replay = lambda: out.copy_(2 * x)
        return (out,)


def test_on_a_cpu_the_function_is_called():
    calls = []
    graphed = GraphedFunction(lambda x, factor: calls.append(x) or (factor * x,), warmup=0)
    for value in (1.0, 2.0, 3.0):
        assert graphed(torch.tensor(value), 2)[0].item() == 2 * value
    assert len(calls) == 3
    assert not graphed._graphs


def test_a_call_is_captured_after_the_warm_up_and_then_replayed(cuda):
    double = Doubled(cuda)
    graphed = GraphedFunction(double, warmup=2)
    found = [graphed(on_gpu(value))[0] for value in (1.0, 2.0, 3.0, 4.0)]
    assert double.calls == ["run", "run", "captured"]
    assert [one.item() for one in found] == [2.0, 4.0, 6.0, 8.0]  # results are copies: no replay overwrites them
    assert gc.isenabled()


def test_warm_up_runs_on_a_side_stream_that_both_wait_for(cuda):
    GraphedFunction(Doubled(cuda), warmup=1)(on_gpu(1.0))
    assert cuda.log == ["side waits for main", "main waits for side"]


def test_every_shape_and_setting_has_its_own_graph(cuda):
    double = Doubled(cuda)
    graphed = GraphedFunction(double, warmup=0)
    for x, setting in ((on_gpu(1.0), True), (on_gpu(1.0, 2.0), True), (on_gpu(1.0), False), (on_gpu(1.0), True)):
        graphed(x, setting)
    assert double.calls == ["captured"] * 3


def test_graphs_are_bounded(cuda):
    double = Doubled(cuda)
    graphed = GraphedFunction(double, warmup=0)
    for size in range(1, MAX_GRAPHS + 3):
        graphed(on_gpu(*range(size)))
    assert double.calls == ["captured"] * MAX_GRAPHS + ["run"] * 2


def double(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (2 * x,)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda graphed: pickle.loads(pickle.dumps(graphed))])
def test_copies_have_no_graphs(cuda, copied):
    graphed = GraphedFunction(double, warmup=0)
    graphed(on_gpu(1.0))
    other = copied(graphed)
    assert graphed._graphs
    assert not other._graphs
    assert other(torch.ones(1))[0].item() == 2


def test_capture_restores_garbage_collection_after_an_error(cuda):
    def fails(x):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        GraphedFunction(fails, warmup=0)(on_gpu(1.0))
    assert gc.isenabled()


def test_calls_are_made_in_order_where_nothing_is_captured(cuda):
    x = on_gpu(1.0)
    assert not is_capturing(x)
    assert parallel_calls([lambda: 1, lambda: 2], x) == [1, 2]
    assert cuda.log == []


def test_a_tensor_on_a_cpu_is_never_captured(cuda):
    cuda.capturing = True
    assert not is_capturing(torch.ones(1))


def test_captured_calls_run_on_parallel_streams(cuda, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "_stream", lambda device, number: Stream(number, cuda.log))
    cuda.capturing = True
    found = parallel_calls([lambda: cuda.current.name] * 3, on_gpu(1.0))
    assert found == ["main", 1, 2]
    assert cuda.log == ["1 waits for main", "2 waits for main", "main waits for 1", "main waits for 2"]

"""Tapes: work of a CPU on a few windows, recorded once and replayed without the Python between its operations.

What a CUDA graph is to a GPU. Of the time that one window takes most goes into finding out which operation comes next;
a tape has them in a list, with the tensors that they read and write. Views and what depends on weights alone are done
when it is recorded, so that weights must not change afterwards.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from patchad._kernels.backend import is_plain

MAX_TAPES = 4
"""Most tapes of a function: each keeps the memory that its work needs."""
WARMUP = 3
"""Calls with a shape before the next one is recorded."""

_recorder: ContextVar[_Recorder | None] = ContextVar("recorder", default=None)


class TapedFunction:
    """A function of a tensor on a CPU, replayed from a tape where it is called with the same shape again and again.

    Parameters
    ----------
    function
        Takes a tensor and settings, and returns a tuple of tensors, without gradients. For one shape and one choice of
        settings it must always run the same operations, and change no tensor but its own.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self._function = function
        self._calls: Counter[Hashable] = Counter()
        self._tapes: dict[Hashable, _Tape | None] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave tapes out of copies and pickles."""
        return TapedFunction, (self._function,)

    def __call__(self, x: Tensor, *settings: Hashable) -> tuple[Tensor, ...]:
        """Run the function, or record or replay its tape."""
        if is_plain() or not self._lock.acquire(blocking=False):  # a tape has one set of tensors
            return self._function(x, *settings)
        try:
            key = (x.shape, settings)
            if key not in self._tapes and self._calls[key] >= WARMUP and len(self._tapes) < MAX_TAPES:
                self._tapes[key] = _recorded(self._function, x, settings)
            tape = self._tapes.get(key)
            if tape is not None:
                return tape.replay(x)
            self._calls[key] += 1
            return self._function(x, *settings)
        finally:
            self._lock.release()


class _Tape:
    """Operations in their order, and the tensors that the first reads and the last have written."""

    def __init__(self, inputs: Tensor, recorder: _Recorder, outputs: Sequence[Tensor]) -> None:
        self._inputs, self._steps, self._outputs = inputs, tuple(recorder.steps), tuple(outputs)
        self._kept = recorder.kept

    def replay(self, x: Tensor) -> tuple[Tensor, ...]:
        """Run all operations on this input."""
        self._inputs.copy_(x)
        for step in self._steps:
            step()
        return tuple(output.clone() for output in self._outputs)


def _recorded(function: Callable[..., tuple[Tensor, ...]], x: Tensor, settings: tuple[Hashable, ...]) -> _Tape | None:
    """Record a call; None where its operations cannot be replayed."""
    with torch.inference_mode(False), torch.no_grad():
        inputs = x.clone()
        recorder = _Recorder(inputs)
        token = _recorder.set(recorder)
        try:
            with recorder:
                outputs = function(inputs, *settings)
        finally:
            _recorder.reset(token)
        tape = None if recorder.failed else _Tape(inputs, recorder, outputs)
        expected = tuple(output.clone() for output in outputs)
        if tape is None or not all(map(torch.equal, tape.replay(x), expected)):
            return None
        return tape


def note(kernel: Callable[..., object], arguments: tuple[Any, ...], tensors: Sequence[Tensor]) -> None:
    """Tell of a call that works on the addresses of tensors, if a tape is being recorded."""
    recorder = _recorder.get()
    if recorder is not None:
        recorder.steps.append(partial(kernel, *arguments))
        recorder.kept.extend(tensors)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the operations that work on what comes from the input."""

    def __init__(self, inputs: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Callable[[], object]] = []
        self.kept: list[Tensor] = []
        """Everything, so that no memory is used twice."""
        self.failed = False
        self._variable = {_memory(inputs)}
        """Memory whose content depends on the input."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would import its compiler, which takes seconds

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, in_place = kwargs or {}, op._schema.is_mutable  # noqa: SLF001 - torch has no other way
        found = op(*args, **kwargs)
        read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        made = [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        self.kept += [*read, *made]
        if not any(_memory(one) in self._variable for one in read):
            self.failed |= in_place  # what is computed once must not change
            return found
        known = {_memory(one) for one in read}
        if in_place:
            self.failed |= _memory(made[0]) not in self._variable
            self.steps.append(partial(op, *args, **kwargs))
        elif any(_memory(one) not in known for one in made):  # no view
            self._variable |= {_memory(one) for one in made}
            name = op.overloadpacket.__name__
            if name not in ("new_empty", "empty_like"):
                self.steps.append(_step(name, op, args, kwargs, made[0]))
        return found


def _step(name: str, op: Any, args: Any, kwargs: Any, out: Tensor) -> Callable[[], object]:
    """Return a call that writes the result of an operation where it was written first."""
    if name == "clone":
        return partial(out.copy_, args[0])
    function = getattr(torch, name, getattr(torch._C._nn, name, op))  # noqa: SLF001 - where torch has its activations
    try:
        direct = partial(function, *args, **kwargs, out=out)
        direct()
    except (TypeError, RuntimeError):
        return lambda: out.copy_(op(*args, **kwargs))
    return direct


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()

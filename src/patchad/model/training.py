"""Training: Adam on random windows, early stopping on held-out windows of train."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patchad._kernels.cuda_graphs import GraphedFunction
from patchad._kernels.threads import parallel_map
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.errors import InputError

logger = logging.getLogger(__name__)

Loss = Callable[[nn.Module, Tensor], Tensor]
Scaler = Callable[[FloatArray], FloatArray]
CHECK_EVERY = 50
"""Steps between two looks at the held-out windows."""
PATIENCE = 4
"""Looks without a better loss after which training stops."""
WARM_UP = 3
"""Steps on a GPU before one is recorded."""
ROWS_TOGETHER = 100_000
"""Rows that are scaled at once."""
HELD_OUT_WINDOWS = 128
"""Held-out windows that are looked at; more say little more and cost training time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How long and how fast to train. Defaults live in `PatchAD`."""

    max_steps: int | None
    """Most steps, whatever `epochs` says; None: as many as the epochs have."""
    epochs: int | None
    """Passes over all windows; None: random windows until `max_steps`."""
    batch_size: int
    learning_rate: float

    def __post_init__(self) -> None:
        if self.max_steps is None and self.epochs is None:
            raise InputError("max_steps and epochs are both None; training needs an end, so give one of them")
        for name in ("max_steps", "epochs", "batch_size", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value} is too small; it must be over 0")


@dataclass(frozen=True, slots=True)
class Goal:
    """Parameters, and the loss that they are to make small: most nets have one goal, adversaries have opposed ones."""

    parameters: list[nn.Parameter]
    loss: Loss
    """`loss(net, batch)`, the mean loss of a batch `(b, t, c)`."""
    micro_batch: int | None = None
    """Where the loss is a mean over windows: how many of them to work on at once on a CPU, a core each."""
    capturable: bool = False
    """Whether every call runs the same operations, none of them random: a GPU then replays the first."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands; one is kept for every look at the held-out windows."""

    step: int
    steps: int
    loss: float
    """Mean training loss since the last look."""
    held_out: float
    """Loss on held-out windows; NaN where there are none."""
    seconds: float


def train(
    net: nn.Module,
    goals: Sequence[Goal],
    windows: WindowSampler,
    held_out: WindowSampler,
    scale: Scaler,
    config: TrainConfig,
    *,
    seed: int,
    device: torch.device,
    watch: Callable[[Progress], None] | None = None,
) -> list[Progress]:
    """Train `net` in place and leave it with the weights that did best on the held-out windows.

    Parameters
    ----------
    net, goals
        What to train, and to what end; each goal has an optimizer of its own, and takes its step after the one before.
        Training stops on the loss of the first.
    windows, held_out
        Windows to train on and windows to stop on; without held-out windows training runs to its end.
    scale
        Turns raw windows into the net's input.
    config
        The budget.
    seed
        Of the order of the windows.
    device
        Where to compute.
    watch
        Called with every `Progress`, and with a NaN `held_out` on the steps between two looks.
    """
    net.to(device).train()
    optimizers = [
        torch.optim.Adam(goal.parameters, lr=config.learning_rate, fused=True, capturable=device.type == "cuda")
        for goal in goals
    ]
    steps = planned_steps(len(windows), config)
    checks = _batches(_even(held_out), scale, config.batch_size, device)
    draw = _on_device(windows, scale, device) if device.type == "cuda" else _drawn(windows, scale)
    take = TrainStep(net, goals, optimizers)
    history: list[Progress] = []
    best, best_state, began, stale = math.inf, None, time.monotonic(), 0
    recent, since = torch.zeros((), device=device), 0
    for step, chosen in enumerate(_orders(len(windows), config, steps, seed), start=1):
        recent += take(draw(chosen))
        since += 1
        look = step % CHECK_EVERY == 0 or step == steps
        if not look and watch is None:
            continue  # without a question no answer is waited for
        held = _mean_loss(net, goals[0].loss, checks) if look else math.nan
        progress = Progress(step, steps, float(recent) / since, held, time.monotonic() - began)
        if watch is not None:
            watch(progress)
        if not look:
            continue
        history.append(progress)
        recent, since = torch.zeros_like(recent), 0
        logger.debug("step %d of %d: loss %.5f, held out %.5f", step, steps, progress.loss, held)
        if not checks:
            continue
        if held < best:
            best, best_state = held, {name: value.detach().clone() for name, value in net.state_dict().items()}
            stale = 0
        else:
            stale += 1
            if stale >= PATIENCE:
                break
    if best_state is not None:
        net.load_state_dict(best_state)
    net.eval()
    return history


class TrainStep:
    """A step towards every goal; on a GPU recorded where all goals allow it, and replayed for batches of that shape."""

    def __init__(self, net: nn.Module, goals: Sequence[Goal], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._net, self._goals, self._optimizers = net, goals, optimizers
        capturable = all(goal.capturable for goal in goals)
        self._run: Callable[[Tensor], tuple[Tensor, ...]] = (
            GraphedFunction(self._take, warmup=WARM_UP) if capturable else self._take
        )

    def __call__(self, batch: Tensor) -> Tensor:
        """Train on a batch; give the loss of the first goal before it."""
        return self._run(batch)[0]

    def _take(self, batch: Tensor) -> tuple[Tensor, ...]:
        values = []
        with _quick_products(batch.device):
            for goal, optimizer in zip(self._goals, self._optimizers, strict=True):
                self._net.zero_grad(set_to_none=True)
                values.append(_gradients(self._net, goal, batch))
                optimizer.step()
        return (values[0],)


@contextmanager
def _quick_products(device: torch.device) -> Iterator[None]:
    """Have a GPU multiply with ten bits, as it does best: far more than two batches have in common."""
    asked = torch.get_float32_matmul_precision()
    if device.type != "cuda" or asked != "highest":
        yield
        return
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(asked)


def _gradients(net: nn.Module, goal: Goal, batch: Tensor) -> Tensor:
    """Set the gradients of the goal's parameters; give its loss."""
    if batch.is_cuda or goal.micro_batch is None:
        value = goal.loss(net, batch)
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach()
    # Parts of one size whatever the number of cores, so that the result does not depend on it.
    parts = torch.split(batch, goal.micro_batch)

    def work(part: Tensor) -> Tensor:
        value = goal.loss(net, part)
        found = torch.autograd.grad(value, goal.parameters, materialize_grads=True)
        # All in one tensor: a net has many small parameters, and each operation on one costs more than its numbers.
        return torch.cat([value.detach().reshape(1), *(one.reshape(-1) for one in found)]) * (len(part) / len(batch))

    total = torch.stack(parallel_map(work, parts)).sum(0)
    pieces = torch.split(total, [1, *(parameter.numel() for parameter in goal.parameters)])
    for parameter, piece in zip(goal.parameters, pieces[1:], strict=True):
        parameter.grad = piece.view_as(parameter)
    return pieces[0][0]


def _drawn(windows: WindowSampler, scale: Scaler) -> Callable[[NDArray[np.intp]], Tensor]:
    return lambda chosen: torch.from_numpy(scale(windows[chosen]))


def _on_device(windows: WindowSampler, scale: Scaler, device: torch.device) -> Callable[[NDArray[np.intp]], Tensor]:
    """Put the series on the device once, and cut windows out of it there."""
    rows = torch.cat(
        [
            torch.from_numpy(scale(values[first : first + ROWS_TOGETHER])).to(device)
            for values in windows.series
            for first in range(0, len(values), ROWS_TOGETHER)
        ]
    )
    steps = torch.arange(windows.window, device=device)

    def draw(chosen: NDArray[np.intp]) -> Tensor:
        first = torch.from_numpy(windows.first_rows(chosen)).to(device, non_blocking=True)
        return rows[first[:, None] + steps]

    return draw


def find_device(device: str) -> torch.device:
    """Give the device to compute on; `auto` is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise InputError(f"device={device!r} is unknown; use 'auto', 'cpu' or 'cuda'") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={device!r} was asked for, but there is no CUDA device here; use 'auto' or 'cpu'")
    return found


def planned_steps(windows: int, config: TrainConfig) -> int:
    """Give the most steps that training will take.

    Examples
    --------
    >>> planned_steps(1000, TrainConfig(max_steps=None, epochs=3, batch_size=128, learning_rate=1e-4))
    24
    """
    if config.epochs is None:
        return int(config.max_steps or 0)
    full = config.epochs * math.ceil(windows / config.batch_size)
    return full if config.max_steps is None else min(full, config.max_steps)


def _orders(windows: int, config: TrainConfig, steps: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Give the numbers of the windows of every step: random ones, or shuffled epochs."""
    random = np.random.default_rng(seed)
    if config.epochs is None:
        for _ in range(steps):
            yield random.integers(0, windows, size=config.batch_size)
        return
    done = 0
    while done < steps:
        order = random.permutation(windows)
        for first in range(0, windows, config.batch_size):
            if done == steps:
                return
            done += 1
            yield order[first : first + config.batch_size]


def _even(held_out: WindowSampler) -> FloatArray:
    """Take windows evenly from the held-out part."""
    count = min(len(held_out), HELD_OUT_WINDOWS)
    if count == 0:
        return np.empty((0, 0, 0), dtype=np.float32)
    return held_out[np.linspace(0, len(held_out) - 1, count).astype(np.intp)]


def _batches(windows: FloatArray, scale: Scaler, size: int, device: torch.device) -> list[Tensor]:
    scaled = [scale(windows[first : first + size]) for first in range(0, len(windows), size)]
    return [torch.from_numpy(part).to(device) for part in scaled]


def _mean_loss(net: nn.Module, loss: Loss, batches: list[Tensor]) -> float:
    if not batches:
        return math.nan
    net.eval()
    with torch.no_grad():
        total = sum(float(loss(net, batch)) * len(batch) for batch in batches)
    net.train()
    return total / sum(len(batch) for batch in batches)

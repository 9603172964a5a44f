"""Training: Adam on random windows, early stopping on held-out windows of train.

The order of the windows comes from a seed; nothing here draws from a global generator.
"""

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
"""Steps between two checks of the held-out loss."""
PATIENCE = 4
"""Checks without a lower loss after which training stops."""
WARM_UP = 3
"""Steps on a GPU before one is captured as a CUDA graph."""
SCALED_ROWS = 100_000
"""Rows scaled at a time."""
DIVERGED = 1e12
"""Size of a loss from which on training has diverged: scaled values are clipped, so no sound loss comes near."""
HELD_OUT_WINDOWS = 128
"""Most held-out windows in a check; more add little information and cost training time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How long and how fast to train. Defaults live in `PatchAD`."""

    max_steps: int | None
    """Most steps, whatever the number of epochs; None: all steps of the epochs."""
    epochs: int | None
    """Passes over all windows; None: random windows until `max_steps`."""
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    """Of AdamW, which without it is Adam."""
    last_rate: float = 1.0
    """Share of the learning rate that is left at the end, reached along half a cosine."""
    decay: float = 1.0
    """Factor of the learning rate after every epoch but the first."""

    def rate_at(self, step: int, steps: int, per_epoch: int = 1) -> float:
        """Return the learning rate of a step, counted from 1, of `steps`, `per_epoch` of them in an epoch.

        Examples
        --------
        >>> falling = TrainConfig(max_steps=10, epochs=None, batch_size=8, learning_rate=1.0, last_rate=0.5)
        >>> [falling.rate_at(step, 10) for step in (0, 5, 10)]
        [1.0, 0.75, 0.5]
        >>> halved = TrainConfig(max_steps=None, epochs=3, batch_size=8, learning_rate=1.0, decay=0.5)
        >>> [halved.rate_at(step, 6, per_epoch=2) for step in (1, 4, 5)]
        [1.0, 1.0, 0.5]
        """
        share = self.last_rate + (1 - self.last_rate) * 0.5 * (1 + math.cos(math.pi * step / steps))
        return self.learning_rate * share * float(self.decay ** max((step - 1) // per_epoch - 1, 0))

    def __post_init__(self) -> None:
        if self.max_steps is None and self.epochs is None:
            raise InputError("max_steps and epochs are both None; training needs an end, so set one of them")
        for name in ("max_steps", "epochs", "batch_size", "learning_rate", "decay"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value} is too small; it must be above 0")
        if self.decay != 1 and self.epochs is None:
            raise InputError(f"decay={self.decay} counts epochs, and epochs is None; set it")


@dataclass(frozen=True, slots=True)
class Goal:
    """Parameters and the loss that they minimise: most nets have one goal, adversaries have opposed ones."""

    parameters: list[nn.Parameter]
    loss: Loss
    """`loss(net, batch)`: the mean loss of a batch `(b, t, c)`."""
    micro_batch: int | None = None
    """Windows that one core of a CPU takes at a time, where the loss is a mean over windows; None: the whole batch."""
    capturable: bool = False
    """Whether every call runs the same operations, none of them random, so that a CUDA graph can replay them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of training at one step; the history has one for every check of the held-out loss."""

    step: int
    steps: int
    loss: float
    """Mean training loss since the last check."""
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
    """Train `net` in place and leave it with the weights of the lowest held-out loss.

    Parameters
    ----------
    net, goals
        The net and what it is trained for. Each goal has its own optimizer; in every step the goals are taken in order.
        Early stopping uses the loss of the first.
    windows, held_out
        Windows to train on and to stop on; without held-out windows training runs to its end.
    scale
        Turns raw windows into the input of the net.
    config
        The budget.
    seed
        For the order of the windows.
    device
        Where to compute.
    watch
        Called with the `Progress` of every step; between two checks its `held_out` is NaN.

    Raises
    ------
    InputError
        If the loss becomes infinite or NaN before any weights have a finite held-out loss.
    """
    net.to(device).train()
    optimizers = [
        torch.optim.AdamW(
            goal.parameters,
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=device.type == "cuda",
        )
        for goal in goals
    ]
    steps = planned_steps(len(windows), config)
    checks = _batches(even_windows(held_out), scale, config.batch_size, device)
    draw = _device_sampler(windows, scale, device) if device.type == "cuda" else _sampler(windows, scale)
    train_step, best = TrainStep(net, goals, optimizers), _Best()
    history: list[Progress] = []
    progress = Progress(0, steps, 0.0, math.nan, 0.0)
    began, recent, since = time.monotonic(), torch.zeros((), device=device), 0
    for step, chosen in enumerate(_orders(len(windows), config, steps, seed), start=1):
        if config.last_rate < 1 or config.decay != 1:  # a goal that is captured would keep the rate that it saw first
            _set_rate(optimizers, config.rate_at(step, steps, math.ceil(len(windows) / config.batch_size)))
        recent += train_step(draw(chosen))
        since += 1
        check = step % CHECK_EVERY == 0 or step == steps
        if not check and watch is None:
            continue  # reading the loss would wait for the GPU
        held = _mean_loss(net, goals[0].loss, checks) if check else math.nan
        progress = Progress(step, steps, float(recent) / since, held, time.monotonic() - began)
        if watch is not None:
            watch(progress)
        if not is_sound(progress.loss):
            break
        if check:
            history.append(progress)
            recent, since = torch.zeros_like(recent), 0
            logger.debug("step %d of %d: loss %.5f, held out %.5f", step, steps, progress.loss, held)
            if checks and not best.update(net, held):
                break
    best.restore(net, progress, config, checked=bool(checks))
    net.eval()
    return history


def _set_rate(optimizers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def is_sound(loss: float) -> bool:
    """Return whether training has not diverged."""
    return abs(loss) < DIVERGED


def diverged(last: Progress, config: TrainConfig) -> str:
    """Say that training diverged, and what to do."""
    return (
        f"training diverged: at step {last.step} the loss is {last.loss:.3g}, {last.held_out:.3g} on held-out windows; "
        f"lower learning_rate={config.learning_rate:g}"
    )


class _Best:
    """Early stopping: the weights with the lowest held-out loss so far."""

    def __init__(self) -> None:
        self._loss, self._stale = math.inf, 0
        self._weights: dict[str, Tensor] | None = None

    def update(self, net: nn.Module, loss: float) -> bool:
        """Keep the weights if they are the best; return whether training goes on."""
        if loss < self._loss and is_sound(loss):
            self._loss, self._stale = loss, 0
            self._weights = {name: value.detach().clone() for name, value in net.state_dict().items()}
        else:
            self._stale += 1
        return self._stale < PATIENCE

    def restore(self, net: nn.Module, last: Progress, config: TrainConfig, *, checked: bool) -> None:
        """Load the best weights, or keep the last ones where none were checked; refuse a net that diverged."""
        if self._weights is not None:
            net.load_state_dict(self._weights)
            if not is_sound(last.loss):
                logger.warning("%s; the weights with the lowest held-out loss are used", diverged(last, config))
        elif checked or not is_sound(last.loss):
            raise InputError(diverged(last, config))


class TrainStep:
    """A training step for every goal; on a GPU replayed as a CUDA graph where all goals are capturable."""

    def __init__(self, net: nn.Module, goals: Sequence[Goal], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._net, self._goals, self._optimizers = net, goals, optimizers
        capturable = all(goal.capturable for goal in goals)
        self._run: Callable[[Tensor], tuple[Tensor, ...]] = (
            GraphedFunction(self._step, warmup=WARM_UP) if capturable else self._step
        )

    def __call__(self, batch: Tensor) -> Tensor:
        """Train on a batch; return the loss of the first goal before the step."""
        return self._run(batch)[0]

    def _step(self, batch: Tensor) -> tuple[Tensor, ...]:
        values = []
        with fast_products(batch.device):
            for goal, optimizer in zip(self._goals, self._optimizers, strict=True):
                self._net.zero_grad(set_to_none=True)
                values.append(_gradients(self._net, goal, batch))
                optimizer.step()
        return (values[0],)


@contextmanager
def fast_products(device: torch.device) -> Iterator[None]:
    """Let a GPU multiply in TF32: its ten bits are far more than two batches have in common."""
    precision = torch.get_float32_matmul_precision()
    if device.type != "cuda" or precision != "highest":
        yield
        return
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def _gradients(net: nn.Module, goal: Goal, batch: Tensor) -> Tensor:
    """Set the gradients of the goal's parameters; return its loss."""
    if batch.is_cuda or goal.micro_batch is None:
        value = goal.loss(net, batch)
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach()
    # The split does not depend on the number of cores, so neither does the result.
    parts = torch.split(batch, goal.micro_batch)

    def gradients(part: Tensor) -> Tensor:
        value = goal.loss(net, part)
        found = torch.autograd.grad(value, goal.parameters, materialize_grads=True)
        # All in one tensor: a net has many small parameters, and an operation on each would cost more.
        return torch.cat([value.detach().reshape(1), *(one.reshape(-1) for one in found)]) * (len(part) / len(batch))

    total = torch.stack(parallel_map(gradients, parts)).sum(0)
    pieces = torch.split(total, [1, *(parameter.numel() for parameter in goal.parameters)])
    for parameter, piece in zip(goal.parameters, pieces[1:], strict=True):
        parameter.grad = piece.view_as(parameter)
    return pieces[0][0]


def _sampler(windows: WindowSampler, scale: Scaler) -> Callable[[NDArray[np.intp]], Tensor]:
    return lambda chosen: torch.from_numpy(scale(windows[chosen]))


def _device_sampler(
    windows: WindowSampler, scale: Scaler, device: torch.device
) -> Callable[[NDArray[np.intp]], Tensor]:
    """Copy the series to the device once and cut windows there."""
    rows = scaled_rows(windows, scale, device)
    steps = torch.arange(windows.window, device=device)

    def draw(chosen: NDArray[np.intp]) -> Tensor:
        first = torch.from_numpy(windows.first_rows(chosen)).to(device, non_blocking=True)
        return rows[first[:, None] + steps]

    return draw


def scaled_rows(windows: WindowSampler, scale: Scaler, device: torch.device) -> Tensor:
    """Return the scaled rows of all series that windows are drawn from, end to end, on the device."""
    return torch.cat(
        [
            torch.from_numpy(scale(values[first : first + SCALED_ROWS])).to(device)
            for values in windows.series
            for first in range(0, len(values), SCALED_ROWS)
        ]
    )


def find_device(device: str) -> torch.device:
    """Return the device to compute on; `auto` is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise InputError(f"device={device!r} is unknown; use 'auto', 'cpu' or 'cuda'") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={device!r} is not available: there is no CUDA device here; use 'auto' or 'cpu'")
    return found


def planned_steps(windows: int, config: TrainConfig) -> int:
    """Return the most steps that training will take.

    Examples
    --------
    >>> planned_steps(1000, TrainConfig(max_steps=None, epochs=3, batch_size=128, learning_rate=1e-4))
    24
    """
    if config.epochs is None:
        return int(config.max_steps or 0)
    full = config.epochs * math.ceil(windows / config.batch_size)
    return full if config.max_steps is None else min(full, config.max_steps)


def all_orders(windows: int, config: TrainConfig, seed: int) -> NDArray[np.intp]:
    """Return the indices of the random windows of every step at once, `(step, window of the batch)`.

    Examples
    --------
    >>> config = TrainConfig(max_steps=3, epochs=None, batch_size=2, learning_rate=1e-3)
    >>> bool((all_orders(10, config, 5) == np.stack(list(_orders(10, config, 3, 5)))).all())
    True
    """
    size = (int(config.max_steps or 0), config.batch_size)
    return np.random.default_rng(seed).integers(0, windows, size=size)


def _orders(windows: int, config: TrainConfig, steps: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of the windows of every step: random ones, or shuffled epochs."""
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


def even_windows(held_out: WindowSampler) -> FloatArray:
    """Return windows spread evenly over the held-out part."""
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

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
from pathlib import Path

import torch
from torch import Tensor, nn

from patchad._kernels.cuda_graphs import GraphedFunction
from patchad._kernels.threads import parallel_map
from patchad.data.windows import WindowSampler
from patchad.errors import InputError
from patchad.model.batches import Scaler, device_sampler, even_windows, host_sampler, orders, scaled_batches
from patchad.model.checkpoints import (
    TrainingFile,
    TrainingState,
    history_of,
    load_optimizer,
    optimizer_state,
    training_key,
)
from patchad.model.ranks import Ranks, current_ranks

logger = logging.getLogger(__name__)

Loss = Callable[[nn.Module, Tensor], Tensor]
CHECK_EVERY = 50
"""Steps between two checks of the held-out loss."""
PATIENCE = 4
"""Checks without a lower loss after which training stops."""
WARM_UP = 3
"""Steps on a GPU before one is captured as a CUDA graph."""
DIVERGED = 1e12
"""Size of a loss from which on training has diverged: scaled values are clipped, so no sound loss comes near."""


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
    """Whether every call runs the same operations, so that a CUDA graph can replay them."""
    draws: bool = False
    """Whether a goal that is capturable draws from the global generator, as dropout does; others are taken to do so."""


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
    keep: Path | None = None,
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
    keep
        A file for the state of training, written at every check; a later call with the same arguments goes on from it.

    Raises
    ------
    InputError
        If the loss becomes infinite or NaN before any weights have a finite held-out loss.
    """
    net.to(device).train()
    falls = config.last_rate < 1 or config.decay != 1
    optimizers = _optimizers(goals, config, device, falls=falls)
    ranks, steps = current_ranks(), planned_steps(len(windows), config)
    checks = scaled_batches(even_windows(held_out), scale, config.batch_size, device)
    draw = device_sampler(windows, scale, device) if device.type == "cuda" else host_sampler(windows, scale)
    train_step, best = TrainStep(net, goals, optimizers, ranks), _Best()
    file = TrainingFile(keep, training_key(net, windows.series, config, seed)) if keep is not None else None
    kept = _Kept(net, optimizers, best, file)
    history = kept.resume()
    progress = history[-1] if history else Progress(0, steps, 0.0, math.nan, 0.0)
    done, began = progress.step, time.monotonic() - progress.seconds
    recent, since = torch.zeros((), device=device), 0
    chosen_windows = orders(len(windows), config.batch_size, steps, seed=seed, shuffled=config.epochs is not None)
    for step, chosen in enumerate(chosen_windows, start=1):
        if step <= done:
            continue
        if falls:
            _set_rate(optimizers, config.rate_at(step, steps, math.ceil(len(windows) / config.batch_size)))
        own, weight = ranks.part(chosen)
        recent += train_step(draw(own), weight)
        since += 1
        check = step % CHECK_EVERY == 0 or step == steps
        if not check and watch is None:
            continue  # reading the loss would wait for the GPU
        held = ranks.agree(_mean_loss(net, goals[0].loss, checks), device) if check else math.nan
        progress = Progress(step, steps, ranks.mean(recent) / since, held, time.monotonic() - began)
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
            if ranks.number == 0:
                kept.write(history)
    best.restore(net, progress, config, checked=bool(checks))
    net.eval()
    return history


def _optimizers(
    goals: Sequence[Goal], config: TrainConfig, device: torch.device, *, falls: bool
) -> list[torch.optim.Optimizer]:
    """Return an optimizer for each goal; a captured step keeps the numbers that it saw, but reads tensors anew."""
    captured = device.type == "cuda"
    rate = torch.tensor(config.learning_rate, device=device) if falls and captured else config.learning_rate
    decay = config.weight_decay
    return [
        torch.optim.AdamW(goal.parameters, lr=rate, weight_decay=decay, fused=True, capturable=captured)
        for goal in goals
    ]


def _set_rate(optimizers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
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
        self.loss, self.stale = math.inf, 0
        self.weights: dict[str, Tensor] | None = None

    def update(self, net: nn.Module, loss: float) -> bool:
        """Keep the weights if they are the best; return whether training goes on."""
        if loss < self.loss and is_sound(loss):
            self.loss, self.stale = loss, 0
            self.weights = {name: value.detach().clone() for name, value in net.state_dict().items()}
        else:
            self.stale += 1
        return self.stale < PATIENCE

    def restore(self, net: nn.Module, last: Progress, config: TrainConfig, *, checked: bool) -> None:
        """Load the best weights, or keep the last ones where none were checked; refuse a net that diverged."""
        if self.weights is not None:
            net.load_state_dict(self.weights)
            if not is_sound(last.loss):
                logger.warning("%s; the weights with the lowest held-out loss are used", diverged(last, config))
        elif checked or not is_sound(last.loss):
            raise InputError(diverged(last, config))


class _Kept:
    """The state of training in a file, if there is to be one."""

    def __init__(
        self,
        net: nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        best: _Best,
        file: TrainingFile | None,
    ) -> None:
        self._net, self._optimizers, self._best, self._file = net, optimizers, best, file

    def resume(self) -> list[Progress]:
        """Take over what the file holds; return the history up to there."""
        state = None if self._file is None else self._file.read()
        if state is None:
            return []
        self._net.load_state_dict(state.weights)
        for optimizer, own in zip(self._optimizers, state.optimizers, strict=True):
            load_optimizer(optimizer, own)
        self._best.loss, self._best.stale = state.lowest, state.stale
        device = next(self._net.parameters()).device
        if state.best is not None:
            self._best.weights = {name: value.to(device) for name, value in state.best.items()}
        logger.info("training goes on after step %d", state.step)
        return [Progress(**one) for one in state.history]

    def write(self, history: Sequence[Progress]) -> None:
        """Write the state after a check."""
        if self._file is None:
            return
        state = TrainingState(
            step=history[-1].step,
            weights=self._net.state_dict(),
            optimizers=[optimizer_state(optimizer) for optimizer in self._optimizers],
            best=self._best.weights,
            lowest=self._best.loss,
            stale=self._best.stale,
            history=history_of(history),
        )
        self._file.write(state)


class TrainStep:
    """A training step for every goal; on a GPU replayed as a CUDA graph where all goals are capturable.

    Several processes, each with its part of the batch, take the step that one would take with all of it.
    """

    def __init__(
        self,
        net: nn.Module,
        goals: Sequence[Goal],
        optimizers: Sequence[torch.optim.Optimizer],
        ranks: Ranks = Ranks(),  # noqa: B008 - frozen
    ) -> None:
        if ranks.joint and len(goals) > 1:
            raise InputError(f"several processes can train a net for one goal, and this one has {len(goals)}")
        self._net, self._goals, self._optimizers, self._ranks = net, goals, optimizers, ranks
        self._shared: nn.Module | None = None
        capturable = all(goal.capturable for goal in goals) and not ranks.joint
        self._run: Callable[..., tuple[Tensor, ...]] = (
            GraphedFunction(self._step, warmup=WARM_UP) if capturable else self._step
        )

    def __call__(self, batch: Tensor, weight: float = 1.0) -> Tensor:
        """Train on a batch; return the loss of the first goal before the step, times its weight among processes."""
        return self._run(batch, weight)[0]

    def _step(self, batch: Tensor, weight: float) -> tuple[Tensor, ...]:
        values = []
        with fast_products(batch.device):
            for goal, optimizer in zip(self._goals, self._optimizers, strict=True):
                self._net.zero_grad(set_to_none=True)
                if self._ranks.joint:
                    values.append(self._joint_gradients(goal, batch, weight))
                else:
                    values.append(_gradients(self._net, goal, batch))
                optimizer.step()
        return (values[0],)

    def _joint_gradients(self, goal: Goal, batch: Tensor, weight: float) -> Tensor:
        """Set the gradients of the goal's parameters, averaged over all processes; return its loss here."""
        if self._shared is None:
            found = torch.autograd.grad(goal.loss(self._net, batch), goal.parameters, allow_unused=True)
            self._shared = self._ranks.wrap(self._net, all_used=all(one is not None for one in found))
        value = weight * goal.loss(self._shared, batch)
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach()


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


def _mean_loss(net: nn.Module, loss: Loss, batches: list[Tensor]) -> float:
    if not batches:
        return math.nan
    net.eval()
    with torch.no_grad():
        total = sum(float(loss(net, batch)) * len(batch) for batch in batches)
    net.train()
    return total / sum(len(batch) for batch in batches)

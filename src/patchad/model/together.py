"""Training many nets of one shape at once: their weights are stacked, and a step is one step of all of them.

A small net leaves most of a GPU idle, and its hundreds of small operations take as long as those of many nets. Each net
has its own windows, order of windows, held-out loss and early stopping, and ends with the weights that training alone
gives it, up to rounding.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patchad._kernels.backend import stacked_nets
from patchad._kernels.cuda_graphs import GraphedFunction
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.errors import InputError
from patchad.model.batches import Scaler, even_windows, random_orders
from patchad.model.training import (
    CHECK_EVERY,
    PATIENCE,
    WARM_UP,
    Loss,
    Progress,
    TrainConfig,
    diverged,
    fast_products,
    is_sound,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One net among many, and what it is trained on: arrays alone, so that another process can prepare them."""

    weights: Mapping[str, FloatArray]
    """To begin with, by name."""
    rows: FloatArray
    """(time, channel), the scaled rows of all series, end to end."""
    firsts: NDArray[np.intp]
    """(step, window of the batch), the first row of each window."""
    window: int
    """Rows of a window."""
    held_out: FloatArray
    """(b, t, c), scaled windows to stop on."""

    @classmethod
    def of(
        cls,
        net: nn.Module,
        windows: WindowSampler,
        held_out: WindowSampler,
        scale: Scaler,
        config: TrainConfig,
        *,
        seed: int,
    ) -> Self:
        """Prepare what `train` would train a net on with these arguments."""
        order = random_orders(len(windows), config.batch_size, int(config.max_steps or 0), seed)
        return cls(
            {name: parameter.detach().cpu().numpy() for name, parameter in net.named_parameters()},
            np.concatenate([scale(values) for values in windows.series]),
            windows.first_rows(order.ravel()).reshape(order.shape),
            windows.window,
            scale(even_windows(held_out)) if len(held_out) else np.empty((0, 0, 0), dtype=np.float32),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What became of one net."""

    weights: dict[str, FloatArray]
    """Those of its lowest held-out loss, or the last ones where nothing was held out."""
    history: list[Progress]


def train_together(
    net: nn.Module, members: Sequence[Member], loss: Loss, config: TrainConfig, *, device: torch.device
) -> list[Trained | InputError]:
    """Train nets of one shape; return the weights and the history of each.

    A net that diverges before it has any weights with a finite held-out loss gets an error in place of them.

    Parameters
    ----------
    net
        The shape of all: its own weights are of no account. It has no buffers that training changes.
    members
        The nets.
    loss
        `loss(net, batch)` of one net: deterministic, the same operations every time.
    config
        The budget: random windows until `max_steps`, at a constant rate.
    device
        Where to compute.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> config = TrainConfig(max_steps=100, epochs=None, batch_size=8, learning_rate=0.1)
    >>> def member(seed):
    ...     windows = WindowSampler([random.normal(size=(40, 2)).astype(np.float32)], 4)
    ...     return Member.of(nn.Linear(2, 2), windows, windows, lambda rows: rows, config, seed=seed)
    >>> def squares(net, batch):
    ...     return (net(batch) - batch).square().mean()
    >>> found = train_together(nn.Linear(2, 2), [member(0), member(1)], squares, config, device=torch.device("cpu"))
    >>> [one.history[-1].step for one in found], bool(found[0].history[-1].held_out < 0.1)
    ([100, 100], True)
    """
    if config.epochs is not None or config.max_steps is None or config.last_rate != 1:
        raise InputError("nets are trained together on random windows until max_steps, at one rate; leave epochs None")
    stack = _Stack(net, [member.weights for member in members], loss, config, device)
    checks = _checks(members, config.batch_size, device)
    draw = _sampler(members, device)
    track = _Track(len(members), stack.weights, checked=bool(checks))
    began, recent, since = time.monotonic(), torch.zeros(len(members), device=device), 0
    for step in range(1, config.max_steps + 1):
        recent += stack.step(draw(step - 1))
        since += 1
        if step % CHECK_EVERY and step < config.max_steps:
            continue
        held = stack.mean_losses(checks)
        track.update(
            Progress(step, config.max_steps, math.nan, math.nan, time.monotonic() - began), recent / since, held
        )
        logger.debug("step %d of %d: %d nets are still trained", step, config.max_steps, int((~track.ended).sum()))
        if track.ended.all():
            break
        recent, since = torch.zeros_like(recent), 0
    return track.results(config)


class _Stack:
    """Nets of one shape as one: weights with an axis of nets in front, and one optimizer."""

    def __init__(
        self,
        net: nn.Module,
        weights: Sequence[Mapping[str, FloatArray]],
        loss: Loss,
        config: TrainConfig,
        device: torch.device,
    ) -> None:
        self.weights = {
            name: torch.from_numpy(np.stack([one[name] for one in weights])).to(device).requires_grad_()
            for name in weights[0]
        }
        self._shape, self._loss = net.to(device).train(), loss
        self._optimizer = torch.optim.AdamW(
            self.weights.values(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=device.type == "cuda",
        )
        self._run = GraphedFunction(self._step, warmup=WARM_UP)
        self._check = GraphedFunction(lambda batch: (self._losses(batch).detach(),), warmup=1)

    def step(self, batch: Tensor) -> Tensor:
        """Train on a batch `(net, b, t, c)`; return the losses before the step."""
        return self._run(batch)[0]

    def mean_losses(self, batches: Sequence[Tensor]) -> Tensor:
        """Return the mean loss of each net over batches `(net, b, t, c)`; NaN where there are none."""
        if not batches:
            return torch.full((len(next(iter(self.weights.values()))),), math.nan)
        total = sum(self._check(batch)[0] * batch.shape[1] for batch in batches)
        return torch.as_tensor(total).cpu() / sum(batch.shape[1] for batch in batches)

    def _step(self, batch: Tensor) -> tuple[Tensor, ...]:
        with fast_products(batch.device):
            self._optimizer.zero_grad(set_to_none=True)
            losses = self._losses(batch)
            losses.sum().backward()  # type: ignore[no-untyped-call] # no net's loss depends on another's weights
            self._optimizer.step()
        return (losses.detach(),)

    def _losses(self, batch: Tensor) -> Tensor:
        def one(weights: dict[str, Tensor], windows: Tensor) -> Tensor:
            def net(x: Tensor) -> object:
                return torch.func.functional_call(self._shape, weights, (x,))

            return self._loss(net, windows)  # type: ignore[arg-type]

        with stacked_nets():
            losses: Tensor = torch.vmap(one)(self.weights, batch)
        return losses


class _Track:
    """Early stopping of each net: its weights with the lowest held-out loss so far."""

    def __init__(self, nets: int, weights: dict[str, Tensor], *, checked: bool) -> None:
        self._weights, self._checked = weights, checked
        self._best = {name: value.detach().clone() for name, value in weights.items()}
        self._lowest, self._stale = torch.full((nets,), math.inf), torch.zeros(nets, dtype=torch.int64)
        self.ended = torch.zeros(nets, dtype=torch.bool)
        """Nets whose training has come to its end, whatever further steps make of them."""
        self._histories: list[list[Progress]] = [[] for _ in range(nets)]
        self._last: list[Progress] = [Progress(0, 0, 0.0, math.nan, 0.0)] * nets

    def update(self, now: Progress, losses: Tensor, held: Tensor) -> None:
        """Note the mean training loss and the held-out loss of every net; keep the best weights."""
        losses = losses.cpu()
        sound = torch.tensor([is_sound(float(loss)) for loss in losses])
        for number in np.flatnonzero(~self.ended.numpy()).tolist():
            self._last[number] = Progress(now.step, now.steps, float(losses[number]), float(held[number]), now.seconds)
            if sound[number]:
                self._histories[number].append(self._last[number])
        better = ~self.ended & sound & (held < self._lowest) & torch.tensor([is_sound(float(one)) for one in held])
        self._keep(better if self._checked else ~self.ended & sound)
        self._lowest = torch.where(better, held, self._lowest)
        self._stale = torch.where(better, 0, self._stale + 1)
        self.ended |= ~sound
        if self._checked:
            self.ended |= self._stale >= PATIENCE

    def _keep(self, which: Tensor) -> None:
        for name, value in self._weights.items():
            own = which.to(value.device).view(-1, *([1] * (value.ndim - 1)))
            self._best[name] = torch.where(own, value.detach(), self._best[name])

    def results(self, config: TrainConfig) -> list[Trained | InputError]:
        """Return the best weights of each net, or the last where none were checked; or why there are none."""
        best = {name: value.cpu().numpy() for name, value in self._best.items()}
        return [self._result(number, best, config) for number in range(len(self._last))]

    def _result(self, number: int, best: Mapping[str, FloatArray], config: TrainConfig) -> Trained | InputError:
        last = self._last[number]
        if not (self._lowest[number].isfinite() if self._checked else is_sound(last.loss)):
            return InputError(diverged(last, config))
        if not is_sound(last.loss):
            logger.warning("%s; the weights with the lowest held-out loss are used", diverged(last, config))
        return Trained({name: value[number] for name, value in best.items()}, self._histories[number])


def _checks(members: Sequence[Member], size: int, device: torch.device) -> list[Tensor]:
    """Return the held-out windows of all nets in batches `(net, b, t, c)`."""
    if len({len(member.held_out) for member in members}) > 1:
        raise InputError("nets that are trained together need equally many held-out windows")
    held_out = torch.from_numpy(np.stack([member.held_out for member in members]))
    return [batch.to(device) for batch in torch.split(held_out, size, dim=1)] if held_out.shape[1] else []


def _sampler(members: Sequence[Member], device: torch.device) -> Callable[[int], Tensor]:
    """Copy the scaled rows of all nets to the device once; return a function that cuts the windows of a step there."""
    begins = np.cumsum([0, *(len(member.rows) for member in members[:-1])])
    first: NDArray[np.intp] = np.stack(
        [begin + member.firsts for begin, member in zip(begins, members, strict=True)], axis=1
    )  # step, net, window of the batch
    firsts = torch.from_numpy(first).to(device)
    every = torch.from_numpy(np.concatenate([member.rows for member in members])).to(device)
    steps = torch.arange(members[0].window, device=device)
    return lambda step: every[firsts[step][..., None] + steps]

"""Training many nets of one shape at once: their weights are stacked, and a step is one step of all of them.

A small net leaves most of a GPU idle, and its hundreds of small operations take as long as those of many nets. Each net
has its own windows, order of windows, held-out loss and early stopping, and ends with the weights that training alone
gives it, up to rounding.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patchad._kernels.backend import stacked_nets
from patchad._kernels.cuda_graphs import GraphedFunction
from patchad.data.windows import WindowSampler
from patchad.errors import InputError
from patchad.model.batches import Scaler, even_windows, random_orders, scaled_rows
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


@dataclass(frozen=True, slots=True)
class Member:
    """One net among many, and what it is trained on."""

    net: nn.Module
    windows: WindowSampler
    held_out: WindowSampler
    scale: Scaler
    """Turns raw windows into the input of the net."""
    seed: int
    """For the order of the windows."""


def train_together(
    members: Sequence[Member], loss: Loss, config: TrainConfig, *, device: torch.device
) -> list[list[Progress] | InputError]:
    """Train nets in place, each left with the weights of its lowest held-out loss; return the history of each.

    A net that diverges before it has any weights with a finite held-out loss gets an error in place of its history.

    Parameters
    ----------
    members
        Nets of one shape, without buffers that training changes.
    loss
        `loss(net, batch)` of one net: deterministic, the same operations every time.
    config
        The budget: random windows until `max_steps`, at a constant rate.
    device
        Where to compute.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> def member(seed):
    ...     torch.manual_seed(seed)
    ...     windows = WindowSampler([random.normal(size=(40, 2)).astype(np.float32)], 4)
    ...     return Member(nn.Linear(2, 2), windows, windows, lambda rows: rows, seed)
    >>> def squares(net, batch):
    ...     return (net(batch) - batch).square().mean()
    >>> config = TrainConfig(max_steps=100, epochs=None, batch_size=8, learning_rate=0.1)
    >>> histories = train_together([member(0), member(1)], squares, config, device=torch.device("cpu"))
    >>> [history[-1].step for history in histories], bool(histories[0][-1].held_out < 0.1)
    ([100, 100], True)
    """
    if config.epochs is not None or config.max_steps is None or config.last_rate != 1:
        raise InputError("nets are trained together on random windows until max_steps, at one rate; leave epochs None")
    for member in members:
        member.net.to(device).train()
    stack = _Stack([member.net for member in members], loss, config, device)
    checks = _checks(members, config.batch_size, device)
    draw = _sampler(members, config, device)
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
    return [track.restore(number, member.net, config) for number, member in enumerate(members)]


class _Stack:
    """Nets of one shape as one: weights with an axis of nets in front, and one optimizer."""

    def __init__(self, nets: Sequence[nn.Module], loss: Loss, config: TrainConfig, device: torch.device) -> None:
        self.weights, _ = torch.func.stack_module_state(list(nets))
        self._shape, self._loss = copy.deepcopy(nets[0]), loss
        self._optimizer = torch.optim.AdamW(
            self.weights.values(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=device.type == "cuda",
        )
        self._run = GraphedFunction(self._step, warmup=WARM_UP)

    def step(self, batch: Tensor) -> Tensor:
        """Train on a batch `(net, b, t, c)`; return the losses before the step."""
        return self._run(batch)[0]

    def mean_losses(self, batches: Sequence[Tensor]) -> Tensor:
        """Return the mean loss of each net over batches `(net, b, t, c)`; NaN where there are none."""
        if not batches:
            return torch.full((len(next(iter(self.weights.values()))),), math.nan)
        total = sum(self._losses(batch).detach() * batch.shape[1] for batch in batches)
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

    def restore(self, number: int, net: nn.Module, config: TrainConfig) -> list[Progress] | InputError:
        """Give a net its best weights, or the last where none were checked; return its history, or why it has none."""
        last = self._last[number]
        if not (self._lowest[number].isfinite() if self._checked else is_sound(last.loss)):
            return InputError(diverged(last, config))
        if not is_sound(last.loss):
            logger.warning("%s; the weights with the lowest held-out loss are used", diverged(last, config))
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter.copy_(self._best[name][number])
        net.eval()
        return self._histories[number]


def _checks(members: Sequence[Member], size: int, device: torch.device) -> list[Tensor]:
    """Return the held-out windows of all nets in batches `(net, b, t, c)`."""
    own = [even_windows(member.held_out) for member in members]
    if len({len(windows) for windows in own}) > 1:
        raise InputError("nets that are trained together need equally many held-out windows")
    scaled = torch.from_numpy(np.stack([member.scale(one) for member, one in zip(members, own, strict=True)]))
    return [batch.to(device) for batch in torch.split(scaled, size, dim=1)] if scaled.shape[1] else []


def _sampler(members: Sequence[Member], config: TrainConfig, device: torch.device) -> Callable[[int], Tensor]:
    """Copy the scaled rows of all nets to the device once; return a function that cuts the windows of a step there."""
    rows = [scaled_rows(member.windows, member.scale, device) for member in members]
    begins = np.cumsum([0, *(len(own) for own in rows[:-1])])
    size, steps_taken = config.batch_size, int(config.max_steps or 0)
    orders = [random_orders(len(member.windows), size, steps_taken, member.seed) for member in members]
    first: NDArray[np.intp] = np.stack(
        [
            begin + member.windows.first_rows(order.ravel()).reshape(order.shape)
            for begin, member, order in zip(begins, members, orders, strict=True)
        ],
        axis=1,
    )  # step, net, window of the batch
    firsts, every = torch.from_numpy(first).to(device), torch.cat(rows)
    steps = torch.arange(members[0].windows.window, device=device)
    return lambda step: every[firsts[step][..., None] + steps]

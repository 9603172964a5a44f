"""Make pretrained weights: one net for each window, one channel at a time, on many families, drawn equally.

    python -m training.pretrain --data DIR --out weights.safetensors --device cuda
    python -m training.pretrain --data DIR --out without-smd.safetensors --leave-out SMD

The same seed, steps and machine give the same weights. `--seconds` ends training earlier on a slow machine; the card in
the file says how many steps were done.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad import __version__
from patchad.model.loss import ObjectiveConfig, view_loss
from patchad.model.net import PatchADNet, ScaleOutput
from patchad.model.pretrained import Shape, write_weights
from patchad.model.randomness import seeded
from patchad.model.training import Goal, TrainStep
from training.faults import with_faults
from training.sources import LICENSED, FloatArray, channels, licences

WINDOWS = {120: 0.5, 60: 0.22, 30: 0.15, 15: 0.13}
"""Windows, and the share of the time that each may take."""
OBJECTIVE = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
SCALE, OFFSET, NOISE = 0.4, 0.5, 0.1
"""Random changes of a window: deviation of the logarithm of its size, of its level, and of the size of white noise."""
LEARNING_RATE = 2e-3
WARM_UP = 100
"""Steps until the learning rate has been reached; then it falls as a cosine."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to train."""

    out: Path
    data: Path | None = None
    leave_out: str | None = None
    seconds: float = math.inf
    """Most seconds for all windows together."""
    steps: int = 3_000
    """Most steps for each window."""
    batch: int = 2_048
    d_model: int = 16
    layers: int = 2
    faults: float = 0.5
    """Share of the windows that get a fault, which the net has to repair."""
    device: str = "cpu"
    seed: int = 0
    most: int | None = None
    """Most entities of a family; None: all."""

    @property
    def families(self) -> tuple[str, ...]:
        """The public families to train on."""
        return () if self.data is None else tuple(name for name in LICENSED if name != self.leave_out)


class Corpus:
    """All channels on the device; a window is drawn by family, then by channel, then by place, each evenly."""

    def __init__(self, found: Mapping[str, Sequence[FloatArray]], window: int, device: torch.device) -> None:
        families = [[one for one in some if len(one) >= window] for some in found.values()]
        families = [some for some in families if some]
        rows = [one for some in families for one in some]
        self._values = torch.from_numpy(np.concatenate(rows)).to(device)
        lengths = np.array([len(one) for one in rows])
        counts = np.array([len(some) for some in families])
        self._starts = torch.from_numpy(np.cumsum(lengths) - lengths).to(device)
        self._places = torch.from_numpy(lengths - window + 1).to(device)
        self._first = torch.from_numpy(np.cumsum(counts) - counts).to(device)
        self._counts = torch.from_numpy(counts).to(device)
        self._steps = torch.arange(window, device=device)

    def draw(self, batch: int, generator: torch.Generator) -> Tensor:
        """Draw windows `(b, t, 1)`, changed at random."""
        device = self._values.device

        def random(*size: int) -> Tensor:
            return torch.rand(batch, *size, generator=generator, device=device)

        def normal(*size: int) -> Tensor:
            return torch.randn(batch, *size, generator=generator, device=device)

        family = (random() * len(self._counts)).long()
        channel = self._first[family] + (random() * self._counts[family]).long()
        start = self._starts[channel] + (random() * self._places[channel]).long()
        windows = self._values[start[:, None] + self._steps]
        sign = torch.where(random(1) < 0.5, -1.0, 1.0)
        noise = NOISE * normal(1).abs() * (random(1) < 0.5) * normal(len(self._steps))
        changed = sign * (SCALE * normal(1)).exp() * windows + OFFSET * normal(1) + noise
        return changed.clamp(-20, 20)[..., None]


@dataclass(frozen=True)
class Repair:
    """The loss of windows `(b, t, 2)` with faults, beside what they are without: views agree where there are none."""

    clean: int
    """The first so many windows have no fault."""

    def __call__(self, net: nn.Module, batch: Tensor) -> Tensor:
        """Return the agreement of the views of clean windows, and the error of the reconstruction of all."""
        seen, target = batch.split(1, dim=2)
        outputs = net(seen)
        views = [view_loss(self._first(out), OBJECTIVE) for out in outputs]
        return torch.stack(views + [functional.mse_loss(out.reconstruction, target) for out in outputs]).sum()

    def _first(self, out: ScaleOutput) -> ScaleOutput:
        inter, intra, inter_projected, intra_projected = (
            None if view is None else view[:, :, : self.clean]
            for view in (out.inter, out.intra, out.inter_projected, out.intra_projected)
        )
        return ScaleOutput(inter, intra, inter_projected, intra_projected, None, None)


def pretrain(plan: Plan) -> dict[str, Any]:
    """Train a net for each window and write all of them; return the facts of the card."""
    device = torch.device(plan.device)
    found = channels(plan.data, plan.families, seed=plan.seed, most=plan.most)
    shape = Shape((3, 5), plan.d_model, plan.layers)
    nets, reports = {}, {}
    for window, share in WINDOWS.items():
        nets[window], reports[window] = _train(plan, shape, Corpus(found, window, device), window, plan.seconds * share)
    facts = {
        "version": __version__,
        "seed": plan.seed,
        "batch": plan.batch,
        "faults": plan.faults,
        "families": licences(plan.families),
        "left_out": plan.leave_out,
        "generated": [name for name in found if name not in plan.families],
        "channels": {name: len(some) for name, some in found.items()},
        "training": reports,
    }
    plan.out.parent.mkdir(parents=True, exist_ok=True)
    write_weights(plan.out, shape, nets, facts)
    return facts


def _train(plan: Plan, shape: Shape, corpus: Corpus, window: int, seconds: float) -> tuple[PatchADNet, dict[str, Any]]:
    """Train the net of a window until its steps or its seconds are over."""
    device = torch.device(plan.device)
    with seeded(plan.seed, torch.device("cpu")):
        net = PatchADNet(shape.config(1, window))
    net.to(device).train()
    generator = torch.Generator(device).manual_seed(plan.seed)
    rate = torch.tensor(LEARNING_RATE, device=device)
    # A captured step reads its learning rate from a tensor.
    optimizer = torch.optim.Adam(net.parameters(), lr=rate, fused=True, capturable=device.type == "cuda")
    goal = Goal(list(net.parameters()), Repair(plan.batch - round(plan.batch * plan.faults)), capturable=True)
    train_step = TrainStep(net, [goal], [optimizer])
    began, recent, step, last = time.monotonic(), torch.zeros((), device=device), 0, 0.0
    while step < plan.steps:
        if step % 25 == 0 and device.type == "cuda":
            torch.cuda.synchronize()  # so that time means work that is done
        done = max(step / plan.steps, (time.monotonic() - began) / seconds)
        if done >= 1:
            break
        rate.fill_(LEARNING_RATE * min((step + 1) / WARM_UP, 1.0) * (0.5 + 0.5 * math.cos(math.pi * done)))
        recent = 0.98 * recent + 0.02 * train_step(
            with_faults(corpus.draw(plan.batch, generator), goal.loss.clean, generator)
        )
        step += 1
        if step % 500 == 0 or step == plan.steps:
            last = float(recent / (1 - 0.98**step))
            print(f"window {window}: step {step}, loss {last:.4f}, {time.monotonic() - began:.0f} s", flush=True)
    last = float(recent / (1 - 0.98 ** max(step, 1)))
    if not math.isfinite(last):
        raise SystemExit(f"training diverged: the loss of window {window} is {last} at step {step}")
    return net.eval(), {"steps": step, "loss": round(last, 4), "seconds": round(time.monotonic() - began, 1)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how each set of weights is trained."""
    parser.add_argument("--data", type=Path, help="folder of the public families; without it only generated channels")
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="most seconds for all windows together")
    parser.add_argument("--steps", type=int, default=Plan.steps, help="most steps for each window")
    parser.add_argument("--batch", type=int, default=Plan.batch)
    parser.add_argument("--d-model", type=int, default=Plan.d_model)
    parser.add_argument("--layers", type=int, default=Plan.layers)
    parser.add_argument("--faults", type=float, default=Plan.faults, help="share of windows with faults to repair")
    parser.add_argument("--device", default=Plan.device)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--most", type=int, help="most entities of a family, to try it out")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--leave-out", choices=LICENSED, help="family to train without")
    add_options(parser)
    print(pretrain(Plan(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()

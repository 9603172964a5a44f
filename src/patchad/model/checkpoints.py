"""The state of a training, kept in a file, so that one that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from patchad.data.files import write_whole
from patchad.data.table import FloatArray


@dataclass(frozen=True, slots=True)
class TrainingState:
    """What training goes on from: all of it belongs to one step."""

    step: int
    weights: Mapping[str, Tensor]
    optimizers: Sequence[Mapping[int, Mapping[str, Tensor]]]
    """The state of each optimizer, by the number of the parameter."""
    best: Mapping[str, Tensor] | None
    """The weights with the lowest held-out loss so far."""
    lowest: float
    stale: int
    """Checks since then."""
    history: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """A file with the state of one training; another one's is as good as none."""

    path: Path
    key: str
    """Of what is trained on what, and how."""

    def write(self, state: TrainingState) -> None:
        """Replace the file."""
        arrays = {f"net.{name}": value for name, value in state.weights.items()}
        arrays |= {f"best.{name}": value for name, value in (state.best or {}).items()}
        for number, optimizer in enumerate(state.optimizers):
            for parameter, values in optimizer.items():
                arrays |= {f"optimizer.{number}.{parameter}.{name}": value for name, value in values.items()}
        facts = {"key": self.key, "step": state.step, "lowest": state.lowest, "stale": state.stale}
        facts["history"] = list(state.history)
        stored = {name: value.detach().cpu().clone() for name, value in arrays.items()}
        write_whole({self.path: save(stored, metadata={"training": json.dumps(facts)})})

    def read(self) -> TrainingState | None:
        """Return the state; None where there is none, or it belongs to another training."""
        try:
            with safe_open(self.path, framework="pt") as file:
                facts = json.loads((file.metadata() or {})["training"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError, KeyError, ValueError):
            return None
        if facts.get("key") != self.key:
            return None
        optimizers: list[dict[int, dict[str, Tensor]]] = []
        for name, value in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                number, parameter, what = rest.split(".")
                optimizers += [{} for _ in range(int(number) + 1 - len(optimizers))]
                optimizers[int(number)].setdefault(int(parameter), {})[what] = value
        return TrainingState(
            step=facts["step"],
            weights=_under("net.", arrays),
            optimizers=optimizers,
            best=_under("best.", arrays) or None,
            lowest=facts["lowest"],
            stale=facts["stale"],
            history=facts["history"],
        )


def training_key(net: nn.Module, series: Sequence[FloatArray], *facts: Any) -> str:
    """Return a hash of the shape of a net, its data, and whatever else must be the same for training to go on."""
    shapes = [(name, tuple(value.shape)) for name, value in net.state_dict().items()]
    found = hashlib.sha256(repr((shapes, [values.shape for values in series], facts)).encode())
    for values in series:
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    """Return the tensors of an optimizer, by the number of the parameter."""
    found: dict[int, dict[str, Tensor]] = optimizer.state_dict()["state"]
    return found


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[int, Mapping[str, Tensor]]) -> None:
    """Give an optimizer the tensors of another one of the same parameters."""
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": {number: dict(own) for number, own in state.items()}, "param_groups": groups})


def history_of(progress: Sequence[Any]) -> list[dict[str, Any]]:
    """Return checks as plain values."""
    return [asdict(one) for one in progress]


def _under(prefix: str, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}

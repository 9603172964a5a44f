"""Pretrained weights: nets that see one channel at a time, so that they serve any number of channels.

One file holds a net for each of several windows, in half precision, and a card that says what they were trained on.
The file that is shipped with the package is called `pretrained`; `training.pretrain` makes it, and others like it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patchad.data.files import write_whole
from patchad.errors import InputError, ModelFileError, listed
from patchad.model.net import NetConfig, PatchADNet
from patchad.model.randomness import seeded

SHIPPED = "pretrained"
"""The name of the weights that come with the package."""
FILE = Path(__file__).with_name("pretrained.safetensors")
LONGEST, NARROWEST = 120, 8
"""The window whose net has the full width, and the width of the narrowest net."""
WITHOUT = "without-"
"""How the names of weights begin that never saw the family that is named next."""
MOST_WIDTH = 1024
"""A wider net is not built to compare it with a file."""
CARD = "card"
"""Where the card is in the metadata of the file."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is not the same in all pretrained nets."""

    patch_sizes: tuple[int, ...]
    d_model: int
    """Width of the net of the longest window; others are narrower in proportion, so that none can just copy."""
    layers: int

    def config(self, channels: int, window: int) -> NetConfig:
        """Return the configuration of a net in which no channel sees another."""
        return NetConfig(
            channels=channels,
            window=window,
            patch_sizes=self.patch_sizes,
            d_model=max(self.d_model * window // LONGEST, min(self.d_model, NARROWEST)),
            layers=self.layers,
            layers_mode="stacked",
            activation="gelu",
            view_pooling="none",
            share_channel_mixer=True,
            channel_mixer=False,
            mixrep_mixer=True,
            positional_embedding=False,
            projection=True,
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the weights of a net come from."""

    digest: str
    """SHA-256 of the file of weights."""
    shape: Shape


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Pretrained nets, by window."""

    shape: Shape
    nets: Mapping[int, Mapping[str, NDArray[Any]]]
    """By window, from the shortest on: the arrays of a net, by name."""
    card: Mapping[str, Any]
    """What they were trained on, and how."""
    digest: str
    """SHA-256 of the file."""

    @property
    def origin(self) -> Origin:
        """What a model file says of them."""
        return Origin(self.digest, self.shape)

    def window(self, most: int) -> int:
        """Return the longest window of at most `most` rows; the shortest where all are longer."""
        return max((window for window in self.nets if window <= most), default=min(self.nets))

    def load_into(self, net: PatchADNet) -> None:
        """Give a net of one of the windows its weights."""
        arrays = self.nets[net.config.window]
        net.load_state_dict({name: torch.from_numpy(array.astype(np.float32)) for name, array in arrays.items()})


def read_weights(name: str) -> Weights:
    """Read the weights of this name: `pretrained`, or a file that `training.pretrain` wrote.

    Examples
    --------
    >>> weights = read_weights("pretrained")
    >>> list(weights.nets), weights.shape
    ([15, 30, 60, 120], Shape(patch_sizes=(3, 5), d_model=16, layers=2))
    """
    path = FILE if name == SHIPPED else Path(name)
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        raise InputError(f"there are no weights {name!r}; use 'pretrained', or a file of pretrained weights") from None
    return _read(path, changed)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> Weights:  # noqa: ARG001 - a file that changed is read again
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = path.read_bytes()
    try:
        arrays = load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
        card = json.loads(metadata[CARD])
        shape = Shape(tuple(card["patch_sizes"]), card["d_model"], card["layers"])
        windows = sorted(card["windows"])
        nets = {window: _of_window(arrays, window) for window in windows}
        for window, own in nets.items():
            _check(own, shape.config(1, window))
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"{str(path)!r} holds no pretrained weights ({error})") from None
    return Weights(shape, nets, card, hashlib.sha256(content).hexdigest())


def _of_window(arrays: Mapping[str, NDArray[Any]], window: int) -> dict[str, NDArray[Any]]:
    start = f"{window}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _check(arrays: Mapping[str, NDArray[Any]], config: NetConfig) -> None:
    if config.layers > len(arrays) or config.d_model > MOST_WIDTH:
        raise ValueError(f"no net has {config.layers} layers of width {config.d_model} and {len(arrays)} arrays")
    with seeded(0, torch.device("cpu")):  # on torch's meta device it would load hundreds of modules
        expected = PatchADNet(config).state_dict()
    wrong = [name for name, tensor in expected.items() if arrays[name].shape != tuple(tensor.shape)]
    if wrong or len(arrays) != len(expected):
        raise ValueError(f"arrays of window {config.window} do not fit: {listed(wrong or tuple(arrays))}")


def seen_families() -> tuple[str, ...]:
    """Return the datasets that the weights in the package were trained on.

    Examples
    --------
    >>> "SMD" in seen_families(), "UCR" in seen_families()
    (True, False)
    """
    return tuple(read_weights(SHIPPED).card["families"])


def unseen_weights(folder: Path, family: str) -> Path:
    """Return the file of the weights in a folder that never saw a family, where there is one.

    Examples
    --------
    >>> unseen_weights(Path("weights"), "SMD").name
    'without-SMD.safetensors'
    """
    return folder / f"{WITHOUT}{family}.safetensors"


def write_weights(path: Path, shape: Shape, nets: Mapping[int, PatchADNet], facts: Mapping[str, Any]) -> None:
    """Write nets by window, rounded to half precision, with a card of these facts."""
    from safetensors.numpy import save

    arrays = {
        f"{window}.{name}": tensor.detach().cpu().numpy().astype(np.float16)
        for window, net in sorted(nets.items())
        for name, tensor in net.state_dict().items()
    }
    card = {
        "patch_sizes": list(shape.patch_sizes),
        "d_model": shape.d_model,
        "layers": shape.layers,
        "windows": sorted(nets),
        **facts,
    }
    write_whole({path: save(arrays, {CARD: json.dumps(card)})})

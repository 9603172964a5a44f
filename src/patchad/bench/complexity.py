"""How parameters and operations grow along each axis: channels C, patches N, patch size P, width D."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from patchad.model.net import MixerLayer, NetConfig

Axis = Literal["C", "N", "P", "D"]
AXES: tuple[Axis, ...] = ("C", "N", "P", "D")
BASE: Mapping[Axis, int] = {"C": 16, "N": 16, "P": 16, "D": 16}
"""Small and equal, so that no term hides another."""
LARGE = 512
"""The size that one axis grows to; doubling it once more shows the exponent that dominates."""


def mixer_layer(sizes: Mapping[Axis, int]) -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return an encoder layer of the paper, and a call that runs it on one window."""
    config = NetConfig(
        channels=sizes["C"],
        window=sizes["N"] * sizes["P"],
        patch_sizes=(sizes["P"],),
        d_model=sizes["D"],
        layers=1,
        layers_mode="stacked",
        activation="gelu",
        view_pooling="mean",
        share_channel_mixer=True,
        channel_mixer=True,
        mixrep_mixer=True,
        positional_embedding=True,
        projection=True,
    )
    layer = MixerLayer(config, sizes["N"], sizes["P"])
    views = torch.zeros(sizes["C"], sizes["N"] + sizes["P"], 1, sizes["D"])
    return layer, lambda: layer(views)


def attention_layer(sizes: Mapping[Axis, int]) -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return a layer of attention over the same positions, channel by channel, and a call that runs it."""
    width = sizes["D"]
    layer = nn.ModuleList([nn.Linear(width, width) for _ in range(6)])
    views = torch.zeros(sizes["C"], sizes["N"] + sizes["P"], width)

    def run() -> Tensor:
        query, key, value, out, widen, narrow = layer
        weights = torch.softmax(query(views) @ key(views).transpose(1, 2), -1)
        attended: Tensor = views + out(weights @ value(views))
        changed: Tensor = narrow(torch.relu(widen(attended)))
        return attended + changed

    return layer, run


LAYERS = {"mixers": mixer_layer, "attention": attention_layer}


def count(kind: str, sizes: Mapping[Axis, int]) -> tuple[int, int]:
    """Return the parameters of a layer, and its operations on one window as torch counts them.

    Examples
    --------
    >>> parameters, operations = count("mixers", BASE)
    >>> parameters < operations
    True
    """
    with torch.device("meta"), FlopCounterMode(display=False) as counter:  # no values, so nothing is computed
        layer, run = LAYERS[kind](sizes)
        run()
    return sum(one.numel() for one in layer.parameters()), int(counter.get_total_flops())


def growth(kind: str, axis: Axis) -> tuple[float, float]:
    """Return the exponents with which parameters and operations grow when a large axis doubles.

    Examples
    --------
    >>> parameters, operations = growth("mixers", "C")
    >>> round(parameters), round(operations)
    (2, 2)
    """
    ends = [count(kind, {**BASE, axis: size}) for size in (LARGE, 2 * LARGE)]
    first, second = (math.log2(ends[1][n] / ends[0][n]) for n in (0, 1))
    return first, second

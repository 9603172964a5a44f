"""The net, loss and score of the paper's public code, step by step from the weights of `PatchADNet`.

Nothing is shared with the package but the names of the weights. Tensors are `(b, c, n or p, d)`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

Weights = dict[str, Tensor]
EPSILON = 1e-7


class LayerOutput(NamedTuple):
    """One layer of one scale: distributions of the views, of their projections, and the reconstruction."""

    inter: Tensor  # b n d
    intra: Tensor  # b p d
    inter_projected: Tensor  # b n d
    intra_projected: Tensor  # b p d
    rebuilt: Tensor | None  # b t c


def forward(weights: Weights, x: Tensor, patch_sizes: tuple[int, ...], layers: int, trainer: int) -> list[LayerOutput]:
    """Return the outputs of all layers of all scales for windows `(b, t, c)`, without dropout."""
    _, steps, channels = x.shape
    mean = x.mean(dim=1, keepdim=True)
    x = (x - mean) / torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + 1e-5)
    outputs = []
    for number, size in enumerate(patch_sizes):
        x = x + positions(steps, channels)  # again for every scale
        patches = steps // size
        by_channel = x.transpose(1, 2)
        inter = linear(weights, f"scales.{number}.embed_inter", by_channel.reshape(-1, channels, patches, size))
        intra = linear(weights, f"scales.{number}.embed_intra", by_channel.reshape(-1, channels, size, patches))
        for layer in range(layers):
            if layer and trainer == 2:
                inter, intra = torch.relu(inter), torch.relu(intra)
            outputs.append(_layer(weights, number, layer, inter, intra, trainer))
    return outputs


def _layer(weights: Weights, scale: int, layer: int, inter: Tensor, intra: Tensor, trainer: int) -> LayerOutput:
    at = f"scales.{scale}.layers.{layer}"
    for name, axis in (("channel_inter", 1), ("inter", 2), ("mixrep", 3)):
        inter = mixer(weights, f"{at}.{name}", inter, axis, trainer)
    for name, axis in (("channel_inter", 1), ("intra", 2), ("mixrep", 3)):
        intra = mixer(weights, f"{at}.{name}", intra, axis, trainer)
    head = f"scales.{scale}"
    rebuilt = None
    if trainer == 2:
        share = weights[f"{head}.rec_share"]
        one, other = (rebuild(weights, f"{head}.rec_{v}", view) for v, view in (("inter", inter), ("intra", intra)))
        rebuilt = share * one + (1 - share) * other
    return LayerOutput(
        inter.softmax(-1).mean(1),
        intra.softmax(-1).mean(1),
        project(weights, "scales.0.project_inter", inter.mean(1), trainer).softmax(-1),
        project(weights, "scales.0.project_intra", intra.mean(1), trainer).softmax(-1),
        rebuilt,
    )


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Multiply by a matrix, add a bias."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    """LayerNorm over the last axis."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def activate(x: Tensor, trainer: int) -> Tensor:
    """Trainer 1 has GELU, trainer 2 ReLU."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2))) if trainer == 1 else x.clamp_min(0)


def mixer(weights: Weights, name: str, x: Tensor, axis: int, trainer: int) -> Tensor:
    """Swap the axis with the last one, mix, swap back."""
    x = torch.transpose(x, axis, -1)
    hidden = norm(weights, f"{name}.branch.0", x) if trainer == 2 else x
    hidden = activate(linear(weights, f"{name}.branch.1", hidden), trainer)
    hidden = norm(weights, f"{name}.branch.3", hidden) if trainer == 2 else hidden
    mixed = linear(weights, f"{name}.branch.4", hidden) + linear(weights, f"{name}.skip", x)
    return torch.transpose(mixed, axis, -1)


def project(weights: Weights, name: str, x: Tensor, trainer: int) -> Tensor:
    """Project `(b, n or p, d)`: linear in trainer 1, normed with ReLU in trainer 2; x is added."""
    if trainer == 1:
        return x + linear(weights, f"{name}.branch.4", linear(weights, f"{name}.branch.1", x))
    hidden = activate(linear(weights, f"{name}.branch.1", norm(weights, f"{name}.branch.0", x)), trainer)
    return x + linear(weights, f"{name}.branch.4", norm(weights, f"{name}.branch.3", hidden))


def rebuild(weights: Weights, name: str, view: Tensor) -> Tensor:
    """Reconstruct `(b, t, c)` from `(b, c, n or p, d)`."""
    hidden = torch.sigmoid(linear(weights, f"{name}.1", norm(weights, f"{name}.0", view.flatten(2))))
    return linear(weights, f"{name}.4", norm(weights, f"{name}.3", hidden)).transpose(1, 2)


def positions(steps: int, columns: int) -> Tensor:
    """Sines and cosines in turn, `(t, c)`."""
    table = torch.zeros(steps, columns)
    for step in range(steps):
        for column in range(columns):
            angle = step * math.exp((column - column % 2) * -math.log(10_000.0) / columns)
            table[step, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def kl(p: Tensor, q: Tensor) -> Tensor:
    """Kullback-Leibler divergence along the last axis."""
    return (p * (torch.log(p + EPSILON) - torch.log(q + EPSILON))).sum(-1)


def upsampled(inter: Tensor, intra: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat each patch, tile the positions: both `(b, t, d)`."""
    patches, size = inter.shape[1], intra.shape[1]
    return inter.repeat_interleave(size, dim=1), intra.repeat(1, patches, 1)


def distance(outputs: list[LayerOutput]) -> Tensor:
    """Return the symmetric divergence at every step `(b, t)`, averaged over layers and scales."""
    found = []
    for out in outputs:
        inter, intra = upsampled(out.inter, out.intra)
        found.append(kl(inter, intra) + kl(intra, inter))
    return torch.stack(found).mean(0)


def loss(outputs: list[LayerOutput], target: Tensor, c: float, trainer: int) -> Tensor:
    """Return the trainer's loss for z-scored windows `(b, t, c)`."""

    def difference(one: Tensor, other: Tensor) -> Tensor:
        n, p = upsampled(one, other)
        of_n = (kl(n, p.detach()) + kl(p.detach(), n)).mean()
        of_p = (kl(n.detach(), p) + kl(p, n.detach())).mean()
        return of_n - of_p

    constraint = sum(difference(o.inter, o.intra_projected) + difference(o.inter_projected, o.intra) for o in outputs)
    contrast = sum(difference(o.inter, o.intra) for o in outputs) / len(outputs)
    value = c * constraint + (1 - c) * contrast
    if trainer == 1:
        return value
    rebuilt = torch.stack([out.rebuilt for out in outputs]).mean(0)
    return 10 * functional.mse_loss(rebuilt, target) - value

"""Nets whose attention maps are compared: a point is anomalous where its two maps relate unlike in train."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from patchad.data.table import FloatArray
from patchad.data.windows import shrink_window
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError
from patchad.model.net import sinusoids

SMALL = 1e-4
"""Added to a probability before its logarithm, as in the public code of both methods."""


def symmetric_kl(one: Tensor, other: Tensor) -> Tensor:
    """Return the symmetric KL divergence of distributions `(..., key)`: `(...)`."""
    return ((one - other) * ((one + SMALL) / (other + SMALL)).log()).sum(-1)


def reverse_gradient(view: Tensor) -> Tensor:
    """Return the same values with the sign of the gradient reversed.

    `symmetric_kl(reverse_gradient(one), other)` has the gradient of the pair of losses of both methods, each with a
    stopped gradient: `other` is pulled towards a fixed `one`, and `one` is pushed away from a fixed `other`.
    """
    return 2 * view.detach() - view


class Embedding(nn.Module):
    """A circular convolution plus sinusoidal positions."""

    positions: Tensor

    def __init__(self, inputs: int, width: int, steps: int) -> None:
        super().__init__()
        self.values = nn.Conv1d(inputs, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.values.weight, mode="fan_in", nonlinearity="leaky_relu")
        self.register_buffer("positions", sinusoids(steps, width), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """`(b, t, inputs)` to `(b, t, width)`."""
        embedded: Tensor = self.values(rows.transpose(1, 2)).transpose(1, 2) + self.positions
        return embedded


class AnomalyAttention(nn.Module):
    """Attention beside a prior: a Gaussian of learned width around each point."""

    squared_distances: Tensor

    def __init__(self, width: int, heads: int, steps: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.sigma = nn.Linear(width, heads)
        self.out = nn.Linear(width, width)
        positions = torch.arange(steps, dtype=torch.float32)
        self.register_buffer("squared_distances", (positions[:, None] - positions).square(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the attention's output, `(b, t, width)`, and the series and prior association, `(b, head, t, t)`."""
        b, t, width = x.shape
        query, key, value = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        series = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
        # The public code's range for the width of the Gaussian: from nearly 0 to 2 rows.
        sigma = 3 ** (torch.sigmoid(5 * self.sigma(x)) + 1e-5) - 1
        prior = torch.exp(-self.squared_distances / (2 * sigma.transpose(1, 2)[..., None].square()))
        out: Tensor = self.out((series @ value).transpose(1, 2).reshape(b, t, width))
        return out, series, prior / prior.sum(-1, keepdim=True)


class AnomalyBlock(nn.Module):
    """Anomaly attention and a feed-forward net, each with a residual connection and a norm after it."""

    def __init__(self, width: int, heads: int, steps: int) -> None:
        super().__init__()
        self.attention = AnomalyAttention(width, heads, steps)
        self.feedforward = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next layer's input and both associations."""
        mixed, series, prior = self.attention(x)
        x = self.norms[0](x + mixed)
        return self.norms[1](x + self.feedforward(x)), series, prior


class AnomalyTransformerNet(nn.Module):
    """Embedding, blocks, and a linear map back to the channels."""

    def __init__(self, channels: int, steps: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embedding = Embedding(channels, width, steps)
        self.blocks = nn.ModuleList([AnomalyBlock(width, heads, steps) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, channels))

    def forward(self, rows: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Reconstruct `(b, t, c)`; also return the series and prior association of each layer."""
        x, associations = self.embedding(rows), []
        for block in self.blocks:
            x, series, prior = block(x)
            associations.append((series, prior))
        return self.head(x), associations


@dataclass(kw_only=True, eq=False, repr=False)
class AnomalyTransformer(NeuralDetector):
    """Reconstruction error of a point, weighted up where it attends mainly to its neighbours.

    Xu et al., "Anomaly Transformer: Time Series Anomaly Detection with Association Discrepancy" (2022). Each layer
    has a series association (its attention) and a prior one (a Gaussian around each point, of learned width). The
    minimax training pushes the attention away from the fixed prior, and pulls the prior towards the fixed attention;
    both phases also reconstruct the window. The two losses are summed and take one step, which is equivalent to the
    public code's two backward passes before one step; their discrepancy terms are equal and opposite in value, so
    that early stopping sees the reconstruction error alone. Score: softmax over the window of minus the discrepancy,
    summed over the layers and times `temperature`, times the squared reconstruction error.

    Window, layers, heads, `weight`, `temperature` and the tiling of a series into windows that do not overlap are the
    public code's. Its width is 512, its batch 256, its learning rate 1e-4 over up to ten epochs; here they fit a CPU:
    a narrower net takes fewer and longer steps.

    Parameters
    ----------
    hop
        The window by default: windows do not overlap, so a row waits for up to `window - 1` others.
    d_model, layers, heads
        Width of the net, its blocks, and the attention heads of each; where `d_model` is not a multiple of `heads`,
        the largest number of heads that divides it is used.
    weight
        Of the discrepancy relative to the reconstruction in the loss.
    temperature
        Factor on the discrepancy before the softmax.
    """

    name = "anomaly_transformer"

    window: int = 100
    hop: int = 100
    max_steps: int | None = 150
    batch_size: int = 16
    learning_rate: float = 1e-3
    d_model: int = 64
    layers: int = 3
    heads: int = 8
    weight: float = 3.0
    temperature: float = 50.0

    def _build(self, channels: int) -> nn.Module:
        return AnomalyTransformerNet(
            channels, self.window_, self.d_model, self.layers, math.gcd(self.d_model, self.heads)
        )

    def _loss(self, net: AnomalyTransformerNet, batch: Tensor) -> Tensor:
        reconstruction, associations = net(batch)
        terms = [symmetric_kl(reverse_gradient(series), prior).mean() for series, prior in associations]
        divergence = torch.stack(terms).mean()
        error: Tensor = (reconstruction - batch).square().mean()
        return 2 * error + self.weight * (divergence - divergence.detach())

    def _errors(self, windows: Tensor) -> Tensor:
        reconstruction, associations = self.net_(windows)
        divergence = torch.stack([symmetric_kl(series, prior).mean(1) for series, prior in associations]).sum(0)
        weight = (-self.temperature * divergence.double()).softmax(-1)
        errors: Tensor = weight[..., None] * (reconstruction - windows).square()
        return errors


class DualAttention(nn.Module):
    """Attention among the patches of a window and among the positions inside its patches, for several patch sizes."""

    def __init__(self, steps: int, sizes: Sequence[int], width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.sizes, self.heads = tuple(sizes), heads
        self.across = nn.ModuleList([Embedding(size, width, steps // size) for size in sizes])
        self.inside = nn.ModuleList([Embedding(steps // size, width, size) for size in sizes])
        self.query_key = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(layers)])

    def forward(self, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return both maps `(b, head, t, t)` for each patch size and layer; each of their rows is a distribution."""
        b, t, c = rows.shape
        centred = rows - rows.mean(1, keepdim=True)
        normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        single = normed.transpose(1, 2).reshape(b * c, t)
        maps = []
        for size, across, inside in zip(self.sizes, self.across, self.inside, strict=True):
            patches = single.view(b * c, t // size, size)
            between, within = across(patches), inside(patches.transpose(1, 2))
            for layer in self.query_key:
                wide = self._attend(layer, between, b).repeat_interleave(size, -2).repeat_interleave(size, -1) / size
                fine = self._attend(layer, within, b).repeat(1, 1, t // size, t // size) * size / t
                maps.append((wide, fine))
        return maps

    def _attend(self, layer: nn.Module, x: Tensor, b: int) -> Tensor:
        """Return the attention among tokens `(b c, token, width)`, averaged over channels: `(b, head, token, token)`.

        Averaging before the maps are repeated gives the same result and is cheaper.
        """
        query, key = layer(x).view(*x.shape[:2], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        attention: Tensor = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
        return attention.view(b, -1, *attention.shape[1:]).mean(1)


@dataclass(kw_only=True, eq=False, repr=False)
class DCdetector(NeuralDetector):
    """Agreement (or, as in the paper, disagreement) of attention among patches with attention inside patches.

    Yang et al., "DCdetector: Dual Attention Contrastive Representation Learning for Time Series Anomaly Detection"
    (2023). Every channel of a window is normalised by itself and cut into patches, once for each patch size. One branch
    attends among patches, the other among the positions inside them, with the same query and key maps; the attention
    maps are the representation, nothing is reconstructed. They are averaged over the channels and spread to all pairs
    of points.

    Paper and public code disagree. In the paper both branches are pulled together, each towards the fixed other, and a
    large discrepancy is anomalous. The code reuses Anomaly Transformer's losses: the branch inside patches is pulled
    near, the branch among patches pushed away, and the score is a softmax of *minus* the discrepancy, so that a small
    one is anomalous. The published figures come from the code, so `follows="code"` is the default; `follows="paper"`
    selects the other. The two terms of the code's loss cancel by value, so there is nothing to stop early on: all
    steps are taken, without held-out windows.

    Changed: both maps are normalised (in the code the rows of one sum to the patch size); positions inside patches are
    taken as the paper says (the code's reshape takes runs of points instead); no dropout. Window, patch sizes, layers,
    the one head and the temperature are the public code's; its width is 256 and its batch 128 to 256. Windows do not
    overlap when scoring, as there.

    Parameters
    ----------
    window
        A multiple of every patch size.
    hop
        The window by default: windows do not overlap, so a row waits for up to `window - 1` others.
    patch_sizes
        Rows per patch, one net each.
    d_model, layers, heads
        Width of the net, its attention layers, in parallel on the same input, and their heads.
    temperature
        Factor on the discrepancy before the softmax.
    follows
        `code` or `paper`: selects the loss and the sign of the score.
    softmax
        Whether a point's discrepancy is divided among those of its window, as in the public code: then a window of
        anomalies has no higher scores than a normal one. Without, the discrepancy itself is the score (of the code,
        minus its exponent).
    """

    name = "dcdetector"

    window: int = 105
    hop: int = 105
    max_steps: int | None = 150
    batch_size: int = 32
    learning_rate: float = 1e-3
    patch_sizes: tuple[int, ...] = (3, 5, 7)
    d_model: int = 64
    layers: int = 3
    heads: int = 1
    temperature: float = 50.0
    follows: Literal["code", "paper"] = "code"
    softmax: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.patch_sizes or any(size < 1 or self.window % size for size in self.patch_sizes):
            raise InputError(
                f"window={self.window} must be a multiple of every patch size, got patch_sizes={self.patch_sizes}"
            )

    def _shrink(self, most: int) -> None:
        self.window_, _ = shrink_window(most, self.window, self.patch_sizes)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        super()._learn(known, held_out if self.follows == "paper" else [])

    def _build(self, channels: int) -> nn.Module:  # noqa: ARG002 - channels share one net
        sizes = tuple(size for size in self.patch_sizes if self.window_ % size == 0) or (1,)
        return DualAttention(self.window_, sizes, self.d_model, self.layers, math.gcd(self.d_model, self.heads))

    def _loss(self, net: DualAttention, batch: Tensor) -> Tensor:
        maps: list[tuple[Tensor, Tensor]] = net(batch)
        if self.follows == "paper":
            return torch.stack([symmetric_kl(wide, fine).mean() for wide, fine in maps]).mean()
        return torch.stack([symmetric_kl(reverse_gradient(wide), fine).mean() for wide, fine in maps]).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        maps: list[tuple[Tensor, Tensor]] = self.net_(windows)
        divergence = torch.stack([symmetric_kl(wide, fine).mean(1) for wide, fine in maps]).sum(0).double()
        sign = -1 if self.follows == "code" else 1
        if not self.softmax:
            return (divergence if sign > 0 else (-divergence).exp())[..., None]
        return (sign * self.temperature * divergence).softmax(-1)[..., None]

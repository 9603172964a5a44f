"""Nets whose attention maps are compared: a point whose two maps relate as they did not in train is strange."""

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

SMALL = 1e-4
"""Added to a probability before its logarithm, as in the public code of both methods."""


def discrepancy(one: Tensor, other: Tensor) -> Tensor:
    """Give the symmetric KL divergence of distributions `(..., key)`: `(...)`."""
    return ((one - other) * ((one + SMALL) / (other + SMALL)).log()).sum(-1)


def opposed(view: Tensor) -> Tensor:
    """Give the same values with the gradient turned round: where the others go down, this goes up.

    The discrepancy of `opposed(one)` and `other` has the gradient of the pair of losses of both methods, each with a
    stopped gradient: `other` is drawn to `one` held fixed, and `one` is driven away from `other` held fixed.
    """
    return 2 * view.detach() - view


class Embedding(nn.Module):
    """A convolution over neighbours on a ring, plus sines and cosines that tell the place."""

    places: Tensor

    def __init__(self, inputs: int, width: int, steps: int) -> None:
        super().__init__()
        self.values = nn.Conv1d(inputs, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.values.weight, mode="fan_in", nonlinearity="leaky_relu")
        angles = torch.arange(steps)[:, None] * torch.exp(-math.log(1e4) * torch.arange(0, width, 2) / width)
        places = torch.stack([angles.sin(), angles.cos()], -1).reshape(steps, -1)[:, :width]
        self.register_buffer("places", places, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """`(b, t, inputs)` to `(b, t, width)`."""
        embedded: Tensor = self.values(rows.transpose(1, 2)).transpose(1, 2) + self.places
        return embedded


class AnomalyAttention(nn.Module):
    """Attention that also says how far around itself each point would look if it looked at its neighbours only."""

    squared_distances: Tensor

    def __init__(self, width: int, heads: int, steps: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixed = nn.Linear(width, 3 * width)
        self.reach = nn.Linear(width, heads)
        self.out = nn.Linear(width, width)
        places = torch.arange(steps, dtype=torch.float32)
        self.register_buffer("squared_distances", (places[:, None] - places).square(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give what was attended to, `(b, t, width)`, and the series and prior association, `(b, head, t, t)`."""
        b, t, width = x.shape
        query, key, value = self.mixed(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        series = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
        # Public code's range for the Gaussian's width: from nearly 0 to 2 rows.
        sigma = 3 ** (torch.sigmoid(5 * self.reach(x)) + 1e-5) - 1
        prior = torch.exp(-self.squared_distances / (2 * sigma.transpose(1, 2)[..., None].square()))
        mixed: Tensor = self.out((series @ value).transpose(1, 2).reshape(b, t, width))
        return mixed, series, prior / prior.sum(-1, keepdim=True)


class AnomalyBlock(nn.Module):
    """Anomaly attention and a feed-forward net, each with a shortcut and a norm after it."""

    def __init__(self, width: int, heads: int, steps: int) -> None:
        super().__init__()
        self.attention = AnomalyAttention(width, heads, steps)
        self.forth = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give the next layer's input and both associations."""
        mixed, series, prior = self.attention(x)
        x = self.norms[0](x + mixed)
        return self.norms[1](x + self.forth(x)), series, prior


class AnomalyTransformerNet(nn.Module):
    """Embedding, blocks, and a linear map back to the channels."""

    def __init__(self, channels: int, steps: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embedding = Embedding(channels, width, steps)
        self.blocks = nn.ModuleList([AnomalyBlock(width, heads, steps) for _ in range(layers)])
        self.back = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, channels))

    def forward(self, rows: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Rebuild `(b, t, c)`; give with it each layer's series and prior association."""
        x, associations = self.embedding(rows), []
        for block in self.blocks:
            x, series, prior = block(x)
            associations.append((series, prior))
        return self.back(x), associations


@dataclass(kw_only=True, eq=False, repr=False)
class AnomalyTransformer(NeuralDetector):
    """A point that attends to its neighbours only, and is rebuilt badly, is strange.

    Xu et al., "Anomaly Transformer: Time Series Anomaly Detection with Association Discrepancy" (2022). Each layer
    has a series association (its attention) and a prior one (a Gaussian around each point, of learned width). The
    minimax training drives the attention away from the prior, held fixed, and the prior towards the attention, held
    fixed; both phases also rebuild the window. The two losses are summed and take one step, which is what the public
    code's two backward passes before one step amount to; their discrepancy terms are equal and opposite in value, so
    that early stopping looks at the rebuilding alone. Score: softmax over the window of minus the discrepancy, summed
    over the layers and times `temperature`, times the squared error of the rebuilding.

    Window, layers, heads, `weight`, `temperature` and the tiling of a series into windows that do not overlap are the
    public code's. Its width is 512, its batch 256, its learning rate 1e-4 over up to ten epochs; here they fit a CPU:
    a narrower net takes fewer and longer steps.

    Parameters
    ----------
    hop
        Here the window: windows do not overlap, so a row waits for up to `window - 1` others.
    d_model, layers, heads
        Width of the net, its blocks, and the attention heads of each; where `d_model` is no multiple of `heads`, the
        most heads that divide it are taken.
    weight
        Of the discrepancy against the rebuilding in the loss.
    temperature
        By how much the discrepancy is multiplied before the softmax.
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
        rebuilt, associations = net(batch)
        apart = torch.stack([discrepancy(opposed(series), prior).mean() for series, prior in associations]).mean()
        error: Tensor = (rebuilt - batch).square().mean()
        return 2 * error + self.weight * (apart - apart.detach())

    def _errors(self, windows: Tensor) -> Tensor:
        rebuilt, associations = self.net_(windows)
        apart = torch.stack([discrepancy(series, prior).mean(1) for series, prior in associations]).sum(0)
        share = (-self.temperature * apart.double()).softmax(-1)
        errors: Tensor = share[..., None] * (rebuilt - windows).square()
        return errors


class DualAttention(nn.Module):
    """Attention among the patches of a window and among the places inside its patches, for several patch sizes."""

    def __init__(self, steps: int, sizes: Sequence[int], width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.sizes, self.heads = tuple(sizes), heads
        self.across = nn.ModuleList([Embedding(size, width, steps // size) for size in sizes])
        self.inside = nn.ModuleList([Embedding(steps // size, width, size) for size in sizes])
        self.maps = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(layers)])

    def forward(self, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Give, for each patch size and layer, both maps `(b, head, t, t)`, each row a distribution."""
        b, t, c = rows.shape
        centred = rows - rows.mean(1, keepdim=True)
        normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        single = normed.transpose(1, 2).reshape(b * c, t)
        found = []
        for size, across, inside in zip(self.sizes, self.across, self.inside, strict=True):
            patches = single.view(b * c, t // size, size)
            between, within = across(patches), inside(patches.transpose(1, 2))
            for mix in self.maps:
                wide = self._attend(mix, between, b).repeat_interleave(size, -2).repeat_interleave(size, -1) / size
                fine = self._attend(mix, within, b).repeat(1, 1, t // size, t // size) * size / t
                found.append((wide, fine))
        return found

    def _attend(self, mix: nn.Module, x: Tensor, b: int) -> Tensor:
        """Give the attention among tokens `(b c, token, width)`, averaged over the channels: `(b, head, token, token)`.

        Means and repetition may change places, and the mean of small maps is cheaper.
        """
        query, key = mix(x).view(*x.shape[:2], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        attention: Tensor = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
        return attention.view(b, -1, *attention.shape[1:]).mean(1)


@dataclass(kw_only=True, eq=False, repr=False)
class DCdetector(NeuralDetector):
    """A point is judged by how far attention among patches and attention inside patches agree on it.

    Yang et al., "DCdetector: Dual Attention Contrastive Representation Learning for Time Series Anomaly Detection"
    (2023). Every channel of a window is normalised by itself and cut into patches, once for each patch size. One branch
    attends among patches, the other among the places inside them, with the same query and key maps; the attention maps
    are the representation: nothing is rebuilt. They are averaged over the channels and spread to all pairs of points.

    Paper and public code disagree. In the paper both branches are drawn together, each towards the other held fixed,
    and a large discrepancy is strange. The code took over Anomaly Transformer's losses: the branch inside patches is
    drawn near, the branch among patches driven away, and the score is a softmax of *minus* the discrepancy, so that a
    small one is strange. The published figures come from the code, so `follows="code"` is the default;
    `follows="paper"` gives the other. The two terms of the code's loss cancel by value, so that there is nothing to
    stop on: all steps are taken, without held-out windows.

    Changed: both maps are normalised (in the code the rows of one sum to the patch size); places inside patches are
    read as the paper says (the code's reshape takes runs of points instead); no dropout. Window, patch sizes, layers,
    the one head and the temperature are the public code's; its width is 256 and its batch 128 to 256. Windows do not
    overlap when scoring, as there.

    Parameters
    ----------
    window
        A multiple of every patch size.
    hop
        Here the window: windows do not overlap, so a row waits for up to `window - 1` others.
    patch_sizes
        Rows of a patch, one net each.
    d_model, layers, heads
        Width of the net, its attention layers, side by side on the same input, and their heads.
    temperature
        By how much the discrepancy is multiplied before the softmax.
    follows
        `code` or `paper`: which loss and which sign of the score.
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
            return torch.stack([discrepancy(wide, fine).mean() for wide, fine in maps]).mean()
        return torch.stack([discrepancy(opposed(wide), fine).mean() for wide, fine in maps]).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        maps: list[tuple[Tensor, Tensor]] = self.net_(windows)
        apart = torch.stack([discrepancy(wide, fine).mean(1) for wide, fine in maps]).sum(0).double()
        sign = -1 if self.follows == "code" else 1
        return (sign * self.temperature * apart).softmax(-1)[..., None]

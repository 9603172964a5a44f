"""The net of the paper, module by module: transpose, LayerNorm, Linear; both views repeated.

Parameters have the names of `patchad.model.net.PatchADNet`, so that each can load the weights of the other.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.model.net import ACTIVATIONS, NetConfig, sinusoids
from tests.reference import views_slow


class Mixer(nn.Module):
    """`FC(act(FC(LayerNorm(x)))) + x` along one axis."""

    def __init__(self, axis: int, width: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.axis = axis
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.activation = ACTIVATIONS[activation]()
        self.narrow = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix; the shape stays the same."""
        mixed: Tensor = self.narrow(self.activation(self.widen(self.norm(x.movedim(self.axis, -1)))))
        return x + mixed.movedim(-1, self.axis)


class MixerLayer(nn.Module):
    """One encoder layer: channel mixer, inter or intra mixer, MixRep mixer, for both views."""

    def __init__(self, config: NetConfig, patches: int, patch_size: int) -> None:
        super().__init__()

        def mixer(axis: int, width: int, hidden: int) -> Mixer:
            return Mixer(axis, width, hidden, config.activation)

        wide = {width: round(1.2 * width) for width in (config.channels, patches, patch_size)}
        self.channel_inter: nn.Module = nn.Identity()
        self.channel_intra: nn.Module = nn.Identity()
        self.mixrep: nn.Module = nn.Identity()
        if config.channel_mixer:
            self.channel_inter = mixer(1, config.channels, wide[config.channels])
            self.channel_intra = self.channel_inter
            if not config.share_channel_mixer:
                self.channel_intra = mixer(1, config.channels, wide[config.channels])
        self.inter = mixer(2, patches, wide[patches])
        self.intra = mixer(2, patch_size, wide[patch_size])
        if config.mixrep_mixer:
            self.mixrep = mixer(3, config.d_model, config.d_model)

    def forward(self, inter: Tensor, intra: Tensor) -> tuple[Tensor, Tensor]:
        """Mix `(b, c, n, d)` and `(b, c, p, d)`."""
        inter = self.mixrep(self.inter(self.channel_inter(inter)))
        intra = self.mixrep(self.intra(self.channel_intra(intra)))
        return inter, intra


class PlainOutput(NamedTuple):
    """The outputs of the net at one patch size."""

    inter: Tensor  # b c n d
    intra: Tensor  # b c p d
    inter_projected: Tensor | None
    intra_projected: Tensor | None
    rec_inter: Tensor  # b t c
    rec_intra: Tensor  # b t c


class Scale(nn.Module):
    """The net at one patch size."""

    def __init__(self, config: NetConfig, patch_size: int) -> None:
        super().__init__()
        self.config = config
        self.patch_size = patch_size
        patches = config.window // patch_size
        width = config.d_model
        self.embed_inter = nn.Linear(patch_size, width)
        self.embed_intra = nn.Linear(patches, width)
        self.layers = nn.ModuleList(MixerLayer(config, patches, patch_size) for _ in range(config.layers))
        self.weights_inter = nn.Parameter(torch.zeros(config.layers))
        self.weights_intra = nn.Parameter(torch.zeros(config.layers))
        self.project_inter = _projection(width) if config.projection else None
        self.project_intra = _projection(width) if config.projection else None
        self.rec_inter = _head(patches * width, width, config)
        self.rec_intra = _head(patch_size * width, width, config)

    def forward(self, x: Tensor) -> PlainOutput:
        """Encode `(b, t, c)`, positions already added."""
        patched = x.transpose(1, 2).unflatten(2, (-1, self.patch_size))  # b c n p
        inter = self.embed_inter(patched)  # b c n d
        intra = self.embed_intra(patched.transpose(2, 3))  # b c p d
        inter, intra = self._encode(inter, intra)
        rec_inter = self.rec_inter(inter.flatten(2)).transpose(1, 2)  # b t c
        rec_intra = self.rec_intra(intra.flatten(2)).transpose(1, 2)
        if self.config.view_pooling == "mean":
            inter, intra = inter.mean(1, keepdim=True), intra.mean(1, keepdim=True)
        return PlainOutput(
            inter,
            intra,
            None if self.project_inter is None else self.project_inter(inter),
            None if self.project_intra is None else self.project_intra(intra),
            rec_inter,
            rec_intra,
        )

    def _encode(self, inter: Tensor, intra: Tensor) -> tuple[Tensor, Tensor]:
        """Run the layers and sum their outputs with softmax weights (ReWeight)."""
        outputs: list[tuple[Tensor, Tensor]] = []
        for layer in self.layers:
            stacked = self.config.layers_mode == "stacked" and outputs
            outputs.append(layer(*outputs[-1]) if stacked else layer(inter, intra))
        alpha, beta = self.weights_inter.softmax(0), self.weights_intra.softmax(0)
        return (
            sum((a * one for a, (one, _) in zip(alpha, outputs, strict=True)), torch.zeros(())),
            sum((b * other for b, (_, other) in zip(beta, outputs, strict=True)), torch.zeros(())),
        )


class PlainNet(nn.Module):
    """The whole net: one `Scale` per patch size over the same window."""

    positions: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.scales = nn.ModuleList(Scale(config, size) for size in config.patch_sizes)
        self.register_buffer("positions", sinusoids(config.window, config.channels), persistent=False)

    def forward(self, x: Tensor) -> tuple[PlainOutput, ...]:
        """Encode z-scored windows `(b, t, c)`."""
        if self.config.positional_embedding:
            x = x + self.positions
        return tuple(scale(x) for scale in self.scales)


def _projection(width: int) -> nn.Module:
    # Two linear maps in a row, as the paper has them: no activation, no norm.
    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))


def _head(flat: int, hidden: int, config: NetConfig) -> nn.Module:
    return nn.Sequential(nn.Linear(flat, hidden), ACTIVATIONS[config.activation](), nn.Linear(hidden, config.window))


def plain_loss(outputs: tuple[PlainOutput, ...], target: Tensor, kind: str, objective: str, c: float) -> Tensor:
    """Return the training loss as written in the paper."""
    total = target.new_zeros(())
    for out in outputs:
        pull = views_slow.contrast(out.inter, out.intra, kind, objective)
        if out.inter_projected is not None:
            first = views_slow.contrast(out.inter_projected, out.intra, kind, objective)
            second = views_slow.contrast(out.inter, out.intra_projected, kind, objective)
            pull = (1 - c) * pull + c * (first + second)
        total = total + pull + functional.mse_loss(out.rec_inter + out.rec_intra, target)
    return total


def plain_discrepancy(outputs: tuple[PlainOutput, ...], kind: str) -> Tensor:
    """Return the distance of the views at every step, `(b, t, c)`, one channel if pooled."""
    each = [
        views_slow.distance(
            views_slow.spread_inter(out.inter, out.intra.shape[2]),
            views_slow.spread_intra(out.intra, out.inter.shape[2]),
            kind,
        )
        for out in outputs
    ]
    return torch.stack(each).mean(0).transpose(1, 2)

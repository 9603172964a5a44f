"""The net: multi-scale patches, two views of each window, four mixers, one reconstruction.

Axes are named in comments by their letters: b batch, t step of the window, c channel, n patch, p step in the patch,
d feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from patchad.errors import InputError, listed

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}
LAYERS_MODES = ("stacked", "parallel")
VIEW_POOLINGS = ("mean", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """The shape of the net. Defaults live in `PatchAD`."""

    channels: int
    window: int
    """Steps per window; a multiple of every patch size."""
    patch_sizes: tuple[int, ...]
    d_model: int
    layers: int
    layers_mode: Literal["stacked", "parallel"]
    """`stacked`: each layer reads the one before; `parallel`: all read the embedding."""
    activation: Literal["gelu", "relu"]
    view_pooling: Literal["mean", "none"]
    """`mean`: channels are averaged before projection and distance; `none`: compared channel by channel."""
    share_channel_mixer: bool
    """Whether both views use the same channel mixer."""
    channel_mixer: bool
    mixrep_mixer: bool
    positional_embedding: bool
    projection: bool

    def __post_init__(self) -> None:
        for name in ("window", "d_model", "layers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")
        if not self.patch_sizes:
            raise InputError("patch_sizes is empty; at least one divisor of the window is needed, as (3, 5)")
        uneven = [size for size in self.patch_sizes if size < 1 or self.window % size]
        if uneven:
            divisors = [size for size in range(1, self.window + 1) if self.window % size == 0]
            raise InputError(
                f"patch size {listed(uneven)} does not divide window {self.window}; "
                f"its divisors are {listed(divisors, 20)}"
            )
        for name, known in (
            ("layers_mode", LAYERS_MODES),
            ("activation", tuple(ACTIVATIONS)),
            ("view_pooling", VIEW_POOLINGS),
        ):
            if getattr(self, name) not in known:
                raise InputError(f"{name}={getattr(self, name)!r} is unknown; use one of {listed(known)}")


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
        """Mix, and give the same shape back."""
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


@dataclass(slots=True)
class ScaleOutput:
    """What the net says at one patch size. With `view_pooling="mean"` the views have one channel."""

    inter: Tensor
    """(b, c, n, d), the inter-patch view."""
    intra: Tensor
    """(b, c, p, d), the intra-patch view."""
    inter_projected: Tensor | None
    """(b, c, n, d), None without projection heads."""
    intra_projected: Tensor | None
    """(b, c, p, d), None without projection heads."""
    rec_inter: Tensor
    """(b, t, c), the half of the reconstruction that the inter-patch view gives ("Rec 1")."""
    rec_intra: Tensor
    """(b, t, c), the half of the reconstruction that the intra-patch view gives ("Rec 2")."""

    @property
    def reconstruction(self) -> Tensor:
        """(b, t, c), both halves together."""
        return self.rec_inter + self.rec_intra


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

    def forward(self, x: Tensor) -> ScaleOutput:
        """Read `(b, t, c)`, positions already embedded."""
        patched = x.transpose(1, 2).unflatten(2, (-1, self.patch_size))  # type: ignore[no-untyped-call]  # b c n p
        inter = self.embed_inter(patched)  # b c n d
        intra = self.embed_intra(patched.transpose(2, 3))  # b c p d
        inter, intra = self._encode(inter, intra)
        rec_inter = self.rec_inter(inter.flatten(2)).transpose(1, 2)  # b t c
        rec_intra = self.rec_intra(intra.flatten(2)).transpose(1, 2)
        if self.config.view_pooling == "mean":
            inter, intra = inter.mean(1, keepdim=True), intra.mean(1, keepdim=True)
        return ScaleOutput(
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


class PatchADNet(nn.Module):
    """The whole net: one `Scale` per patch size over the same window.

    Examples
    --------
    >>> config = NetConfig(channels=2, window=6, patch_sizes=(2, 3), d_model=4, layers=1, layers_mode="stacked",
    ...     activation="gelu", view_pooling="none", share_channel_mixer=True, channel_mixer=True, mixrep_mixer=True,
    ...     positional_embedding=True, projection=True)
    >>> outputs = PatchADNet(config)(torch.zeros(5, 6, 2))
    >>> [tuple(o.inter.shape) for o in outputs], tuple(outputs[0].reconstruction.shape)
    ([(5, 2, 3, 4), (5, 2, 2, 4)], (5, 6, 2))
    """

    positions: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.scales = nn.ModuleList(Scale(config, size) for size in config.patch_sizes)
        self.register_buffer("positions", sinusoids(config.window, config.channels), persistent=False)

    def forward(self, x: Tensor) -> tuple[ScaleOutput, ...]:
        """Read z-scored windows `(b, t, c)`."""
        if self.config.positional_embedding:
            x = x + self.positions
        return tuple(scale(x) for scale in self.scales)


def sinusoids(steps: int, columns: int) -> Tensor:
    """Give the `(t, c)` positional embedding of the Transformer, one column per channel.

    Examples
    --------
    >>> sinusoids(2, 2).tolist()[0]
    [0.0, 1.0]
    """
    position = torch.arange(steps, dtype=torch.float32)[:, None]
    column = torch.arange(columns)
    rate = torch.exp((column - column % 2) * (-math.log(10_000.0) / columns))
    return torch.where(column % 2 == 0, torch.sin(position * rate), torch.cos(position * rate))


def _projection(width: int) -> nn.Module:
    # Two linear maps in a row, as the paper has them: no activation, no norm.
    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))


def _head(flat: int, hidden: int, config: NetConfig) -> nn.Module:
    return nn.Sequential(nn.Linear(flat, hidden), ACTIVATIONS[config.activation](), nn.Linear(hidden, config.window))

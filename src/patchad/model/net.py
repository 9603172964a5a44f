"""The net: multi-scale patches, two views of each window, four mixers, one reconstruction.

Axes, by letter: b batch, t step of the window, c channel, n patch, p step in the patch, d feature. Both views of a
window live in one tensor `(c, n + p, b, d)`: in this order each mixer multiplies along its axis without a transpose,
and mixers that the views share run once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from patchad._kernels.backend import Activation, FusedWeights, backend_for
from patchad._kernels.cuda_graphs import is_capturing, parallel_calls
from patchad._kernels.mixing import Axis, MixerSpan, fuse, mix
from patchad.errors import InputError, listed
from patchad.model.code_parts import (
    PATCH_HIDDEN,
    CodeMixer,
    code_head,
    mix_views,
    normalise_windows,
    pool_distributions,
)

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}
LayersMode = Literal["stacked", "parallel", "compared", "compared_relu"]
ViewPooling = Literal["mean", "none", "softmax"]
MixerKind = Literal["residual", "linear", "normed"]
IntraView = Literal["phases", "runs"]
Positions = bool | Literal["cumulative"]
COMPARED: tuple[LayersMode, ...] = ("compared", "compared_relu")
"""Modes in which each layer has an output of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """The shape of the net. Defaults live in `PatchAD`."""

    channels: int
    window: int
    """Steps per window; a multiple of every patch size."""
    patch_sizes: tuple[int, ...]
    d_model: int
    layers: int
    layers_mode: LayersMode
    """`stacked`: each layer reads the one before; `parallel`: all read the embedding.

    `compared`: all read the embedding, and each gives an output of its own instead of a weighted sum; `compared_relu`:
    likewise, all but the first read the ReLU of the embedding.
    """
    activation: Activation
    view_pooling: ViewPooling
    """`mean`: channels are averaged before projection and distance; `none`: compared channel by channel.

    `softmax`: as `mean`, but for the distance the channels' softmax is averaged.
    """
    share_channel_mixer: bool
    """Whether both views use the same channel mixer."""
    channel_mixer: bool
    mixrep_mixer: bool
    positional_embedding: Positions
    """Whether positions are added to the window; `cumulative`: once more for every further scale."""
    projection: bool
    mixer: MixerKind = "residual"
    """`residual`: the paper's mixer; `linear`, `normed`: those of its code, with its projection and heads."""
    instance_norm: bool = False
    """Whether every window is normalised channel by channel before the net reads it."""
    intra_view: IntraView = "phases"
    """What a row of the intra view embeds: every P-th step of the window, or a run of N consecutive steps."""
    reconstruction: bool = True
    """Whether there are heads that reconstruct the window."""
    dropout: float = 0.0
    """In the mixers and projections of the code."""

    @property
    def values(self) -> float:
        """Values of both views of a window, at a usual patch size: what a batch size is chosen by."""
        positions = sum(self.window // size + size for size in self.patch_sizes) / len(self.patch_sizes)
        return positions * self.channels * self.d_model

    def __post_init__(self) -> None:
        for name in ("window", "d_model", "layers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")
        if not self.patch_sizes:
            raise InputError("patch_sizes is empty; give at least one divisor of the window, as in (3, 5)")
        uneven = [size for size in self.patch_sizes if size < 1 or self.window % size]
        if uneven:
            divisors = [size for size in range(1, min(self.window, 1000) + 1) if self.window % size == 0]
            raise InputError(
                f"patch size {listed(uneven)} does not divide window {self.window}; "
                f"its divisors are {listed(divisors, 20)}"
            )
        for name, known in (
            ("layers_mode", get_args(LayersMode)),
            ("activation", tuple(ACTIVATIONS)),
            ("view_pooling", get_args(ViewPooling)),
            ("positional_embedding", (True, False, "cumulative")),
            ("mixer", get_args(MixerKind)),
            ("intra_view", get_args(IntraView)),
        ):
            if getattr(self, name) not in known:
                raise InputError(f"{name}={getattr(self, name)!r} is unknown; use one of {listed(known)}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout={self.dropout} is out of range; it must be at least 0 and below 1")
        if self.dropout and self.mixer == "residual":
            raise InputError(f"mixer='residual' has no dropout, and dropout={self.dropout}; use 'linear' or 'normed'")


class Mixer(nn.Module):
    """`FC(act(FC(LayerNorm(x)))) + x` along one axis; the arithmetic is in `patchad._kernels.mixing`."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)
        self._cache: tuple[tuple[int, ...], FusedWeights] | None = None

    def train(self, mode: bool = True) -> Mixer:
        """Clear the fused weights: a replayed CUDA graph changes the weights without changing their version."""
        self._cache = None
        return super().train(mode)

    def fused_weights(self) -> FusedWeights:
        """Return the weights in the form that `mix` takes; cached where no gradient is needed."""
        if torch.is_grad_enabled() or torch.compiler.is_exporting() or is_capturing(self.widen.weight):
            # A replayed graph must start from the weights of that moment.
            return fuse(self.norm, self.widen, self.narrow)
        layers = self.norm, self.widen, self.narrow
        tensors = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]  # parameters() is slower
        versions = tuple(tensor._version for tensor in tensors)  # noqa: SLF001 - torch has no other way
        key = (self.widen.weight.data_ptr(), *versions)
        if self._cache is None or self._cache[0] != key:
            self._cache = (key, fuse(*layers))
        return self._cache[1]


AnyMixer = Mixer | CodeMixer


class MixerLayer(nn.Module):
    """One encoder layer: channel mixer, inter or intra mixer, MixRep mixer, for both views."""

    def __init__(self, config: NetConfig, patches: int, patch_size: int) -> None:
        super().__init__()

        def mixer(width: int, of_code: int) -> AnyMixer:
            if config.mixer == "residual":
                return Mixer(width, round(1.2 * width))
            return _code_mixer(config, width, of_code, skip=True)

        self.config = config
        self.patches, self.patch_size = patches, patch_size
        self.channel_inter: AnyMixer | None = None
        self.channel_intra: AnyMixer | None = None
        self.mixrep: AnyMixer | None = None
        if config.channel_mixer:
            self.channel_inter = mixer(config.channels, int(1.2 * config.channels))
            self.channel_intra = self.channel_inter
            if not config.share_channel_mixer:
                self.channel_intra = mixer(config.channels, int(1.2 * config.channels))
        self.inter = mixer(patches, PATCH_HIDDEN)
        self.intra = mixer(patch_size, int(1.2 * patch_size))
        if config.mixrep_mixer:
            width = config.d_model
            self.mixrep = Mixer(width, width) if config.mixer == "residual" else mixer(width, width)

    def forward(self, views: Tensor, *, in_place: bool = False) -> Tensor:
        """Mix `(c, n + p, b, d)`, in place where that is allowed and gradients are disabled."""
        second = None if self.config.share_channel_mixer else self.channel_intra
        mixed = self._mix(views, 0, self.channel_inter, second, in_place=in_place)
        mixed = self._mix(mixed, 1, self.inter, self.intra, in_place=in_place or mixed is not views)
        return self._mix(mixed, 3, self.mixrep, None, in_place=True)

    def _mix(
        self, views: Tensor, axis: Axis, inter: AnyMixer | None, intra: AnyMixer | None, *, in_place: bool
    ) -> Tensor:
        """Mix along an axis; without an intra mixer, the inter mixer serves both views."""
        if inter is None:
            return views
        if isinstance(inter, CodeMixer):
            return mix_views(views, axis, inter, cast("CodeMixer | None", intra), self.patches)
        intra = cast("Mixer | None", intra)
        total = self.patches + self.patch_size
        if intra is None:
            spans = [MixerSpan(0, total, inter.fused_weights())]
        else:
            spans = [
                MixerSpan(0, self.patches, inter.fused_weights()),
                MixerSpan(self.patches, total, intra.fused_weights()),
            ]
        return mix(views, axis, spans, self.config.activation, in_place=in_place)


@dataclass(slots=True)
class ScaleOutput:
    """The outputs of the net at one patch size, or of one of its layers where they are compared one by one.

    The views have one channel unless `view_pooling="none"`.
    """

    inter: Tensor
    """(c, n, b, d), the inter-patch view."""
    intra: Tensor
    """(c, p, b, d), the intra-patch view."""
    inter_projected: Tensor | None
    """(c, n, b, d), None without projection heads or with `project=False`."""
    intra_projected: Tensor | None
    """(c, p, b, d), likewise."""
    rec_inter: Tensor | None
    """(b, t, c), the half of the reconstruction from the inter-patch view ("Rec 1"); None with `reconstruct=False`."""
    rec_intra: Tensor | None
    """(b, t, c), the half of the reconstruction from the intra-patch view ("Rec 2"), likewise."""

    @property
    def reconstruction(self) -> Tensor:
        """(b, t, c), the sum of both halves."""
        if self.rec_inter is None or self.rec_intra is None:
            raise ValueError("the net was called with reconstruct=False")
        return self.rec_inter + self.rec_intra


class Scale(nn.Module):
    """The net at one patch size."""

    def __init__(self, config: NetConfig, patch_size: int) -> None:
        super().__init__()
        self.config = config
        self.patch_size = patch_size
        self.patches = config.window // patch_size
        width = config.d_model
        self.embed_inter = nn.Linear(patch_size, width)
        self.embed_intra = nn.Linear(self.patches, width)
        self.layers = nn.ModuleList(MixerLayer(config, self.patches, patch_size) for _ in range(config.layers))
        self.weights_inter = nn.Parameter(torch.zeros(config.layers))
        self.weights_intra = nn.Parameter(torch.zeros(config.layers))
        self.project_inter = _projection(config) if config.projection else None
        self.project_intra = _projection(config) if config.projection else None
        self.rec_inter = _head(self.patches * width, config) if config.reconstruction else None
        self.rec_intra = _head(patch_size * width, config) if config.reconstruction else None
        self.rec_share = nn.Parameter(torch.tensor(0.5)) if config.mixer != "residual" else None

    def forward(self, x: Tensor, *, project: bool = True, reconstruct: bool = True) -> tuple[ScaleOutput, ...]:
        """Encode `(c, t, b)`, positions already added."""
        embedded = self._embed(x)
        encoded = self._compared(embedded) if self.config.layers_mode in COMPARED else [self._encode(embedded)]
        return tuple(self._read(views, project=project, reconstruct=reconstruct) for views in encoded)

    def _read(self, views: Tensor, *, project: bool, reconstruct: bool) -> ScaleOutput:
        """Split encoded views, project and reconstruct."""
        inter, intra = torch.split(views, [self.patches, self.patch_size], dim=1)
        rec_inter = _reconstruct(self.rec_inter, inter) if reconstruct else None
        rec_intra = _reconstruct(self.rec_intra, intra) if reconstruct else None
        if self.rec_share is not None and rec_inter is not None and rec_intra is not None:
            rec_inter, rec_intra = rec_inter * self.rec_share, rec_intra * (1 - self.rec_share)
        projected: tuple[Tensor, ...] = (inter, intra)
        if self.config.view_pooling != "none":
            projected = inter.mean(0, keepdim=True), intra.mean(0, keepdim=True)
        softmax = self.config.view_pooling == "softmax"
        inter, intra = (pool_distributions(inter), pool_distributions(intra)) if softmax else projected
        return ScaleOutput(
            inter,
            intra,
            _project(self.project_inter, projected[0]) if project else None,
            _project(self.project_intra, projected[1]) if project else None,
            rec_inter,
            rec_intra,
        )

    def _embed(self, x: Tensor) -> Tensor:
        channels, _, batch = x.shape
        patched = x.reshape(channels, self.patches, self.patch_size, batch)  # c n p b
        inter = self.embed_inter(patched.transpose(2, 3).reshape(-1, self.patch_size))
        steps = patched.permute(0, 2, 3, 1)  # c p b n
        if self.config.intra_view == "runs":
            steps = x.reshape(channels, self.patch_size, self.patches, batch).transpose(2, 3)
        intra = self.embed_intra(steps.reshape(-1, self.patches))
        views = (inter.reshape(channels, self.patches, batch, -1), intra.reshape(channels, self.patch_size, batch, -1))
        return torch.cat(views, dim=1)  # c (n + p) b d

    def _compared(self, embedded: Tensor) -> Iterator[Tensor]:
        """Yield the output of each layer, all of which read the embedding."""
        for number, layer in enumerate(self.layers):
            relu = number and self.config.layers_mode == "compared_relu"
            yield layer(embedded.relu() if relu else embedded)

    def _encode(self, embedded: Tensor) -> Tensor:
        """Run the layers and sum their outputs with softmax weights (ReWeight)."""
        weights = torch.cat(  # layer, n + p
            [
                self.weights_inter.softmax(0)[:, None].expand(-1, self.patches),
                self.weights_intra.softmax(0)[:, None].expand(-1, self.patch_size),
            ],
            dim=1,
        )
        return backend_for(weights).weighted_sum(self._layer_outputs(embedded), weights)

    def _layer_outputs(self, embedded: Tensor) -> Iterator[Tensor]:
        """Yield the output of each layer; stacked layers on a CPU overwrite the one before, without gradients."""
        parallel, views = self.config.layers_mode == "parallel", embedded
        for layer in self.layers:
            views = layer(embedded if parallel else views, in_place=not (parallel or embedded.is_cuda))
            yield views


class PatchADNet(nn.Module):
    """The whole net: one `Scale` per patch size over the same window.

    Examples
    --------
    >>> config = NetConfig(channels=2, window=6, patch_sizes=(2, 3), d_model=4, layers=1, layers_mode="stacked",
    ...     activation="gelu", view_pooling="none", share_channel_mixer=True, channel_mixer=True, mixrep_mixer=True,
    ...     positional_embedding=True, projection=True)
    >>> outputs = PatchADNet(config)(torch.zeros(5, 6, 2))
    >>> [tuple(o.inter.shape) for o in outputs], tuple(outputs[0].reconstruction.shape)
    ([(2, 3, 5, 4), (2, 2, 5, 4)], (5, 6, 2))
    """

    positions: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.scales = nn.ModuleList(Scale(config, size) for size in config.patch_sizes)
        if config.mixer != "residual":  # in the code all scales share the projections of the first
            first = cast("Scale", self.scales[0])
            for scale in cast("Iterable[Scale]", self.scales):
                scale.project_inter, scale.project_intra = first.project_inter, first.project_intra
        self.register_buffer("positions", sinusoids(config.window, config.channels), persistent=False)

    def forward(self, x: Tensor, *, project: bool = True, reconstruct: bool = True) -> tuple[ScaleOutput, ...]:
        """Encode z-scored windows `(b, t, c)`; projections and reconstruction are optional.

        One output for each patch size; for each of its layers, in order, where they are compared one by one.
        """
        if self.config.instance_norm:
            x = normalise_windows(x)
        inputs = [self._steps(x, number) for number in range(1 if self._same_for_all else len(self.scales))]
        calls = [
            partial(scale, inputs[min(number, len(inputs) - 1)], project=project, reconstruct=reconstruct)
            for number, scale in enumerate(self.scales)
        ]
        return tuple(out for outputs in parallel_calls(calls, inputs[0]) for out in outputs)

    @property
    def _same_for_all(self) -> bool:
        return self.config.positional_embedding != "cumulative"

    def _steps(self, x: Tensor, scale: int) -> Tensor:
        """Add positions for a scale; return `(c, t, b)`."""
        if self.config.positional_embedding:
            x = x + (scale + 1) * self.positions
        return x.permute(2, 1, 0).contiguous()


def sinusoids(steps: int, columns: int) -> Tensor:
    """Return the `(t, c)` positional embedding of the Transformer, one column per channel.

    Examples
    --------
    >>> sinusoids(2, 2).tolist()[0]
    [0.0, 1.0]
    """
    if torch.get_default_device().type == "meta":  # for a range there, torch imports its compiler: a second
        return torch.empty(steps, columns)
    position = torch.arange(steps, dtype=torch.float32)[:, None]
    column = torch.arange(columns)
    rate = torch.exp((column - column % 2) * (-math.log(10_000.0) / columns))
    return torch.where(column % 2 == 0, torch.sin(position * rate), torch.cos(position * rate))


def _code_mixer(config: NetConfig, width: int, hidden: int, *, skip: bool) -> CodeMixer:
    normed = config.mixer == "normed"
    return CodeMixer(width, hidden, ACTIVATIONS[config.activation](), normed=normed, dropout=config.dropout, skip=skip)


def _projection(config: NetConfig) -> nn.Module:
    width = config.d_model
    if config.mixer == "residual":  # two linear maps in a row, as the paper has them: no activation, no norm
        return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
    found = _code_mixer(config, width, max(width // 2, 1), skip=False)
    if config.mixer == "linear":
        found.branch[2] = nn.Identity()
    return found


def _project(head: nn.Module | None, view: Tensor) -> Tensor | None:
    """Apply the head; two linear maps as one."""
    if head is None:
        return None
    if isinstance(head, CodeMixer):
        return cast("Tensor", head(view))
    first, second = (cast("nn.Linear", layer) for layer in head.children())
    return nn.functional.linear(view, second.weight @ first.weight, torch.addmv(second.bias, second.weight, first.bias))


def _head(flat: int, config: NetConfig) -> nn.Module:
    hidden = config.d_model
    if config.mixer != "residual":
        return code_head(flat, hidden, config.window)
    return nn.Sequential(nn.Linear(flat, hidden), ACTIVATIONS[config.activation](), nn.Linear(hidden, config.window))


def _reconstruct(head: nn.Module | None, view: Tensor) -> Tensor | None:
    """Reconstruct `(b, t, c)` from a view `(c, n or p, b, d)`; None without a head."""
    if head is None:
        return None
    windows: Tensor = head(view.transpose(1, 2).flatten(2))  # c b t
    return windows.permute(1, 2, 0)

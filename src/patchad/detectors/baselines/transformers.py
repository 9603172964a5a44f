"""Nets over patches and periods that reconstruct the window; what they reconstruct badly is anomalous."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from patchad.detectors.baselines.checks import check_heads, check_least
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError, MissingExtraError, MissingWeightsError
from patchad.model.net import sinusoids
from patchad.model.training import Goal

GPT2_SHAPE = (
    "n_positions",
    "n_embd",
    "n_head",
    "n_inner",
    "activation_function",
    "layer_norm_epsilon",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "reorder_and_upcast_attn",
)
"""Fields of GPT-2's configuration that a model file stores beside the weights."""


@dataclass(kw_only=True, eq=False, repr=False)
class _ReconstructionDetector(NeuralDetector):
    """A detector whose net reconstructs windows `(b, t, c)`; errors are squared differences.

    Each channel of a window is scaled to mean 0 and variance 1 before the net, and back after it: the authors of all
    three methods do so, to make the net robust to drifting levels.
    """

    counts: ClassVar[tuple[str, ...]]
    """Parameters that must be at least 1."""

    window: int = 100
    hop: int = 10

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, **dict.fromkeys(self.counts, 1))

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return _normalised_errors(net, batch).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return _normalised_errors(self.net_, windows)


def _normalised_errors(net: nn.Module, windows: Tensor) -> Tensor:
    """Return the squared errors `(b, t, c)` of a net that sees every window normalised by itself."""
    mean = windows.mean(dim=1, keepdim=True)
    spread = (windows.var(dim=1, keepdim=True, correction=0) + 1e-5).sqrt()
    reconstruction: Tensor = net((windows - mean) / spread) * spread + mean
    return (reconstruction - windows).square()


# -- PatchTST ----------------------------------------------------------------------------------------------------------


class _PatchTSTNet(nn.Module):
    def __init__(self, rows: int, config: PatchTST) -> None:
        super().__init__()
        self.size, self.step = config.patch, config.patch_stride
        count = max(math.ceil((rows - self.size) / self.step), 0) + 1
        self.padding = (count - 1) * self.step + self.size - rows
        self.embed = nn.Linear(self.size, config.d_model)
        self.positions = nn.Parameter(0.02 * torch.randn(count, config.d_model))
        layer = nn.TransformerEncoderLayer(
            config.d_model, config.heads, config.d_ff, config.dropout, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.head = nn.Linear(count * config.d_model, rows)

    def forward(self, windows: Tensor) -> Tensor:
        channels = windows.transpose(1, 2)  # (b, c, t)
        padded = pad(channels, (self.padding, 0), mode="replicate")
        patches = padded.unfold(2, self.size, self.step).flatten(0, 1)  # (b c, patch, step)
        encoded = self.encoder(self.embed(patches) + self.positions)
        reconstruction: Tensor = self.head(encoded.flatten(1)).reshape(channels.shape)
        return reconstruction.transpose(1, 2)


@dataclass(kw_only=True, eq=False, repr=False)
class PatchTST(_ReconstructionDetector):
    """Reconstruction error of a Transformer over the overlapping patches of each channel.

    Nie et al., "A Time Series is Worth 64 Words: Long-term Forecasting with Transformers" (2023): patches of a channel
    are the tokens of an encoder that all channels share, one channel at a time, and a linear map takes all tokens
    together to the window. The paper forecasts; here, as in other comparisons on anomalies, the window itself is
    reconstructed, and nothing is masked. Layer norm replaces the paper's batch norm, and the window is padded at its
    start, so that a patch ends with the newest row. Patch and stride are the paper's, sizes those it uses for small
    data; the window is the usual one in the field, hop and batch are ours, for the budget: a batch has as many
    sequences as windows times channels.

    Parameters
    ----------
    patch, patch_stride
        Rows per patch, and between the starts of two patches.
    d_model, heads, layers, d_ff, dropout
        Of the Transformer.
    """

    name = "patchtst"
    counts: ClassVar[tuple[str, ...]] = ("patch", "patch_stride", "d_model", "heads", "layers", "d_ff")

    batch_size: int = 16
    patch: int = 16
    patch_stride: int = 8
    d_model: int = 16
    heads: int = 4
    layers: int = 3
    d_ff: int = 128
    dropout: float = 0.3

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_heads(self.heads, d_model=self.d_model)

    def _build(self, channels: int) -> nn.Module:  # noqa: ARG002 - one net for every channel
        return _PatchTSTNet(self.window_, self)


# -- TimesNet ----------------------------------------------------------------------------------------------------------


class _Inception(nn.Module):
    """The mean of square convolutions of sizes 1, 3, 5, ..., computed as one convolution."""

    def __init__(self, size_in: int, size_out: int, kernels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(size_in, size_out, 2 * k + 1) for k in range(kernels))

    def forward(self, x: Tensor) -> Tensor:
        most = len(self.convolutions) - 1
        weights, biases = [], []
        for k, convolution in enumerate(self.convolutions):
            weights.append(pad(convolution.weight, [most - k] * 4))  # type: ignore[arg-type]
            biases.append(convolution.bias)
        weight, bias = torch.stack(weights).mean(0), torch.stack(biases).mean(0)  # type: ignore[arg-type]
        return torch.conv2d(x, weight, bias, padding=most)


class _TimesBlock(nn.Module):
    """Arrange each window in 2D along its own strongest periods, and add convolutions of these images."""

    def __init__(self, d_model: int, d_ff: int, kernels: int, periods: int) -> None:
        super().__init__()
        self.periods = periods
        self.inception = nn.Sequential(
            _Inception(d_model, d_ff, kernels), nn.GELU(), _Inception(d_ff, d_model, kernels)
        )
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[1]
        amplitudes = torch.fft.rfft(x, dim=1).abs().mean(-1)[:, 1:]  # (b, frequency), the constant left out
        if amplitudes.shape[1] == 0:
            return x
        strength, chosen = amplitudes.topk(min(self.periods, amplitudes.shape[1]), dim=1)
        lengths = rows // (chosen + 1)
        features = x.new_zeros(*lengths.shape, *x.shape[1:])  # (b, period, t, d)
        for length in lengths.unique().tolist():
            which, rank = torch.nonzero(lengths == length, as_tuple=True)
            features[which, rank] = self._along_period(x[which], length)
        weights = strength.softmax(dim=1)[..., None, None]
        total: Tensor = self.norm(x + (features * weights).sum(1))
        return total

    def _along_period(self, x: Tensor, length: int) -> Tensor:
        """Convolve `(b, t, d)` as images `(b, d, cycle, length)`, and return them as rows again."""
        rows = x.shape[1]
        padded = pad(x, (0, 0, 0, -rows % length))
        images = padded.reshape(len(x), -1, length, x.shape[2]).permute(0, 3, 1, 2)
        features: Tensor = self.inception(images)
        return features.permute(0, 2, 3, 1).flatten(1, 2)[:, :rows]


class _TimesNetModule(nn.Module):
    def __init__(self, rows: int, channels: int, config: TimesNet) -> None:
        super().__init__()
        self.embed = nn.Conv1d(channels, config.d_model, 3, padding=1, padding_mode="replicate", bias=False)
        self.register_buffer("positions", sinusoids(rows, config.d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        blocks = (
            _TimesBlock(config.d_model, config.d_ff, config.kernels, config.periods) for _ in range(config.layers)
        )
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(config.d_model, channels)

    def forward(self, windows: Tensor) -> Tensor:
        embedded = self.embed(windows.transpose(1, 2)).transpose(1, 2) + self.positions
        reconstruction: Tensor = self.head(self.blocks(self.dropout(embedded)))
        return reconstruction


@dataclass(kw_only=True, eq=False, repr=False)
class TimesNet(_ReconstructionDetector):
    """Reconstruction error of 2D convolutions over the window arranged along its strongest periods.

    Wu et al., "TimesNet: Temporal 2D-Variation Modeling for General Time Series Analysis" (2023): the Fourier transform
    of the embedded window picks its strongest periods; for each, the window becomes an image with one cycle per line,
    processed by inception convolutions; the results are weighted by the softmax of their amplitudes and added to the
    window. The public code picks the periods of a whole batch; here every window has its own, in training and in
    scoring, so that its score depends on no other window. Sizes are those of the public code's smallest anomaly run
    (MSL), the six convolutions of a block among them; the hop is ours, and the steps are cut to 300 for the budget.

    Parameters
    ----------
    periods
        Number of periods used, the strongest first.
    d_model, d_ff
        Width of the embedded window, and inside a block.
    layers
        Blocks.
    kernels
        Convolutions of an inception: 1 x 1, 3 x 3, 5 x 5, ...
    dropout
        Dropout rate on the embedding in training.
    """

    name = "timesnet"
    counts: ClassVar[tuple[str, ...]] = ("periods", "d_model", "d_ff", "layers", "kernels")

    max_steps: int | None = 300
    periods: int = 3
    d_model: int = 8
    d_ff: int = 16
    layers: int = 1
    kernels: int = 6
    dropout: float = 0.1

    def _build(self, channels: int) -> nn.Module:
        return _TimesNetModule(self.window_, channels, self)


# -- GPT-2 -------------------------------------------------------------------------------------------------------------


class _GPT2Net(nn.Module):
    def __init__(self, gpt: Any, rows: int, channels: int, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.padding = -rows % patch
        width = gpt.config.n_embd
        if (rows + self.padding) // patch > gpt.config.n_positions:
            raise InputError(
                f"a window of {rows} rows has more than the {gpt.config.n_positions} patches that these weights allow; "
                f"raise patch, which is {patch}"
            )
        self.embed = nn.Linear(patch * channels, width)
        self.gpt = gpt
        self.head = nn.Linear(width, patch * channels)
        for name, parameter in gpt.named_parameters():
            parameter.requires_grad_("ln_" in name or "wpe" in name)

    def forward(self, windows: Tensor) -> Tensor:
        padded = torch.cat([windows[:, :1].expand(-1, self.padding, -1), windows], dim=1)
        patches = padded.reshape(len(windows), -1, self.patch * windows.shape[2])
        states = self.gpt(inputs_embeds=self.embed(patches), use_cache=False).last_hidden_state
        reconstruction: Tensor = self.head(states).reshape(padded.shape)
        return reconstruction[:, self.padding :]


@dataclass(kw_only=True, eq=False, repr=False)
class GPT2Adapter(_ReconstructionDetector):
    """Reconstruction error of a GPT-2 that is frozen except for its norms and positional embeddings.

    Zhou et al., "One Fits All: Power General Time Series Analysis by Pretrained LM" (2023): patches are embedded
    linearly, pass the first layers of GPT-2, of which only layer norms and positional embeddings are trained, and a
    linear map reconstructs them. The adapters of the authors' later work are not included. The weights are not part of
    PatchAD and nothing is downloaded: `weights` is a folder that holds GPT-2 as the library transformers saves it; a
    model file holds all of them that were used. Six layers and the learning rate are the public code's; it makes each
    row a token and centres subsequences of 25 rows, where here ten rows are a token, for the budget, and the whole
    window is centred. Batch and steps are cut for the budget too.

    Parameters
    ----------
    weights
        Folder with GPT-2's `config.json` and weights.
    layers
        Number of GPT-2's layers used, from the first.
    patch
        Rows per patch; all their channels make one token.
    """

    name = "gpt2_adapter"
    learned: ClassVar[Mapping[str, Any] | None] = {"shape_": dict}
    counts: ClassVar[tuple[str, ...]] = ("layers", "patch")

    max_steps: int | None = 100
    batch_size: int = 16
    learning_rate: float = 5e-4
    weights: str = "gpt2"
    layers: int = 6
    patch: int = 10

    @property
    def n_parameters_(self) -> int:
        """Trained parameters; the frozen ones are not counted."""
        return sum(parameter.numel() for parameter in self.net_.parameters() if parameter.requires_grad)

    def _build(self, channels: int) -> nn.Module:
        gpt = _read_gpt2(_transformers(), Path(self.weights).resolve())
        gpt.h = gpt.h[: self.layers]
        self.shape_ = {name: getattr(gpt.config, name) for name in GPT2_SHAPE} | {"n_layer": len(gpt.h)}
        return self._net_around(gpt, channels)

    def _bare_net(self) -> nn.Module:
        library = _transformers()
        bare = library.GPT2Config(**self.shape_, vocab_size=1, bos_token_id=None, eos_token_id=None)
        return self._net_around(library.GPT2Model(bare), len(self.channels_))

    def _net_around(self, gpt: Any, channels: int) -> nn.Module:
        gpt.wte = nn.Identity()  # tokens are never looked up, and their embedding is a third of GPT-2
        return _GPT2Net(gpt, self.window_, channels, min(self.patch, self.window_))

    def _goals(self, net: nn.Module) -> list[Goal]:
        return [Goal([parameter for parameter in net.parameters() if parameter.requires_grad], self._loss)]


def _transformers() -> Any:
    """Import the library, of which only some versions have types."""
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "baselines") from None
    return transformers


def _read_gpt2(library: Any, folder: Path) -> Any:
    """Read GPT-2 from a folder without progress bars; raise `MissingWeightsError` unless it is complete."""
    missing = MissingWeightsError("GPT-2", str(folder), "weights")
    if not folder.is_dir():  # or the library would take it for a name on its hub
        raise missing
    bars = library.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        gpt, loading = library.GPT2Model.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, RuntimeError) as error:  # no files, or files of another shape
        raise missing from error
    finally:
        if shown:
            bars.enable_progress_bar()
    if loading["missing_keys"]:  # the library fills them with random numbers
        raise missing
    return gpt

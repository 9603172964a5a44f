"""Autoencoders with an adversary: one net reconstructs normal windows, another tells reconstructions from data."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.table import FloatArray
from patchad.detectors.neural import NeuralDetector
from patchad.model.net import sinusoids
from patchad.model.training import Goal

STEPS_PER_EPOCH = 250
"""Training steps that count as one epoch in losses that depend on the epoch; here they change at every step."""


@dataclass(kw_only=True, eq=False, repr=False)
class MinMaxDetector(NeuralDetector):
    """A detector whose net sees each channel scaled to 0..1 by its minimum and maximum in train."""

    learned: ClassVar[Mapping[str, Any] | None] = {"low_": np.ndarray, "span_": np.ndarray}

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        nonempty = [values for values in known if len(values)]
        lows, highs = (np.array([extreme(v, axis=0) for v in nonempty]) for extreme in (np.min, np.max))
        self.low_, high = self.scaler_(np.stack([lows.min(axis=0), highs.max(axis=0)]))
        self.span_ = np.where(high > self.low_, high - self.low_, 1.0).astype(np.float32)
        super()._learn(known, held_out)

    def _min_max(self, windows: Tensor) -> Tensor:
        low, span = (torch.from_numpy(a).to(windows.device) for a in (self.low_, self.span_))
        return (windows - low) / span


@dataclass(kw_only=True, eq=False, repr=False)
class TwoDecoderDetector(MinMaxDetector):
    """A detector with two decoders: the first learns to deceive the second, the second to expose the first.

    Its net has submodules `shared`, `first` and `second`, counts its training `steps`, and returns three
    reconstructions: one of each decoder, and the second decoder's reconstruction of the first one's output.

    Parameters
    ----------
    trust
        Weight of the first decoder's error in the score; the rest goes to the second's error on the first's output.
    """

    trust: float = 0.5

    @abstractmethod
    def _reconstruction_weight(self, epoch: float) -> float:
        """Return the weight of the plain reconstruction in the losses; epochs count from 1."""

    def _goals(self, net: Any) -> list[Goal]:
        shared = list(net.shared.parameters())
        return [
            Goal([*shared, *net.first.parameters()], self._loss),
            Goal([*shared, *net.second.parameters()], self._adversary_loss),
        ]

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        points = self._min_max(batch)
        first, _, second_of_first = net(points)
        if not net.training:  # held-out windows: early stopping needs a loss whose weights do not change
            return functional.mse_loss(first, points)
        weight = self._reconstruction_weight(1 + net.steps / STEPS_PER_EPOCH)
        adversarial = functional.mse_loss(second_of_first, points)
        return weight * functional.mse_loss(first, points) + (1 - weight) * adversarial

    def _adversary_loss(self, net: Any, batch: Tensor) -> Tensor:
        points = self._min_max(batch)
        _, second, second_of_first = net(points)
        weight = self._reconstruction_weight(1 + net.steps / STEPS_PER_EPOCH)
        net.steps += 1
        adversarial = functional.mse_loss(second_of_first, points)
        return weight * functional.mse_loss(second, points) - (1 - weight) * adversarial

    def _errors(self, windows: Tensor) -> Tensor:
        points = self._min_max(windows)
        first, _, second_of_first = (functional.mse_loss(r, points, reduction="none") for r in self.net_(points))
        return self.trust * first + (1 - self.trust) * second_of_first


class _USAD(nn.Module):
    def __init__(self, values: int, latent: int) -> None:
        super().__init__()
        half, quarter = max(values // 2, 1), max(values // 4, 1)
        self.steps = 0
        self.shared = nn.Sequential(
            nn.Linear(values, half),
            nn.ReLU(),
            nn.Linear(half, quarter),
            nn.ReLU(),
            nn.Linear(quarter, latent),
            nn.ReLU(),
        )
        self.first, self.second = (
            nn.Sequential(
                nn.Linear(latent, quarter),
                nn.ReLU(),
                nn.Linear(quarter, half),
                nn.ReLU(),
                nn.Linear(half, values),
                nn.Sigmoid(),
            )
            for _ in range(2)
        )

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        code = self.shared(points.flatten(1))
        first, second = self.first(code), self.second(code)
        second_of_first = self.second(self.shared(first))
        return first.view_as(points), second.view_as(points), second_of_first.view_as(points)


@dataclass(kw_only=True, eq=False, repr=False)
class USAD(TwoDecoderDetector):
    """Reconstruction error of a window under two adversarially trained autoencoders with a shared encoder.

    Audibert et al., "USAD: UnSupervised Anomaly Detection on Multivariate Time Series" (2020): in epoch n the plain
    reconstruction has weight 1/n in both losses, the adversarial term the rest; the score of a window, assigned to its
    newest row, is the weighted sum of the two errors. Layers, code and window are those that the paper uses on SWaT,
    without its downsampling of the rows; the two errors have equal weight, as in the public code. Here n grows evenly,
    by one in 250 steps, and training stops on the first autoencoder's error, early in the adversarial phase: in our
    trials with as many epochs as the paper's, the second autoencoder's error became large for every window and carried
    little information.

    Parameters
    ----------
    latent
        Width of the code.
    """

    name = "usad"

    window: int = 12
    max_steps: int | None = 1000
    latent: int = 40

    def _reconstruction_weight(self, epoch: float) -> float:
        return 1 / epoch

    def _build(self, channels: int) -> nn.Module:
        return _USAD(self.window_ * channels, self.latent)

    def _errors(self, windows: Tensor) -> Tensor:
        return super()._errors(windows).mean(dim=1, keepdim=True)


class _TranAD(nn.Module):
    """A decoder with causal self-attention over the window, attending to the encoded window beside the focus."""

    positions: Tensor
    later: Tensor

    def __init__(self, channels: int, window: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        width = 2 * channels
        self.steps = 0
        self.shared = nn.ModuleDict(
            {
                "context": nn.TransformerEncoderLayer(width, channels, feedforward, dropout, batch_first=True),
                "window": nn.TransformerDecoderLayer(width, channels, feedforward, dropout, batch_first=True),
            }
        )
        self.first, self.second = (nn.Sequential(nn.Linear(width, channels), nn.Sigmoid()) for _ in range(2))
        self.register_buffer("positions", sinusoids(window, width))
        self.register_buffer("later", torch.ones(window, window, dtype=torch.bool).triu(1))

    def encode(self, points: Tensor, focus: Tensor) -> Tensor:
        context = self.shared["context"](torch.cat([points, focus], dim=-1) + self.positions)
        code: Tensor = self.shared["window"](points.repeat(1, 1, 2) + self.positions, context, tgt_mask=self.later)
        return code

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        code = self.encode(points, torch.zeros_like(points))
        first, second = self.first(code), self.second(code)
        return first, second, self.second(self.encode(points, (first - points).square()))


@dataclass(kw_only=True, eq=False, repr=False)
class TranAD(TwoDecoderDetector):
    """Reconstruction error of a Transformer in two passes, the second conditioned on the errors of the first.

    Tuli et al., "TranAD: Deep Transformer Networks for Anomaly Detection in Multivariate Time Series Data" (2022): the
    squared error of a first pass, the focus, is an input of the second; two decoders are trained against each other,
    with a weight of `decay ** -n` for the plain reconstruction in epoch n; the score is the mean of the squared errors
    of both passes at the newest row. Window, width, heads and layer sizes are those of the paper and its public code.
    The context is the window itself, as in that code, not the whole past; the meta-learning step after each epoch is
    left out. Here n grows evenly, by one in 250 steps, and training stops on the error of the first decoder.

    Parameters
    ----------
    feedforward, dropout
        Of the Transformer layers.
    decay
        How fast the adversarial term takes over; the paper only says that it is near 1.
    """

    name = "tranad"

    window: int = 10
    max_steps: int | None = 400
    feedforward: int = 16
    dropout: float = 0.1
    decay: float = 1.1

    def _reconstruction_weight(self, epoch: float) -> float:
        return math.exp(-epoch * math.log(self.decay))

    def _build(self, channels: int) -> nn.Module:
        return _TranAD(channels, self.window_, self.feedforward, self.dropout)


def _lengths_before_halving(window: int, most: int) -> list[int]:
    """Return the length of a window before each of at most `most` halvings."""
    return [window >> i for i in range(min(most, int(math.log2(window))))]


class _StridedEncoder(nn.Module):
    """Strided convolutions that halve windows `(b, channel, t)` repeatedly, then a linear map to one vector."""

    def __init__(self, channels: int, lengths: Sequence[int], filters: int, out: int) -> None:
        super().__init__()
        widths = [channels, *(filters << i for i in range(len(lengths)))]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 4, stride=2, padding=1, bias=False), nn.BatchNorm1d(b), nn.LeakyReLU(0.2))
            for a, b in pairwise(widths)
        )
        self.out = nn.Linear(widths[-1] * (lengths[-1] // 2 if lengths else 1), out)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vector, and the features that it is computed from."""
        for layer in self.layers:
            points = layer(points)
        features = points.flatten(1)
        return self.out(features), features


class _BeatGAN(nn.Module):
    def __init__(self, channels: int, window: int, filters: int, latent: int) -> None:
        super().__init__()
        self.lengths = _lengths_before_halving(window, 4)
        self.encoder = _StridedEncoder(channels, self.lengths, filters, latent)
        self.discriminator = _StridedEncoder(channels, self.lengths, filters, 1)
        widths = [channels, *(filters << i for i in range(len(self.lengths)))]
        self.deepest = (widths[-1], self.lengths[-1] // 2 if self.lengths else 1)
        self.expand = nn.Linear(latent, self.deepest[0] * self.deepest[1])
        self.upsample = nn.ModuleList(nn.ConvTranspose1d(b, a, 4, stride=2, padding=1) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(a) for a in widths[1:-1])

    def forward(self, points: Tensor) -> Tensor:
        """Reconstruct windows `(b, channel, t)` with values from -1 to 1."""
        x: Tensor = self.expand(self.encoder(points)[0]).unflatten(1, self.deepest)
        for depth in reversed(range(len(self.lengths))):
            x = self.upsample[depth](x, output_size=[self.lengths[depth]])
            if depth:
                x = self.norms[depth - 1](x).relu()
        return x.tanh()


@dataclass(kw_only=True, eq=False, repr=False)
class BeatGAN(MinMaxDetector):
    """Reconstruction error of a convolutional autoencoder regularised by a discriminator.

    Zhou et al., "BeatGAN: Anomalous Rhythm Detection using Adversarially Generated Time Series" (2019): the autoencoder
    minimises its error and the difference of the discriminator's features; the discriminator tells windows from
    reconstructions; the score is the squared error. The paper's data augmentation by time warping is left out: a
    series has as many windows as rows. The paper's five halvings of 320 points become four of 64, with half its
    filters, for the budget; the width of the code and the weight of the features are the paper's.

    Parameters
    ----------
    filters
        Of the first convolution; each further one has twice as many.
    latent
        Width of the code.
    likeness_weight
        Weight of the difference of the discriminator's features in the autoencoder's loss.
    """

    name = "beatgan"

    window: int = 64
    hop: int = 10
    filters: int = 16
    latent: int = 50
    likeness_weight: float = 1.0

    def _build(self, channels: int) -> nn.Module:
        return _BeatGAN(channels, self.window_, self.filters, self.latent)

    def _goals(self, net: Any) -> list[Goal]:
        autoencoder = [p for part in (net.encoder, net.expand, net.upsample, net.norms) for p in part.parameters()]
        discriminator = list(net.discriminator.parameters())
        return [Goal(autoencoder, self._loss), Goal(discriminator, self._discriminator_loss)]

    def _points(self, windows: Tensor) -> Tensor:
        """Scale windows to -1..1, channels first."""
        return 2 * self._min_max(windows).transpose(1, 2) - 1

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        points = self._points(batch)
        reconstruction = net(points)
        error = functional.mse_loss(reconstruction, points)
        if not net.training:  # held-out windows: a discriminator that is still learning gives no stable measure
            return error
        made, real = net.discriminator(reconstruction)[1], net.discriminator(points)[1]
        return error + self.likeness_weight * functional.mse_loss(made, real)

    def _discriminator_loss(self, net: Any, batch: Tensor) -> Tensor:
        points = self._points(batch)
        with torch.no_grad():
            reconstruction = net(points)
        real, made = net.discriminator(points)[0], net.discriminator(reconstruction)[0]
        return (functional.softplus(-real) + functional.softplus(made)).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        points = self._points(windows)
        return functional.mse_loss(self.net_(points), points, reduction="none").transpose(1, 2)

"""Autoencoders with an adversary: one net learns to give back normal windows, another to tell its work from them."""

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
from patchad.model.training import Goal

ROUND = 250
"""Training steps that count as one epoch in a loss that changes from epoch to epoch, as it does evenly here."""


@dataclass(kw_only=True, eq=False, repr=False)
class RangedDetector(NeuralDetector):
    """A detector whose net sees each channel between its least and its greatest value of train, 0 to 1."""

    learned: ClassVar[Mapping[str, Any] | None] = {"low_": np.ndarray, "span_": np.ndarray}

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        filled = [values for values in known if len(values)]
        least, greatest = (np.array([edge(v, axis=0) for v in filled]) for edge in (np.min, np.max))
        self.low_, high = self.scaler_(np.stack([least.min(axis=0), greatest.max(axis=0)]))
        self.span_ = np.where(high > self.low_, high - self.low_, 1.0).astype(np.float32)
        super()._learn(known, held_out)

    def _ranged(self, windows: Tensor) -> Tensor:
        low, span = (torch.from_numpy(a).to(windows.device) for a in (self.low_, self.span_))
        return (windows - low) / span


@dataclass(kw_only=True, eq=False, repr=False)
class DuelDetector(RangedDetector):
    """A detector with two decoders: the first learns to deceive the second, the second to tell it from the data.

    Its net has the parts `shared`, `first` and `second`, counts its training `steps`, and gives three reconstructions:
    that of each decoder, and what the second makes of the work of the first.

    Parameters
    ----------
    trust
        Weight of the first decoder's error in the score; the rest is that of the second, on the work of the first.
    """

    trust: float = 0.5

    @abstractmethod
    def _plainness(self, epoch: float) -> float:
        """Give the weight of the plain reconstruction in the losses, where epochs are counted from 1."""

    def _goals(self, net: Any) -> list[Goal]:
        shared = list(net.shared.parameters())
        return [
            Goal([*shared, *net.first.parameters()], self._loss),
            Goal([*shared, *net.second.parameters()], self._opposed),
        ]

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        points = self._ranged(batch)
        one, _, again = net(points)
        if not net.training:  # held-out windows: the losses' weights change, and a measure to stop on must not
            return functional.mse_loss(one, points)
        weight = self._plainness(1 + net.steps / ROUND)
        return weight * functional.mse_loss(one, points) + (1 - weight) * functional.mse_loss(again, points)

    def _opposed(self, net: Any, batch: Tensor) -> Tensor:
        points = self._ranged(batch)
        _, two, again = net(points)
        weight = self._plainness(1 + net.steps / ROUND)
        net.steps += 1
        return weight * functional.mse_loss(two, points) - (1 - weight) * functional.mse_loss(again, points)

    def _errors(self, windows: Tensor) -> Tensor:
        points = self._ranged(windows)
        one, _, again = (functional.mse_loss(made, points, reduction="none") for made in self.net_(points))
        return self.trust * one + (1 - self.trust) * again


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
        one, two = self.first(code), self.second(code)
        again = self.second(self.shared(one))
        return one.view_as(points), two.view_as(points), again.view_as(points)


@dataclass(kw_only=True, eq=False, repr=False)
class USAD(DuelDetector):
    """Windows that two autoencoders with one encoder, trained against each other, give back badly.

    Audibert et al., "USAD: UnSupervised Anomaly Detection on Multivariate Time Series" (2020): in epoch n the plain
    reconstruction weighs 1/n in both losses, the duel the rest; the score of a window, which goes to its newest row, is
    the weighted sum of the two errors. Layers, code and window are those that the paper uses on SWaT, without its
    thinning of the rows; the errors weigh alike, as in the public code. Here n grows evenly, by one in 250 steps, and
    training stops on the first autoencoder's error, early in the duel: when it went on for as many epochs as the
    paper's, in our trials, the second autoencoder's error became large for every window and told little.

    Parameters
    ----------
    latent
        Width of the code.
    """

    name = "usad"

    window: int = 12
    max_steps: int | None = 1000
    latent: int = 40

    def _plainness(self, epoch: float) -> float:
        return 1 / epoch

    def _build(self, channels: int) -> nn.Module:
        return _USAD(self.window_ * channels, self.latent)

    def _errors(self, windows: Tensor) -> Tensor:
        return super()._errors(windows).mean(dim=1, keepdim=True)


class _TranAD(nn.Module):
    """Row t of the window attends to the rows up to t; all of that to the window beside the focus."""

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
        self.register_buffer("positions", _waves(window, width))
        self.register_buffer("later", torch.ones(window, window, dtype=torch.bool).triu(1))

    def encoded(self, points: Tensor, focus: Tensor) -> Tensor:
        context = self.shared["context"](torch.cat([points, focus], dim=-1) + self.positions)
        found: Tensor = self.shared["window"](points.repeat(1, 1, 2) + self.positions, context, tgt_mask=self.later)
        return found

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        code = self.encoded(points, torch.zeros_like(points))
        one, two = self.first(code), self.second(code)
        return one, two, self.second(self.encoded(points, (one - points).square()))


def _waves(rows: int, width: int) -> Tensor:
    """Give the sines and cosines `(row, width)` that tell a Transformer where a row stands; the width is even."""
    pace = torch.exp(-math.log(10_000.0) * torch.arange(0, width, 2) / width)
    angles = torch.arange(rows)[:, None] * pace
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@dataclass(kw_only=True, eq=False, repr=False)
class TranAD(DuelDetector):
    """Rows that a Transformer gives back badly, also when it is shown where it failed.

    Tuli et al., "TranAD: Deep Transformer Networks for Anomaly Detection in Multivariate Time Series Data" (2022): the
    squared error of a first pass, the focus, goes into a second one; two decoders are trained against each other, with
    a plain share of `decay ** -n` in epoch n; the score is the mean of the squared errors of both passes at the newest
    row. Window, width, heads, and the layers' sizes are the paper's and its public code's. The context is the window
    itself, as in that code, not the whole past; the meta-learning step after each epoch is left out. Here n grows
    evenly, by one in 250 steps, and training stops on the error of the first decoder.

    Parameters
    ----------
    feedforward, dropout
        Of the Transformer's layers.
    decay
        How fast the duel takes over; the paper only says that it is near 1.
    """

    name = "tranad"

    window: int = 10
    max_steps: int | None = 400
    feedforward: int = 16
    dropout: float = 0.1
    decay: float = 1.1

    def _plainness(self, epoch: float) -> float:
        return math.exp(-epoch * math.log(self.decay))

    def _build(self, channels: int) -> nn.Module:
        return _TranAD(channels, self.window_, self.feedforward, self.dropout)


def _halvings(window: int, most: int) -> list[int]:
    """Give the lengths that a window has before each halving, at most `most` of them."""
    return [window >> i for i in range(min(most, int(math.log2(window))))]


class _Strided(nn.Module):
    """Convolutions that halve a window `(b, channel, t)` again and again, then a linear map to one vector."""

    def __init__(self, channels: int, lengths: Sequence[int], filters: int, out: int) -> None:
        super().__init__()
        widths = [channels, *(filters << i for i in range(len(lengths)))]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 4, stride=2, padding=1, bias=False), nn.BatchNorm1d(b), nn.LeakyReLU(0.2))
            for a, b in pairwise(widths)
        )
        self.out = nn.Linear(widths[-1] * (lengths[-1] // 2 if lengths else 1), out)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Give the vector and the features before it."""
        for layer in self.layers:
            points = layer(points)
        features = points.flatten(1)
        return self.out(features), features


class _BeatGAN(nn.Module):
    def __init__(self, channels: int, window: int, filters: int, latent: int) -> None:
        super().__init__()
        self.lengths = _halvings(window, 4)
        self.encoder = _Strided(channels, self.lengths, filters, latent)
        self.critic = _Strided(channels, self.lengths, filters, 1)
        widths = [channels, *(filters << i for i in range(len(self.lengths)))]
        self.deepest = (widths[-1], self.lengths[-1] // 2 if self.lengths else 1)
        self.spread = nn.Linear(latent, self.deepest[0] * self.deepest[1])
        self.widen = nn.ModuleList(nn.ConvTranspose1d(b, a, 4, stride=2, padding=1) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(a) for a in widths[1:-1])

    def forward(self, points: Tensor) -> Tensor:
        """Give back windows `(b, channel, t)` between -1 and 1."""
        found: Tensor = self.spread(self.encoder(points)[0]).unflatten(1, self.deepest)
        for depth in reversed(range(len(self.lengths))):
            found = self.widen[depth](found, output_size=[self.lengths[depth]])
            if depth:
                found = self.norms[depth - 1](found).relu()
        return found.tanh()


@dataclass(kw_only=True, eq=False, repr=False)
class BeatGAN(RangedDetector):
    """Rows that a convolutional autoencoder, which an adversary keeps to natural windows, gives back badly.

    Zhou et al., "BeatGAN: Anomalous Rhythm Detection using Adversarially Generated Time Series" (2019): the autoencoder
    makes its error small and the features that the discriminator sees alike; the discriminator tells windows from
    reconstructions; the score is the squared error. The paper's warping of beats to have more of them is left out: a
    series has as many windows as rows. The paper's five halvings of 320 points become four of 64, with half its
    filters, for the budget; the code's width and the weight of the features are the paper's.

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
        autoencoder = [p for part in (net.encoder, net.spread, net.widen, net.norms) for p in part.parameters()]
        return [Goal(autoencoder, self._loss), Goal(list(net.critic.parameters()), self._opposed)]

    def _points(self, windows: Tensor) -> Tensor:
        """Put windows between -1 and 1, channels first."""
        return 2 * self._ranged(windows).transpose(1, 2) - 1

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        points = self._points(batch)
        again = net(points)
        error = functional.mse_loss(again, points)
        if not net.training:  # held-out windows: a critic that still learns is no measure
            return error
        return error + self.likeness_weight * functional.mse_loss(net.critic(again)[1], net.critic(points)[1])

    def _opposed(self, net: Any, batch: Tensor) -> Tensor:
        points = self._points(batch)
        with torch.no_grad():
            again = net(points)
        real, made = net.critic(points)[0], net.critic(again)[0]
        return (functional.softplus(-real) + functional.softplus(made)).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        points = self._points(windows)
        return functional.mse_loss(self.net_(points), points, reduction="none").transpose(1, 2)

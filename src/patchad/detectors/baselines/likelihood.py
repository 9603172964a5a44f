"""LikelihoodDetector: a net that expects every row as a Gaussian; a row that it holds for unlikely is strange."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.table import FloatArray
from patchad.detectors.neural import NeuralDetector

LOG_SPREAD = (-5.0, 2.0)
"""Least and greatest logarithm of a standard deviation that a net may say, as in InterFusion's public code."""
FARTHEST = 10.0
"""Bound of a latent's mean: a linear recurrence over a window must not run off to infinity."""


class Gaussian(NamedTuple):
    """Independent normal distributions."""

    mean: Tensor
    log_spread: Tensor

    def draw(self) -> Tensor:
        """Draw once, so that gradients reach mean and spread."""
        return self.mean + self.log_spread.exp() * torch.randn_like(self.mean)

    def log_density(self, values: Tensor) -> Tensor:
        """Give the logarithm of the density of each value by itself."""
        return -0.5 * (math.log(2 * math.pi) + self.squared(values)) - self.log_spread

    def squared(self, values: Tensor) -> Tensor:
        """Give the squared distance of each value from the mean, in standard deviations."""
        return ((values - self.mean) * torch.exp(-self.log_spread)).square()

    def divergence(self) -> Tensor:
        """Give the Kullback-Leibler divergence of each from the standard normal distribution."""
        return 0.5 * (self.mean.square() + torch.exp(2 * self.log_spread) - 1) - self.log_spread


class GaussianHead(nn.Module):
    """A linear map from features to the mean and the spread of each of `width` values."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(features, 2 * width)

    def forward(self, features: Tensor) -> Gaussian:
        """Map features `(..., feature)`."""
        mean, log_spread = self.map(features).chunk(2, dim=-1)
        return Gaussian(mean, log_spread.clamp(*LOG_SPREAD))


class LinkedLatent(nn.Module):
    """Latent steps whose mean and spread are linear in the step's features and in the latent of the step before."""

    def __init__(self, features: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.of_features = nn.Linear(features, 2 * latent)
        self.of_before = nn.Linear(latent, 2 * latent, bias=False)
        nn.init.zeros_(self.of_before.weight)  # a recurrence that starts at random drives the spreads to their bounds

    def walk(self, features: Tensor, *, noisy: bool) -> tuple[Tensor, Gaussian]:
        """Go through the steps `(b, t, feature)`, drawing a latent at each, or taking its mean."""
        parts = self.of_features(features).unbind(1)
        latents, steps = [features.new_zeros(len(features), self.latent)], []
        for part in parts:
            steps.append(self._step(part, latents[-1]))
            latents.append(steps[-1].draw() if noisy else steps[-1].mean)
        means, spreads = zip(*steps, strict=True)
        return torch.stack(latents[1:], dim=1), Gaussian(torch.stack(means, dim=1), torch.stack(spreads, dim=1))

    def given(self, features: Tensor, latents: Tensor) -> Gaussian:
        """Say how latents `(b, t, latent)` would be distributed at each step, given those before."""
        return self._step(self.of_features(features), before(latents))

    def _step(self, part: Tensor, latent: Tensor) -> Gaussian:
        mean, log_spread = (part + self.of_before(latent)).chunk(2, dim=-1)
        return Gaussian(mean.clamp(-FARTHEST, FARTHEST), log_spread.clamp(*LOG_SPREAD))


def before(latents: Tensor) -> Tensor:
    """Shift `(b, t, latent)` by one step; zeros come first."""
    return functional.pad(latents[:, :-1], (0, 0, 1, 0))


class PlanarFlow(nn.Module):
    """Planar maps one after the other (Rezende and Mohamed, 2015), which bend a Gaussian into another distribution."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.along = nn.Parameter(0.1 * torch.randn(layers, width))
        self.across = nn.Parameter(0.1 * torch.randn(layers, width))
        self.shift = nn.Parameter(torch.zeros(layers))

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Give the mapped values, and the logarithm of by how much each point's surroundings are stretched."""
        stretched = torch.zeros_like(values[..., 0])
        for along, across, shift in zip(self.along, self.across, self.shift, strict=True):
            product = along @ across  # held over -1, where the map can be undone
            push = along + (functional.softplus(product) - 1 - product) * across / (across @ across + 1e-8)
            bend = torch.tanh(values @ across + shift)
            stretched = stretched + torch.log1p((1 - bend.square()) * (push @ across).clamp(min=-1 + 1e-4))
            values = values + bend[..., None] * push
        return values, stretched


@dataclass(kw_only=True, eq=False, repr=False)
class LikelihoodDetector(NeuralDetector):
    """A detector that scores a row by the negative logarithm of its likelihood, averaged over the channels.

    A channel's blame is the squared distance from its mean, in standard deviations.
    """

    @abstractmethod
    def _expected(self, windows: Tensor) -> Gaussian:
        """Say how `net_` expects the points of scaled windows `(b, t, c)`, without chance."""

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        with torch.inference_mode():
            points = torch.from_numpy(windows).to(self.device_)
            expected = self._expected(points)
            scores = -expected.log_density(points)[:, -steps:].double().mean(-1)
            blame = expected.squared(points)[:, -steps:].cpu().numpy() if explain else None
        return scores.cpu().numpy(), blame

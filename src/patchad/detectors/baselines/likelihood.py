"""LikelihoodDetector: a net that predicts every row as a Gaussian; an unlikely row is anomalous."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.table import FloatArray
from patchad.detectors.neural import NeuralDetector

LOG_STD_RANGE = (-5.0, 2.0)
"""Range to which the logarithm of a predicted standard deviation is clamped, as in InterFusion's public code."""
LATENT_BOUND = 10.0
"""Bound on a latent's mean: a linear recurrence over a window must not diverge."""


class Gaussian(NamedTuple):
    """Independent normal distributions."""

    mean: Tensor
    log_std: Tensor

    def sample(self) -> Tensor:
        """Draw once, reparametrised: gradients reach mean and standard deviation."""
        return self.mean + self.log_std.exp() * torch.randn_like(self.mean)

    def log_density(self, values: Tensor) -> Tensor:
        """Return the log density of each value by itself."""
        return -0.5 * (math.log(2 * math.pi) + self.squared(values)) - self.log_std

    def squared(self, values: Tensor) -> Tensor:
        """Return the squared distance of each value from the mean, in standard deviations."""
        return ((values - self.mean) * torch.exp(-self.log_std)).square()

    def divergence(self) -> Tensor:
        """Return the Kullback-Leibler divergence of each from the standard normal distribution."""
        return 0.5 * (self.mean.square() + torch.exp(2 * self.log_std) - 1) - self.log_std


class GaussianHead(nn.Module):
    """A linear map from features to the mean and the standard deviation of each of `width` values."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(features, 2 * width)

    def forward(self, features: Tensor) -> Gaussian:
        """Map features `(..., feature)`."""
        mean, log_std = self.map(features).chunk(2, dim=-1)
        return Gaussian(mean, log_std.clamp(*LOG_STD_RANGE))


class MarkovLatent(nn.Module):
    """Latents whose mean and standard deviation are linear in the step's features and in the previous latent."""

    def __init__(self, features: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.of_features = nn.Linear(features, 2 * latent)
        self.of_previous = nn.Linear(latent, 2 * latent, bias=False)
        nn.init.zeros_(self.of_previous.weight)  # a random recurrence drives the standard deviations to their bounds

    def roll_out(self, features: Tensor, *, sample: bool) -> tuple[Tensor, Gaussian]:
        """Walk through the steps `(b, t, feature)`, sampling the latent of each, or taking its mean."""
        latents, steps = [features.new_zeros(len(features), self.latent)], []
        for mapped in self.of_features(features).unbind(1):
            steps.append(self._step(mapped, latents[-1]))
            latents.append(steps[-1].sample() if sample else steps[-1].mean)
        means, log_stds = zip(*steps, strict=True)
        return torch.stack(latents[1:], dim=1), Gaussian(torch.stack(means, dim=1), torch.stack(log_stds, dim=1))

    def conditional(self, features: Tensor, latents: Tensor) -> Gaussian:
        """Return the distribution of the latent of each step, given the previous ones of `latents` `(b, t, latent)`."""
        return self._step(self.of_features(features), previous(latents))

    def _step(self, mapped: Tensor, latent: Tensor) -> Gaussian:
        mean, log_std = (mapped + self.of_previous(latent)).chunk(2, dim=-1)
        return Gaussian(mean.clamp(-LATENT_BOUND, LATENT_BOUND), log_std.clamp(*LOG_STD_RANGE))


def previous(latents: Tensor) -> Tensor:
    """Shift `(b, t, latent)` by one step; zeros come first."""
    return functional.pad(latents[:, :-1], (0, 0, 1, 0))


class PlanarFlow(nn.Module):
    """Planar flows (Rezende and Mohamed, 2015) in sequence: each maps z to z + u tanh(w z + b)."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.u = nn.Parameter(0.1 * torch.randn(layers, width))
        self.w = nn.Parameter(0.1 * torch.randn(layers, width))
        self.b = nn.Parameter(torch.zeros(layers))

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mapped values, and the log determinant of the Jacobian at each point."""
        log_det = torch.zeros_like(values[..., 0])
        for u, w, b in zip(self.u, self.w, self.b, strict=True):
            product = u @ w  # u is corrected so that this exceeds -1, where the map is invertible
            invertible = u + (functional.softplus(product) - 1 - product) * w / (w @ w + 1e-8)
            bend = torch.tanh(values @ w + b)
            log_det = log_det + torch.log1p((1 - bend.square()) * (invertible @ w).clamp(min=-1 + 1e-4))
            values = values + bend[..., None] * invertible
        return values, log_det


@dataclass(kw_only=True, eq=False, repr=False)
class LikelihoodDetector(NeuralDetector):
    """A detector that scores a row by its negative log-likelihood, averaged over the channels.

    The net takes windows `(b, t, c)` and whether to `sample` its latents; the first of its outputs is the `Gaussian`
    of the rows. The attribution of a channel is the squared distance from its mean, in standard deviations.
    """

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        with torch.inference_mode():
            points = torch.from_numpy(windows).to(self.device_)
            rows: Gaussian = self.net_(points, sample=False)[0]
            scores = -rows.log_density(points)[:, -steps:].double().mean(-1)
            attribution = rows.squared(points)[:, -steps:].cpu().numpy() if explain else None
        return scores.cpu().numpy(), attribution

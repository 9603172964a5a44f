"""Models of how normal windows come about, by latent states or from noise; what they never make is strange."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.table import FloatArray
from patchad.detectors.baselines.likelihood import (
    Gaussian,
    GaussianHead,
    LikelihoodDetector,
    LinkedLatent,
    PlanarFlow,
    before,
)
from patchad.detectors.neural import NeuralDetector

WARM_UP = 100
"""Training steps over which InterFusion's divergences come to count in full."""


class _OmniAnomaly(nn.Module):
    def __init__(self, channels: int, hidden: int, latent: int, flows: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(channels, hidden, batch_first=True)
        self.encoded = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.latent = LinkedLatent(hidden, latent)
        self.flow = PlanarFlow(latent, flows)
        self.transition = nn.Linear(latent, latent, bias=False)
        self.log_spread = nn.Parameter(torch.zeros(latent))
        self.decoder = nn.GRU(latent, hidden, batch_first=True)
        self.decoded = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.rows = GaussianHead(hidden, channels)

    def forward(self, windows: Tensor, *, noisy: bool) -> tuple[Gaussian, Tensor]:
        """Give the rows that are expected, and by how much the latents `(b, t)` are likelier than their prior says."""
        drawn, chosen = self.latent.walk(self.encoded(self.encoder(windows)[0]), noisy=noisy)
        latents, stretched = self.flow(drawn)
        prior = Gaussian(self.transition(before(latents)), self.log_spread.expand_as(latents))
        excess = chosen.log_density(drawn).sum(-1) - stretched - prior.log_density(latents).sum(-1)
        return self.rows(self.decoded(self.decoder(latents)[0])), excess


@dataclass(kw_only=True, eq=False, repr=False)
class OmniAnomaly(LikelihoodDetector):
    """Rows that a recurrent net with a stochastic latent at every step holds for unlikely.

    Su et al., "Robust Anomaly Detection for Multivariate Time Series through Stochastic Recurrent Neural Network"
    (2019): the latent of a step hangs on the one before and on a GRU over the rows, and is bent by planar flows; the
    prior links the latents by a linear Gaussian state-space model; a second GRU leads from the latents to the rows;
    the score is the negative log-likelihood of the row. The model's two noises, of state and of observation, are one
    here. Scores come from the mean latents, not from a sample. Window and latents are the paper's; its GRUs are 500
    wide and its flows 20 long, and it scores each row in a window of its own: less is taken here for the budget.

    Parameters
    ----------
    hidden, latent
        Width of the GRUs and of the latent of a step.
    flows
        Planar maps on the latents.
    """

    name = "omnianomaly"

    window: int = 100
    hop: int = 10
    max_steps: int | None = 300
    learning_rate: float = 3e-3
    hidden: int = 64
    latent: int = 3
    flows: int = 4

    def _build(self, channels: int) -> nn.Module:
        return _OmniAnomaly(channels, self.hidden, self.latent, self.flows)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        rows: Gaussian
        excess: Tensor
        rows, excess = net(batch, noisy=True)
        return (excess - rows.log_density(batch).sum(-1)).mean()

    def _expected(self, windows: Tensor) -> Gaussian:
        rows: Gaussian = self.net_(windows, noisy=False)[0]
        return rows


class _InterFusion(nn.Module):
    def __init__(self, channels: int, window: int, hidden: int, latent: int, flows: int) -> None:
        super().__init__()
        self.steps = 0
        halved = -(-window // 2)
        self.lengths = [window, halved, -(-halved // 2)]  # before each halving of the time axis
        widths = [channels, *[hidden] * 5]
        self.squeeze = nn.Sequential(
            *(
                part
                for (a, b), stride in zip(pairwise(widths), (2, 1, 2, 1, 2), strict=True)
                for part in (nn.Conv1d(a, b, 5, stride, 2), nn.LeakyReLU())
            )
        )
        self.temporal = GaussianHead(hidden, channels)
        self.stretch = nn.ModuleList(
            nn.ConvTranspose1d(a, b, 5, 2, 2) for a, b in ((hidden, channels), (hidden, hidden), (channels, hidden))
        )
        self.smooth = nn.ModuleList(nn.Conv1d(hidden, hidden, 5, 1, 2) for _ in self.lengths[1:])
        for part in self.modules():
            if isinstance(part, nn.Conv1d | nn.ConvTranspose1d):
                nn.init.kaiming_normal_(part.weight)  # torch's own start lets ten layers fade to nothing
        self.filtered = GaussianHead(channels, channels)
        self.backwards = nn.GRU(channels, hidden, batch_first=True)
        self.encoded = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.latent = LinkedLatent(hidden, latent)
        self.flow = PlanarFlow(latent, flows)
        self.prior = LinkedLatent(channels, latent)
        self.widened = nn.Linear(latent, channels)
        self.decoded = nn.Sequential(nn.Linear(2 * channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.rows = GaussianHead(hidden, channels)

    def stretched(self, latents: Tensor) -> Tensor:
        """Lead from the temporal latents `(b, t / 8, c)` back to the time axis of the window."""
        found = latents.transpose(1, 2)
        for depth in (2, 1, 0):
            found = functional.leaky_relu(self.stretch[depth](found, output_size=[self.lengths[depth]]))
            if depth:
                found = functional.leaky_relu(self.smooth[depth - 1](found))
        return found.transpose(1, 2)

    def forward(self, windows: Tensor, *, noisy: bool) -> tuple[Gaussian, Gaussian, Gaussian, Tensor]:
        """Give the rows, the rows from the temporal latents alone, these latents, and the other latents' excess."""
        temporal: Gaussian = self.temporal(self.squeeze(windows.transpose(1, 2)).transpose(1, 2))
        shape = self.stretched(temporal.draw() if noisy else temporal.mean)
        features = self.encoded(self.backwards(shape.flip(1))[0].flip(1))
        drawn, chosen = self.latent.walk(features, noisy=noisy)
        latents, bent = self.flow(drawn)
        excess = (
            chosen.log_density(drawn).sum(-1) - bent - self.prior.given(shape, latents).log_density(latents).sum(-1)
        )
        rows = self.rows(self.decoded(torch.cat([self.widened(latents), shape], dim=-1)))
        return rows, self.filtered(shape), temporal, excess


@dataclass(kw_only=True, eq=False, repr=False)
class InterFusion(LikelihoodDetector):
    """Rows that a variational autoencoder with two layers of latents, over time and over channels, holds for unlikely.

    Li et al., "Multivariate Time Series Anomaly Detection and Interpretation using Hierarchical Inter-Metric and
    Temporal Embedding" (2021): convolutions squeeze the window along time into temporal latents; from these a GRU that
    runs backwards draws a few latents for each step, which hold how the channels hang together; the score is the
    negative log-likelihood of the row under both. The paper's MCMC imputation, which refines the reconstruction at
    rows that look anomalous, is left out, in the score as in the blame. The temporal latents learn to give back the
    window by themselves beside the rest, not before it, and the divergences from the priors come to count in full only
    over the first 100 steps, or the latents would fall silent at once. Planar flows stand for real NVP. The
    convolutions are as wide as the other hidden layers, not as the series: few channels would leave them next to
    nothing. Scores come from the mean latents. Window and latents are the public code's; hidden layers are 500 wide
    there, and flows 20 long.

    Parameters
    ----------
    hidden, latent
        Width of the hidden layers, and of the latent of a step.
    flows
        Planar maps on the latents of the steps.
    """

    name = "interfusion"

    window: int = 100
    hop: int = 10
    max_steps: int | None = 300
    learning_rate: float = 3e-3
    hidden: int = 64
    latent: int = 3
    flows: int = 4

    def _build(self, channels: int) -> nn.Module:
        return _InterFusion(channels, self.window_, self.hidden, self.latent, self.flows)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        rows: Gaussian
        filtered: Gaussian
        temporal: Gaussian
        excess: Tensor
        rows, filtered, temporal, excess = net(batch, noisy=True)
        # The temporal latents count twice: in the whole, and in what they say by themselves.
        divergence = excess.mean() + 2 * temporal.divergence().sum((1, 2)).mean() / batch.shape[1]
        weight = min(net.steps / WARM_UP, 1.0) if net.training else 1.0
        net.steps += net.training
        return weight * divergence - (rows.log_density(batch) + filtered.log_density(batch)).sum(-1).mean()

    def _expected(self, windows: Tensor) -> Gaussian:
        rows: Gaussian = self.net_(windows, noisy=False)[0]
        return rows


class _D3R(nn.Module):
    """Windows `(b, t, c)` into a stable part and a level; then noise, and back to the window."""

    noise: Tensor

    def __init__(self, channels: int, rows: int, width: int, blocks: int, shift: int, kept: float) -> None:
        super().__init__()
        self.shift, self.kept = shift, kept
        self.embed, self.embed_noisy = nn.Linear(channels, width), nn.Linear(channels, width)
        self.positions = nn.Parameter(0.1 * torch.randn(rows, width))
        self.decompose = nn.ModuleList(_attention(width) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))
        self.stable = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, channels)) for _ in range(blocks)
        )
        self.denoise = nn.ModuleList(_attention(width) for _ in range(blocks))
        self.out = nn.Linear(width, channels)
        self.register_buffer("noise", torch.randn(rows, channels))

    def parts(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Give the stable part, and the level `(b, 1, c)` on which it stands."""
        rest = self.embed(windows) + self.positions
        stable = torch.zeros_like(windows)
        for block, norm, out in zip(self.decompose, self.norms, self.stable, strict=True):
            found = block(rest)
            stable, rest = stable + out(found), norm(rest - found)
        # A row is held to the nearest of the stable values around it, so that a cycle that comes late is no drift.
        around = functional.pad(stable.transpose(1, 2), (self.shift, self.shift), mode="replicate")
        gaps = windows[..., None] - around.unfold(2, 2 * self.shift + 1, 1).transpose(1, 2)
        least = gaps.gather(-1, gaps.abs().argmin(-1, keepdim=True))[..., 0]
        return stable, least.mean(1, keepdim=True)

    def forward(self, windows: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Give the stable part, and the windows again after noise has covered most of what is not level."""
        stable, level = self.parts(windows)
        polluted = self.kept * windows + (1 - self.kept) * level + (1 - self.kept**2) ** 0.5 * noise
        base = self.embed_noisy(level)
        found = self.embed_noisy(polluted) - base + self.positions
        for block in self.denoise:
            found = block(found)
        return stable, self.out(found + base)


def _attention(width: int) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)


@dataclass(kw_only=True, eq=False, repr=False)
class D3R(NeuralDetector):
    """Rows that cannot be found again under noise, once the drifting level of the window is known.

    Wang et al., "Drift doesn't Matter: Dynamic Decomposition with Diffusion Reconstruction for Unstable Multivariate
    Time Series Anomaly Detection" (2023): attention splits a window, on which a random level was put, into a stable
    part and the level; noise as of step 500 of a diffusion, which leaves the level but little else, is the bottleneck,
    and a second stack of attention leads back to the window; the score is the squared error. In training the stable
    part is learned from what is over the median of a longer stretch around it. The paper mixes the data with calendar
    features, by which it knows periods longer than its window; detectors here see no calendar, so learned positions
    take their place and that knowledge is lost. Its attention across channels is left to the embedding. Scoring uses
    one noise, drawn in the fit, for all windows. The random level lies on both sides of 0, so that windows without one
    are inside what was trained on, and is smaller than the paper's, which is up to 10: that takes longer training than
    the budget has. Noise and blocks are the paper's, but with norms before the layers, not after, and no dropout; it
    has 512 hidden units, a stretch of 1440 rows around 64, and looks for late cycles 30 rows away.

    Parameters
    ----------
    window
        Rows of the longer stretch; the net sees a third of them: the middle one in training, each one in scoring.
    width, blocks
        Hidden units, a multiple of 4, and the attention layers of each stack.
    shift
        Rows by which a cycle may come early or late.
    disturbance
        Range of the level that is put on a training window, in standard deviations.
    diffusion
        How many of 1000 diffusion steps the noise is worth.
    """

    name = "d3r"

    window: int = 192
    max_steps: int | None = 500
    batch_size: int = 32
    learning_rate: float = 3e-3
    width: int = 32
    blocks: int = 2
    shift: int = 5
    disturbance: float = 2.0
    diffusion: int = 500

    def _shrink(self, most: int) -> None:
        self.window_ = 3 * max(min(self.window, most) // 3, 1)

    def _build(self, channels: int) -> nn.Module:
        kept = float(
            torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device="cpu"), dim=0)[self.diffusion - 1].sqrt()
        )
        return _D3R(channels, self.window_ // 3, self.width, self.blocks, self.shift, kept)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        third = self.window_ // 3
        middle = batch[:, third : 2 * third]
        target = middle - batch.median(dim=1, keepdim=True).values
        drift = self.disturbance * (torch.rand_like(batch[:, :1]) - 0.5)
        stable, again = net(middle + drift, torch.randn_like(middle))
        return 0.5 * functional.mse_loss(stable, target) + 0.5 * functional.mse_loss(again - drift, middle)

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        newest = windows[:, -(self.window_ // 3) :]
        seen = (
            windows if steps > newest.shape[1] else np.ascontiguousarray(newest)
        )  # the other thirds say nothing of it
        return super()._judge(seen, steps, explain=explain)

    def _errors(self, windows: Tensor) -> Tensor:
        net: Any = self.net_
        thirds = windows.reshape(-1, self.window_ // 3, windows.shape[2])
        errors = functional.mse_loss(net(thirds, net.noise)[1], thirds, reduction="none")
        return errors.reshape(windows.shape)

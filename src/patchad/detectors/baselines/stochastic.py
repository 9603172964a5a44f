"""Generative models of normal windows, from latent states or from noise; unlikely rows are anomalous."""

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
    MarkovLatent,
    PlanarFlow,
    previous,
)
from patchad.detectors.neural import NeuralDetector

KL_WARM_UP = 100
"""Training steps over which the weight of InterFusion's KL divergences rises to 1."""


class _OmniAnomaly(nn.Module):
    def __init__(self, channels: int, hidden: int, latent: int, flows: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(channels, hidden, batch_first=True)
        self.encoded = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.latent = MarkovLatent(hidden, latent)
        self.flow = PlanarFlow(latent, flows)
        self.transition = nn.Linear(latent, latent, bias=False)
        self.log_std = nn.Parameter(torch.zeros(latent))
        self.decoder = nn.GRU(latent, hidden, batch_first=True)
        self.decoded = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.rows = GaussianHead(hidden, channels)

    def forward(self, windows: Tensor, *, sample: bool) -> tuple[Gaussian, Tensor]:
        """Return the distribution of the rows, and the log density of the latents `(b, t)` in excess of their prior."""
        drawn, posterior = self.latent.roll_out(self.encoded(self.encoder(windows)[0]), sample=sample)
        latents, log_det = self.flow(drawn)
        prior = Gaussian(self.transition(previous(latents)), self.log_std.expand_as(latents))
        excess = posterior.log_density(drawn).sum(-1) - log_det - prior.log_density(latents).sum(-1)
        return self.rows(self.decoded(self.decoder(latents)[0])), excess


@dataclass(kw_only=True, eq=False, repr=False)
class OmniAnomaly(LikelihoodDetector):
    """Negative log-likelihood of a row under a recurrent net with a stochastic latent at every step.

    Su et al., "Robust Anomaly Detection for Multivariate Time Series through Stochastic Recurrent Neural Network"
    (2019): the latent of a step depends on the previous one and on a GRU over the rows, and is transformed by planar
    flows; the prior of the latents is a linear Gaussian state-space model; a second GRU decodes the latents into rows;
    the score is the negative log-likelihood of the row. The model's two noises, of state and of observation, are one
    here. Scores come from the mean latents, not from a sample. Window and latents are the paper's; its GRUs are 500
    wide, it has 20 flows, and it scores each row in a window of its own: sizes are smaller here for the budget.

    Parameters
    ----------
    hidden, latent
        Width of the GRUs and of the latent of a step.
    flows
        Planar flows on the latents.
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
        rows, excess = net(batch, sample=True)
        return (excess - rows.log_density(batch).sum(-1)).mean()


class _InterFusion(nn.Module):
    def __init__(self, channels: int, window: int, hidden: int, latent: int, flows: int) -> None:
        super().__init__()
        self.steps = 0
        halved = -(-window // 2)
        self.lengths = [window, halved, -(-halved // 2)]  # before each halving of the time axis
        widths = [channels, *[hidden] * 5]
        self.downsample = nn.Sequential(
            *(
                layer
                for (a, b), stride in zip(pairwise(widths), (2, 1, 2, 1, 2), strict=True)
                for layer in (nn.Conv1d(a, b, 5, stride, 2), nn.LeakyReLU())
            )
        )
        self.temporal = GaussianHead(hidden, channels)
        self.upsample = nn.ModuleList(
            nn.ConvTranspose1d(a, b, 5, 2, 2) for a, b in ((hidden, channels), (hidden, hidden), (channels, hidden))
        )
        self.smooth = nn.ModuleList(nn.Conv1d(hidden, hidden, 5, 1, 2) for _ in self.lengths[1:])
        for module in self.modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
                nn.init.kaiming_normal_(module.weight)  # with torch's default the signal vanishes over ten layers
        self.filtered = GaussianHead(channels, channels)
        self.backwards = nn.GRU(channels, hidden, batch_first=True)
        self.encoded = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.latent = MarkovLatent(hidden, latent)
        self.flow = PlanarFlow(latent, flows)
        self.prior = MarkovLatent(channels, latent)
        self.widened = nn.Linear(latent, channels)
        self.decoded = nn.Sequential(nn.Linear(2 * channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.rows = GaussianHead(hidden, channels)

    def upsampled(self, latents: Tensor) -> Tensor:
        """Upsample the temporal latents `(b, t / 8, c)` to the length of the window."""
        x = latents.transpose(1, 2)
        for depth in (2, 1, 0):
            x = functional.leaky_relu(self.upsample[depth](x, output_size=[self.lengths[depth]]))
            if depth:
                x = functional.leaky_relu(self.smooth[depth - 1](x))
        return x.transpose(1, 2)

    def forward(self, windows: Tensor, *, sample: bool) -> tuple[Gaussian, Gaussian, Gaussian, Tensor]:
        """Return the rows, the rows from the temporal latents alone, these latents, and the other latents' excess."""
        temporal: Gaussian = self.temporal(self.downsample(windows.transpose(1, 2)).transpose(1, 2))
        shape = self.upsampled(temporal.sample() if sample else temporal.mean)
        features = self.encoded(self.backwards(shape.flip(1))[0].flip(1))
        drawn, posterior = self.latent.roll_out(features, sample=sample)
        latents, log_det = self.flow(drawn)
        prior = self.prior.conditional(shape, latents)
        excess = posterior.log_density(drawn).sum(-1) - log_det - prior.log_density(latents).sum(-1)
        rows = self.rows(self.decoded(torch.cat([self.widened(latents), shape], dim=-1)))
        return rows, self.filtered(shape), temporal, excess


@dataclass(kw_only=True, eq=False, repr=False)
class InterFusion(LikelihoodDetector):
    """Negative log-likelihood of a row under a VAE with two layers of latents, over time and over channels.

    Li et al., "Multivariate Time Series Anomaly Detection and Interpretation using Hierarchical Inter-Metric and
    Temporal Embedding" (2021): convolutions compress the window along time into temporal latents; from these a
    backward GRU infers a few latents for each step, which encode how the channels are related; the score is the
    negative log-likelihood of the row given both. The paper's MCMC imputation, which refines the reconstruction at
    rows that look anomalous, is left out, in the score and in the attribution. The temporal latents learn to
    reconstruct the window on their own at the same time, not in advance, and the weight of the divergences from the
    priors rises to 1 over the first 100 steps, or the posterior would collapse. Planar flows replace real NVP. The
    convolutions are as wide as the other hidden layers, not as the series: few channels would make them too narrow.
    Scores come from the mean latents. Window and latents are the public code's, which has hidden layers 500 wide and
    20 flows.

    Parameters
    ----------
    hidden, latent
        Width of the hidden layers, and of the latent of a step.
    flows
        Planar flows on the latents of the steps.
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
        rows, filtered, temporal, excess = net(batch, sample=True)
        # The temporal latents count twice: in the whole model, and in their own reconstruction.
        divergence = excess.mean() + 2 * temporal.divergence().sum((1, 2)).mean() / batch.shape[1]
        weight = min(net.steps / KL_WARM_UP, 1.0) if net.training else 1.0
        net.steps += net.training
        return weight * divergence - (rows.log_density(batch) + filtered.log_density(batch)).sum(-1).mean()


class _D3R(nn.Module):
    """Decompose windows `(b, t, c)` into a stable component and a level, then reconstruct them from noise."""

    noise: Tensor

    def __init__(self, channels: int, rows: int, width: int, blocks: int, shift: int, kept: float) -> None:
        super().__init__()
        self.shift, self.kept = shift, kept
        self.embed, self.embed_noisy = nn.Linear(channels, width), nn.Linear(channels, width)
        self.positions = nn.Parameter(0.1 * torch.randn(rows, width))
        self.decompose = nn.ModuleList(_encoder_layer(width) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))
        self.stable = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, channels)) for _ in range(blocks)
        )
        self.denoise = nn.ModuleList(_encoder_layer(width) for _ in range(blocks))
        self.out = nn.Linear(width, channels)
        self.register_buffer("noise", torch.randn(rows, channels))

    def decomposed(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the stable component, and the level `(b, 1, c)` that it is added to."""
        rest = self.embed(windows) + self.positions
        stable = torch.zeros_like(windows)
        for block, norm, out in zip(self.decompose, self.norms, self.stable, strict=True):
            x = block(rest)
            stable, rest = stable + out(x), norm(rest - x)
        # Rows are compared with the nearest stable value around them, so that a late cycle does not count as drift.
        around = functional.pad(stable.transpose(1, 2), (self.shift, self.shift), mode="replicate")
        gaps = windows[..., None] - around.unfold(2, 2 * self.shift + 1, 1).transpose(1, 2)
        least = gaps.gather(-1, gaps.abs().argmin(-1, keepdim=True))[..., 0]
        return stable, least.mean(1, keepdim=True)

    def forward(self, windows: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the stable component, and the windows reconstructed from their level and mostly noise."""
        stable, level = self.decomposed(windows)
        noisy = self.kept * windows + (1 - self.kept) * level + (1 - self.kept**2) ** 0.5 * noise
        base = self.embed_noisy(level)
        x = self.embed_noisy(noisy) - base + self.positions
        for block in self.denoise:
            x = block(x)
        return stable, self.out(x + base)


def _encoder_layer(width: int) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)


@dataclass(kw_only=True, eq=False, repr=False)
class D3R(NeuralDetector):
    """Error of a row reconstructed from diffusion noise and the drifting level of the window.

    Wang et al., "Drift doesn't Matter: Dynamic Decomposition with Diffusion Reconstruction for Unstable Multivariate
    Time Series Anomaly Detection" (2023): attention decomposes a window with a random level added into a stable
    component and the level; noise as of step 500 of a diffusion, which preserves the level but little else, is the
    bottleneck, and a second stack of attention reconstructs the window; the score is the squared error. In training
    the target of the stable component is the window minus the median of a longer subsequence around it. The paper
    mixes the data with calendar features, through which it knows periods longer than its window; detectors here see no
    calendar, so learned positions replace them and that knowledge is lost. Its attention across channels is left to
    the embedding. Scoring uses one noise, drawn in the fit, for all windows. The random level lies on both sides of 0,
    so that windows without one are inside the training distribution, and is smaller than the paper's, which is up to
    10: that takes longer training than the budget allows. Noise and blocks are the paper's, but with norms before the
    layers, not after, and no dropout; it has 512 hidden units, a subsequence of 1440 rows around 64, and looks for
    late cycles 30 rows away.

    Parameters
    ----------
    window
        Rows of the longer subsequence; the net sees a third of them: the middle third in training, each in scoring.
    width, blocks
        Hidden units, a multiple of 4, and the attention layers of each stack.
    shift
        Rows by which a cycle may come early or late.
    disturbance
        Range of the level that is added to a training window, in standard deviations.
    diffusion
        Diffusion step, of 1000, whose noise is used.
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
        stable, reconstruction = net(middle + drift, torch.randn_like(middle))
        return 0.5 * functional.mse_loss(stable, target) + 0.5 * functional.mse_loss(reconstruction - drift, middle)

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        newest = windows[:, -(self.window_ // 3) :]
        if steps <= newest.shape[1]:
            windows = np.ascontiguousarray(newest)  # the other thirds do not affect it
        return super()._judge(windows, steps, explain=explain)

    def _errors(self, windows: Tensor) -> Tensor:
        net: Any = self.net_
        thirds = windows.reshape(-1, self.window_ // 3, windows.shape[2])
        errors = functional.mse_loss(net(thirds, net.noise)[1], thirds, reduction="none")
        return errors.reshape(windows.shape)

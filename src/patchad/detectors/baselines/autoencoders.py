"""Autoencoders: nets that learn to give back normal windows; what they cannot give back is strange."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.baselines.likelihood import Gaussian, GaussianHead, LikelihoodDetector
from patchad.detectors.neural import NeuralDetector


class _LSTMVAE(nn.Module):
    def __init__(self, channels: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.LSTM(channels, hidden, batch_first=True)
        self.latent = GaussianHead(hidden, latent)
        self.decoder = nn.LSTM(latent, hidden, batch_first=True)
        self.rows = GaussianHead(hidden, channels)

    def forward(self, windows: Tensor, *, noisy: bool) -> tuple[Gaussian, Gaussian]:
        """Give the latents of each step and the rows that they lead to."""
        latent: Gaussian = self.latent(self.encoder(windows)[0])
        return latent, self.rows(self.decoder(latent.draw() if noisy else latent.mean)[0])


@dataclass(kw_only=True, eq=False, repr=False)
class LSTMVAE(LikelihoodDetector):
    """Rows that a variational autoencoder of LSTMs, which has a latent for each step, holds for unlikely.

    Park et al., "A Multimodal Anomaly Detector for Robot-Assisted Feeding Using an LSTM-Based Variational Autoencoder"
    (2018): it learns to give back rows from rows with noise added, and the score is the negative log-likelihood of the
    row itself. The paper's prior moves with the progress of a task of known length; a series here is no task, so the
    prior stands still. Its threshold that follows the latent is left out: the thresholds are the same for every
    detector here. A window of a long series takes the place of a whole run of the task; sizes are ours, for the budget.

    Parameters
    ----------
    hidden, latent
        Width of the LSTMs and of the latent of a step.
    corruption
        Standard deviation of the noise on the rows in training.
    """

    name = "lstm_vae"

    window: int = 50
    hop: int = 10
    learning_rate: float = 3e-3
    hidden: int = 64
    latent: int = 8
    corruption: float = 0.1

    def _build(self, channels: int) -> nn.Module:
        return _LSTMVAE(channels, self.hidden, self.latent)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        latent: Gaussian
        rows: Gaussian
        latent, rows = net(batch + self.corruption * torch.randn_like(batch), noisy=True)
        return (latent.divergence().sum(-1) - rows.log_density(batch).sum(-1)).mean()

    def _expected(self, windows: Tensor) -> Gaussian:
        rows: Gaussian = self.net_(windows, noisy=False)[1]
        return rows


class _DAGMM(nn.Module):
    def __init__(self, values: int, widths: Sequence[int], mixtures: int) -> None:
        super().__init__()
        sizes = [values, *widths]
        self.encoder, self.decoder = _tanh_layers(sizes), _tanh_layers(sizes[::-1])
        self.estimation = nn.Sequential(
            nn.Linear(widths[-1] + 2, 10), nn.Tanh(), nn.Dropout(0.5), nn.Linear(10, mixtures), nn.Softmax(dim=-1)
        )

    def forward(self, windows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give the reconstruction, the code with two measures of its error, and the share of each mixture in it."""
        flat = windows.flatten(1)
        code = self.encoder(flat)
        again = self.decoder(code)
        distance = (flat - again).norm(dim=1) / flat.norm(dim=1).clamp(min=1e-3)
        likeness = functional.cosine_similarity(flat, again, dim=1, eps=1e-3)
        features = torch.cat([code, distance[:, None], likeness[:, None]], dim=1)
        return again.view_as(windows), features, self.estimation(features)


def _tanh_layers(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with tanh between them."""
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def mixture(features: Tensor, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give weight `(k,)`, mean `(k, d)` and covariance `(k, d, d)` of each mixture from its share in each window."""
    total = shares.sum(0) + 1e-10
    mean = shares.T @ features / total[:, None]
    centred = features[:, None] - mean
    covariance = torch.einsum("nk,nki,nkj->kij", shares, centred, centred) / total[:, None, None]
    return total / len(features), mean, covariance + 1e-6 * torch.eye(features.shape[1]).to(covariance)


def energy(features: Tensor, weight: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Give the negative log-likelihood `(n,)` of features `(n, d)` under a mixture of Gaussians."""
    root = torch.linalg.cholesky(covariance)
    centred = (features[:, None] - mean).permute(1, 2, 0)  # (k, d, n)
    squared = torch.linalg.solve_triangular(root, centred, upper=False).square().sum(1)
    volume = root.diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * features.shape[1] * math.log(2 * math.pi)
    return -torch.logsumexp((weight.log() - volume)[:, None] - 0.5 * squared, dim=0)


@dataclass(kw_only=True, eq=False, repr=False)
class DAGMM(NeuralDetector):
    """Windows whose code, beside the error of its reconstruction, is improbable under a mixture of Gaussians.

    Zong et al., "Deep Autoencoding Gaussian Mixture Model for Unsupervised Anomaly Detection" (2018): a compression
    net gives a code, the relative distance and the cosine likeness of the reconstruction; an estimation net says to
    which Gaussian they belong; both learn together. The energy under the mixture, taken from the train windows after
    training, is the score of a window, which goes to its newest row. Layers and weights are the paper's for KDDCUP. The
    paper judges records; here a short window is a record, its length ours, and the code has four numbers, not one,
    with which it could not even tell where in a cycle a window stands.

    Parameters
    ----------
    widths
        Of the layers of the compression net; the last is that of the code.
    mixtures
        How many Gaussians.
    energy_weight, covariance_weight
        Of the energy, and of the penalty on small variances, in the loss.
    """

    name = "dagmm"
    learned: ClassVar[Mapping[str, Any] | None] = {
        "weight_": np.ndarray,
        "mean_": np.ndarray,
        "covariance_": np.ndarray,
    }

    window: int = 10
    batch_size: int = 256
    widths: tuple[int, ...] = (60, 30, 10, 4)
    mixtures: int = 4
    energy_weight: float = 0.1
    covariance_weight: float = 0.005

    def _build(self, channels: int) -> nn.Module:
        return _DAGMM(self.window_ * channels, self.widths, self.mixtures)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        again, features, shares = net(batch)
        features = features.double()
        weight, mean, covariance = mixture(features, shares.double())
        penalty = (1 / covariance.diagonal(dim1=1, dim2=2)).sum()
        energies = energy(features, weight, mean, covariance).mean()
        error = functional.mse_loss(again, batch, reduction="sum") / len(batch)
        return error + self.energy_weight * energies + self.covariance_weight * penalty

    def _settle(self, known: WindowSampler) -> None:
        chosen = np.unique(np.linspace(0, len(known) - 1, min(len(known), 20_000)).astype(np.intp))
        found = []
        with torch.inference_mode():
            for first in range(0, len(chosen), 1000):
                windows = torch.from_numpy(self.scaler_(known[chosen[first : first + 1000]]))
                found.append(self.net_(windows.to(self.device_))[1:])
            features, shares = (torch.cat(parts).double() for parts in zip(*found, strict=True))
            self.weight_, self.mean_, self.covariance_ = (a.cpu().numpy() for a in mixture(features, shares))

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:  # noqa: ARG002 - an energy has no channels
        with torch.inference_mode():
            features = self.net_(torch.from_numpy(windows).to(self.device_))[1].double().cpu()
            learned = [torch.from_numpy(a) for a in (self.weight_, self.mean_, self.covariance_)]
            return energy(features, *learned).numpy()[:, None], None

"""Autoencoders: nets that learn to reconstruct normal windows; what they reconstruct badly is anomalous."""

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
from patchad.detectors.baselines.sampling import even_batches
from patchad.detectors.neural import NeuralDetector


class _LSTMVAE(nn.Module):
    def __init__(self, channels: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.LSTM(channels, hidden, batch_first=True)
        self.latent = GaussianHead(hidden, latent)
        self.decoder = nn.LSTM(latent, hidden, batch_first=True)
        self.rows = GaussianHead(hidden, channels)

    def forward(self, windows: Tensor, *, sample: bool) -> tuple[Gaussian, Gaussian]:
        """Return the distribution of the rows, and that of each step's latent."""
        latent: Gaussian = self.latent(self.encoder(windows)[0])
        return self.rows(self.decoder(latent.sample() if sample else latent.mean)[0]), latent


@dataclass(kw_only=True, eq=False, repr=False)
class LSTMVAE(LikelihoodDetector):
    """Negative log-likelihood of a row under an LSTM variational autoencoder with a latent at every step.

    Park et al., "A Multimodal Anomaly Detector for Robot-Assisted Feeding Using an LSTM-Based Variational Autoencoder"
    (2018): it learns to reconstruct rows from rows with added noise, and the score is the negative log-likelihood of
    the clean row. The paper's prior moves with the progress of a task of known length; a series here is no task, so
    the prior is fixed. Its latent-dependent threshold is left out: all detectors here share the same thresholds. A
    window of a long series takes the place of a whole run of the task; sizes are ours, for the budget.

    Parameters
    ----------
    hidden, latent
        Width of the LSTMs and of the latent of a step.
    corruption
        Standard deviation of the noise added to the rows in training.
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
        rows: Gaussian
        latent: Gaussian
        rows, latent = net(batch + self.corruption * torch.randn_like(batch), sample=True)
        return (latent.divergence().sum(-1) - rows.log_density(batch).sum(-1)).mean()


class _DAGMM(nn.Module):
    def __init__(self, values: int, widths: Sequence[int], mixtures: int) -> None:
        super().__init__()
        sizes = [values, *widths]
        self.encoder, self.decoder = _tanh_layers(sizes), _tanh_layers(sizes[::-1])
        self.estimation = nn.Sequential(
            nn.Linear(widths[-1] + 2, 10), nn.Tanh(), nn.Dropout(0.5), nn.Linear(10, mixtures), nn.Softmax(dim=-1)
        )

    def forward(self, windows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the reconstruction, the code with two measures of its error, and the Gaussians' responsibilities."""
        flat = windows.flatten(1)
        code = self.encoder(flat)
        reconstruction = self.decoder(code)
        distance = (flat - reconstruction).norm(dim=1) / flat.norm(dim=1).clamp(min=1e-3)
        cosine = functional.cosine_similarity(flat, reconstruction, dim=1, eps=1e-3)
        features = torch.cat([code, distance[:, None], cosine[:, None]], dim=1)
        return reconstruction.view_as(windows), features, self.estimation(features)


def _tanh_layers(sizes: Sequence[int]) -> nn.Sequential:
    """Build linear layers with tanh between them."""
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def fit_mixture(features: Tensor, responsibilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return weight `(k,)`, mean `(k, d)` and covariance `(k, d, d)` of each Gaussian, given `(n, k)` memberships."""
    total = responsibilities.sum(0) + 1e-10
    mean = responsibilities.T @ features / total[:, None]
    centred = features[:, None] - mean
    covariance = torch.einsum("nk,nki,nkj->kij", responsibilities, centred, centred) / total[:, None, None]
    return total / len(features), mean, covariance + 1e-6 * torch.eye(features.shape[1]).to(covariance)


def energy(features: Tensor, weight: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Return the negative log-likelihood `(n,)` of features `(n, d)` under a mixture of Gaussians."""
    root = torch.linalg.cholesky(covariance)
    centred = (features[:, None] - mean).permute(1, 2, 0)  # (k, d, n)
    squared = torch.linalg.solve_triangular(root, centred, upper=False).square().sum(1)
    volume = root.diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * features.shape[1] * math.log(2 * math.pi)
    return -torch.logsumexp((weight.log() - volume)[:, None] - 0.5 * squared, dim=0)


@dataclass(kw_only=True, eq=False, repr=False)
class DAGMM(NeuralDetector):
    """Energy of a window's code and reconstruction error under a mixture of Gaussians.

    Zong et al., "Deep Autoencoding Gaussian Mixture Model for Unsupervised Anomaly Detection" (2018): a compression
    net yields a code and the relative distance and cosine similarity of the reconstruction; an estimation net assigns
    them to Gaussians; both are trained together. The energy under the mixture, estimated from the train windows after
    training, is the score of a window, assigned to its newest row. Layers and weights are the paper's for KDDCUP. The
    paper scores independent samples; here a short window is a sample, its length ours, and the code has four values,
    not one, which could not even encode the phase of a cycle.

    Parameters
    ----------
    widths
        Of the layers of the compression net; the last is that of the code.
    mixtures
        Number of Gaussians.
    energy_weight, covariance_weight
        Weights of the energy, and of the penalty on small variances, in the loss.
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
        reconstruction, features, responsibilities = net(batch)
        features = features.double()
        weight, mean, covariance = fit_mixture(features, responsibilities.double())
        penalty = (1 / covariance.diagonal(dim1=1, dim2=2)).sum()
        energies = energy(features, weight, mean, covariance).mean()
        error = functional.mse_loss(reconstruction, batch, reduction="sum") / len(batch)
        return error + self.energy_weight * energies + self.covariance_weight * penalty

    def _settle(self, known: WindowSampler) -> None:
        batches = (torch.from_numpy(self.scaler_(batch)) for batch in even_batches(known, 20_000, 1000))
        with torch.inference_mode():
            outputs = [self.net_(batch.to(self.device_))[1:] for batch in batches]
            features, memberships = (torch.cat(parts).double() for parts in zip(*outputs, strict=True))
            self.weight_, self.mean_, self.covariance_ = (a.cpu().numpy() for a in fit_mixture(features, memberships))

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:  # noqa: ARG002 - an energy has no channels
        with torch.inference_mode():
            features = self.net_(torch.from_numpy(windows).to(self.device_))[1].double().cpu()
            mixture = [torch.from_numpy(a) for a in (self.weight_, self.mean_, self.covariance_)]
            return energy(features, *mixture).numpy()[:, None], None

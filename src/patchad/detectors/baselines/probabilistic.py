"""Densities: a row is anomalous where it is unlikely under a mixture of probabilistic principal component analysers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor, nn

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.baselines.sampling import even_batches
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.rows import RowDetector

LEAST_NOISE = 1e-4
"""Least variance along any axis, in z-scores: copies of a channel leave none, and no channel is that exact."""
PSEUDOCOUNT = 0.5
"""Added to the count of every state of a channel, the unseen one included."""
LEARNED_ROWS = 10_000
"""Most rows that a mixture is fitted to."""
EM_ITERATIONS = 40
"""Most iterations of expectation maximisation."""
LEAST_GAIN = 1e-4
"""Gain of the mean log-likelihood per iteration under which expectation maximisation stops."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A mixture of probabilistic principal component analysers, with categorical distributions of states beside them.

    Tipping and Bishop, "Mixtures of Probabilistic Principal Component Analyzers" (1999), fitted by expectation
    maximisation; its M-step uses the eigenvalues of each component's covariance, as there. The states of a row are
    given as flags, one for each state of each discrete channel; within a component they are independent of all else.
    """

    weight: FloatArray
    """(component,)."""
    mean: FloatArray
    """(component, value)."""
    axes: FloatArray
    """(component, value, axis), the principal axes, orthonormal."""
    variance: FloatArray
    """(component, axis), along the axes."""
    noise: FloatArray
    """(component,), the variance orthogonal to the axes."""
    probability: FloatArray
    """(component, flag)."""

    @classmethod
    def fit(
        cls,
        rows: FloatArray,
        flags: FloatArray,
        states: FloatArray,
        *,
        components: int,
        latent: int,
        random: np.random.Generator,
    ) -> Mixture:
        """Fit a mixture.

        Parameters
        ----------
        rows, flags
            (row, value) and (row, flag).
        states
            (flag,), number of states of the channel of a flag.
        components, latent
            Most components, and most principal axes of each.
        random
            For the initial components.

        Examples
        --------
        >>> random = np.random.default_rng(0)
        >>> rows = np.concatenate([random.normal(-5, 1, (200, 3)), random.normal(5, 1, (200, 3))])
        >>> none = np.zeros((400, 0))
        >>> mixture = Mixture.fit(rows, none, none[0], components=2, latent=1, random=random)
        >>> sorted(mixture.mean[:, 0].round().tolist())
        [-5.0, 5.0]
        >>> inside, outside = mixture.surprise(np.array([[5.0] * 3, [0.0] * 3]), none[:2])
        >>> bool(outside > inside + 5)
        True
        """
        rows = rows.astype(np.float64)
        responsibility = _initial(np.concatenate([rows, flags], axis=1), components, random)
        before = -np.inf
        for _ in range(EM_ITERATIONS):
            mixture = cls._maximise(rows, flags, states, responsibility, latent)
            density = mixture.joint(rows, flags)
            total = logsumexp(density, axis=1, keepdims=True)
            responsibility = np.exp(density - total)
            if total.mean() - before < LEAST_GAIN:
                break
            before = total.mean()
        return mixture

    @classmethod
    def _maximise(
        cls, rows: FloatArray, flags: FloatArray, states: FloatArray, responsibility: FloatArray, latent: int
    ) -> Mixture:
        """Fit every component to the rows it is responsible for; drop components with hardly any."""
        responsibility = responsibility[:, responsibility.sum(axis=0) >= min(2, len(rows) / responsibility.shape[1])]
        count = responsibility.sum(axis=0)
        mean = responsibility.T @ rows / count[:, None]
        size = rows.shape[1]
        kept = max(min(latent, size - 1), 0)
        axes, variance, noise = [], [], []
        for weights, centre, number in zip(responsibility.T, mean, count, strict=True):
            centred = rows - centre
            values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred / number)
            rest = float(values[: size - kept].mean()) if size else 1.0
            noise.append(max(rest, LEAST_NOISE))
            variance.append(np.maximum(values[size - kept :], noise[-1]))
            axes.append(vectors[:, size - kept :])
        probability = (responsibility.T @ flags + PSEUDOCOUNT) / (count[:, None] + PSEUDOCOUNT * states)
        return cls(count / count.sum(), mean, np.stack(axes), np.stack(variance), np.array(noise), probability)

    def joint(self, rows: FloatArray, flags: FloatArray) -> FloatArray:
        """Return the log joint density of each row and each component, `(row, component)`."""
        size, kept = self.axes.shape[1:]
        density = np.log(self.weight) + flags @ np.log(self.probability).T
        for number, centred, along in self._projected(rows):
            rest = np.maximum(np.square(centred).sum(axis=1) - np.square(along).sum(axis=1), 0)
            distance = rest / self.noise[number] + (np.square(along) / self.variance[number]).sum(axis=1)
            volume = np.log(self.variance[number]).sum() + (size - kept) * np.log(self.noise[number])
            density[:, number] -= 0.5 * (distance + volume + size * np.log(2 * np.pi))
        return np.asarray(density)

    def surprise(self, rows: FloatArray, flags: FloatArray) -> FloatArray:
        """Return the negative log-likelihood of each row."""
        return -np.asarray(logsumexp(self.joint(rows, flags), axis=1))

    def attribution(self, rows: FloatArray, flags: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how much each value and each flag adds to a row's expected distance from its component."""
        joint = self.joint(rows, flags)
        responsibility = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        values = np.zeros(rows.shape)
        for number, centred, along in self._projected(rows):
            correction = along * (1 / self.variance[number] - 1 / self.noise[number])
            weighted = centred / self.noise[number] + correction @ self.axes[number].T
            values += responsibility[:, number, None] * np.maximum(centred * weighted, 0)
        return values, flags * (responsibility @ -np.log(self.probability))

    def _projected(self, rows: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield for each component its number, the rows minus its mean, and their coordinates along its axes."""
        for number, (centre, axes) in enumerate(zip(self.mean, self.axes, strict=True)):
            centred = rows - centre
            yield number, centred, centred @ axes

    @property
    def size(self) -> int:
        """Number of stored values."""
        return sum(getattr(self, field.name).size for field in fields(self))


def _initial(points: FloatArray, components: int, random: np.random.Generator) -> FloatArray:
    """Choose initial centres by k-means++; assign each point to the nearest, `(row, component)`."""
    chosen = [int(random.integers(len(points)))]
    nearest = np.square(points - points[chosen[0]]).sum(axis=1)
    owner = np.zeros(len(points), dtype=np.intp)
    while len(chosen) < components and nearest.sum() > 0:
        chosen.append(int(random.choice(len(points), p=nearest / nearest.sum())))
        distance = np.square(points - points[chosen[-1]]).sum(axis=1)
        owner[distance < nearest] = len(chosen) - 1
        nearest = np.minimum(nearest, distance)
    return np.eye(len(chosen))[owner]


@dataclass(kw_only=True, eq=False, repr=False)
class MMPCACD(RowDetector):
    """Negative log-likelihood of a row under a mixture of probabilistic PCA and categorical distributions.

    Yairi et al., "A Data-Driven Health Monitoring Method for Satellite Housekeeping Data Based on Probabilistic
    Clustering and Dimensionality Reduction" (2017): a mixture of probabilistic principal component analysers for the
    continuous channels and of categorical distributions for the discrete ones, fitted together by expectation
    maximisation; the score is the negative log-likelihood of a row. The paper knows which channels are discrete; here
    those with few different values in train are. Its removal of trivial outliers is left out. The numbers of
    components and axes are ours; the paper tunes them to its satellites.

    Parameters
    ----------
    components
        Most components of the mixture.
    latent
        Principal axes of each component.
    few
        Most different values in train for which a channel is discrete.
    """

    name = "mmpcacd"
    learned: ClassVar[Mapping[str, Any] | None] = {
        "discrete_": np.ndarray,
        "state_counts_": np.ndarray,
        "states_": np.ndarray,
        "mixture_": Mixture,
    }

    components: int = 10
    latent: int = 5
    few: int = 8

    @property
    def n_parameters_(self) -> int:
        """Values of the mixture."""
        return self.mixture_.size

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, components=1, latent=0)

    def _learn(self, rows: FloatArray) -> None:
        different = [np.unique(channel) for channel in rows.T]
        self.discrete_ = np.array([len(values) <= self.few for values in different])
        chosen = [different[channel] for channel in np.flatnonzero(self.discrete_)]
        self.state_counts_ = np.array([len(values) for values in chosen], dtype=np.int64)  # (discrete channel,)
        self.states_ = np.zeros((len(chosen), self.few))  # (discrete channel, state); unused ones are 0
        for position, values in enumerate(chosen):
            self.states_[position, : len(values)] = values
        sample = self._sample(rows, LEARNED_ROWS)
        states = np.repeat(self.state_counts_ + 1.0, self.few + 1)
        random = np.random.default_rng(self._seed())
        self.mixture_ = Mixture.fit(
            *self._split(sample), states, components=self.components, latent=self.latent, random=random
        )

    def _split(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the values of continuous channels, and the state flags of discrete ones; the last flag is unseen."""
        values = rows[:, self.discrete_, None]  # (row, discrete channel, 1)
        used = np.arange(self.few) < self.state_counts_[:, None]
        seen = used & (np.abs(values - self.states_) <= 1e-5 * (1 + np.abs(self.states_)))
        flags = np.concatenate([seen, ~seen.any(axis=2, keepdims=True)], axis=2)
        return rows[:, ~self.discrete_].astype(np.float64), flags.reshape(len(rows), -1).astype(np.float64)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        values, flags = self._split(rows)
        scores = self.mixture_.surprise(values, flags)
        if not explain:
            return scores, None
        attribution = np.zeros(rows.shape)
        of_values, of_flags = self.mixture_.attribution(values, flags)
        attribution[:, ~self.discrete_] = of_values
        attribution[:, self.discrete_] = of_flags.reshape(len(rows), -1, self.few + 1).sum(axis=2)
        return scores, attribution


class ConvLSTM(nn.Module):
    """An LSTM whose state is an image, one column for each channel, and whose gates are convolutions.

    Parameters
    ----------
    filters
        Rows of the image.
    """

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.filters = filters
        self.gates = nn.Conv1d(1 + filters, 4 * filters, kernel_size=3, padding=1)
        self.head = nn.Conv1d(filters, 1, kernel_size=1)

    def forward(self, windows: Tensor) -> Tensor:
        """Forecast the row after the last, `(b, c)`, of windows `(b, t, c)`."""
        hidden = cell = windows.new_zeros((len(windows), self.filters, windows.shape[2]))
        for row in windows.unbind(dim=1):
            enter, forget, leave, fresh = self.gates(torch.cat([row[:, None], hidden], dim=1)).chunk(4, dim=1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(fresh)
            hidden = torch.sigmoid(leave) * torch.tanh(cell)
        forecast: Tensor = self.head(hidden)[:, 0]
        return forecast


@dataclass(kw_only=True, eq=False, repr=False)
class CLMPPCA(NeuralDetector):
    """Forecast error of a row, plus its negative log-likelihood under a mixture of probabilistic PCA.

    Tariq et al., "Detecting Anomalies in Space using Multivariate Convolutional LSTM with Mixtures of Probabilistic
    PCA" (2019): a convolutional LSTM forecasts the next row, a mixture of probabilistic principal component analysers
    gives the likelihood of a row, and the two are combined. Here the former has one layer, with convolutions over the
    channels in their given order; the mean squared forecast error and the negative log-likelihood are each scaled by
    their median and upper tail on train, and added. That sum is ours: the paper's text was not available. So are all
    sizes, for the budget.

    Parameters
    ----------
    window
        The rows before, and the row to forecast.
    filters
        Of the convolutions.
    components, latent
        Of the mixture: most components, and principal axes of each.
    """

    name = "cl_mppca"
    learned: ClassVar[Mapping[str, Any] | None] = {"median_": np.ndarray, "spread_": np.ndarray, "mixture_": Mixture}

    window: int = 21
    max_steps: int | None = 300
    filters: int = 16
    components: int = 5
    latent: int = 5

    @property
    def n_parameters_(self) -> int:
        """Trained parameters of the net, and values of the mixture."""
        return super().n_parameters_ + self.mixture_.size

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, components=1, latent=0, window=2)

    def _build(self, channels: int) -> nn.Module:  # noqa: ARG002 - convolutions take any number
        return ConvLSTM(self.filters)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        loss: Tensor = (net(batch[:, :-1]) - batch[:, -1]).square().mean()
        return loss

    def _settle(self, known: WindowSampler) -> None:
        batches = [self.scaler_(batch) for batch in even_batches(known, LEARNED_ROWS, 256)]
        newest = np.concatenate([batch[:, -1] for batch in batches]).astype(np.float64)
        random = np.random.default_rng(self._seed())
        self.mixture_ = Mixture.fit(
            newest, _no_flags(newest), np.zeros(0), components=self.components, latent=self.latent, random=random
        )
        terms = np.concatenate([self._terms(batch)[0] for batch in batches])
        scale = TailScale.fit(terms, floor=np.array([1e-3, 1e-1]))
        self.median_, self.spread_ = scale.median, scale.spread

    def _terms(self, windows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return error and surprise of the newest rows, `(b, 2)`, and the error of each channel, `(b, c)`."""
        rows = torch.from_numpy(windows).to(self.device_)
        with torch.inference_mode():
            errors = (self.net_(rows[:, :-1]) - rows[:, -1]).square().cpu().double().numpy()
        newest = windows[:, -1].astype(np.float64)
        return np.stack([errors.mean(axis=1), self.mixture_.surprise(newest, _no_flags(newest))], axis=1), errors

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:  # noqa: ARG002
        terms, errors = self._terms(windows)
        scores = ((terms - self.median_) / self.spread_).sum(axis=1)[:, None]
        if not explain:
            return scores, None
        newest = windows[:, -1].astype(np.float64)
        unlikely, _ = self.mixture_.attribution(newest, _no_flags(newest))
        attribution = errors / errors.shape[1] / self.spread_[0] + 0.5 * unlikely / self.spread_[1]
        return scores, attribution[:, None].astype(np.float32)


def _no_flags(rows: FloatArray) -> FloatArray:
    return np.zeros((len(rows), 0))

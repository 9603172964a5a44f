"""Densities: a row that is unlikely under a mixture of probabilistic principal component analysers is strange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor, nn

from patchad.data.scaling import TailScale
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.rows import RowDetector
from patchad.errors import InputError

LEAST_NOISE = 1e-4
"""Least variance in any direction, in z-scores: copies of a channel leave none, and no channel is that exact."""
SMOOTHING = 0.5
"""Added to the count of every state of a channel, the unseen one included."""
LEARNED_ROWS = 10_000
"""Rows at most that a mixture is learned from."""
ROUNDS = 40
ENOUGH = 1e-4
"""Gain of the mean log-likelihood in a round under which no further round is made."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A mixture of probabilistic principal component analysers, with chances of states beside them.

    Tipping and Bishop, "Mixtures of Probabilistic Principal Component Analyzers" (1999), learned by expectation and
    maximisation; the latter by eigenvalues of each component's covariance, as there. The states of a row are given as
    flags, one for each state of each discrete channel, and are independent of all else within a component.
    """

    weight: FloatArray
    """(component,)."""
    mean: FloatArray
    """(component, value)."""
    directions: FloatArray
    """(component, value, direction), orthonormal."""
    variance: FloatArray
    """(component, direction), along the directions."""
    noise: FloatArray
    """(component,), the variance in all other directions."""
    chance: FloatArray
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
        """Learn a mixture.

        Parameters
        ----------
        rows, flags
            (row, value) and (row, flag).
        states
            (flag,), how many states the channel of a flag has.
        components, latent
            At most so many components, and directions of each.
        random
            For where the components begin.

        Examples
        --------
        >>> random = np.random.default_rng(0)
        >>> rows = np.concatenate([random.normal(-5, 1, (200, 3)), random.normal(5, 1, (200, 3))])
        >>> none = np.zeros((400, 0))
        >>> mixture = Mixture.fit(rows, none, none[0], components=2, latent=1, random=random)
        >>> sorted(mixture.mean[:, 0].round().tolist())
        [-5.0, 5.0]
        >>> likely, not_so = logsumexp(mixture.joint(np.array([[5.0] * 3, [0.0] * 3]), none[:2]), axis=1)
        >>> bool(likely > not_so + 5)
        True
        """
        rows = rows.astype(np.float64)
        share = _begin(np.concatenate([rows, flags], axis=1), components, random)
        before = -np.inf
        for _ in range(ROUNDS):
            mixture = cls._maximised(rows, flags, states, share, latent)
            density = mixture.joint(rows, flags)
            total = logsumexp(density, axis=1, keepdims=True)
            share = np.exp(density - total)
            if total.mean() - before < ENOUGH:
                break
            before = total.mean()
        return mixture

    @classmethod
    def _maximised(
        cls, rows: FloatArray, flags: FloatArray, states: FloatArray, share: FloatArray, latent: int
    ) -> Mixture:
        """Fit every component to its share of the rows; drop those that are left with hardly any."""
        share = share[:, share.sum(axis=0) >= min(2, len(rows) / share.shape[1])]
        count = share.sum(axis=0)
        mean = share.T @ rows / count[:, None]
        size = rows.shape[1]
        kept = max(min(latent, size - 1), 0)
        directions, variance, noise = [], [], []
        for part, centre, number in zip(share.T, mean, count, strict=True):
            centred = rows - centre
            values, vectors = np.linalg.eigh((part[:, None] * centred).T @ centred / number)
            rest = float(values[: size - kept].mean()) if size else 1.0
            noise.append(max(rest, LEAST_NOISE))
            variance.append(np.maximum(values[size - kept :], noise[-1]))
            directions.append(vectors[:, size - kept :])
        chance = (share.T @ flags + SMOOTHING) / (count[:, None] + SMOOTHING * states)
        return cls(count / count.sum(), mean, np.stack(directions), np.stack(variance), np.array(noise), chance)

    def joint(self, rows: FloatArray, flags: FloatArray) -> FloatArray:
        """Give the logarithm of the joint density of each row and each component, `(row, component)`."""
        size, kept = self.directions.shape[1:]
        found = np.log(self.weight) + flags @ np.log(self.chance).T
        for number, centred, along in self._parts(rows):
            rest = np.maximum(np.square(centred).sum(axis=1) - np.square(along).sum(axis=1), 0)
            distance = rest / self.noise[number] + (np.square(along) / self.variance[number]).sum(axis=1)
            volume = np.log(self.variance[number]).sum() + (size - kept) * np.log(self.noise[number])
            found[:, number] -= 0.5 * (distance + volume + size * np.log(2 * np.pi))
        return np.asarray(found)

    def surprise(self, rows: FloatArray, flags: FloatArray) -> FloatArray:
        """Give the negative log-likelihood of each row."""
        return -np.asarray(logsumexp(self.joint(rows, flags), axis=1))

    def blame(self, rows: FloatArray, flags: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Say how much each value and each flag of a row adds to its distance from the components it may belong to."""
        joint = self.joint(rows, flags)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        values = np.zeros(rows.shape)
        for number, centred, along in self._parts(rows):
            pulled = along * (1 / self.variance[number] - 1 / self.noise[number])
            weighted = centred / self.noise[number] + pulled @ self.directions[number].T
            values += share[:, number, None] * np.maximum(centred * weighted, 0)
        return values, flags * (share @ -np.log(self.chance))

    def _parts(self, rows: FloatArray) -> Any:
        """Go through the components: number, rows less the mean, and their coordinates along the directions."""
        for number, (centre, directions) in enumerate(zip(self.mean, self.directions, strict=True)):
            centred = rows - centre
            yield number, centred, centred @ directions

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return sum(getattr(self, field.name).size for field in fields(self))


def _begin(points: FloatArray, components: int, random: np.random.Generator) -> FloatArray:
    """Take points far from each other as first centres; give each point to the nearest, `(row, component)`."""
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
    """How unlikely a row is under a mixture of plane-like clouds, each with its own chances of switch positions.

    Yairi et al., "A Data-Driven Health Monitoring Method for Satellite Housekeeping Data Based on Probabilistic
    Clustering and Dimensionality Reduction" (2017): a mixture of probabilistic principal component analysers for the
    continuous channels and of categorical distributions for the discrete ones, learned together by expectation and
    maximisation; the score is the negative log-likelihood of a row. The paper's channels come with their kind; here a
    channel is discrete that has few different values in train. Its cleaning of trivial outliers is left out. Numbers
    of components and directions are ours, the paper tunes them to its satellites.

    Parameters
    ----------
    components
        Clouds, at most.
    latent
        Directions in which a cloud is wide.
    few
        Different values in train up to which a channel is discrete.
    """

    name = "mmpcacd"
    learned: ClassVar[Mapping[str, Any] | None] = {"discrete_": np.ndarray, "levels_": np.ndarray, "mixture_": Mixture}

    components: int = 10
    latent: int = 5
    few: int = 8

    @property
    def n_parameters_(self) -> int:
        """Numbers of the mixture."""
        return self.mixture_.size

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_mixture(self.components, self.latent)

    def _learn(self, rows: FloatArray) -> None:
        known = [np.unique(channel) for channel in rows.T]
        self.discrete_ = np.array([len(values) <= self.few for values in known])
        self.levels_ = np.full((int(self.discrete_.sum()), self.few), np.nan)  # (discrete channel, level), NaN: none
        for place, channel in enumerate(np.flatnonzero(self.discrete_)):
            self.levels_[place, : len(known[channel])] = known[channel]
        some = self._sample(rows, LEARNED_ROWS)
        states = np.repeat(np.isfinite(self.levels_).sum(axis=1) + 1.0, self.few + 1)
        random = np.random.default_rng(self._seed())
        self.mixture_ = Mixture.fit(
            *self._split(some), states, components=self.components, latent=self.latent, random=random
        )

    def _split(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give the values of continuous channels, and flags of the states of the discrete ones; the last is unseen."""
        found = rows[:, self.discrete_, None]  # (row, discrete channel, 1)
        seen = np.abs(found - self.levels_) <= 1e-5 * (1 + np.abs(self.levels_))
        flags = np.concatenate([seen, ~seen.any(axis=2, keepdims=True)], axis=2)
        return rows[:, ~self.discrete_].astype(np.float64), flags.reshape(len(rows), -1).astype(np.float64)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        values, flags = self._split(rows)
        scores = self.mixture_.surprise(values, flags)
        if not explain:
            return scores, None
        blame = np.zeros(rows.shape)
        of_values, of_flags = self.mixture_.blame(values, flags)
        blame[:, ~self.discrete_] = of_values
        blame[:, self.discrete_] = of_flags.reshape(len(rows), -1, self.few + 1).sum(axis=2)
        return scores, blame


class ConvLSTM(nn.Module):
    """A recurrent net whose state is an image, one column for each channel, and whose gates are convolutions.

    Parameters
    ----------
    filters
        Rows of the image.
    """

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.filters = filters
        self.gates = nn.Conv1d(1 + filters, 4 * filters, kernel_size=3, padding=1)
        self.give = nn.Conv1d(filters, 1, kernel_size=1)

    def forward(self, windows: Tensor) -> Tensor:
        """Give the row after the last, `(b, c)`, of windows `(b, t, c)`."""
        state = memory = windows.new_zeros((len(windows), self.filters, windows.shape[2]))
        for row in windows.unbind(dim=1):
            enter, forget, leave, fresh = self.gates(torch.cat([row[:, None], state], dim=1)).chunk(4, dim=1)
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(fresh)
            state = torch.sigmoid(leave) * torch.tanh(memory)
        given: Tensor = self.give(state)[:, 0]
        return given


@dataclass(kw_only=True, eq=False, repr=False)
class CLMPPCA(NeuralDetector):
    """How far a row is from its forecast, and how unlikely it is in itself.

    Tariq et al., "Detecting Anomalies in Space using Multivariate Convolutional LSTM with Mixtures of Probabilistic
    PCA" (2019): a convolutional LSTM foretells the next row, a mixture of probabilistic principal component analysers
    gives the likelihood of a row, and the two judge together. Here one layer of the former, its convolutions over the
    channels in their given order; the mean square of the forecast's error and the negative log-likelihood are each
    scaled by their median and upper tail on train, and added. That sum is ours: the paper's text was not at hand. So
    are all sizes, for the budget.

    Parameters
    ----------
    window
        Rows before, and the row to foretell.
    filters
        Of the convolutions.
    components, latent
        Of the mixture: clouds at most, and directions in which each is wide.
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
        """Trained numbers of the net, and those of the mixture."""
        return super().n_parameters_ + self.mixture_.size

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_mixture(self.components, self.latent)
        if self.window < 2:
            raise InputError(f"window={self.window} is too small; a forecast needs at least 2 rows")

    def _build(self, channels: int) -> nn.Module:  # noqa: ARG002 - convolutions take any number
        return ConvLSTM(self.filters)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        loss: Tensor = (net(batch[:, :-1]) - batch[:, -1]).square().mean()
        return loss

    def _settle(self, known: WindowSampler) -> None:
        chosen = np.unique(np.linspace(0, len(known) - 1, min(len(known), LEARNED_ROWS)).astype(np.intp))
        batches = [self.scaler_(known[part]) for part in np.array_split(chosen, -(-len(chosen) // 256))]
        newest = np.concatenate([batch[:, -1] for batch in batches]).astype(np.float64)
        random = np.random.default_rng(self._seed())
        self.mixture_ = Mixture.fit(
            newest, _no_flags(newest), np.zeros(0), components=self.components, latent=self.latent, random=random
        )
        parts = np.concatenate([self._parts(batch)[0] for batch in batches])
        scale = TailScale.fit(parts, floor=np.array([1e-3, 1e-1]))
        self.median_, self.spread_ = scale.median, scale.spread

    def _parts(self, windows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give error and surprise of the newest rows, `(b, 2)`, and the error of each channel, `(b, c)`."""
        rows = torch.from_numpy(windows).to(self.device_)
        with torch.inference_mode():
            errors = (self.net_(rows[:, :-1]) - rows[:, -1]).square().cpu().double().numpy()
        newest = windows[:, -1].astype(np.float64)
        return np.stack([errors.mean(axis=1), self.mixture_.surprise(newest, _no_flags(newest))], axis=1), errors

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:  # noqa: ARG002
        parts, errors = self._parts(windows)
        scores = ((parts - self.median_) / self.spread_).sum(axis=1)[:, None]
        if not explain:
            return scores, None
        newest = windows[:, -1].astype(np.float64)
        unlikely, _ = self.mixture_.blame(newest, _no_flags(newest))
        blame = errors / errors.shape[1] / self.spread_[0] + 0.5 * unlikely / self.spread_[1]
        return scores, blame[:, None].astype(np.float32)


def _no_flags(rows: FloatArray) -> FloatArray:
    return np.zeros((len(rows), 0))


def _check_mixture(components: int, latent: int) -> None:
    if components < 1 or latent < 0:
        raise InputError(f"components={components} and latent={latent} must be at least 1 and 0")

"""AdaMemBLS: a broad learning system with a memory, learned by ridge regressions instead of gradient descent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from patchad.data.scaling import ZScore, channel_range
from patchad.data.table import FloatArray
from patchad.data.windows import Fold
from patchad.detectors.windowed import WindowDetector
from patchad.errors import InputError

LEARNED_VALUES = 2_000_000
"""Most values of all train windows used together."""
TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Random nodes: groups of features of a window, and levels of enhancement nodes that read one another."""

    features: FloatArray
    """(value + 1, feature), the last row a bias; the columns of a group are orthonormal where it has room for them."""
    levels: tuple[FloatArray, ...]
    """(node + 1, enhancement node) each: the first reads the features, the others the level before."""

    @classmethod
    def draw(cls, values: int, *, groups: int, width: int, levels: int, enhancement: int, seed: int) -> Nodes:
        """Draw the weights; nothing of them is trained."""
        random = np.random.default_rng(seed)
        features = np.hstack([_orthonormal(random, values + 1, width) for _ in range(groups)])
        widths = [groups * width, *([enhancement] * levels)]
        return cls(features, tuple(_orthonormal(random, one + 1, two) for one, two in pairwise(widths)))

    def __call__(self, flat: FloatArray) -> FloatArray:
        """Return the nodes `(b, node)` of flat windows `(b, value)`."""
        found = [np.tanh(_with_bias(flat) @ self.features)]
        for weights in self.levels:
            found.append(np.tanh(_with_bias(found[-1]) @ weights))
        return np.hstack(found)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryModel:
    """Prototypes of nodes, and the output weights from nodes and what is read of the prototypes to the window."""

    prototypes: FloatArray
    """(prototype, node), of unit length."""
    output: FloatArray
    """(2 * node, value)."""
    shares: FloatArray
    """(2,), how much its reconstruction error and its distance to the memory count among all models."""

    def read(self, nodes: FloatArray, temperature: float) -> FloatArray:
        """Return the mixture `(b, node)` of the prototypes that are like these nodes."""
        return _attention(nodes, self.prototypes, temperature) @ self.prototypes

    def judge(self, flat: FloatArray, nodes: FloatArray, temperature: float) -> tuple[FloatArray, FloatArray]:
        """Return the squared errors `(b, value)` of the reconstruction and the distances `(b,)` to the memory read."""
        read = self.read(nodes, temperature)
        errors = np.square(np.hstack([nodes, read]) @ self.output - flat)
        return errors, 1 - (_unit(nodes) * _unit(read)).sum(axis=1)


@dataclass(kw_only=True, eq=False, repr=False)
class AdaMemBLS(WindowDetector):
    """Reconstruction error of random features and what a memory holds of them, plus their distance to the memory.

    Zhong et al., "AdaMemBLS" (IEEE Transactions on Neural Networks and Learning Systems 36(5), 2025), from public
    descriptions, since neither text nor code is public. Windows are min-max scaled and flattened; random tanh features
    and levels of enhancement nodes read them; a ridge regression reconstructs the window from these nodes and from
    the memory's prototypes, mixed by the softmax of their cosine similarity. Then train is distorted in one way after
    the other (noise, values set to 0 or 1, scaled, reversed, negated): each time the prototypes move towards the nodes,
    the regression is solved again for the distorted windows, and the output weights are averaged. There is a model of
    all of train and one for each of a few consecutive slices; each counts by the range of its scores on train.

    All sizes are guesses, and so is that all models share their random nodes; only the windows of 3 rows on MSL and
    the two averaging rates are described.

    Parameters
    ----------
    groups, width
        Groups of feature nodes, and nodes in each.
    levels, enhancement
        Levels of enhancement nodes, and nodes in each.
    prototypes
        Of the memory.
    ridge
        Penalty of the regression.
    temperature
        Of the softmax over similarities.
    momentum
        Share of a prototype that stays when it moves.
    averaging
        Share of the output weights that stays when they are solved again.
    local_models
        Consecutive slices of train with a model of their own.
    """

    name = "adamembls"
    learned: ClassVar[Mapping[str, Any] | None] = {"nodes_": Nodes, "models_": tuple[MemoryModel, ...]}

    window: int = 3
    fold: Fold = "mean"
    groups: int = 10
    width: int = 10
    levels: int = 2
    enhancement: int = 100
    prototypes: int = 50
    ridge: float = 1e-3
    temperature: float = 0.1
    momentum: float = 0.9
    averaging: float = 0.5
    local_models: int = 5

    @property
    def n_parameters_(self) -> int:
        """Prototypes and output weights; random nodes are not learned."""
        return int(sum(model.prototypes.size + model.output.size for model in self.models_))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("groups", "width", "levels", "enhancement", "prototypes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")
        for name in ("momentum", "averaging"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)} is out of range; it must lie between 0 and 1")
        for name in ("ridge", "temperature"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be above 0")
        if self.local_models < 0:
            raise InputError(f"local_models={self.local_models} is out of range; it must be 0 for none, or above")

    def _scaler(self, known: list[FloatArray]) -> ZScore:
        """Scale every channel from its range in train to 0 to 1; one that never moves keeps its unit."""
        plain = ZScore.fit(known)
        ranges = [channel_range([values[:, c] for values in known])[:2] for c in range(known[0].shape[1])]
        low, high = np.array(ranges).T
        moves = high > low
        return replace(plain, mean=np.where(moves, low, plain.mean), spread=np.where(moves, high - low, plain.spread))

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        windows = self._scaled_windows(known, max(LEARNED_VALUES // (self.window_ * len(self.channels_)), 100))
        flat = windows.reshape(len(windows), -1).astype(np.float64)
        seed = self._seed()
        self.nodes_ = Nodes.draw(
            flat.shape[1],
            groups=self.groups,
            width=self.width,
            levels=self.levels,
            enhancement=self.enhancement,
            seed=seed,
        )
        slices = [part for part in np.array_split(flat, self.local_models or 1) if len(part)]
        parts = [flat, *(slices if self.local_models else [])]
        models = [self._model(part, np.random.default_rng([seed, number])) for number, part in enumerate(parts)]
        nodes = self.nodes_(flat)
        ranges = []
        for model in models:
            errors, distances = model.judge(flat, nodes, self.temperature)
            ranges.append([np.ptp(errors.mean(axis=1)), np.ptp(distances)])
        shares = np.array(ranges) + TINY
        shares /= shares.sum(axis=0)
        self.models_ = tuple(replace(model, shares=share) for model, share in zip(models, shares, strict=True))

    def _model(self, flat: FloatArray, random: np.random.Generator) -> MemoryModel:
        """Learn prototypes and output weights from flat windows, as they are and distorted."""
        nodes = self.nodes_(flat)
        chosen = random.choice(len(nodes), size=self.prototypes, replace=len(nodes) < self.prototypes)
        model = MemoryModel(_unit(nodes[chosen]), np.empty((0, 0)), np.ones(2))
        for number, distorted in enumerate(self._versions(flat, random)):
            nodes = self.nodes_(distorted)
            model = replace(model, prototypes=self._moved(model.prototypes, nodes))
            solved = _ridge(np.hstack([nodes, model.read(nodes, self.temperature)]), distorted, self.ridge)
            kept = self.averaging if number else 0.0
            model = replace(model, output=kept * model.output + (1 - kept) * solved if number else solved)
        return model

    def _versions(self, flat: FloatArray, random: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the windows as they are, and distorted in five ways."""
        yield flat
        yield flat + 0.1 * random.standard_normal(flat.shape)
        yield np.where(random.random(flat.shape) < 0.1, random.integers(0, 2, flat.shape), flat)
        yield flat * random.uniform(0.5, 1.5, (len(flat), 1))
        yield flat.reshape(len(flat), self.window_, -1)[:, ::-1].reshape(flat.shape)
        yield -flat

    def _moved(self, prototypes: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return the prototypes, moved towards the nodes that they are like."""
        attention = _attention(nodes, prototypes, self.temperature)
        means = attention.T @ _unit(nodes) / (attention.sum(axis=0)[:, None] + TINY)
        return _unit(self.momentum * prototypes + (1 - self.momentum) * means)

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        flat = windows.reshape(len(windows), -1).astype(np.float64)
        nodes = self.nodes_(flat)
        errors, distance = np.zeros_like(flat), np.zeros(len(flat))
        for model in self.models_:
            found, far = model.judge(flat, nodes, self.temperature)
            errors += model.shares[0] * found
            distance += model.shares[1] * far
        by_step = errors.reshape(windows.shape)[:, -steps:]
        return by_step.mean(axis=2) + distance[:, None], by_step if explain else None


def _orthonormal(random: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Draw a matrix with orthonormal columns, or rows where these are fewer."""
    drawn = random.standard_normal((max(rows, columns), min(rows, columns)))
    found = np.linalg.qr(drawn)[0]
    return np.asarray(found if rows >= columns else found.T)


def _with_bias(values: FloatArray) -> FloatArray:
    return np.hstack([values, np.ones((len(values), 1))])


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + TINY))


def _attention(nodes: FloatArray, prototypes: FloatArray, temperature: float) -> FloatArray:
    """Return the softmax `(b, prototype)` of the cosine similarities."""
    similar = _unit(nodes) @ _unit(prototypes).T / temperature
    weights = np.exp(similar - similar.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _ridge(inputs: FloatArray, targets: FloatArray, penalty: float) -> FloatArray:
    """Return the weights that map inputs to targets with the least squares and a penalty on their size."""
    gram = inputs.T @ inputs / len(inputs) + penalty * np.eye(inputs.shape[1])
    return np.asarray(np.linalg.solve(gram, inputs.T @ targets / len(inputs)))

"""Windows given back from a memory of normal ones, by a net that is solved and not trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patchad.containers import FloatArray
from patchad.errors import InputError
from patchad.windowed import WindowDetector

LEARNED_VALUES = 20_000_000
"""Values at most of all the windows that are learned from."""
CHUNK = 512
"""Windows that are learned from together."""


@dataclass(kw_only=True, eq=False, repr=False)
class AdaMemBLS(WindowDetector):
    """How badly a window is given back by broad learning systems that may only use what a memory of train holds.

    After AdaMemBLS, an adaptive memory broad learning system for time-series anomaly detection (Zhong et al., 2024).
    Neither its text nor its code was at hand; what is here is our reading of the name, from two published parts.
    From Chen and Liu, "Broad Learning System" (2018): random feature nodes, whose weights are refined once by giving
    the input back (by ridge regression here, by a sparse one there), random enhancement nodes of those, and output
    weights from one ridge regression, which takes in data chunk by chunk. From Gong et al., "Memorizing Normality to
    Detect Anomaly" (2019): the code of a window, its feature nodes, is replaced by a softmax-weighted mean of the items
    of a memory that are most like it, with small weights cut to zero, so that what was never seen cannot be given back.
    Adaptive is the memory: its items begin as codes of the first chunk of train, far from each other, and move to the
    running mean of the codes that come nearest to them. It is settled on train and stays as it is on test. Several such
    systems, each with its own random nodes, are averaged. All sizes are ours.

    Parameters
    ----------
    members
        Systems that are averaged.
    groups, group_nodes
        Groups of feature nodes, and nodes in each.
    enhancement
        Enhancement nodes.
    items
        Of the memory.
    sharpness
        By which the likeness of a code and an item, a cosine, is multiplied before the softmax.
    ridge
        Of the regressions, as a share of the mean square of their inputs.
    """

    name = "adamembls"
    kept: ClassVar[tuple[str, ...]] = ("feature_", "memory_", "enhance_", "output_")

    window: int = 50
    hop: int = 10
    members: int = 3
    groups: int = 5
    group_nodes: int = 10
    enhancement: int = 100
    items: int = 100
    sharpness: float = 30.0
    ridge: float = 1e-3

    @property
    def n_parameters_(self) -> int:
        """Numbers of all weights and memories, random ones included."""
        return int(sum(getattr(self, name).size for name in self.kept))

    def _check_rules(self) -> None:
        super()._check_rules()
        for name in ("members", "groups", "group_nodes", "enhancement", "items"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")
        for name in ("sharpness", "ridge"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be over 0")

    def _learn(self, known: Sequence[FloatArray], unseen: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        windows = self._scaled_windows(known, max(LEARNED_VALUES // (self.window_ * len(self.channels_)), 100))
        flat = windows.reshape(len(windows), -1)
        random = np.random.default_rng(self._seed())
        chunks = np.array_split(flat[random.permutation(len(flat))], -(-len(flat) // CHUNK))
        parts = [self._member(chunks, random) for _ in range(self.members)]
        self.feature_, self.memory_, self.enhance_, self.output_ = (np.stack(part) for part in zip(*parts, strict=True))

    def _member(self, chunks: Sequence[FloatArray], random: np.random.Generator) -> tuple[FloatArray, ...]:
        """Learn one system: weights of features, memory, weights of enhancement and of the output."""
        size = chunks[0].shape[1]
        feature = np.concatenate([self._features(chunks[0], random) for _ in range(self.groups)], axis=1)
        memory = _grown_memory([chunk @ feature for chunk in chunks], self.items, random)
        enhance = random.normal(size=(memory.shape[1] + 1, self.enhancement)) / np.sqrt(memory.shape[1] + 1)
        nodes = memory.shape[1] + self.enhancement + 1
        squares, products = np.zeros((nodes, nodes)), np.zeros((nodes, size))
        for chunk in chunks:
            broad = _broad(_recalled(chunk @ feature, memory, self.sharpness), enhance)
            squares += broad.T @ broad
            products += broad.T @ chunk
        return feature, memory, enhance.astype(np.float32), _solved(squares, products, self.ridge)

    def _features(self, chunk: FloatArray, random: np.random.Generator) -> FloatArray:
        """Give the weights of a group: random nodes, then those that give the input back from them, turned around."""
        draft = chunk @ (random.normal(size=(chunk.shape[1], self.group_nodes)) / np.sqrt(chunk.shape[1]))
        back = _solved(draft.T @ draft, draft.T @ chunk, self.ridge)
        return np.asarray(back.T / np.maximum(np.linalg.norm(back, axis=1), 1e-6))

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        flat = windows.reshape(len(windows), -1).astype(np.float64)  # float32 products vary with the memory's layout
        errors = np.zeros((len(windows), steps, windows.shape[2]))
        for feature, memory, enhance, output in zip(
            self.feature_, self.memory_, self.enhance_, self.output_, strict=True
        ):
            given = _broad(_recalled(flat @ feature, memory, self.sharpness), enhance) @ output
            errors += np.square(flat - given).reshape(windows.shape)[:, -steps:]
        return errors.mean(axis=2) / self.members, errors.astype(np.float32) if explain else None


def _grown_memory(codes: Sequence[FloatArray], items: int, random: np.random.Generator) -> FloatArray:
    """Begin with codes of the first chunk, far from each other; move each to the mean of those nearest to it."""
    first = codes[0].astype(np.float64)
    chosen = [int(random.integers(len(first)))]
    distance = np.square(first - first[chosen[0]]).sum(axis=1)
    while len(chosen) < min(items, len(first)) and distance.sum() > 0:
        chosen.append(int(random.choice(len(first), p=distance / distance.sum())))
        distance = np.minimum(distance, np.square(first - first[chosen[-1]]).sum(axis=1))
    memory, taken = first[chosen], np.ones(len(chosen))
    for chunk in codes:
        nearest = (np.square(memory).sum(axis=1) - 2 * chunk @ memory.T).argmin(axis=1)
        count = np.bincount(nearest, minlength=len(memory))
        total = np.zeros_like(memory)
        np.add.at(total, nearest, chunk)
        taken += count
        memory += (total - count[:, None] * memory) / taken[:, None]
    lack = items - len(memory)  # a train of few different windows; the same item twice changes little
    return np.concatenate([memory, np.repeat(memory[:1], lack, axis=0)]).astype(np.float32)


def _recalled(codes: FloatArray, memory: FloatArray, sharpness: float) -> FloatArray:
    """Give for each code the mean of the items, weighted by their likeness to it; weights under the mean are cut."""
    directions = memory / np.maximum(np.linalg.norm(memory, axis=1, keepdims=True), 1e-6)
    likeness = codes @ directions.T / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-6)
    weights = np.exp(sharpness * (likeness - likeness.max(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    weights[weights < (1 - 1e-3) / len(memory)] = 0  # the largest is never under the mean, but for rounding
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)) @ memory)


def _broad(codes: FloatArray, enhance: FloatArray) -> FloatArray:
    """Lay feature nodes, enhancement nodes and a constant side by side."""
    one = np.ones((len(codes), 1), dtype=codes.dtype)
    return np.concatenate([codes, np.tanh(np.concatenate([codes, one], axis=1) @ enhance), one], axis=1)


def _solved(squares: FloatArray, products: FloatArray, ridge: float) -> FloatArray:
    """Solve a ridge regression from the products of its inputs with each other and with what is wanted."""
    weight = ridge * max(float(np.trace(squares)) / len(squares), 1e-6)
    solved = np.linalg.solve(squares.astype(np.float64) + weight * np.eye(len(squares)), products)
    return np.asarray(solved, dtype=np.float32)

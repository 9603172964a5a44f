"""Memory: what lies far from everything that train contained is strange.

A memory of normal windows, small enough to store with the model. Each of its subspaces looks at subsequences of one
length, in all channels at once; of the long ones a few rows at a time are averaged. It holds the principal components
of train's subsequences; most also hold reference points, where subsequences of train lie in the span of the components.
The distance of a subsequence is what the components cannot rebuild, plus the distance to the nearest reference; where
levels count, the former is a column of its own as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from patchad.data.scaling import SWITCH_WEIGHT, ZScore, channel_range
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import Counting, Training

CLIP = 20.0
"""Values are clipped this many ranges of their channel away: far beyond normal, and harmless to a distance."""
TRAIN_SUBSEQUENCES = 4_000
"""Subsequences of train that components are learned from, at most."""
MAX_COMPONENTS = 16
MAX_REFERENCES = 2_000
SHARE_OF_WINDOW = 3
"""A short subsequence is this fraction of a window."""
ROUNDING = 1e-10
"""Share of a subsequence's square that rounding may leave outside components which span everything: taken for none."""
OVERLAP = 4
"""Subsequences start this fraction of their length apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Subspace:
    """Components of subsequences of one length, with or without reference points.

    Examples
    --------
    >>> rows = np.sin(np.arange(400) / 4)[:, None].astype(np.float32)
    >>> subspace = Subspace.fit(
    ...     steps_of([rows], np.copy, 10, 1), length=10, grain=1, centred=False, apart=False, components=2,
    ...     references=100, seed=0
    ... )
    >>> calm, odd = torch.from_numpy(rows[:30].copy())[None], torch.zeros(1, 30, 1)
    >>> bool(subspace(calm).max() < 0.1 < 0.5 < subspace(odd).min())
    True
    """

    length: int
    grain: int
    """Rows that are averaged into one step; a divisor of the length."""
    centred: bool
    """Whether the mean of each channel is removed from each subsequence first."""
    apart: bool
    """Whether the distance to the components is a column of its own, beside that to the references."""
    mean: Tensor
    """(step * channel,)."""
    components: Tensor
    """(step * channel, component), orthonormal."""
    references: Tensor
    """(reference, component), where subsequences of train lie; empty: only the distance to the components counts."""

    @classmethod
    def fit(
        cls,
        steps: Tensor,
        *,
        length: int,
        grain: int,
        centred: bool,
        apart: bool,
        components: int,
        references: int,
        seed: int,
    ) -> Self:
        """Learn from averaged steps of subsequences, `(n, step, c)`."""
        flat = _flat(steps, centred=centred).numpy()
        mean = flat.mean(axis=0)
        flat = flat - mean
        count = min(components, *flat.shape)
        found = randomized_svd(flat, count, n_iter=4, random_state=seed)[2].T
        coordinates = flat @ found
        kept = coordinates[_evenly(len(coordinates), references)] if references else coordinates[:0]
        learned = (torch.from_numpy(np.ascontiguousarray(array)) for array in (mean, found, kept))
        return cls(length, grain, centred, apart, *learned)

    def __call__(self, windows: Tensor) -> Tensor:
        """Return `(b, step, column)` from weighed windows `(b, t, c)`: mean distances of a step's subsequences."""
        return self.by_step(_subsequences(windows, self.length), windows.shape[1])

    def by_step(self, subsequences: Tensor, steps: int) -> Tensor:
        """Return the same from the subsequences of the windows, `(b, subsequence, length, c)`."""
        found = self._distances(subsequences.flatten(0, 1))
        distances = found.view(-1, subsequences.shape[1], found.shape[1])
        if subsequences.shape[1] == 1:
            return distances.expand(-1, steps, -1)
        return torch.matmul(_layout(self.length, steps, distances.device)[1].T, distances)

    def _distances(self, subsequences: Tensor) -> Tensor:
        """Return the distances `(n, column)` of subsequences `(n, length, c)`: root of the mean square of a step."""
        flat = _flat(_averaged(subsequences, self.grain), centred=self.centred) - self.mean
        coordinates = flat @ self.components
        outside = torch.addmm(flat, coordinates, self.components.T, alpha=-1).square().sum(1)
        outside = outside * (outside > ROUNDING * flat.square().sum(1))
        squares = [outside] if self.apart or not len(self.references) else []
        if len(self.references):
            nearest = (coordinates @ self.references.T - self.references.square().sum(1) / 2).argmax(1)
            squares.append(outside + (coordinates - self.references.index_select(0, nearest)).square().sum(1))
        return (torch.stack(squares, 1) * (self.grain / self.length)).sqrt()

    @property
    def size(self) -> int:
        """Stored values."""
        return self.mean.numel() + self.components.numel() + self.references.numel()

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        names = ("mean", "components", "references")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Subspaces at two lengths, with and without the level of each channel."""

    name: ClassVar[str] = "memory"
    from_net: ClassVar[bool] = False
    from_reconstruction: ClassVar[bool] = False
    counting: ClassVar[Counting] = Counting()
    joint: ClassVar[bool] = True

    weights: Tensor
    """(channel,), factors of scaled values: one over the channel's range in train; less for a switch."""
    subspaces: tuple[Subspace, ...]

    @classmethod
    def fit(cls, training: Training) -> Self | None:
        """Learn from series of which at least one is as long as the window.

        Held-out rows are not stored, but count for the range of each channel: a flag that moves for the first time in
        these rows is a flag all the same.
        """
        if not training.memory:
            return None
        weights = _weights([*training.known, *training.held_out], training.scaler)
        short, long = max(training.window // SHARE_OF_WINDOW, 1), training.window
        grains = {short: 1, long: long // short if long % short == 0 else 1}
        wide = 2 * sum(length // grain for length, grain in grains.items()) * len(weights)
        components = int(np.clip(training.memory // wide - 1, 1, MAX_COMPONENTS))  # one of them is the mean
        left = training.memory - (components + 1) * wide
        references = int(np.clip(left // (3 * components), 100, MAX_REFERENCES))

        def weigh(values: FloatArray) -> FloatArray:
            return np.asarray(np.clip(training.scaler(values) * weights, -CLIP, CLIP))

        known, due = training.known, weigh
        if sum(map(len, known)) <= TRAIN_SUBSEQUENCES * short:  # fewer values than its subsequences have
            known, due = [weigh(values) for values in known], _as_it_is
        steps = {length: steps_of(known, due, length, grain) for length, grain in grains.items()}
        subspaces = [
            Subspace.fit(
                steps[length],
                length=length,
                grain=grain,
                centred=centred,
                apart=not centred,
                components=components,
                references=references * (centred or length == long),
                seed=training.seed,
            )
            for centred in (False, True)
            for length, grain in grains.items()
        ]
        return cls(torch.from_numpy(weights), tuple(subspaces))

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:  # noqa: ARG002
        """Return the distances `(window, step, column)`."""
        return self(windows)[:, -steps:]

    def __call__(self, windows: Tensor) -> Tensor:
        """Return the distances `(b, t, column)` of scaled windows `(b, t, c)`."""
        weighed = (windows * self.weights).clamp(-CLIP, CLIP)
        cut = {length: _subsequences(weighed, length) for length in {part.length for part in self.subspaces}}
        return torch.cat([part.by_step(cut[part.length], windows.shape[1]) for part in self.subspaces], -1)

    def calibrated(self, observed: FloatArray) -> Self:  # noqa: ARG002 - scaled after folding only
        """Return itself."""
        return self

    def without(self, observed: Tensor, absent: Tensor) -> Tensor:  # noqa: ARG002 - it is joint
        """Return what was observed."""
        return observed

    def columns(self, observed: Tensor) -> Tensor:
        """Return the distances as they are, one column each."""
        return observed.double()

    @property
    def width(self) -> int:
        """One column for each subspace, two where the distance to its components is one by itself."""
        return sum(1 + (part.apart and len(part.references) > 0) for part in self.subspaces)

    def alone(self, observed: Tensor) -> Tensor:
        """Return the mean distance."""
        return observed.double().mean(-1, keepdim=True)

    def attribution(self, observed: FloatArray) -> None:  # noqa: ARG002 - distances are over all channels
        """Return None: a distance mixes the channels."""
        return

    @property
    def size(self) -> int:
        """Stored values."""
        return sum(subspace.size for subspace in self.subspaces)

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return replace(
            self,
            weights=self.weights.to(device),
            subspaces=tuple(subspace.to(device) for subspace in self.subspaces),
        )


def _subsequences(windows: Tensor, length: int) -> Tensor:
    """Cut windows `(b, t, c)` into `(b, subsequence, length, c)`."""
    if windows.shape[1] == length:
        return windows[:, None]
    rows = _layout(length, windows.shape[1], windows.device)[0]
    return windows.index_select(1, rows.flatten()).view(-1, *rows.shape, windows.shape[2])


@cache
def _layout(length: int, steps: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the rows of a window's subsequences, `(subsequence, length)`, and their weights `(subsequence, step)`.

    They overlap; the first begins with the window, and the last ends with it.
    """
    ends = torch.arange(steps, length - 1, -max(length // OVERLAP, 1))
    ends = torch.unique(torch.cat([ends, ends.new_tensor([length])]))
    rows = ends[:, None] - length + torch.arange(length)
    covers = torch.zeros(len(ends), steps).scatter_(1, rows, 1.0)
    return rows.to(device), (covers / covers.sum(0)).to(device)


def _weights(series: Sequence[FloatArray], scaler: ZScore) -> NDArray[np.float32]:
    """Return the factor of each scaled channel; one that never moves keeps its unit."""
    factors = []
    for channel, spread in enumerate(scaler.spread):
        low, high, switch = channel_range([rows[:, channel] for rows in series])
        reach = (high - low) / spread
        factors.append((SWITCH_WEIGHT if switch else 1.0) / reach if reach > 1e-6 else 1.0)
    return np.array(factors, np.float32)


def steps_of(
    series: Sequence[FloatArray], weigh: Callable[[FloatArray], FloatArray], length: int, grain: int
) -> Tensor:
    """Take subsequences of these series evenly; return them weighed and averaged over `grain` rows, `(n, step, c)`."""
    sampler = WindowSampler(series, length)
    numbers = _evenly(len(sampler), TRAIN_SUBSEQUENCES)
    batches = np.array_split(numbers, -(-len(numbers) // 256))  # a few copies at a time: subsequences may be large
    return torch.cat([_averaged(torch.from_numpy(weigh(sampler[some])), grain) for some in batches])


def _as_it_is(values: FloatArray) -> FloatArray:
    return values


def _averaged(subsequences: Tensor, grain: int) -> Tensor:
    """Average subsequences `(n, length, c)` over `grain` rows: `(n, step, c)`."""
    if grain == 1:
        return subsequences
    return subsequences.reshape(-1, subsequences.shape[1] // grain, grain, subsequences.shape[2]).mean(2)


def _flat(steps: Tensor, *, centred: bool) -> Tensor:
    """Lay subsequences `(n, step, c)` out as vectors."""
    return ((steps - steps.mean(1, keepdim=True)) if centred else steps).flatten(1)


def _evenly(count: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` evenly spread numbers below `count`."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))

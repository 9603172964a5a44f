"""Memory: what lies far from everything that train contained is strange.

A memory of normal windows, small enough to store with the model. Each of its subspaces looks at subsequences of one
length, in all channels at once; of the long ones a few rows at a time are averaged. Where channels are many, they are
first seen along the few axes by which they move together. A subspace holds the principal components of train's
subsequences; most also hold reference points, where subsequences of train lie in the span of the components.
The distance of a subsequence is what axes and components cannot rebuild, plus the distance to the nearest reference;
where levels count, the former is a column of its own as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchad.data.scaling import SWITCH_WEIGHT, ZScore, channel_range
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.model.net import ScaleOutput
from patchad.model.witnesses.base import Counting, Training

CLIP = 20.0
"""Values are clipped this many ranges of their channel away: far beyond normal, and harmless to a distance."""
TRAIN_SUBSEQUENCES = 8_000
"""Subsequences of train that components and references are learned from, at most."""
TRAIN_VALUES = 480_000_000
"""Most values of these; a thousand subsequences are taken in any case."""
TRAIN_ROWS = 20_000
"""Rows of train that the axes are learned from, at most."""
MAX_AXES = 8
MAX_COMPONENTS = 28
MOST_SPANNED = 0.7
"""Share of the values of a subsequence that components may be: with more of them, nothing is left that they cannot
rebuild but rounding."""
MAX_REFERENCES = 2_000
COMPONENT_SHARE = 0.75
"""Share of the memory that components may take."""
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
    >>> rows = torch.sin(torch.arange(400.0, dtype=torch.float64) / 4)[:, None]
    >>> steps = rows.unfold(0, 10, 1).transpose(1, 2)
    >>> subspace = Subspace.fit(steps, length=10, grain=1, centred=False, apart=False, components=2, references=100)
    >>> calm, odd = rows[:30], torch.zeros(30, 1, dtype=torch.float64)
    >>> bool(subspace(calm[None]).max() < 0.1 < 0.5 < subspace(odd[None]).min())
    True
    """

    length: int
    grain: int
    """Rows that are averaged into one step; a divisor of the length."""
    centred: bool
    """Whether the mean of each channel is removed from each subsequence first."""
    apart: bool
    """Whether the distance to the components is a column of its own, beside that to the references."""
    components: Tensor
    """(step * axis, component), orthonormal."""
    references: Tensor
    """(reference, component), where subsequences of train lie; empty: only the distance to the components counts."""

    @classmethod
    def fit(
        cls, steps: Tensor, *, length: int, grain: int, centred: bool, apart: bool, components: int, references: int
    ) -> Self:
        """Learn from averaged steps of subsequences along the axes, `(n, step, axis)`."""
        flat = _flat(steps, centred=centred)
        count = min(components, len(flat), max(int(MOST_SPANNED * flat.shape[1]), 1))
        found = torch.linalg.eigh(flat.T @ flat)[1].flip(1)[:, :count].float().contiguous()
        coordinates = flat.float() @ found
        return cls(length, grain, centred, apart, found, coordinates[far_apart(coordinates, references)])

    def __call__(self, rows: Tensor, beside: Tensor | None = None) -> Tensor:
        """Return `(b, step, column)` of float64 windows, along the axes `(b, t, axis)` and beside them `(b, t, c)`."""
        cut = _subsequences(rows, self.length)
        return self.by_step(cut, None if beside is None else _subsequences(beside, self.length), rows.shape[1])

    def by_step(self, subsequences: Tensor, beside: Tensor | None, steps: int) -> Tensor:
        """Return the same from the subsequences of the windows, `(b, subsequence, length, axis)` and `(..., c)`."""
        found = self._distances(subsequences.flatten(0, 1), None if beside is None else beside.flatten(0, 1))
        distances = found.view(-1, subsequences.shape[1], found.shape[1])
        if subsequences.shape[1] == 1:
            return distances.expand(-1, steps, -1)
        return torch.matmul(_layout(self.length, steps, distances.device)[1].T, distances)

    def _distances(self, subsequences: Tensor, beside: Tensor | None) -> Tensor:
        """Return the distances `(n, column)` of subsequences `(n, length, axis)`: root of the mean square of a step."""
        flat = _flat(_averaged(subsequences, self.grain), centred=self.centred)
        left = None if beside is None else _flat(_averaged(beside, self.grain), centred=self.centred).square().sum(1)
        components, references = self.components.double(), self.references.double()
        coordinates = flat @ components
        outside = torch.addmm(flat, coordinates, components.T, alpha=-1).square().sum(1)
        whole = flat.square().sum(1)
        if left is not None:
            outside, whole = outside + left, whole + left
        outside = outside * (outside > ROUNDING * whole)
        squares = [outside] if self.apart or not len(references) else []
        if len(references):
            nearest = (coordinates @ references.T - references.square().sum(1) / 2).argmax(1)
            squares.append(outside + (coordinates - references.index_select(0, nearest)).square().sum(1))
        return (torch.stack(squares, 1) * (self.grain / self.length)).sqrt().float()

    @property
    def size(self) -> int:
        """Stored values."""
        return self.components.numel() + self.references.numel()

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        names = ("components", "references")
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
    mean: Tensor
    """(channel,), of weighed values."""
    axes: Tensor
    """(channel, axis), orthonormal: as many as channels, or those along which most of train lies."""
    subspaces: tuple[Subspace, ...]

    @classmethod
    def fit(cls, training: Training) -> Self | None:
        """Learn from series of which at least one is as long as the window.

        Held-out rows are not stored, but count for the range of each channel: a flag that moves for the first time in
        these rows is a flag all the same.
        """
        if not training.memory:
            return None
        weights = torch.from_numpy(_weights([*training.known, *training.held_out], training.scaler))
        stride = max(sum(map(len, training.known)) // TRAIN_ROWS, 1)
        rows = [_weighed(torch.from_numpy(training.scaler(one[::stride])), weights) for one in training.known]
        mean, axes = _axes(torch.cat(rows))
        memory = cls(weights, mean, axes, ())
        short, long = max(training.window // SHARE_OF_WINDOW, 1), training.window
        grains = {short: 1, long: long // short if long % short == 0 else 1}
        wide = 2 * sum(length // grain for length, grain in grains.items()) * axes.shape[1]
        components = int(np.clip(COMPONENT_SHARE * training.memory // wide, 1, MAX_COMPONENTS))
        left = training.memory - components * wide
        references = int(np.clip(left // (3 * components), 100, MAX_REFERENCES))
        steps = {length: memory.steps(training, length, grain) for length, grain in grains.items()}
        subspaces = [
            Subspace.fit(
                steps[length],
                length=length,
                grain=grain,
                centred=centred,
                apart=not centred,
                components=components,
                references=references * (centred or length == long),
            )
            for centred in (False, True)
            for length, grain in grains.items()
        ]
        return replace(memory, subspaces=tuple(subspaces))

    def steps(self, training: Training, length: int, grain: int) -> Tensor:
        """Take subsequences of train evenly, averaged over `grain` rows, along the axes: `(n, step, axis)`."""
        sampler = WindowSampler(training.known, length)
        most = min(TRAIN_SUBSEQUENCES, max(TRAIN_VALUES // (length * len(self.weights)), 1_000))
        numbers = _evenly(len(sampler), most)
        batches = np.array_split(numbers, -(-len(numbers) // 256))  # a few copies at a time: they may be large
        along = (self._split(torch.from_numpy(training.scaler(sampler[some])))[0] for some in batches)
        return torch.cat([_averaged(one, grain) for one in along])

    def _split(self, windows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return scaled windows `(b, t, c)` weighed, along the axes and beside them; None where that is nothing.

        In float64: what smooth rows leave outside their components is a small difference of large numbers.
        """
        weighed = _weighed(windows, self.weights).double() - self.mean
        if self.axes.shape[0] == self.axes.shape[1]:
            return weighed, None
        axes = self.axes.double()
        along = weighed @ axes
        return along, weighed - along @ axes.T

    def observe(self, windows: Tensor, outputs: Sequence[ScaleOutput], steps: int) -> Tensor:  # noqa: ARG002
        """Return the distances `(window, step, column)`."""
        return self(windows)[:, -steps:]

    def __call__(self, windows: Tensor) -> Tensor:
        """Return the distances `(b, t, column)` of scaled windows `(b, t, c)`."""
        along, beside = self._split(windows)
        lengths = {part.length for part in self.subspaces}
        cut = {length: _subsequences(along, length) for length in lengths}
        rest = {length: None if beside is None else _subsequences(beside, length) for length in lengths}
        steps = windows.shape[1]
        return torch.cat([one.by_step(cut[one.length], rest[one.length], steps) for one in self.subspaces], -1)

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
        return self.mean.numel() + self.axes.numel() + sum(subspace.size for subspace in self.subspaces)

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return replace(
            self,
            weights=self.weights.to(device),
            mean=self.mean.to(device),
            axes=self.axes.to(device),
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


def _weighed(scaled: Tensor, weights: Tensor) -> Tensor:
    """Return scaled values `(..., channel)` in ranges of their channels."""
    return (scaled * weights).clamp(-CLIP, CLIP)


def _axes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of weighed rows `(n, channel)`, and the axes along which most of them lies."""
    mean = rows.mean(0, dtype=torch.float64)
    channels = rows.shape[1]
    if channels <= MAX_AXES:
        return mean.float(), torch.eye(channels)
    apart = rows.double() - mean
    return mean.float(), torch.linalg.eigh(apart.T @ apart)[1].flip(1)[:, :MAX_AXES].float().contiguous()


def far_apart(points: Tensor, count: int) -> Tensor:
    """Return the numbers of `count` points `(n, d)`, each the farthest from those before it.

    Few points then lie far from all of these; taken evenly, what train has seldom would be left out.

    Examples
    --------
    >>> far_apart(torch.tensor([[0.0], [0.1], [0.2], [5.0], [9.0]]), 3).tolist()
    [0, 3, 4]
    """
    if count >= len(points):
        return torch.arange(len(points))
    numbers = np.zeros(count, np.intp)
    rows = points.numpy()
    squares = np.square(rows).sum(axis=1)
    nearest = np.full(len(rows), np.inf, rows.dtype)
    for number in range(1, count):
        newest = rows[numbers[number - 1]]
        nearest = np.minimum(nearest, squares - 2 * (rows @ newest) + newest @ newest)
        numbers[number] = nearest.argmax()
    return torch.from_numpy(np.unique(numbers[:count]))


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

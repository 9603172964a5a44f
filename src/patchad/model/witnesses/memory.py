"""A memory of normal windows, small enough to carry: what it cannot rebuild, or has never seen the like of, is strange.

Each part of it looks at stretches of one length, in all channels at once. It holds the main directions in which the
stretches of train differ; some parts also hold where in those directions stretches of train lay. A stretch is as far
from normal as from the nearest of them, and no normal one is farther from the directions than its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from patchad.data.scaling import SWITCH_WEIGHT, ZScore, channel_range
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler

FARTHEST = 20.0
"""Values are cut this many ranges of their channel away: far beyond normal, and no farther than a distance can bear."""
LEARNED = 4_000
"""Stretches of train that the directions are learned from, at most."""
MOST_DIRECTIONS = 16
MOST_PLACES = 2_000
SHARE_OF_WINDOW = 3
"""The short stretches are this part of a window."""
OVERLAP = 4
"""Stretches start this part of their length apart."""
PARTS = 4
"""Parts of a memory."""
TENSORS = ("mean", "directions", "places")
"""What a part holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Stretches of one length.

    Examples
    --------
    >>> rows = np.sin(np.arange(400) / 4)[:, None].astype(np.float32)
    >>> part = Part.fit([rows], np.copy, length=10, centred=False, directions=2, places=100, seed=0)
    >>> calm, odd = torch.from_numpy(rows[:30].copy())[None], torch.zeros(1, 30, 1)
    >>> bool(part(calm).max() < 0.1 < 0.5 < part(odd).min())
    True
    """

    length: int
    centred: bool
    """Whether each channel's level is taken out of each stretch first."""
    mean: Tensor
    """(length * channel,)."""
    directions: Tensor
    """(length * channel, direction), orthonormal."""
    places: Tensor
    """(place, direction), where stretches of train lie; none: only what the directions cannot rebuild counts."""

    @classmethod
    def fit(
        cls,
        series: Sequence[FloatArray],
        weigh: Callable[[FloatArray], FloatArray],
        *,
        length: int,
        centred: bool,
        directions: int,
        places: int,
        seed: int,
    ) -> Part:
        """Learn from `(time, channel)` series; `weigh` makes of stretches of them what distances are taken of."""
        sampler = WindowSampler(series, length)
        numbers = _evenly(len(sampler), LEARNED)
        some = np.array_split(numbers, -(-len(numbers) // 256))  # copies of a few at a time: stretches may be large
        flat = np.concatenate([_flat(torch.from_numpy(weigh(sampler[n])), centred=centred).numpy() for n in some])
        mean = flat.mean(axis=0)
        flat -= mean
        count = min(directions, *flat.shape)
        found = randomized_svd(flat, count, n_iter=4, random_state=seed)[2].T
        lie = flat @ found
        kept = lie[_evenly(len(lie), places)] if places else lie[:0]
        return cls(length, centred, *(torch.from_numpy(np.ascontiguousarray(a)) for a in (mean, found, kept)))

    def __call__(self, windows: Tensor) -> Tensor:
        """Give `(b, step)` from weighed windows `(b, t, c)`: the mean distance of the stretches that cover a step."""
        return self.of(_cut(windows, self.length), windows.shape[1])

    def of(self, stretches: Tensor, steps: int) -> Tensor:
        """Give the same from the stretches of the windows, `(b, stretch, length, c)`."""
        apart = self._distances(stretches.flatten(0, 1)).view(stretches.shape[:2])
        if stretches.shape[1] == 1:
            return apart.expand(-1, steps)
        return torch.matmul(apart, _stretches(self.length, steps, apart.device)[1])

    def _distances(self, stretches: Tensor) -> Tensor:
        """Give how far stretches `(n, length, c)` are from normal: `(n,)`, root of the mean square of a step."""
        flat = _flat(stretches, centred=self.centred) - self.mean
        lie = flat @ self.directions
        squares = (flat - lie @ self.directions.T).square().sum(1)
        if len(self.places):
            nearest = (lie @ self.places.T - self.places.square().sum(1) / 2).argmax(1)
            squares = squares + (lie - self.places[nearest]).square().sum(1)
        return (squares / self.length).sqrt()

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """What it holds."""
        return self.mean, self.directions, self.places

    def to(self, device: torch.device) -> Part:
        """Give the same on a device."""
        return Part(self.length, self.centred, *(tensor.to(device) for tensor in self.tensors))


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What was normal in train, at two lengths, with and without the level of each channel."""

    weights: Tensor
    """(channel,), by which scaled values are multiplied: one over the channel's range in train; less for a switch."""
    parts: tuple[Part, ...]

    @classmethod
    def fit(
        cls,
        series: Sequence[FloatArray],
        scaler: ZScore,
        *,
        window: int,
        values: int,
        seed: int,
        held_out: Sequence[FloatArray] = (),
    ) -> Memory:
        """Learn from series `(time, channel)` as measured, at least one of them as long as the window.

        Parameters
        ----------
        series
            Whose stretches are remembered.
        scaler
            How values are scaled before a window is looked at.
        window
            Rows of a window.
        values
            Numbers that the memory may hold, about.
        seed
            Of the directions.
        held_out
            Series that are not remembered but say, with the others, how far each channel ranges: a flag that moves for
            the first time in these rows is a flag all the same.
        """
        all_rows = [*series, *held_out]
        weights = np.array(
            [_weight([rows[:, c] for rows in all_rows], spread) for c, spread in enumerate(scaler.spread)], np.float32
        )
        lengths = (max(window // SHARE_OF_WINDOW, 1), window)
        wide = 2 * sum(lengths) * len(weights)
        directions = int(np.clip(values // wide - 1, 1, MOST_DIRECTIONS))  # one of them is the mean
        places = int(np.clip((values - (directions + 1) * wide) // (2 * directions), 100, MOST_PLACES))
        parts = [
            Part.fit(
                series,
                lambda stretches: np.clip(scaler(stretches) * weights, -FARTHEST, FARTHEST),
                length=length,
                centred=centred,
                directions=directions,
                places=places * centred,
                seed=seed,
            )
            for centred in (False, True)
            for length in lengths
        ]
        return cls(torch.from_numpy(weights), tuple(parts))

    def __call__(self, windows: Tensor) -> Tensor:
        """Give `(b, step, part)` distances of scaled windows `(b, t, c)`."""
        weighed = (windows * self.weights).clamp(-FARTHEST, FARTHEST)
        cut = {length: _cut(weighed, length) for length in {part.length for part in self.parts}}
        return torch.stack([part.of(cut[part.length], windows.shape[1]) for part in self.parts], -1)

    @property
    def size(self) -> int:
        """Numbers that it holds."""
        return sum(t.numel() for part in self.parts for t in part.tensors)

    def to(self, device: torch.device) -> Memory:
        """Give the same on a device."""
        return Memory(self.weights.to(device), tuple(part.to(device) for part in self.parts))

    def to_arrays(self) -> dict[str, FloatArray]:
        """Give what was learned by name, for a file."""
        named = {
            f"memory.{i}.{name}": getattr(part, name).cpu().numpy()
            for i, part in enumerate(self.parts)
            for name in TENSORS
        }
        kinds = np.array([part.centred for part in self.parts])
        return {"memory.weights": self.weights.cpu().numpy(), "memory.centred": kinds} | named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Memory | None:
        """Take back what `to_arrays` gave; None where there is no memory."""
        if "memory.weights" not in arrays:
            return None
        weights = arrays["memory.weights"]
        parts: list[Part] = []
        for i, centred in enumerate(arrays["memory.centred"].tolist()):
            tensors = [torch.from_numpy(np.array(arrays[f"memory.{i}.{name}"])) for name in TENSORS]
            parts.append(Part(len(tensors[0]) // len(weights), bool(centred), *tensors))
        return cls(torch.from_numpy(np.array(weights)), tuple(parts))


def _cut(windows: Tensor, length: int) -> Tensor:
    """Give the stretches of windows `(b, t, c)`: `(b, stretch, length, c)`."""
    if windows.shape[1] == length:
        return windows[:, None]
    return windows[:, _stretches(length, windows.shape[1], windows.device)[0]]


@cache
def _stretches(length: int, steps: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Give the stretches of a window, `(stretch, length)` rows of it; and `(stretch, step)`, what each says of a step.

    They overlap, the last ends with the window, and the first begins with it.
    """
    ends = torch.arange(steps, length - 1, -max(length // OVERLAP, 1))
    ends = torch.unique(torch.cat([ends, ends.new_tensor([length])]))
    rows = ends[:, None] - length + torch.arange(length)
    covers = torch.zeros(len(ends), steps).scatter_(1, rows, 1.0)
    return rows.to(device), (covers / covers.sum(0)).to(device)


def _weight(channel: list[FloatArray], spread: float) -> float:
    """Give what a scaled channel is multiplied by; one that never moves keeps its unit."""
    low, high, switch = channel_range(channel)
    reach = (high - low) / spread
    return (SWITCH_WEIGHT if switch else 1.0) / reach if reach > 1e-6 else 1.0


def _flat(stretches: Tensor, *, centred: bool) -> Tensor:
    """Lay stretches `(n, length, c)` out as vectors."""
    return ((stretches - stretches.mean(1, keepdim=True)) if centred else stretches).flatten(1)


def _evenly(count: int, most: int) -> NDArray[np.intp]:
    """Give at most `most` numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))

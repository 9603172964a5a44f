"""Likeness: how near two stretches of rows have to be to count as the same, learned in `fit` for each channel.

Channels are compared one by one, each in its own scale: one that deviates is not drowned in many, and a channel has
neighbours in train whatever the others do at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.spatial import KDTree

from patchad.data.holdout import known_parts
from patchad.data.series import Series
from patchad.data.table import BoolArray, FloatArray
from patchad.data.windows import WindowSampler

LIKE_ROWS = 30
"""Rows that are compared as a whole where a detector has no window."""
PIECE = 16
"""Rows of the pieces of train that say what is normal of one channel."""
SCALE_ROWS = 100_000
"""Rows of train that scales are learned from, at least, where there are as many."""
REFERENCES = 160
"""Pieces that are stored, at most."""
HELD_OUT = 300
"""Held-out windows whose neighbours are looked for, at most."""
NEIGHBOURS = 1000
"""Windows of train among which they are looked for, at most."""
NEAR = 0.9
"""Share of held-out windows that are nearer to their nearest neighbour than the radius, before its margin."""
MARGIN = 1.25
"""The radius over the distance of such neighbours: what is accepted has few windows, train has many."""
SMALLEST = 1e-3
"""Least radius, in spreads of a channel: what rounding leaves of one that never moves."""
CLIP = 1e6
"""Scaled values are clipped here, so that no square overflows."""


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """Scales, neighbourhoods and pieces of train."""

    window: int
    """Rows of a stretch that is compared as a whole, at most."""
    centre: FloatArray
    """(channel,), the median of train."""
    spread: FloatArray
    """(channel,), half of the range of the middle 80 % of train; 1 where a channel never moves."""
    radius: FloatArray
    """(channel,), root mean square distance between like windows, at most."""
    peak: FloatArray
    """(channel,), greatest distance between two rows of like windows, at most."""
    pieces: FloatArray
    """(piece, step, channel), of train, scaled."""
    piece_radius: FloatArray
    """(channel,), root mean square distance between a normal piece and the nearest of these."""

    @classmethod
    def fit(cls, train: Sequence[Series], held_out: Sequence[Sequence[slice]], window: int) -> Self:
        """Learn from series of train; where all or none of their rows are held out, from their halves.

        Examples
        --------
        >>> rows = np.random.default_rng(0).normal(size=(1000, 2)) * [1.0, 100.0]
        >>> like = Likeness.fit([Series(rows, ("a", "b"))], [[slice(800, 1000)]], window=30)
        >>> like.pieces.shape, (like.radius * like.spread / [1.0, 100.0]).round(1).tolist()
        ((160, 16, 2), [1.3, 1.3])
        """
        known, unknown = _parts(train, held_out)
        step = max(sum(map(len, known)) // SCALE_ROWS, 1)
        rows = np.concatenate([part[::step] for part in known])
        centre = np.median(rows, axis=0).astype(np.float64)
        low, high = np.quantile(rows, [0.1, 0.9], axis=0)
        spread = np.maximum(high - low, 0.2 * (rows.max(axis=0) - rows.min(axis=0))) / 2
        spread = np.where(spread > 1e-9 * np.abs(centre), spread, 1.0)
        scale = cls(1, centre, spread, *(np.empty(0),) * 2, np.empty((0, 0, 0)), np.empty(0))
        longest = min(max(map(len, known)), max(map(len, unknown)))
        window, piece = min(window if window > 1 else LIKE_ROWS, longest), min(PIECE, longest)

        def cut(parts: Sequence[FloatArray], length: int, most: int) -> FloatArray:
            if sum(map(len, parts)) > most * length:
                return scale.scaled(_evenly(parts, length, most))
            return _evenly([scale.scaled(part) for part in parts], length, most)

        radius, peak = _neighbourhood(cut(known, window, NEIGHBOURS), cut(unknown, window, HELD_OUT))
        pieces = cut(known, piece, REFERENCES)
        piece_radius, _ = _neighbourhood(pieces, cut(unknown, piece, HELD_OUT))
        return cls(window, centre, spread, radius, peak, pieces.astype(np.float32), piece_radius)

    def scaled(self, rows: FloatArray) -> FloatArray:
        """Scale `(time, channel)` rows."""
        return np.asarray(np.clip((rows - self.centre) / self.spread, -CLIP, CLIP))

    def normal(self, rows: FloatArray) -> BoolArray:
        """Mark the values of scaled rows, `(time, channel)`, that lie in a piece like one of train."""
        steps = min(self.pieces.shape[1], len(rows))
        limits = self.piece_radius * (slack(steps) if steps < self.pieces.shape[1] else 1.0) * np.sqrt(steps)
        found: BoolArray = np.zeros(rows.shape, dtype=bool)
        for channel in range(rows.shape[1]):
            tree = KDTree(self.pieces[:, :steps, channel].astype(np.float64))
            cut = sliding_window_view(rows[:, channel], steps)
            near = np.isfinite(tree.query(cut, distance_upper_bound=float(limits[channel]))[0])
            for step in range(steps):
                found[step : step + len(near), channel] |= near
        return found


def slack(steps: int) -> float:
    """Return the factor of a radius for a short stretch, whose distances vary more."""
    return float(1 + 1 / np.sqrt(steps))


def _parts(
    train: Sequence[Series], held_out: Sequence[Sequence[slice]]
) -> tuple[Sequence[FloatArray], Sequence[FloatArray]]:
    """Return the rows to compare with, and those to compare: held-out ones, or else the second halves."""
    known = known_parts(train, held_out)
    unknown = [series.values[block] for series, own in zip(train, held_out, strict=True) for block in own]
    if known and unknown:
        return known, unknown
    return [s.values[: len(s) // 2] for s in train], [s.values[len(s) // 2 :] for s in train]


def _evenly(parts: Sequence[FloatArray], window: int, most: int) -> FloatArray:
    """Cut at most `most` windows from these rows, evenly; `(window, step, channel)`."""
    sampler = WindowSampler(parts, window)
    return np.asarray(sampler[np.unique(np.linspace(0, len(sampler) - 1, min(len(sampler), most)).astype(np.intp))])


def _neighbourhood(references: FloatArray, windows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how far windows are from their nearest references: root mean square, and greatest; each `(channel,)`."""
    radii = [_near(references[:, :, channel], windows[:, :, channel]) for channel in range(windows.shape[2])]
    radius, peak = np.maximum(MARGIN * np.array(radii).T, SMALLEST)
    return radius, np.maximum(peak, radius)


def _near(references: FloatArray, windows: FloatArray) -> tuple[float, float]:
    # By one matrix product: at so many rows a window, a tree would compare nearly all pairs as well.
    known, own = references.astype(np.float32), windows.astype(np.float32)
    nearest = (own @ known.T - np.square(known).sum(axis=1) / 2).argmax(axis=1)
    apart = windows - references[nearest]
    root = np.sqrt(np.square(apart).mean(axis=1))
    return float(np.quantile(root, NEAR)), float(np.quantile(np.abs(apart).max(axis=1), NEAR))

"""Screening: rows of train that are far from all the rest of it, and so are faults rather than normal.

Each channel is looked at by itself. Its short subsequences are compared with those of other parts of train: what
happened once has no neighbour there. How far normal subsequences are from their neighbours is learned from train as
well, from its less strange half; what is many times further is foreign. Clean train has no such rows, and stays as it
is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import BoolArray, FloatArray

LENGTH = 16
"""Rows of a subsequence."""
PARTS = 10
"""Parts of train: neighbours are looked for in all but a subsequence's own part and the two beside it."""
NEIGHBOUR = 2
"""Parts in which there has to be a neighbour: what happened twice may still be a fault."""
TAIL = 0.9
"""Share of the subsequences that make no tail."""
FOREIGN = 40.0
"""Excess over the start of the tail, in usual excesses, from which on a cluster is foreign. Normal rows of
generated processes, and of the simulated plant, stay under it; most plain faults give more."""
RARE = 1e-5
"""Share of clusters that a foreign one has to be rarer than, by the tail of all channels together, where it is heavy:
bursts that come now and then are normal."""
MAX_SHAPE = 0.5
"""Heaviest tail."""
FURTHER = 1.5
"""Distance, in distances of the start of the tail, that a foreign cluster has at least."""
GLITCH = 10.0
"""Distance of a value outside the range of all but 0.2 % of a channel, in ranges, from which on it is foreign."""
EDGE = 0.1
"""Height of a row over the start of the tail, as a share of the cluster's, from which on it is part of the fault."""
MIN_CLUSTERS = 16
"""Clusters below which nothing is known of the tail."""
MIN_VALUES = 10
"""Different values that a channel needs: a switch that moves once is no fault."""
MOST = 0.15
"""Share of train that can be foreign; what takes up more of it is normal."""
REFERENCES, COMPARISONS = 4_000, 5e8
"""Most subsequences that all others are compared with, and most comparisons in all."""
PRODUCTS = 2_000_000
"""Comparisons that are made at once: fewer, and on a busy machine the threads of a product wait for each other."""
MOST_REFERENCES = 100_000
"""Most subsequences that those that look foreign are compared with."""


def foreign_rows(
    segments: Sequence[FloatArray], share: float | None = None, known: Sequence[BoolArray] = ()
) -> list[BoolArray]:
    """Mark the rows of train that are foreign to it.

    Parameters
    ----------
    segments
        `(time, channel)` each, finite.
    share
        Share of the rows to mark, the strangest, with all rows of their clusters; None: those that are clearly
        foreign, often none.
    known
        `(time,)` for each segment: rows that are known to be foreign, and count for the share.

    Returns
    -------
    `(time,)` for each segment.

    Examples
    --------
    >>> rows = np.sin(np.arange(3000) / 5)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(3000, 1))
    >>> int(foreign_rows([rows])[0].sum())
    0
    >>> rows[1000:1030] += 2
    >>> np.flatnonzero(foreign_rows([rows])[0])[[0, -1]].tolist()
    [1000, 1029]
    """
    rows = sum(map(len, segments))
    strange = np.zeros(rows)
    """In cuts of the channel that finds a row strangest: over 1 is foreign."""
    layout = _Layout.of(segments)
    if layout is not None:
        channels = [_Channel.of(column, layout) for column in _columns(segments)]
        cut = _cut([one.excess for one in channels if one.excess is not None])
        for column, channel in zip(_columns(segments), channels, strict=True):
            strange = np.maximum(strange, channel.strangeness(column, layout, cut, ranked=share is not None))
    if known:
        strange[np.concatenate(known)] = np.inf
    if share is not None:
        marked = (strange >= np.quantile(strange, 1 - share, method="higher")) & (strange > 0)
    else:
        marked = strange > 1
        marked &= marked.mean() <= MOST
    return np.split(marked, np.cumsum([len(values) for values in segments])[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Which subsequences of train, all segments one after the other, are compared with which."""

    rows: int
    every: NDArray[np.intp]
    """First rows of all subsequences."""
    starts: NDArray[np.intp]
    """(subsequence,), first rows of those that are judged."""
    references: NDArray[np.intp]
    """First rows of those that they are compared with."""

    @classmethod
    def of(cls, segments: Sequence[FloatArray]) -> _Layout | None:
        offsets = np.cumsum([0, *(len(values) for values in segments)]).tolist()
        every = np.concatenate([np.arange(a, b - LENGTH + 1) for a, b in pairwise(offsets)])
        if len(every) < 2 * PARTS * LENGTH:
            return None
        starts = every[:: int(np.clip(len(every) // 8_000, 1, LENGTH // 2))]
        most = COMPARISONS / (len(starts) * segments[0].shape[1])
        return cls(offsets[-1], every, starts, _evenly(every, int(np.clip(most, 200, REFERENCES))))

    def distances(self, column: FloatArray, starts: NDArray[np.intp], references: NDArray[np.intp]) -> FloatArray:
        """Return the distance of each subsequence to its neighbour, as the root of the mean square of a row."""
        cut = np.lib.stride_tricks.sliding_window_view(column.astype(np.float32), LENGTH)
        known = cut[references]
        # One matrix product gives the square of a distance, but for the subsequence's own square, added at the end.
        right = np.vstack([-2 * known.T, np.square(known).sum(axis=1)])
        own = np.column_stack([cut[starts], np.ones(len(starts), np.float32)])
        parts, first = np.unique(references * PARTS // self.rows, return_index=True)
        some = max(PRODUCTS // len(references), 1)
        by_part = np.empty((len(starts), len(parts)), np.float32)
        for number in range(0, len(starts), some):
            np.minimum.reduceat(own[number : number + some] @ right, first, axis=1, out=by_part[number : number + some])
        by_part[np.abs((starts * PARTS // self.rows)[:, None] - parts) <= 1] = np.inf
        nearest = np.sort(by_part, axis=1)[:, :NEIGHBOUR].max(axis=1) + np.square(own[:, :-1]).sum(axis=1)
        nearest[np.isinf(nearest)] = 0.0  # no part is far enough to say anything
        return np.asarray(np.sqrt(np.maximum(nearest, 0) / LENGTH))

    def clusters(self, over: BoolArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the numbers of these subsequences, and where among them each cluster begins: a length apart."""
        found = np.flatnonzero(over)
        return found, np.flatnonzero(np.diff(self.starts[found], prepend=-np.inf) > LENGTH)

    def local(self, distances: FloatArray) -> FloatArray:
        """Return for each row the least distance of the subsequences that cover it; 0 where none does."""
        least = np.full(self.rows, np.inf)
        for step in range(LENGTH):
            least[self.starts + step] = np.minimum(least[self.starts + step], distances)
        return np.where(np.isfinite(least), least, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Channel:
    """How far the subsequences of a channel are from their neighbours."""

    distances: FloatArray | None
    """(subsequence,); None where nothing can be said of it."""
    start: float
    """Where the tail of the distances starts."""
    usual: float
    """Usual excess of a cluster over it."""
    excess: FloatArray | None
    """(cluster,), in usual ones."""

    @classmethod
    def of(cls, column: FloatArray, layout: _Layout) -> _Channel:
        scaled = _scaled(column)
        if scaled is None:
            return cls(None, 0.0, 0.0, None)
        distances = layout.distances(scaled, layout.starts, layout.references)
        start = float(np.quantile(distances, TAIL))
        over, first = layout.clusters(distances > start)
        if len(first) < MIN_CLUSTERS or start <= 0:
            return cls(None, 0.0, 0.0, None)
        excess = np.maximum.reduceat(distances[over], first) - start
        usual = _usual_excess(excess)
        return cls(distances, start, usual, excess / usual if usual > 0 else None)

    def strangeness(self, column: FloatArray, layout: _Layout, foreign: float, *, ranked: bool) -> FloatArray:
        """Return how strange each row is, 0 where nothing is known; over 1 is foreign, by so many usual excesses.

        Unless they are to be `ranked`, rows of clusters that are not foreign are left at 0.
        """
        strange = np.zeros(layout.rows)
        lowest, highest = np.quantile(column, [0.001, 0.999])
        if highest > lowest:
            strange = np.maximum(np.maximum(lowest - column, column - highest) / (GLITCH * (highest - lowest)), 0)
        if self.distances is None:
            return strange
        distances, start = self.distances.copy(), self.start
        cut = max(start + foreign * self.usual, FURTHER * start)
        if not ranked and distances.max() <= cut:
            return strange
        scaled = cast("FloatArray", _scaled(column))  # not None, or there were no distances
        over, first = layout.clusters(distances > start)
        clusters = np.split(over, first[1:])
        # A neighbour between two references has been missed: those that matter are compared with all there are.
        suspects = np.concatenate([np.empty(0, np.intp), *(c for c in clusters if distances[c].max() > cut)])
        distances[suspects] = layout.distances(scaled, layout.starts[suspects], _evenly(layout.every, MOST_REFERENCES))
        local = layout.local(distances)
        for cluster in clusters:
            # Neighbours of a fault are strange only by what they have of it: its own rows are so in every subsequence.
            hull = slice(layout.starts[cluster[0]], layout.starts[cluster[-1]] + LENGTH)
            peak = layout.starts[cluster[distances[cluster].argmax()]] - hull.start
            own = local[hull] > start + EDGE * (local[hull].max() - start)
            own[peak : peak + LENGTH] |= not own.any()
            strange[hull] = np.maximum(strange[hull], np.where(own, distances[cluster].max() / cut, 0))
        return strange


def _columns(segments: Sequence[FloatArray]) -> Iterator[FloatArray]:
    for channel in range(segments[0].shape[1]):
        yield np.concatenate([values[:, channel] for values in segments]).astype(np.float64)


def _scaled(column: FloatArray) -> FloatArray | None:
    """Scale a channel by its usual spread; None for a switch, or one that never moves."""
    low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
    spread = (high - low) or float(column.std())
    if spread == 0 or all(len(np.unique(some)) < MIN_VALUES for some in (column[:1000], column)):
        return None
    return np.asarray(np.clip((column - middle) / spread, -1e3, 1e3))


def _cut(excesses: Sequence[FloatArray]) -> float:
    """Return the usual excesses from which on a cluster is foreign: more where tails are heavy.

    The shape of the tail of all channels together is that of a generalised Pareto distribution whose quartile and
    median are as far apart; the highest quarter may be foreign.

    Examples
    --------
    >>> light = np.random.default_rng(0).exponential(size=1000)
    >>> _cut([light]), _cut([light**2]) > 100
    (40.0, True)
    """
    if not excesses:
        return FOREIGN
    median, quartile = np.quantile(np.concatenate(excesses), [0.5, 0.75])
    shape = float(np.clip(np.log2(max(quartile / median - 1, 1e-9)), 0.0, MAX_SHAPE))
    return FOREIGN if shape < 1e-3 else max(FOREIGN, float((RARE**-shape - 1) / shape))


def _evenly(numbers: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    return numbers[np.linspace(0, len(numbers) - 1, min(len(numbers), most)).astype(np.intp)]


def _usual_excess(excess: FloatArray) -> float:
    """Return the mean of an exponential distribution, estimated from its lower half: the upper one may be foreign."""
    ordered = np.sort(excess)
    half = len(ordered) // 2
    return float((ordered[:half].sum() + (len(ordered) - half) * ordered[half - 1]) / half)

"""Which rows of train are held out, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from patchad.data.series import Series
from patchad.data.table import FloatArray

HELD_OUT_BLOCKS = 5
"""Most blocks of a series that are held out."""


def held_out_blocks(length: int, share: float, window: int) -> list[slice]:
    """Choose the rows of a series to hold out: the last share of each of several equal parts.

    A block has at least three windows, so a short series has one, at its end; none where the share is not a row.

    Examples
    --------
    >>> held_out_blocks(1000, 0.2, 10)
    [slice(160, 200, None), slice(360, 400, None), slice(560, 600, None), slice(760, 800, None), slice(960, 1000, None)]
    >>> held_out_blocks(100, 0.2, 10)
    [slice(80, 100, None)]
    """
    count = int(np.clip(share * length // (3 * window), 1, HELD_OUT_BLOCKS))
    rows = round(length / count * share)
    ends = [round(length * (number + 1) / count) for number in range(count)]
    return [slice(end - rows, end) for end in ends if rows > 0]


def known_parts(train: Sequence[Series], held_out: Sequence[Sequence[slice]]) -> list[FloatArray]:
    """Cut the held-out rows out of each series; return what is left, in pieces."""
    parts = []
    for series, blocks in zip(train, held_out, strict=True):
        edges = [0, *(edge for block in blocks for edge in (block.start, block.stop)), len(series)]
        parts += [series.values[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
    return parts


def newest(series: Sequence[FloatArray], least: int, most: int) -> list[FloatArray]:
    """Return the newest rows of series `(time, channel)`, at most `most` in all, of each at least `least` or none.

    Examples
    --------
    >>> [len(part) for part in newest([np.zeros((50, 1)), np.zeros((40, 1)), np.zeros((30, 1))], 10, 65)]
    [30, 35]
    """
    found: list[FloatArray] = []
    for values in reversed(series):
        if most >= least:
            found.append(values[-most:])
            most -= len(found[-1])
    return found

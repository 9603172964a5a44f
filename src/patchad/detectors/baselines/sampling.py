"""Evenly spaced train windows, for what a baseline learns without gradient descent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler


def evenly_spaced(windows: WindowSampler, most: int) -> FloatArray:
    """Return at most `most` windows, evenly spaced over train: `(window, step, channel)`, not scaled.

    Examples
    --------
    >>> windows = WindowSampler([np.arange(8.0)[:, None]], window=2)
    >>> evenly_spaced(windows, most=3)[:, 0, 0].tolist()
    [0.0, 3.0, 6.0]
    """
    return windows[_spaced(len(windows), most)]


def even_batches(windows: WindowSampler, most: int, size: int) -> Iterator[FloatArray]:
    """Yield the windows of `evenly_spaced` in batches of at most `size`."""
    chosen = _spaced(len(windows), most)
    for part in np.array_split(chosen, -(-len(chosen) // size)):
        yield windows[part]


def _spaced(count: int, most: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))

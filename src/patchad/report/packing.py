"""Arrays for the page: thinned so that no spike disappears, with breaks in the lines, packed to keep the file small."""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchad.data.table import FloatArray
from patchad.report.section import Axis

LONG_STEP = 10
"""A time step longer than this many median steps breaks the line, and so do more rows without a value."""


def min_max_rows(values: FloatArray, points: int) -> NDArray[np.intp]:
    """Choose about `points` rows to draw: the lowest and highest value of every bucket of rows, and both ends.

    Rows without a value are not chosen.

    Examples
    --------
    >>> values = np.zeros(100_000)
    >>> values[777] = 5.0
    >>> rows = min_max_rows(values, 100)
    >>> len(rows) <= 102, 777 in rows
    (True, True)
    """
    from tsdownsample import MinMaxDownsampler

    known = np.flatnonzero(np.isfinite(values))
    if len(known) <= points:
        return known
    kept = np.ascontiguousarray(values) if len(known) == len(values) else values[known]
    downsampler = MinMaxDownsampler()  # type: ignore[no-untyped-call]
    chosen = downsampler.downsample(kept, n_out=max(points // 2 * 2, 2)).astype(np.intp)
    return np.asarray(known[np.unique(np.concatenate([[0], chosen, [len(known) - 1]]))])


def pack(values: ArrayLike, dtype: str) -> str:
    """Return numbers as base64, stored as `f4`, `f8` or `u1`; what is too large for `f4` as its largest number."""
    numbers = np.asarray(values)
    if dtype == "f4":
        numbers = np.clip(numbers, -np.finfo("f4").max, np.finfo("f4").max)
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<" + dtype).tobytes()).decode()


def breaks(values: FloatArray, axis: Axis, rows: NDArray[np.intp]) -> FloatArray:
    """Return positions where the line must break: long gaps in time, and long runs without a value."""
    if len(rows) < 2:
        return np.empty(0)
    unscored = np.concatenate([[0], np.cumsum(np.isnan(values))])
    cut = unscored[rows[1:]] - unscored[rows[:-1]] > LONG_STEP
    # Thousands of rows may lie between two kept ones: what counts is the longest step among all rows.
    far = np.flatnonzero(np.diff(axis.positions) > LONG_STEP * axis.step)
    gap = np.searchsorted(rows, far, side="right") - 1
    cut[gap[(gap >= 0) & (gap < len(cut))]] = True
    ends = axis.positions[rows]
    return np.asarray((ends[:-1] + ends[1:])[cut] / 2)

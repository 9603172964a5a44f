"""Series: what detectors see. Order, gaps, missing and infinite values are dealt with once, here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import BoolArray, FloatArray, Table
from patchad.errors import InputError, listed

Missing = Literal["interpolate", "error", "drop"]

USUAL_STEPS = 101
"""Steps in time, the newest, whose median is the usual step: it depends on no later row, and follows a new rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Ordered observations of one system, without labels and without gaps."""

    values: FloatArray
    """(time, channel), finite, float32 or float64."""
    channels: tuple[str, ...]
    index: NDArray[np.generic] | None = None
    """(time,), strictly increasing."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> Series:
        index = None if self.index is None else self.index[rows]
        return Series(self.values[rows], self.channels, index)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A table cut into series without gaps, and where their rows came from."""

    segments: tuple[Series, ...]
    rows: tuple[NDArray[np.intp], ...]
    """For each segment the row numbers of the table, (time,)."""
    length: int
    """Rows of the table."""
    muted: BoolArray
    """(time,) of the table: rows that are mostly filled, which never alarm."""
    notes: tuple[str, ...]
    """What was filled, dropped, split or ignored, for people."""


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The fitted channels of a table."""

    values: FloatArray
    """(time, channel), in the order of the fit; NaN where a channel is absent."""
    ignored: tuple[str, ...] = ()
    """Names of columns that are no channel of the fit."""
    absent: tuple[str, ...] = ()
    """Channels of the fit that the table does not have."""


def match_channels(
    table: Table, channels: tuple[str, ...], *, named: bool, detector: str = "the detector", complete: bool = False
) -> Matched:
    """Pick the fitted channels from a table, by name where both have names, else by position.

    Parameters
    ----------
    table
        The table to score.
    channels
        The channels of the fit.
    named
        Whether those are real names, or made up for input without names.
    detector
        Name of the detector, for the message.
    complete
        Whether every channel has to be there, as in `fit`; else one is enough.

    Examples
    --------
    >>> table = Table(np.array([[1.0, 2.0, 3.0]]), ("a", "b", "extra"))
    >>> found = match_channels(table, ("b", "c", "a"), named=True)
    >>> found.values.tolist(), found.ignored, found.absent
    ([[2.0, nan, 1.0]], ('extra',), ('c',))
    """
    if not named or table.channels is None:
        if table.values.shape[1] != len(channels):
            raise InputError(
                f"X has {table.values.shape[1]} features, but {detector} is expecting {len(channels)} features as "
                f"input ({listed(channels)}). Reshape your data to the same channels in the same order, or pass a "
                "frame with their names"
            )
        return Matched(table.values)
    absent = tuple(name for name in channels if name not in table.channels)
    if len(absent) == len(channels) or (absent and complete):
        raise InputError(
            f"channel {listed(absent)} of the fit is missing; the columns are {listed(table.channels)}: "
            "add or rename a column, or pass a plain array to match by position"
        )
    ignored = (*table.ignored, *(name for name in table.channels if name not in channels))
    if table.channels == channels:
        return Matched(table.values, ignored)
    places = [0 if name in absent else table.channels.index(name) for name in channels]
    values = table.values[:, places]
    values[:, [channels.index(name) for name in absent]] = np.nan
    return Matched(values, ignored, absent)


def observed_medians(values: FloatArray, channels: Sequence[str]) -> FloatArray:
    """Return the median of each channel: it stands in where nothing was observed yet."""
    _check_rows(values)
    missing = np.isnan(values)
    if missing.all():
        raise InputError(
            f"X holds no value at all, only missing ones, in channel {listed(channels)}; numbers are needed"
        )
    medians = np.zeros(values.shape[1])
    for i in range(values.shape[1]):
        seen = values[~missing[:, i], i]
        if len(seen):
            medians[i] = np.median(seen)
    return medians


def prepare(
    values: FloatArray,
    channels: tuple[str, ...],
    index: NDArray[np.generic] | None = None,
    *,
    missing: Missing = "interpolate",
    max_gap: float = 10,
    initial: FloatArray | None = None,
) -> Prepared:
    """Check `(time, channel)` values and cut them into series without gaps.

    A missing value is held at the last one observed, so that a row's filling never depends on later rows; before the
    first observation it is `initial` (by default the median of the channel). A run of more than `max_gap` rows without
    any value ends the segment, as does a step in time of over `max_gap` usual steps, the median of the last 101.

    Examples
    --------
    >>> found = prepare(np.array([[1.0], [np.nan], [3.0]]), ("a",))
    >>> found.segments[0].values.tolist(), found.muted.tolist(), found.notes
    ([[1.0], [1.0], [3.0]], [False, True, False], ('filled 1 missing value in 1 row (a 1)',))
    """
    _check_rows(values)
    if missing not in ("interpolate", "error", "drop"):
        raise InputError(f"missing={missing!r} is unknown; use 'interpolate', 'error' or 'drop'")
    _check_finite(values, channels)
    notes: list[str] = []
    starts = _time_gaps(index, len(values), max_gap, notes)
    gaps: BoolArray = np.isnan(values)
    if not gaps.any():
        bounds = [*starts, len(values)]
        rows = tuple(np.arange(a, b) for a, b in pairwise(bounds))
        segments = tuple(_cut(values, channels, index, slice(a, b)) for a, b in pairwise(bounds))
        return Prepared(segments, rows, len(values), np.zeros(len(values), dtype=bool), tuple(notes))
    if missing == "error":
        row, channel = np.argwhere(gaps)[0]
        raise InputError(
            f"X has {_count(gaps.sum(), 'missing value')} (NaN), the first in row {row}, channel "
            f"{channels[channel]!r}; use missing='interpolate' or missing='drop'"
        )
    silent: BoolArray = np.asarray(gaps.all(axis=1))
    keep: BoolArray = ~np.asarray(gaps.any(axis=1)) if missing == "drop" else ~_long_silence(silent, max_gap)
    rows = _runs_of_kept(keep, starts, max_gap if missing == "drop" else 0)
    if missing == "drop":
        if not rows:
            raise InputError("every row has a missing value, so missing='drop' leaves none; use missing='interpolate'")
        segments = tuple(_cut(values, channels, index, r) for r in rows)
        notes.append(f"dropped {_count((~keep).sum(), 'row')} with missing values")
        return Prepared(segments, rows, len(values), ~keep, tuple(notes))
    initial = observed_medians(values, channels) if initial is None else initial
    segments = tuple(
        Series(_hold_last(values[r], initial), channels, None if index is None else index[r]) for r in rows
    )
    notes.append(_filled_note(gaps & keep[:, None], channels))
    if not keep.all():
        notes.append(
            f"left out {_count((~keep).sum(), 'row')} of long silences (over {max_gap:g} rows without any value)"
        )
    return Prepared(segments, rows, len(values), np.asarray(gaps.mean(axis=1) > 0.5), tuple(notes))


def _check_rows(values: FloatArray) -> None:
    if len(values) == 0:
        raise InputError("X has 0 rows; at least one is needed (0 sample(s) found, a minimum of 1 is required)")


def _cut(
    values: FloatArray, channels: tuple[str, ...], index: NDArray[np.generic] | None, rows: slice | NDArray[np.intp]
) -> Series:
    return Series(values[rows], channels, None if index is None else index[rows])


def _check_finite(values: FloatArray, channels: tuple[str, ...]) -> None:
    for i, name in enumerate(channels):
        infinite = np.isinf(values[:, i])
        if infinite.any():
            raise InputError(
                f"X has an infinite value (inf) in row {int(infinite.argmax())}, channel {name!r}; "
                "replace it by a number, or by NaN if it is unknown"
            )


def _time_gaps(index: NDArray[np.generic] | None, length: int, max_gap: float, notes: list[str]) -> list[int]:
    """Check that times increase; give the first row of every segment."""
    if index is None or length < 2:
        return [0]
    unknown = np.isnat(index) if index.dtype.kind in "mM" else np.isnan(index.astype(np.float64))
    if unknown.any():
        raise InputError(f"row {int(unknown.argmax())} has no time; every row needs one, so fill it or drop the row")
    steps = np.diff(index)
    backward = steps <= np.zeros(1, dtype=steps.dtype)
    if backward.any():
        row = int(backward.argmax())
        word = "repeats" if index[row] == index[row + 1] else "goes back"
        raise InputError(
            f"time {word} at row {row + 1}: {index[row + 1]} after {index[row]}; times must increase, "
            "so sort the rows and drop duplicates"
        )
    gaps = _long_steps(steps.astype(np.float64), max_gap)
    if len(gaps):
        notes.append(f"{_count(len(gaps), 'gap')} in time (over {max_gap:g} usual steps): {len(gaps) + 1} segments")
    ratio = steps / np.median(steps)
    irregular = float(np.mean(np.abs(ratio[ratio <= max_gap] - 1) > 0.5))
    if irregular > 0.05:
        notes.append(f"irregular sampling: {irregular:.0%} of the steps differ from the usual one by over half of it")
    return [0, *(int(gap) + 1 for gap in gaps)]


def _long_steps(steps: FloatArray, max_gap: float) -> NDArray[np.intp]:
    """Return which steps are over `max_gap` usual ones."""
    import pandas as pd

    if steps.max() <= max_gap * steps.min():  # as nearly always: then none can be, and rolling medians take time
        return np.empty(0, dtype=np.intp)
    usual = pd.Series(steps).rolling(USUAL_STEPS, min_periods=1).median().to_numpy()
    return np.flatnonzero(steps > max_gap * usual)


def _long_silence(silent: BoolArray, max_gap: float) -> BoolArray:
    """Mark the rows of a run of silent rows after its first `max_gap`: filling would invent too much."""
    position = np.arange(len(silent))
    last_heard = np.maximum.accumulate(np.where(silent, -1, position))
    return silent & (position - last_heard > max_gap)


def _runs_of_kept(keep: BoolArray, starts: Sequence[int], bridge: float) -> tuple[NDArray[np.intp], ...]:
    """Return the kept rows of every segment; a run of over `bridge` rows that were not kept starts a new one."""
    kept = np.flatnonzero(keep)
    if len(kept) == 0:
        return ()
    segment = np.searchsorted(np.asarray(starts), kept, side="right")
    cuts = np.flatnonzero((np.diff(kept) - 1 > bridge) | (np.diff(segment) > 0)) + 1
    return tuple(np.split(kept, cuts))


def _hold_last(values: FloatArray, initial: FloatArray) -> FloatArray:
    """Hold every missing value at the last one observed, or at `initial` before the first."""
    filled = values.copy()
    position = np.arange(len(values))
    for i in range(values.shape[1]):
        gaps = np.isnan(values[:, i])
        if gaps.any():
            last = np.maximum.accumulate(np.where(gaps, -1, position))
            filled[:, i] = np.where(last < 0, initial[i], values[last, i])
    return filled


def _filled_note(filled: BoolArray, channels: tuple[str, ...]) -> str:
    per_channel = filled.sum(axis=0)
    worst = [f"{channels[i]} {per_channel[i]:,}" for i in np.argsort(-per_channel, kind="stable")[:3] if per_channel[i]]
    more = int((per_channel > 0).sum()) - len(worst)
    names = ", ".join(worst) + (f" and {more} more" if more else "")
    return f"filled {_count(filled.sum(), 'missing value')} in {_count(filled.any(axis=1).sum(), 'row')} ({names})"


def _count(number: int, word: str) -> str:
    return f"{int(number):,} {word}{'' if number == 1 else 's'}"

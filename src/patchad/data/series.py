"""Series: what detectors see. Order, gaps, missing and infinite values are dealt with once, here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.preparing import Missing, Part, Preparer, check_finite
from patchad.data.table import BoolArray, FloatArray, Table
from patchad.errors import InputError, listed


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
    table: Table,
    channels: tuple[str, ...],
    *,
    named: bool,
    columns: tuple[str, ...] = (),
    detector: str = "the detector",
    complete: bool = False,
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
    columns
        All columns of the fit, where it left some out.
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
    columns = columns or channels
    if not named or table.channels is None:
        if table.values.shape[1] != len(columns):
            raise InputError(
                f"X has {table.values.shape[1]} features, but {detector} is expecting {len(columns)} features as "
                f"input ({listed(columns)}). Reshape your data to the same channels in the same order, or pass a "
                "frame with their names"
            )
        if columns == channels:
            return Matched(table.values)
        return Matched(table.values[:, [columns.index(name) for name in channels]])
    absent = tuple(name for name in channels if name not in table.channels)
    if len(absent) == len(channels) or (absent and complete):
        several = len(absent) > 1
        raise InputError(
            f"channel{'s' * several} {listed(absent)} of the fit {'are' if several else 'is'} missing; "
            f"{f'the columns are {listed(table.channels)}' if table.channels else 'no column is left'}: "
            "add or rename a column, or pass a plain array to match by position"
        )
    ignored = tuple(name for name in (*table.ignored, *table.channels) if name not in columns)
    if table.channels == channels:
        return Matched(table.values, ignored)
    places = [0 if name in absent else table.channels.index(name) for name in channels]
    values = table.values[:, places]
    values[:, [channels.index(name) for name in absent]] = np.nan
    return Matched(values, ignored, absent)


def first_values(values: FloatArray) -> NDArray[np.intp]:
    """Return the first row in which each channel of `(time, channel)` has a value, `(channel,)`; their number if none.

    Examples
    --------
    >>> first_values(np.array([[np.nan, 1.0, np.nan], [2.0, 1.0, np.nan]])).tolist()
    [1, 0, 2]
    """
    known = np.concatenate([~np.isnan(values), np.ones((1, values.shape[1]), dtype=bool)])
    return np.asarray(known.argmax(axis=0))


def check_observed(values: FloatArray, channels: Sequence[str]) -> None:
    """Refuse values that nothing can be learned from: no row, infinite ones, or none at all."""
    _check_rows(values)
    check_finite(values, channels)
    if np.isnan(values).all():
        raise InputError(
            f"X holds no value at all, only missing ones, in channel {listed(channels)}; numbers are needed"
        )


def medians_of(series: Sequence[FloatArray]) -> FloatArray:
    """Return the median of each channel over all series: it stands in where nothing was observed yet.

    Examples
    --------
    >>> medians_of([np.array([[1.0, np.nan]]), np.array([[2.0, np.nan], [4.0, np.nan]])]).tolist()
    [2.0, 0.0]
    """
    medians = np.zeros(series[0].shape[1])
    for i in range(len(medians)):
        seen = np.concatenate([values[~np.isnan(values[:, i]), i] for values in series])
        if len(seen):
            medians[i] = np.median(seen)
    return medians


def of_each(tables: Sequence[Table], work: Callable[..., Any], *more: Sequence[Any]) -> list[Any]:
    """Do something with every table; an error names the one that is wrong.

    Parameters
    ----------
    tables
        The series of a fit.
    work
        What to do, called with a table and its items of `more`.
    more
        Further arguments, one for each table.

    Examples
    --------
    >>> tables = [Table(np.ones((2, 1))), Table(np.ones((3, 1)))]
    >>> of_each(tables, lambda table, more: len(table.values) + more, [10, 20])
    [12, 23]
    """
    results = []
    for number, (table, *rest) in enumerate(zip(tables, *more, strict=True), start=1):
        try:
            results.append(work(table, *rest))
        except InputError as error:
            name = table.name or (f"series {number} of {len(tables)}" if len(tables) > 1 else "")
            raise InputError(f"{name}: {error}" if name else str(error)) from None
    return results


def prepare(
    values: FloatArray,
    channels: tuple[str, ...],
    index: NDArray[np.generic] | None = None,
    *,
    missing: Missing = "interpolate",
    max_gap: float = 10,
    initial: FloatArray | None = None,
    zone: dt.tzinfo | None = None,
) -> Prepared:
    """Check `(time, channel)` values and cut them into series without gaps.

    A missing value is held at the last one observed, so that a row's filling never depends on later rows; before the
    first observation it is `initial` (by default the median of the channel). A run of more than `max_gap` rows without
    any value ends the segment, as does a step in time of over `max_gap` usual steps, the median of the last 101.
    `zone` is the time zone of the data, for messages; the times themselves are in UTC then.

    Examples
    --------
    >>> found = prepare(np.array([[1.0], [np.nan], [3.0]]), ("a",))
    >>> found.segments[0].values.tolist(), found.muted.tolist(), found.notes
    ([[1.0], [1.0], [3.0]], [False, True, False], ('filled 1 missing value in 1 row (a 1)',))
    """
    _check_rows(values)
    known = np.zeros(values.shape[1]) if initial is None else initial
    preparer = Preparer(channels, known, missing=missing, max_gap=max_gap, zone=zone)
    if initial is None and missing == "interpolate" and np.isnan(values).any():
        check_observed(values, channels)
        preparer = Preparer(channels, medians_of([values]), missing=missing, max_gap=max_gap, zone=zone)
    ready = preparer.push(values, index)
    if missing == "drop" and not ready.parts:
        raise InputError("every row has a missing value, so missing='drop' leaves none; use missing='interpolate'")
    segments = tuple(_series(part, channels, index) for part in ready.parts)
    notes = _time_notes(index, ready.gaps, max_gap)
    gaps: BoolArray = np.isnan(values)
    left_out = int((~ready.kept).sum())
    if missing == "drop" and left_out:
        notes.append(f"dropped {_count(left_out, 'row')} with missing values")
    elif gaps.any():
        notes.append(_filled_note(gaps & ready.kept[:, None], channels))
        if left_out:
            notes.append(
                f"left out {_count(left_out, 'row')} of long silences (over {max_gap:g} rows without any value)"
            )
    return Prepared(segments, tuple(part.rows for part in ready.parts), len(values), ready.muted, tuple(notes))


def check_width(table: Table) -> None:
    """Refuse a table without channels."""
    if table.values.shape[1] > 0:
        return
    if table.ignored:
        raise InputError(
            f"X has no channel: the columns {listed(table.ignored)} are text of too many states; "
            "at least one column of numbers, or of at most 20 states, is needed"
        )
    raise InputError(f"X has 0 feature(s) (shape=({len(table.values)}, 0)) while a minimum of 1 is required.")


def _check_rows(values: FloatArray) -> None:
    if len(values) == 0:
        raise InputError("X has 0 rows; at least one is needed (0 sample(s) found, a minimum of 1 is required)")


def _series(part: Part, channels: tuple[str, ...], index: NDArray[np.generic] | None) -> Series:
    rows = part.rows
    whole = int(rows[-1]) + 1 - int(rows[0]) == len(rows)
    times = None if index is None else index[int(rows[0]) : int(rows[-1]) + 1] if whole else index[rows]
    return Series(part.values, channels, times)


def _time_notes(index: NDArray[np.generic] | None, gaps: int, max_gap: float) -> list[str]:
    if index is None or len(index) < 2:
        return []
    notes = []
    if gaps:
        notes.append(f"{_count(gaps, 'gap')} in time (over {max_gap:g} usual steps): {gaps + 1} segments")
    steps = np.diff(index)
    ratio = steps / np.median(steps)
    irregular = float(np.mean(np.abs(ratio[ratio <= max_gap] - 1) > 0.5))
    if irregular > 0.05:
        notes.append(f"irregular sampling: {irregular:.0%} of the steps differ from the usual one by over half of it")
    return notes


def _filled_note(filled: BoolArray, channels: tuple[str, ...]) -> str:
    per_channel = filled.sum(axis=0)
    worst = [f"{channels[i]} {per_channel[i]:,}" for i in np.argsort(-per_channel, kind="stable")[:3] if per_channel[i]]
    more = int((per_channel > 0).sum()) - len(worst)
    names = ", ".join(worst) + (f" and {more} more" if more else "")
    return f"filled {_count(filled.sum(), 'missing value')} in {_count(filled.any(axis=1).sum(), 'row')} ({names})"


def _count(number: int, word: str) -> str:
    return f"{int(number):,} {word}{'' if number == 1 else 's'}"

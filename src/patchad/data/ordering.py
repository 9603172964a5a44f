"""Rows in the order of their times: sorted, one row for each time, or brought to regular times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchad.data.columns import States
from patchad.data.reading import UNITS, Dedupe, Grid
from patchad.data.table import Table
from patchad.errors import InputError

Stand = Literal["first", "last", "mean", "max"]
"""What stands for several values."""

MOST_CELLS = 10**8
"""Values that a grid or a pivoted table may have."""
MOST_GROWTH, GROWN_CELLS = 100, 10**7
"""Rows of a grid for each row of the data, where it has more values than this: more of them are a mistake."""


def sorted_by_time(table: Table) -> Table:
    """Put the rows in the order of their times; rows of one time keep theirs."""
    return table.take(np.argsort(times_of(table, "--sort"), kind="stable"))


def deduped(table: Table, stand: Dedupe, labels: str | None = None) -> Table:
    """Make one row of rows with the same time, where the first of them stood.

    A missing value does not count: `first` is the first value that is there. A label is 1 where one of them is.

    Examples
    --------
    >>> table = Table(np.array([[1.0], [np.nan], [3.0]]), ("a",), np.array([0, 1, 1]))
    >>> deduped(table, "first").values.ravel().tolist()
    [1.0, 3.0]
    """
    index = times_of(table, "--dedupe")
    times, first, slots = np.unique(index, return_index=True, return_inverse=True)
    if len(times) == len(index):
        return table
    return reduced(table, slots, times, stand, labels).take(np.argsort(first, kind="stable"))


def on_grid(table: Table, grid: Grid, labels: str | None = None) -> Table:
    """Bring a table to regular times.

    The row of time t holds what each channel said after the row before it and up to t, and nothing later; it is
    missing where the channel said nothing. A label is 1 where one in the interval is.

    Examples
    --------
    >>> times = np.array(["2024-01-01T00:00:10", "2024-01-01T00:00:50", "2024-01-01T00:02:00"], "datetime64[s]")
    >>> table = on_grid(Table(np.array([[1.0], [3.0], [5.0]]), ("a",), times), Grid.parse("1min:mean"))
    >>> table.index.astype(str).tolist(), table.values.ravel().tolist()
    (['2024-01-01T00:01:00', '2024-01-01T00:02:00'], [2.0, 5.0])
    """
    index = times_of(table, "--every")
    if len(index) == 0:
        return table
    slots, times = slots_of(index, grid, channels=table.values.shape[1] + len(table.texts))
    order = np.argsort(index, kind="stable")
    return reduced(table.take(order), slots[order], times, grid.aggregate, labels)


def times_of(table: Table, option: str) -> NDArray[np.generic]:
    """Return the times of a table that has them in every row."""
    if table.index is None:
        raise InputError(f"{option} needs times, and there are none; name the column that holds them with --time")
    unknown = np.isnat(table.index) if table.index.dtype.kind in "mM" else np.isnan(table.index.astype(np.float64))
    if unknown.any():
        raise InputError(f"row {int(unknown.argmax())} has no time; every row needs one, so fill it or drop the row")
    return table.index


def slots_of(index: NDArray[np.generic], grid: Grid, *, channels: int) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Return for each time its row on the grid, and the times of the grid.

    Parameters
    ----------
    index
        `(time,)`, at least one, in any order.
    grid
        The interval.
    channels
        Columns of the table, for the check that the grid fits into RAM.
    """
    if index.dtype.kind in "mM":
        numbers, step = _integers(index, grid)
        ends = -(-numbers // step)
    else:
        if grid.unit:
            raise InputError(
                f"--every {grid.interval:g}{grid.unit} needs dates, and the times are plain numbers; "
                "write the interval as a number in the same unit"
            )
        ends = np.ceil(index.astype(np.float64) / grid.interval - 1e-9)
    first, last = ends.min(), ends.max()
    rows = int(last) - int(first) + 1
    grown = rows > MOST_GROWTH * len(index) and rows * channels > GROWN_CELLS
    if grown or rows * channels > max(MOST_CELLS, len(index) * channels):
        raise InputError(
            f"--every {grid.interval:g}{grid.unit} gives {rows:,} rows from {len(index):,}; use a longer interval, "
            "or look for a wrong time"
        )
    slots = (ends - first).astype(np.int64)
    if index.dtype.kind in "mM":
        return slots, ((int(first) + np.arange(rows)) * step).astype(_grid_type(index, grid))
    return slots, (first + np.arange(rows)) * grid.interval


def _integers(index: NDArray[np.generic], grid: Grid) -> tuple[NDArray[np.int64], int]:
    """Return times and interval as integers in the unit of the times, or in nanoseconds where that is too coarse."""
    if not grid.unit:
        raise InputError(
            f"--every {grid.interval:g} has no unit, and the times are dates; write one of {', '.join(UNITS)} after it"
        )
    target = _grid_type(index, grid)
    if target != index.dtype:
        seconds = np.abs(index.astype(f"{target.kind}8[s]").astype(np.int64))
        if seconds.max() > 9.2e9:
            raise InputError(
                f"--every {grid.interval:g}{grid.unit} is too fine for times that far from 1970; use whole seconds"
            )
    return index.astype(target).astype(np.int64), grid.nanoseconds // _nanoseconds(target)


def _grid_type(index: NDArray[np.generic], grid: Grid) -> np.dtype[Any]:
    exact = _nanoseconds(index.dtype) and grid.nanoseconds % _nanoseconds(index.dtype) == 0
    return index.dtype if exact else np.dtype(f"{index.dtype.kind}8[ns]")


def _nanoseconds(dtype: np.dtype[Any]) -> int:
    """Return the unit of times in nanoseconds; 0 for one that has no fixed length, or none that fits."""
    unit, count = np.datetime_data(dtype)
    return UNITS.get({"m": "min", "D": "d"}.get(unit, unit), 0) * count


def reduced(
    table: Table, slots: NDArray[np.int64], times: NDArray[np.generic], stand: Stand, labels: str | None = None
) -> Table:
    """Return a table with one row per time, of rows in the order that counts; missing where nothing is known.

    Parameters
    ----------
    table
        The rows.
    slots
        For each row, which of the times it belongs to.
    times
        The times of the new rows.
    stand
        What stands for several values; of text it is the first or the last.
    labels
        The channel that is 1 where one of its values is.
    """
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    values = np.full((len(times), table.values.shape[1]), np.nan, dtype=table.values.dtype)
    for i in range(values.shape[1]):
        column = table.values[order, i]
        known = ~np.isnan(column)
        how: Stand = "max" if table.channels is not None and table.channels[i] == labels else stand
        where, found = reduce_runs(ordered[known], column[known], how)
        values[where, i] = found
    texts = {}
    for name, states in table.texts.items():
        codes = np.full(len(times), -1, dtype=states.codes.dtype)
        seen = states.codes[order]
        where, found = reduce_runs(ordered[seen >= 0], seen[seen >= 0], "first" if stand == "first" else "last")
        codes[where] = found
        texts[name] = States(codes, states.names)
    return replace(table, values=values, index=times, texts=texts, native_index=None, kind="numpy")


def reduce_runs(keys: NDArray[np.int64], values: Any, stand: Stand) -> tuple[NDArray[np.int64], Any]:
    """Return each key once, and what stands for its values; keys must not decrease.

    Examples
    --------
    >>> reduce_runs(np.array([3, 3, 7]), np.array([1.0, 2.0, 5.0]), "mean")[1].tolist()
    [1.5, 5.0]
    """
    if len(keys) == 0:
        return keys, values
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    stops = np.append(starts[1:], len(keys))
    if stand == "max":
        found = np.maximum.reduceat(values, starts)
    elif stand == "mean":
        found = np.add.reduceat(values.astype(np.float64), starts) / (stops - starts)
    else:
        found = values[starts if stand == "first" else stops - 1]
    return keys[starts], found

"""The long layout: a file that holds one value in a row, with its time and the name of its channel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.ordering import MOST_CELLS, Stand, reduce_runs, slots_of, times_of
from patchad.data.reading import Reading
from patchad.data.table import Table, to_table
from patchad.errors import InputError, listed


def from_long(frame: Any, reading: Reading, only: Collection[str] = ()) -> Table:
    """Make a table with one channel per name of a frame with one value per row.

    Rows are those of the grid where `reading.every` has one, else one per time. Text stands for a state: of several
    in an interval the last counts.

    Parameters
    ----------
    frame
        A pandas frame with the columns that `reading.long` names.
    reading
        The reading options.
    only
        The channels to read; empty: all.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"t": [1, 1, 2], "sensor": ["a", "b", "a"], "v": [10.0, 20.0, 11.0]})
    >>> table = from_long(frame, Reading(long=("t", "sensor", "v")))
    >>> table.channels, table.values.tolist()
    (('a', 'b'), [[10.0, 20.0], [11.0, nan]])
    """
    import pandas as pd

    if reading.long is None:
        raise InputError("the columns of the long layout are needed, as in --long time,name,value")
    time, name, value = reading.long
    names = [str(column) for column in getattr(frame, "columns", ())]
    absent = [column for column in reading.long if column not in names]
    if absent:
        raise InputError(f"there is no column {listed(absent)} for --long; the columns are {listed(names, 12)}")
    several = [column for column in reading.long if names.count(column) > 1]
    if several:
        raise InputError(f"several columns are named {several[0]!r}, of which --long needs one; rename the others")
    frame = frame.set_axis(names, axis="columns").reset_index(drop=True)
    timed = _times(frame, time, reading)
    index = times_of(timed, "--long")
    codes, found = pd.factorize(frame[name].astype("string"))
    channels, ignored = _chosen([str(one) for one in found], reading, only)
    place = np.array([channels.index(str(one)) if str(one) in channels else -1 for one in found])
    columns = np.where(codes >= 0, place[codes], -1) if len(found) else codes
    cells = frame[value]
    kept = np.flatnonzero((columns >= 0) & cells.notna().to_numpy())
    if len(kept) == 0:
        raise InputError(f"column {value!r} holds no value of a channel; numbers are needed")
    kept = kept[np.argsort(index[kept], kind="stable")]
    slots, times = _slots(index, kept, reading, len(channels))
    wide = _pivoted(cells.to_numpy()[kept], slots, columns[kept], channels, len(times), reading)
    table = to_table(wide, time=_unlike(channels))
    notes = (*timed.notes, *table.notes)
    return replace(table, index=times, zone=timed.zone, notes=notes, ignored=ignored, kind="numpy", native_index=None)


def _times(frame: Any, time: str, reading: Reading) -> Table:
    """Read the times of all rows, beside a channel that only counts."""
    counted = frame[[time]].assign(**{_unlike([time]): np.arange(float(len(frame)))})
    return to_table(counted, time=time, time_format=reading.time_format)


def _unlike(names: Sequence[str]) -> str:
    """Return a name that is none of these."""
    return "_".join(["row", *(name for name in names if name.startswith("row"))])


def _chosen(names: list[str], reading: Reading, only: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the channels to read, and those that nobody asked for."""
    absent = [name for name in (*reading.columns, *reading.exclude) if name not in names]
    if absent:
        raise InputError(f"there is no channel {listed(absent)}; the channels are {listed(names, 12)}")
    asked = {*(reading.columns or names), *([] if reading.labels is None else [reading.labels])}
    kept = sorted(name for name in names if name in asked and name not in reading.exclude)
    read = [name for name in kept if name in only] or kept
    return tuple(read), tuple(name for name in kept if name not in read)


def _stand(reading: Reading) -> Stand | None:
    """Return what stands for several values of a channel in one row; None where that is an error."""
    return reading.dedupe if reading.every is None else reading.every.aggregate


def _slots(
    index: NDArray[np.generic], kept: NDArray[np.intp], reading: Reading, channels: int
) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Return the row of each kept value, in the order of their times, and the times of the rows."""
    if reading.every is not None:
        return slots_of(index[kept], reading.every, channels=channels)
    times, slots = np.unique(index[kept], return_inverse=True)
    if len(times) * channels > max(MOST_CELLS, len(kept)):
        raise InputError(
            f"{len(times):,} times of {channels:,} channels make a table too large for RAM; "
            "bring it to regular times with --every, as in --every 1min"
        )
    return slots, times


def _pivoted(
    cells: Any, slots: NDArray[np.int64], places: Any, channels: tuple[str, ...], rows: int, reading: Reading
) -> Any:
    """Return a frame with a column for each channel; values must be in the order of their times."""
    import pandas as pd

    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(len(channels) + 1))
    columns = {_unlike(channels): np.arange(rows)}
    for i, name in enumerate(channels):
        mine = order[bounds[i] : bounds[i + 1]]
        column = pd.Series(cells[mine])
        values = column.to_numpy() if column.dtype.kind in "biuf" else _as_numbers(column)
        columns[name] = _column(values, slots[mine], rows, name, reading)
    return pd.DataFrame(columns)


def _column(values: Any, slots: NDArray[np.int64], rows: int, name: str, reading: Reading) -> Any:
    stand = _stand(reading)
    if name == reading.labels:
        stand = "max"
    elif values.dtype.kind == "O" and stand is not None:
        stand = "first" if stand == "first" else "last"
    where, found = reduce_runs(slots, values, stand or "last")
    if stand is None and len(where) < len(slots):
        raise InputError(
            f"channel {name!r} has several values of one time; add --dedupe first, last or mean, or a grid as in "
            "--every 1min"
        )
    column = np.full(
        rows,
        None if values.dtype.kind == "O" else np.nan,
        dtype=found.dtype if found.dtype.kind in "Of" else np.float64,
    )
    column[where] = found
    return column


def _as_numbers(column: Any) -> Any:
    """Turn text that holds numbers only into numbers."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    return column.to_numpy(dtype=object) if numbers.isna().any() else numbers.to_numpy(dtype=np.float64)

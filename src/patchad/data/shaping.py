"""What a file holds to a table: columns are chosen, a long layout is pivoted, rows are put in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from patchad.data.long import from_long
from patchad.data.ordering import deduped, on_grid, sorted_by_time
from patchad.data.reading import Reading
from patchad.data.table import TIME_NAMES, Table, to_table
from patchad.errors import InputError, listed


def shape(container: Any, reading: Reading, only: Collection[str] = ()) -> Table:
    """Make a table of a container, as the reading options say.

    Parameters
    ----------
    container
        What a reader returned: a pandas frame or an array.
    reading
        The reading options.
    only
        The columns to read beside labels, where they have names; empty: all.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"time": [2, 1, 1], "a": [5.0, 3.0, 4.0], "b": 0})
    >>> table = shape(frame, Reading(columns=("a",), sort=True, dedupe="mean"))
    >>> table.channels, table.index.tolist(), table.values.ravel().tolist()
    (('a',), [1, 2], [3.5, 5.0])
    """
    return in_order(as_table(container, reading, only), reading)


def as_table(container: Any, reading: Reading, only: Collection[str] = ()) -> Table:
    """Make a table of a container, with its rows in the order that they have in it."""
    labels = [] if reading.labels is None else [reading.labels]
    wanted = frozenset((*only, *labels)) if only else frozenset()
    if reading.long is not None:
        table = from_long(_as_frame(container), reading, wanted)
    else:
        chosen = _select(container, reading, labels)
        asked = frozenset((*reading.columns, *labels)) if reading.columns else frozenset()
        names = asked & wanted if asked and wanted else asked or wanted
        table = to_table(chosen, time=reading.time, only=names, unread=reading.unread, time_format=reading.time_format)
        if asked:
            table = replace(table, ignored=tuple(name for name in table.ignored if name in asked))
    return table


def in_order(table: Table, reading: Reading) -> Table:
    """Put the rows of a table in order, as the reading options say."""
    if reading.every is not None:
        return on_grid(table, reading.every, reading.labels)
    if reading.dedupe is not None:
        table = deduped(table, reading.dedupe, reading.labels)
    return sorted_by_time(table) if reading.sort or reading.long is not None else table


def columns_of(container: Any, names: Sequence[str]) -> Any:
    """Return a frame of these columns, each once; those of an array are named 0, 1, 2, ...

    Examples
    --------
    >>> columns_of(np.zeros((5, 3)), ["2", "0"]).columns.tolist()
    ['2', '0']
    """
    frame = _as_frame(container)
    known = _check_columns(frame, names)
    return frame.set_axis(known, axis="columns")[list(dict.fromkeys(names))]


def _check_columns(frame: Any, names: Iterable[str]) -> list[str]:
    """Return the names of all columns; refuse a name that is none of them."""
    known = [str(name) for name in getattr(frame, "columns", ())]
    absent = [name for name in names if name not in known]
    if absent:
        raise InputError(f"there is no column {listed(absent)}; the columns are {listed(known, 12)}")
    return known


def _as_frame(container: Any) -> Any:
    """Give an array the columns 0, 1, 2, ..., so that they can be named."""
    import pandas as pd

    if not isinstance(container, np.ndarray):
        return container
    return pd.DataFrame(container) if container.ndim in (1, 2) else container


def _select(container: Any, reading: Reading, labels: list[str]) -> Any:
    """Leave out the columns that were not asked for, except those that may hold the time."""
    if reading.time is None and not reading.columns and not reading.exclude:
        return container
    frame = _as_frame(container)
    names = _check_columns(frame, (*reading.columns, *reading.exclude))
    excluded = set(reading.exclude) - set(labels)
    kept = [i for i, name in enumerate(names) if name not in excluded]
    if reading.columns:
        asked = {*reading.columns, *labels, *([] if reading.time is None else [reading.time])}
        kept = [i for i in kept if names[i] in asked or (reading.time is None and _may_be_time(frame, i))]
    return frame.iloc[:, kept]


def _may_be_time(frame: Any, column: int) -> bool:
    dtype = frame.dtypes.iloc[column]
    return str(frame.columns[column]).lower() in TIME_NAMES or getattr(dtype, "kind", "O") not in "biufc"

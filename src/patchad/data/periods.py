"""Periods that an operator knows of: maintenance, which is to raise no events, and incidents, no part of train."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.columns import States
from patchad.data.dates import DAY_MONTH_YEAR, parse_dates
from patchad.data.readers.layout import SEPARATORS
from patchad.data.readers.text import read_text
from patchad.data.table import BoolArray, Table, is_list_of_series, to_table
from patchad.errors import InputError, listed

COLUMNS = ("from", "to")


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time, or of rows where there are no times, of all channels or of one."""

    start: Any = None
    """The first time (or row); None: from the beginning."""
    stop: Any = None
    """The last time; of rows, the one after the last, as in events. None: until the end."""
    channel: str | None = None
    origin: str = ""
    """Where it was read, for messages."""

    def __str__(self) -> str:
        bounds = f"{'' if self.start is None else self.start} to {'' if self.stop is None else self.stop}"
        return f"{self.origin or 'period'} ({bounds}{'' if self.channel is None else ', ' + self.channel})"


Periods = Sequence["Period | tuple[Any, ...]"]
"""Periods, or tuples of `from, to` or `from, to, channel`."""


def read_periods(path: Path) -> tuple[Period, ...]:
    """Read a csv file with columns `from` and `to`, and `channel` where a period is of one channel only.

    An empty `from` or `to` is open; other columns, as for a reason, are left alone. Separators and encodings are those
    of data files.
    """
    try:
        content = read_text(path).decode()
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise InputError(f"there is no file {str(path)!r}; check the path") from None
        raise InputError(f"cannot read {str(path)!r} ({error.strerror or error}); check the file") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    separator = max(SEPARATORS, key=content.lstrip().split("\n", 1)[0].count)
    try:
        rows = csv.reader(io.StringIO(content, newline=""), delimiter=separator, skipinitialspace=True)
        lines = [(number, cells) for number, cells in enumerate(rows, start=1) if any(map(str.strip, cells))]
    except csv.Error as error:
        raise InputError(f"{path}: not a csv file of periods ({error}); {_NEEDED}") from None
    if not lines:
        raise InputError(f"{path}: the file is empty; {_NEEDED}")
    names = [cell.strip() for cell in lines[0][1]]
    at = {name.lower(): i for i, name in enumerate(names)}
    lacking = [name for name in COLUMNS if name not in at]
    if lacking:
        raise InputError(f"{path}: there is no column {listed(lacking)}, only {listed(names)}; {_NEEDED}")
    return tuple(_period(cells, at, f"{path}, line {number}") for number, cells in lines[1:])


def _period(cells: Sequence[str], at: Mapping[str, int], origin: str) -> Period:
    """Make a period of a line; one that does not fit its header is refused, since an empty bound would be open."""
    texts = [cell.strip() for cell in cells]
    if any(texts[len(at) :]):
        raise InputError(f"{origin}: there are {len(texts)} cells under a header of {len(at)}; {_NEEDED}")
    if len(texts) <= max(at[name] for name in COLUMNS):
        raise InputError(f"{origin}: there is {texts[0]!r} and no second bound; {_NEEDED}, an empty bound is open")
    start, stop = (texts[at[name]] or None for name in COLUMNS)
    channel = at.get("channel", len(texts))
    return Period(start, stop, (texts[channel] or None) if channel < len(texts) else None, origin)


_NEEDED = "a header `from,to` or `from,to,channel` and a line for each period are needed"


def mark_periods(
    periods: Periods,
    channels: Sequence[str],
    index: NDArray[np.generic] | None,
    rows: range,
    *,
    zone: dt.tzinfo | None = None,
) -> BoolArray:
    """Mark the rows and channels that lie in periods: `(time, channel)`.

    Parameters
    ----------
    periods
        The periods.
    channels
        The channels; a period of another one is refused.
    index
        (time,), the times of the rows; None where there are none, then periods are of row numbers.
    rows
        The numbers of the rows.
    zone
        The time zone of bounds that name none; None: that of the index.

    Examples
    --------
    >>> mark_periods([(1, 3), (3, None, "b")], ("a", "b"), None, range(4)).astype(int).tolist()
    [[0, 0], [1, 1], [1, 1], [0, 1]]
    """
    marked: BoolArray = np.zeros((len(rows), len(channels)), dtype=bool)
    numbers = np.arange(rows.start, rows.stop)
    for period in as_periods(periods):
        start, stop = (_bound(bound, period, index, zone) for bound in (period.start, period.stop))
        if start is not None and stop is not None and start > stop:
            raise InputError(f"{period} ends before it begins; swap its bounds")
        inside: BoolArray = np.ones(len(rows), dtype=bool)
        if start is not None:
            inside &= (numbers if index is None else index) >= start
        if stop is not None:
            inside &= numbers < stop if index is None else index <= stop
        if period.channel is None:
            marked[inside] = True
        elif period.channel in channels:
            marked[inside, list(channels).index(period.channel)] = True
        else:
            raise InputError(f"{period} names a channel that is not there; there are {listed(tuple(channels), 20)}")
    return marked


def exclude_periods(X: Any, periods: Periods) -> list[Table]:
    """Leave periods out of what is to be learned from.

    Where rows are left out a series is cut, so that no window crosses from one side to the other. In a period of one
    channel only the values of that channel are missing.

    Parameters
    ----------
    X
        One series, or a list of series.
    periods
        What to leave out.

    Returns
    -------
    What is left, in pieces: a list of series for `fit`.

    Examples
    --------
    >>> [len(piece.values) for piece in exclude_periods(np.arange(100.0), [(40, 60)])]
    [40, 40]
    """
    tables = [to_table(item) for item in (X if is_list_of_series(X) else [X])]
    pieces = [piece for table in tables for piece in _pieces(table, periods)]
    if not pieces:
        raise InputError("the periods to exclude cover every row; leave some rows to learn from")
    return pieces


def _pieces(table: Table, periods: Periods) -> list[Table]:
    width = table.values.shape[1]
    channels = tuple(f"channel_{i}" for i in range(width)) if table.channels is None else table.channels
    marked = mark_periods(periods, (*channels, *table.texts), table.index, range(len(table.values)), zone=table.zone)
    whole: BoolArray = np.asarray(marked.all(axis=1))
    if (marked & ~whole[:, None]).any():
        gone = zip(table.texts.items(), marked[:, width:].T, strict=True)
        texts = {name: States(np.where(rows, -1, states.codes), states.names) for (name, states), rows in gone}
        table = replace(table, values=np.where(marked[:, :width], np.nan, table.values), texts=texts)
    edges = np.flatnonzero(np.diff(whole.astype(np.int8), prepend=1, append=1)).tolist()
    cuts = [slice(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    plain = replace(table, native_index=None, kind="numpy")
    return [plain.take(cut) for cut in cuts]


def as_periods(periods: Periods) -> tuple[Period, ...]:
    """Make periods of tuples.

    Examples
    --------
    >>> as_periods([("2024-05-01", "2024-05-02", "flow")])[0].channel
    'flow'
    """
    found = []
    for one in periods:
        parts: Any = (one.start, one.stop, one.channel, one.origin) if isinstance(one, Period) else one
        if not isinstance(parts, tuple | list) or not 2 <= len(parts) <= 4:
            raise InputError(f"{one!r} is no period; (from, to) or (from, to, channel) is needed")
        found.append(Period(*parts))
    return tuple(found)


def _bound(bound: Any, period: Period, index: NDArray[np.generic] | None, zone: dt.tzinfo | None) -> Any:
    """Read one end of a period as what the data has: a row number, a time or a number."""
    if bound is None:
        return None
    number = _number(bound)
    if index is None:
        if number is None or not number.is_integer():
            raise InputError(f"{period}: {str(bound)!r} is no row number, and the data has no times; give row numbers")
        return int(number)
    if index.dtype.kind not in "mM":
        if number is None:
            raise InputError(f"{period}: {str(bound)!r} is no number, as the times of the data are; give numbers")
        return number
    needed = "2024-01-31T12:00:00" if index.dtype.kind == "M" else "1 day 12:00:00"
    if number is not None:
        raise InputError(f"{period}: {str(bound)!r} is a plain number, and the data has times; give times, as {needed}")
    moment = _time(_dated(bound, period), zone) if index.dtype.kind == "M" else _duration(bound)
    if np.isnat(moment):
        raise InputError(f"{period}: {str(bound)!r} cannot be read as a time; write it as {needed}")
    return moment


def _dated(bound: Any, period: Period) -> Any:
    """Read a date of two numbers and a year as a column of data is read: with dots the day is first."""
    import pandas as pd

    if not isinstance(bound, str) or not DAY_MONTH_YEAR.fullmatch(bound):
        return bound
    found = parse_dates(pd.Series([bound], dtype=object))
    if found is not None and found.notes:
        raise InputError(f"{period}: {bound!r} can be read in two ways; write it as 2024-01-31T12:00:00")
    return pd.NaT if found is None else found.moments[0]


def _time(bound: Any, zone: dt.tzinfo | None) -> np.datetime64:
    """Read a time, as in UTC; what cannot be read is no time."""
    import pandas as pd

    try:
        moment = pd.Timestamp(bound)
        if pd.isna(moment):
            return np.datetime64("NaT", "ns")
        if moment.tz is None:  # of an hour that comes twice, the first
            moment = moment.tz_localize(zone or "UTC", ambiguous=True, nonexistent="shift_forward")
        return np.datetime64(moment.tz_convert("UTC").value, "ns")
    except (ValueError, TypeError, OverflowError):  # also one that nanoseconds cannot count
        return np.datetime64("NaT", "ns")


def _duration(bound: Any) -> np.timedelta64:
    """Read a time since the beginning; what cannot be read is no time."""
    import pandas as pd

    try:
        return np.timedelta64(pd.Timedelta(bound).value, "ns")
    except (ValueError, TypeError, OverflowError):
        return np.timedelta64("NaT", "ns")


def _number(bound: Any) -> float | None:
    """Return a number, or a text that is nothing else, as a number."""
    if isinstance(bound, int | float | np.number) and not isinstance(bound, bool | np.timedelta64):
        return float(bound)
    plain = isinstance(bound, str) and re.fullmatch(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*", bound)
    return float(str(bound)) if plain else None

"""Tables as people have them: numpy, pandas, polars, pyarrow, lists; in, and back out again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from patchad.data.columns import States, read_column
from patchad.data.times import Times, localized, times_of_column, times_of_index, times_of_pair
from patchad.errors import InputError, listed

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

FloatArray = NDArray[np.floating]
BoolArray = NDArray[np.bool_]

TIME_NAMES = frozenset({"time", "timestamp", "date", "datetime"})
Kind = Literal["numpy", "pandas", "polars", "pyarrow"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What a container holds, and how to return results in the same kind of container."""

    values: FloatArray
    """(time, channel), float32 or float64; NaN where a value is missing."""
    channels: tuple[str, ...] | None = None
    """Names of the channels; None where the container has none."""
    index: NDArray[np.generic] | None = None
    """(time,), times as datetime64 (UTC where there is a zone), timedelta64 or numbers; None where there are none."""
    kind: Kind = "numpy"
    native_index: Any = None
    """The index of a pandas object."""
    ignored: tuple[str, ...] = ()
    """Columns that were not read, because nobody asked for them."""
    zone: dt.tzinfo | None = None
    """Time zone of the times; None where they have none."""
    texts: Mapping[str, States] = field(default_factory=dict)
    """Columns of text by name, beside the channels; a fit makes switches of them."""
    notes: tuple[str, ...] = ()
    """What had to be decided to read the container, for people."""
    name: str = ""
    """The file or files that it was read from, for messages."""

    @property
    def times(self) -> Any:
        """The times for people: as `index`, or a pandas `DatetimeIndex` where they have a zone."""
        return None if self.index is None else localized(self.index, self.zone)

    def take(self, rows: Any) -> Table:
        """Return the table of some rows, in the order given: row numbers, a mask or a slice.

        Examples
        --------
        >>> Table(np.array([[1.0], [2.0], [3.0]]), index=np.array([10, 30, 20])).take([0, 2, 1]).index.tolist()
        [10, 20, 30]
        """
        return replace(
            self,
            values=self.values[rows],
            index=None if self.index is None else self.index[rows],
            native_index=None if self.native_index is None else self.native_index[rows],
            texts={name: States(states.codes[rows], states.names) for name, states in self.texts.items()},
        )

    def without(self, name: str) -> tuple[Table, FloatArray]:
        """Take one channel out: the table without it, and its `(time,)` values.

        Examples
        --------
        >>> table, labels = Table(np.array([[1.0, 0.0], [2.0, 1.0]]), ("flow", "label")).without("label")
        >>> table.channels, labels.tolist()
        (('flow',), [0.0, 1.0])
        """
        if name in self.texts:
            raise InputError(f"column {name!r} holds text, as {self.texts[name].names[0]!r}; numbers are needed in it")
        if self.channels is None or name not in self.channels:
            names = (*(self.channels or ()), *self.texts, *self.ignored)
            known = f"the columns are {listed(names, 12)}" if names else "the data has no names"
            raise InputError(f"there is no column {name!r}; {known}: name one of the columns beside the time")
        at = self.channels.index(name)
        kept = tuple(channel for channel in self.channels if channel != name)
        return replace(self, values=np.delete(self.values, at, axis=1), channels=kept), self.values[:, at].copy()

    def column(self, values: NDArray[np.generic], name: str) -> Any:
        """Return `(time,)` values as the caller's kind of column."""
        if self.kind == "pandas":
            import pandas as pd

            return pd.Series(values, index=self.native_index, name=name)
        if self.kind == "polars":
            import polars as pl

            return pl.Series(name, values)
        if self.kind == "pyarrow":
            import pyarrow as pa

            return pa.array(values)
        return values

    def frame(self, values: NDArray[np.generic], names: Sequence[str]) -> Any:
        """Return `(time, channel)` values as the caller's kind of frame."""
        if self.kind == "pandas":
            import pandas as pd

            return pd.DataFrame(values, index=self.native_index, columns=list(names), copy=False)
        if self.kind == "polars":
            import polars as pl

            return pl.from_numpy(values, schema=list(names))
        if self.kind == "pyarrow":
            import pyarrow as pa

            return pa.table({name: values[:, i] for i, name in enumerate(names)})
        return values


def is_list_of_series(X: Any) -> bool:
    """Return whether `X` is a list of series (arrays or frames) rather than one series.

    Examples
    --------
    >>> is_list_of_series([np.zeros((50, 2)), np.zeros((70, 2))])
    True
    >>> is_list_of_series([[0.0, 1.0], [2.0, 3.0]])
    False
    """
    return isinstance(X, list | tuple) and len(X) > 0 and all(_is_series(item) for item in X)


def _is_series(item: Any) -> bool:
    if isinstance(item, np.ndarray | Table):
        return isinstance(item, Table) or item.ndim >= 1
    return not isinstance(item, Sequence | str | bytes) and _as_narwhals(item) is not None


def to_table(
    X: Any,
    *,
    time: str | None = None,
    only: Collection[str] = (),
    unread: Collection[str] = (),
    time_format: str | None = None,
) -> Table:
    """Read any supported container.

    Parameters
    ----------
    X
        `(time, channel)` or `(time,)`: numpy, pandas, polars or pyarrow, or nested lists of numbers.
    time
        The column that holds the times; by default a column named time, timestamp, date or datetime (any case), or the
        only column that holds times.
    only
        The columns to read where they have names; others, of whatever type, are left out. Empty: all.
    unread
        Columns, of whatever type, whose values are not wanted: they are channels without values.
    time_format
        How the times are written, as for `datetime.strptime`; by default the whole column decides.

    Examples
    --------
    >>> import pandas as pd
    >>> table = to_table(pd.DataFrame({"Time": ["2024-01-01", "2024-01-02"], "pressure": [1, 2]}))
    >>> table.channels, table.values.tolist(), str(table.index[0])[:10]
    (('pressure',), [[1.0], [2.0]], '2024-01-01')
    """
    if isinstance(X, Table):
        return _without_texts(X, unread)
    numbered = type(X).__module__.startswith("pandas") and not all(
        isinstance(c, str) for c in getattr(X, "columns", ())
    )
    wrapped = _as_narwhals(X.set_axis(list(map(str, X.columns)), axis="columns") if numbered else X)
    if wrapped is None:
        return Table(_from_array(X))
    if isinstance(wrapped, nw.Series):
        name: object = wrapped.name
        named = name if isinstance(name, str) and name else None
        frame = wrapped.alias(named or "value").to_frame()
        channels: tuple[str, ...] | None = (named,) if named else None
    else:
        frame = wrapped
        channels = tuple(frame.columns)
    return _from_frame(frame, None if numbered else channels, _Asked(time, only, unread, time_format))


def _as_narwhals(X: Any) -> nw.DataFrame[Any] | nw.Series[Any] | None:
    """Wrap a frame or column of a library that narwhals knows; None for anything else."""
    module = type(X).__module__.partition(".")[0]
    if module == "pyarrow":
        import pyarrow as pa

        if isinstance(X, pa.Array):
            X = pa.chunked_array([X])
        elif isinstance(X, pa.RecordBatch):
            X = pa.Table.from_batches([X])
    try:
        wrapped: Any = nw.from_native(X, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"a column name appears more than once ({error}); rename or drop one of them") from None
    if isinstance(wrapped, nw.LazyFrame):
        raise InputError(f"X is a lazy frame ({type(X).__name__}); call .collect() first")
    return wrapped if isinstance(wrapped, nw.DataFrame | nw.Series) else None


def _from_array(X: Any) -> FloatArray:
    """Check an array or a nested list and give `(time, channel)` floats, without a copy where that is possible."""
    if hasattr(X, "tocsr"):
        raise InputError(f"X is a sparse matrix ({type(X).__name__}); convert it to a dense array with X.toarray()")
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        values = np.asarray(X)
    except ValueError as error:
        raise InputError(f"X is ragged ({error}); every row needs the same number of channels") from error
    if np.iscomplexobj(values):
        raise InputError("Complex data not supported: X must hold real numbers; pass X.real, or abs(X)")
    if values.dtype.kind in "mMSUV":
        raise InputError(f"X has dtype {values.dtype}, numbers are needed; pass a frame to keep times beside numbers")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise InputError(
            f"X must have shape (time, channel) or (time,), got {values.shape}. "
            "Reshape your data, or pass a list of series"
        )
    if values.dtype.kind == "O":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"X has dtype object and holds something that is not a number ({error})") from error
    known = values.dtype in (np.float32, np.float64)
    return _without_signals(values if known else values.astype(_float_type([values.dtype])))


def _without_signals(values: FloatArray) -> FloatArray:
    """Return values without signalling NaN, which warn wherever they are used; damaged bytes may be some."""
    missing = np.isnan(values)
    words, quiet = ("u4", 22) if values.dtype == np.float32 else ("u8", 51)
    signalling = values[missing].view(words) >> quiet & 1 == 0
    return np.where(missing, np.nan, values) if signalling.any() else values


def _float_type(dtypes: Sequence[np.dtype[Any]]) -> type[np.floating]:
    """Return the smallest float that holds all of these without loss; float64 is the widest."""
    small = all(
        dtype.kind == "b" or (dtype.kind in "iuf" and dtype.itemsize <= 2) or dtype == np.float32 for dtype in dtypes
    )
    return np.float32 if small else np.float64


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the caller wants of a frame."""

    time: str | None
    only: Collection[str]
    unread: Collection[str]
    time_format: str | None


def _from_frame(frame: nw.DataFrame[Any], channels: tuple[str, ...] | None, asked: _Asked) -> Table:
    kind: Kind = frame.implementation.name.lower()
    native_index = nw.maybe_get_index(frame)
    times = None if asked.time is not None else times_of_index(native_index)
    time_columns: tuple[str, ...] = ()
    if times is None:
        time_columns, times = _find_time(frame, asked)
    names = [name for name in frame.columns if name not in time_columns]
    if not names:
        raise InputError(
            f"found no channels, only the time column {listed(time_columns)}; at least one number column is needed"
        )
    wanted = [name for name in names if channels is not None and name in asked.only] or names
    read = [name for name in wanted if channels is None or name not in asked.unread]
    values, texts = _numbers(frame, read)
    if channels is None:
        if texts:
            name, states = next(iter(texts.items()))
            raise InputError(
                f"column {name} holds text, as {states.names[0]!r}, and columns without names must hold numbers; "
                "give the columns names, or leave this one out"
            )
        return _timed(Table(values, None, kind=kind, native_index=native_index), times)
    ignored = tuple(name for name in names if name not in wanted)
    numeric = tuple(name for name in wanted if name not in texts)
    if len(read) < len(wanted):
        values, known = np.full((len(frame), len(numeric)), np.nan, values.dtype), values
        values[:, [i for i, name in enumerate(numeric) if name in read]] = known
    table = Table(values, numeric, kind=kind, native_index=native_index, ignored=ignored, texts=texts)
    return _timed(table, times)


def _without_texts(table: Table, unread: Collection[str]) -> Table:
    """Make channels without values of the columns of text that are not wanted."""
    names = [name for name in table.texts if name in unread]
    if not names:
        return table
    blank = np.full((len(table.values), len(names)), np.nan, table.values.dtype)
    texts = {name: states for name, states in table.texts.items() if name not in names}
    channels = (*(table.channels or ()), *names)
    return replace(table, values=np.concatenate([table.values, blank], axis=1), channels=channels, texts=texts)


def _timed(table: Table, times: Times | None) -> Table:
    return table if times is None else replace(table, index=times.index, zone=times.zone, notes=times.notes)


def _find_time(frame: nw.DataFrame[Any], asked: _Asked) -> tuple[tuple[str, ...], Times | None]:
    """Find the time column: the one asked for, one with a usual name, or the only one that holds times.

    Two with usual names may be a date and a time of day.
    """
    if asked.time is not None:
        if asked.time not in frame.columns:
            raise InputError(
                f"there is no column {asked.time!r} to take the times from; the columns are {listed(frame.columns)}"
            )
        return (asked.time,), _named_time(frame, asked.time, asked.time_format)
    usual = [name for name in frame.columns if str(name).lower() in TIME_NAMES]
    if len(usual) == 1 and len(frame.columns) > 1:
        return (usual[0],), _named_time(frame, usual[0], asked.time_format)
    pair = times_of_pair([frame[name] for name in usual], time_format=asked.time_format) if len(usual) == 2 else None
    if pair is not None:
        return tuple(usual), pair
    read = [(name, times_of_column(frame[name], named=False)) for name in frame.columns]
    found = [(name, times) for name, times in read if times is not None and times.differ]
    if len(found) > 1:
        raise InputError(
            f"columns {listed([name for name, _ in found])} all hold times; name the one to use as the time"
        )
    if not found and asked.time_format is not None:
        raise InputError(
            f"a time format was given, and no column is known to hold times; name it (--time), one of "
            f"{listed(frame.columns)}"
        )
    return ((found[0][0],), found[0][1]) if found else ((), None)


def _named_time(frame: nw.DataFrame[Any], name: str, time_format: str | None) -> Times:
    times = times_of_column(frame[name], named=True, time_format=time_format)
    if times is None:
        raise InputError(
            f"column {name!r} cannot be read as times; ISO 8601 (2024-01-31T12:00:00) or numbers are needed, or the "
            "format of the times (--time-format, as in '%d/%m/%Y %H:%M')"
        )
    return times


def _numbers(frame: nw.DataFrame[Any], names: Sequence[str]) -> tuple[FloatArray, dict[str, States]]:
    """Read these columns as `(time, channel)` floats, and apart from them those of text.

    Nothing is copied where a pandas frame is one block of floats.
    """
    native: IntoDataFrame = nw.to_native(frame)
    if frame.implementation.is_pandas() and len(names) == len(frame.columns):
        dtypes = set(native.dtypes)  # type: ignore[attr-defined]
        if len(dtypes) == 1 and dtypes.pop() in (np.float32, np.float64):
            return np.asarray(native.to_numpy()), {}  # type: ignore[attr-defined]
    columns = {name: read_column(frame[name]) for name in names}
    texts = {name: column for name, column in columns.items() if isinstance(column, States)}
    numeric = [column for column in columns.values() if not isinstance(column, States)]
    values = np.empty((len(frame), len(numeric)), dtype=_float_type([column.dtype for column in numeric]))
    for i, column in enumerate(numeric):
        values[:, i] = column
    return values, texts

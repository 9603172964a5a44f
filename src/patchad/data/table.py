"""Tables as people have them: numpy, pandas, polars, pyarrow, lists; in, and back out again."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

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
    """(time,), times as datetime64, timedelta64 or numbers; None where there are none."""
    kind: Kind = "numpy"
    native_index: Any = None
    """The index of a pandas object."""
    ignored: tuple[str, ...] = ()
    """Columns that were not read, because nobody asked for them."""

    def without(self, name: str) -> tuple[Table, FloatArray]:
        """Take one channel out: the table without it, and its `(time,)` values.

        Examples
        --------
        >>> table, labels = Table(np.array([[1.0, 0.0], [2.0, 1.0]]), ("flow", "label")).without("label")
        >>> table.channels, labels.tolist()
        (('flow',), [0.0, 1.0])
        """
        if self.channels is None or name not in self.channels:
            known = f"the columns are {listed(self.channels)}" if self.channels else "the data has no names"
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


def to_table(X: Any, *, time: str | None = None, only: Collection[str] = ()) -> Table:
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

    Examples
    --------
    >>> import pandas as pd
    >>> table = to_table(pd.DataFrame({"Time": ["2024-01-01", "2024-01-02"], "pressure": [1, 2]}))
    >>> table.channels, table.values.tolist(), str(table.index[0])[:10]
    (('pressure',), [[1.0], [2.0]], '2024-01-01')
    """
    if isinstance(X, Table):
        return X
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
    return _from_frame(frame, None if numbered else channels, time, only)


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
        except (TypeError, ValueError) as error:
            raise InputError(f"X has dtype object and holds something that is not a number ({error})") from error
    return values if values.dtype in (np.float32, np.float64) else values.astype(_float_type([values.dtype]))


def _float_type(dtypes: Sequence[np.dtype[Any]]) -> type[np.floating]:
    """Return the smallest float that holds all of these without loss; float64 is the widest."""
    small = all(
        dtype.kind == "b" or (dtype.kind in "iuf" and dtype.itemsize <= 2) or dtype == np.float32 for dtype in dtypes
    )
    return np.float32 if small else np.float64


def _from_frame(
    frame: nw.DataFrame[Any], channels: tuple[str, ...] | None, time: str | None, only: Collection[str]
) -> Table:
    kind: Kind = frame.implementation.name.lower()
    native_index = nw.maybe_get_index(frame)
    index = None if time is not None else _index_of_times(native_index)
    time_column = None
    if index is None:
        time_column, index = _find_time(frame, time)
    names = [name for name in frame.columns if name != time_column]
    if not names:
        raise InputError(
            f"found no channels, only the time column {time_column!r}; at least one number column is needed"
        )
    if channels is None:
        return Table(_numbers(frame, names), None, index, kind, native_index)
    wanted = [name for name in names if name in only] or names
    ignored = tuple(name for name in names if name not in wanted)
    return Table(_numbers(frame, wanted), tuple(wanted), index, kind, native_index, ignored)


def _index_of_times(native_index: Any) -> NDArray[np.generic] | None:
    """Read the times of a pandas index; None for an index that is not of times."""
    if native_index is None:
        return None
    if type(native_index).__name__ == "PeriodIndex":
        native_index = native_index.to_timestamp()
    if type(native_index).__name__ not in ("DatetimeIndex", "TimedeltaIndex"):
        return None
    if getattr(native_index, "tz", None) is not None:
        native_index = native_index.tz_convert("UTC").tz_localize(None)
    return np.asarray(native_index.to_numpy())


def _find_time(frame: nw.DataFrame[Any], time: str | None) -> tuple[str | None, NDArray[np.generic] | None]:
    """Find the time column: the one asked for, one with a usual name, or the only one that holds times."""
    if time is not None:
        if time not in frame.columns:
            raise InputError(
                f"there is no column {time!r} to take the times from; the columns are {listed(frame.columns)}"
            )
        times = _times(frame[time], numbers=True)
        if times is None:
            raise InputError(
                f"column {time!r} cannot be read as times; ISO 8601 (2024-01-31T12:00:00) or numbers are needed"
            )
        return time, times
    usual = [name for name in frame.columns if str(name).lower() in TIME_NAMES]
    if len(usual) == 1 and len(frame.columns) > 1:
        times = _times(frame[usual[0]], numbers=True)
        if times is None:
            raise InputError(
                f"column {usual[0]!r} cannot be read as times; ISO 8601 (2024-01-31T12:00:00) or numbers are needed"
            )
        return usual[0], times
    found = [(name, times) for name in frame.columns if (times := _times(frame[name], numbers=False)) is not None]
    if len(found) > 1:
        raise InputError(
            f"columns {listed([name for name, _ in found])} all hold times; name the one to use as the time"
        )
    return found[0] if found else (None, None)


def _times(column: nw.Series[Any], *, numbers: bool) -> NDArray[np.generic] | None:
    """Read a column as times; None where it does not hold times. Plain numbers count as times only when `numbers`."""
    import pandas as pd

    if column.dtype.is_numeric():
        return _column_numbers(column) if numbers else None
    if isinstance(column.dtype, nw.Boolean) or (column.dtype.is_temporal() is False and len(column) == 0):
        return None
    values = column.to_pandas()
    if isinstance(column.dtype, nw.Duration):
        return np.asarray(values.to_numpy())
    if isinstance(column.dtype, nw.String | nw.Object | nw.Categorical):
        first = next((value for value in values if value is not None and value == value), None)
        plain_number = isinstance(first, str) and first.replace(".", "", 1).replace("-", "", 1).isdigit()
        if plain_number or not isinstance(first, str | dt.date):
            return None
    for settings in ({"format": "ISO8601"}, {}):
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                parsed = pd.to_datetime(values, utc=True, **settings)
        except (ValueError, TypeError, OverflowError):
            continue
        if any("Could not infer format" in str(warning.message) for warning in said):
            continue  # pandas read each word by itself, and takes "may" for a month
        return np.asarray(parsed.dt.tz_localize(None).to_numpy())
    return None


def _numbers(frame: nw.DataFrame[Any], names: Sequence[str]) -> FloatArray:
    """Read these columns as `(time, channel)` floats, without a copy where a pandas frame is one block of floats."""
    native: IntoDataFrame = nw.to_native(frame)
    if frame.implementation.is_pandas() and len(names) == len(frame.columns):
        dtypes = set(native.dtypes)  # type: ignore[attr-defined]
        if len(dtypes) == 1 and dtypes.pop() in (np.float32, np.float64):
            return np.asarray(native.to_numpy())  # type: ignore[attr-defined]
    columns = [_column_numbers(frame[name]) for name in names]
    values = np.empty((len(frame), len(names)), dtype=_float_type([column.dtype for column in columns]))
    for i, column in enumerate(columns):
        values[:, i] = column
    return values


def _column_numbers(column: nw.Series[Any]) -> FloatArray:
    """Read one column as floats, NaN where it is empty."""
    if column.dtype.is_numeric() or isinstance(column.dtype, nw.Boolean):
        narrow = isinstance(column.dtype, nw.Float32 | nw.Boolean | nw.Int8 | nw.UInt8 | nw.Int16 | nw.UInt16)
        floats = column.cast(nw.Float32() if narrow else nw.Float64())
        return np.asarray(floats.to_numpy())
    values = np.empty(len(column), dtype=np.float64)
    for row, value in enumerate(column.to_list()):
        try:
            values[row] = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"column {column.name!r} has {value!r} in row {row}, a number is needed; "
                "clean the column, drop it, or name it as the time"
            ) from None
    return values

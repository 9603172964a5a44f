"""One column of any library: numbers, or text that names states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from patchad.errors import InputError

if TYPE_CHECKING:
    from patchad.data.table import FloatArray

MISSING_WORDS = frozenset({"", "-", "na", "n/a", "nan", "null", "none"})
"""Text, in any case, that stands for a missing value in a column of numbers."""
TRUTH = {"false": 0.0, "true": 1.0}
"""Text, in any case, that is a number for every library that reads files."""


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """A column of text, as numbers of its different texts."""

    codes: NDArray[np.intp]
    """(time,), which of the names; -1 where the value is missing."""
    names: tuple[str, ...]
    """The different texts, in the order in which they appear."""

    @classmethod
    def join(cls, parts: Sequence[States]) -> States:
        """Concatenate columns that follow each other.

        Examples
        --------
        >>> States.join([States(np.array([0]), ("on",)), States(np.array([0, -1, 1]), ("off", "on"))]).codes.tolist()
        [0, 1, -1, 0]
        """
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        codes = [np.array([*(names.index(name) for name in part.names), -1])[part.codes] for part in parts]
        return cls(np.concatenate(codes), names)


def read_column(column: nw.Series[Any]) -> FloatArray | States:
    """Read one column as floats, NaN where it is empty, or as states where it holds text.

    A column that holds numbers and text is refused: it is one or the other.

    Examples
    --------
    >>> import polars as pl
    >>> read_column(nw.from_native(pl.Series("a", ["1.5", None, "2"]), series_only=True)).tolist()
    [1.5, nan, 2.0]
    >>> states = read_column(nw.from_native(pl.Series("valve", ["open", "shut", "open"]), series_only=True))
    >>> states.names, states.codes.tolist()
    (('open', 'shut'), [0, 1, 0])
    """
    if column.dtype.is_numeric() or isinstance(column.dtype, nw.Boolean):
        return numeric_column(column)
    if column.dtype.is_nested() or column.dtype.is_temporal() or isinstance(column.dtype, nw.Binary):
        raise InputError(
            f"column {column.name!r} holds {_kind(column.dtype)} ({column.dtype}), numbers or text are needed; "
            "convert the column or leave it out"
        )
    return _of_objects(column)


def numeric_column(column: nw.Series[Any]) -> FloatArray:
    """Read a column whose type is a number's or a truth value's: the smallest float that holds it without loss.

    Integers over 2^53 are rounded to the nearest float.
    """
    narrow = isinstance(column.dtype, nw.Float16 | nw.Float32 | nw.Boolean | nw.Int8 | nw.UInt8 | nw.Int16 | nw.UInt16)
    if column.implementation.is_pyarrow() and column.dtype.is_integer():
        import pyarrow as pa

        return np.asarray(column.to_native().cast(pa.float32() if narrow else pa.float64(), safe=False).to_numpy())
    if column.implementation.is_pandas():
        return np.asarray(column.to_native().to_numpy(np.float32 if narrow else np.float64, na_value=np.nan))
    return np.asarray(column.cast(nw.Float32() if narrow else nw.Float64()).to_numpy())


def _kind(dtype: Any) -> str:
    if isinstance(dtype, nw.Time):
        return "times of day"
    if dtype.is_temporal():
        return "times"
    return "bytes" if isinstance(dtype, nw.Binary) else "lists or records"


def _of_objects(column: nw.Series[Any]) -> FloatArray | States:
    """Read a column of text, categories or Python objects, each different value once."""
    import pandas as pd

    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    try:
        codes, unique = pd.factorize(values)
        cells = [_cell(one) for one in unique]
    except (TypeError, OverflowError):
        raise _unreadable(column.name, values) from None
    texts = {i: cell for i, cell in enumerate(cells) if isinstance(cell, str)}
    words = {i: text.lower() for i, text in texts.items() if text.lower() not in MISSING_WORDS}
    if any(isinstance(cell, float) and not math.isnan(cell) for cell in cells):
        if words:
            row = int(np.argmax(np.isin(codes, list(words))))
            raise InputError(
                f"column {column.name!r} has {values[row]!r} in row {row}, a number is needed, as in other rows; "
                "clean the column, drop it, or name it as the time"
            )
    elif set(words.values()) <= TRUTH.keys():
        cells = [TRUTH[words[i]] if i in words else math.nan for i in range(len(cells))]
    else:
        return _states(codes, cells)
    numbers = [math.nan if isinstance(cell, str) else cell for cell in cells]
    return np.asarray(np.array([*numbers, math.nan])[codes])  # the last one for what is missing, which has code -1


def _cell(value: Any) -> float | str:
    """Return a number as a float, and text without the blanks around it."""
    if not isinstance(value, str):
        if isinstance(value, bytes | complex):
            raise TypeError(type(value).__name__)
        return float(value)
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        return text
    if math.isinf(number) and any(letter.isdigit() for letter in text):
        raise OverflowError(text)
    return number


def _unreadable(name: str, values: NDArray[np.object_]) -> InputError:
    """Say which value of a column is neither text nor a number that a float can hold."""
    for row, value in enumerate(values):
        try:
            hash(value)
            _cell(0.0 if value is None or value != value else value)
        except OverflowError:
            return InputError(
                f"column {name!r} has a number in row {row} that is too large for a float; replace it, or leave it "
                "empty if it is unknown"
            )
        except TypeError:
            return InputError(
                f"column {name!r} has a value of type {type(value).__name__} in row {row}, numbers or text are needed; "
                "convert the column or drop it"
            )
    raise AssertionError("every value can be read")


def _states(codes: NDArray[np.intp], cells: list[float | str]) -> States:
    """Give each of the different texts a number; an empty one is missing."""
    names = tuple(dict.fromkeys(cell for cell in cells if isinstance(cell, str) and cell))
    place = {name: number for number, name in enumerate(names)}
    renumbered = np.array([*(place.get(cell, -1) if isinstance(cell, str) else -1 for cell in cells), -1])
    return States(renumbered[codes], names)

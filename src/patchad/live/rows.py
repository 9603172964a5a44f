"""Rows: lines of JSON or csv as values by channel, with the key of their stream and their time."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from patchad.data.epochs import times_of_numbers
from patchad.data.table import TIME_NAMES
from patchad.data.times import localized
from patchad.errors import InputError, listed, reason_of
from patchad.live.lines import LONGEST_LINE
from patchad.streaming.rows import read_times

Key = str | int | None
"""Tells the streams of one source apart; None where rows have no key."""

SEPARATORS = (",", ";", "\t", "|")
DATE = re.compile(r"\s*\d{4}-\d\d-\d\d([T ]|\s*$)")
"""How a time begins that is known without a name."""
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "#n/a"})
"""Cells of a csv line, in lower case, that are missing values."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it came."""

    key: Key
    time: str | float | None
    """As it was written."""
    moment: Any
    """The time as a stream takes it."""
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the model knows of rows."""

    channels: tuple[str, ...]
    """Columns of the fit."""
    named: bool = True
    """Whether those are real names; else csv columns count by position."""
    texts: frozenset[str] = frozenset()
    """Columns whose values are states, such as ON and OFF."""
    every: bool = False
    """Whether any column may be a channel: there is no model yet."""

    def checked(self, name: str, value: Any) -> Any:
        """Refuse what is no number in a channel of the model; other columns are left to be ignored."""
        if value is None or name not in self.channels:
            return None if isinstance(value, str) else value
        if name in self.texts:
            return unicode(str(value))
        if not isinstance(value, int | float):
            raise InputError(f"channel {name!r} is {value!r}, and a number is needed, or null")
        try:
            return float(value)
        except OverflowError:
            raise InputError(f"channel {name!r} is too large a number; float64 has to hold it") from None


class RowReader:
    """Read lines: JSON objects, or csv under a header, as the first line says.

    Parameters
    ----------
    columns
        What the model knows of rows.

    Examples
    --------
    >>> reader = RowReader(Columns(("flow", "heat")))
    >>> reader.read(b"time,flow,heat"), reader.read(b"2026-01-01T00:00,1.5,").values
    (None, {'flow': 1.5, 'heat': None})
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._names: list[str] | None = None
        """The columns of csv, each once; empty for JSON, None before the first line."""
        self._header: list[str] = []
        """The header of csv as it was written."""
        self._separator = ","
        self._time: str | None = None
        """The column of times where none has a usual name: the only one of the first row that holds a date, or none."""
        self._plain_numbers: bool | None = None
        """Whether times that are numbers count something, and are no dates; the first one decides."""

    @property
    def state(self) -> dict[str, Any]:
        """What has to be known to go on in the middle of a source."""
        names = ("_names", "_header", "_separator", "_time", "_plain_numbers")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def restore(cls, columns: Columns, state: Mapping[str, Any]) -> Self:
        """Return a reader that goes on where another was."""
        reader = cls(columns)
        vars(reader).update(state)
        return reader

    def read(self, line: bytes) -> Row | None:
        """Read a line; None for one that is empty or a header. `InputError` says what is wrong with a row.

        A header without any channel raises `HeaderError`.
        """
        if len(line) > LONGEST_LINE:
            raise InputError(f"the line is over {LONGEST_LINE:,} bytes long; a row a line is needed")
        try:
            text = line.decode("utf-8-sig").strip("\r\n")
        except UnicodeDecodeError:
            raise InputError("the line is no UTF-8; write text as UTF-8") from None
        if not text.strip():
            return None
        if self._names is None and text.lstrip().startswith("{"):
            self._names = []
        if self._names == []:
            return self._from_json(text)
        if self._names is None:
            self._read_header(text)
            return None
        return self._from_csv(text, self._names)

    # -- csv -----------------------------------------------------------------------------------------------------------

    def _read_header(self, text: str) -> None:
        self._separator = max(SEPARATORS, key=text.count)
        self._header = self._cells(text)
        names = _apart(self._header)
        channels, own = self._columns.channels, [name for name in names if not self._is_key_or_time(name)]
        if not self._columns.named and len(own) == len(channels):
            by_place = dict(zip(own, channels, strict=True))
            names = [by_place.get(name, name) for name in names]
        elif not self._columns.every and not set(own) & set(channels):
            raise HeaderError(
                f"the first line is neither JSON nor a csv header with channels of the model: it has {listed(names)}, "
                f"the model knows {listed(channels)}; begin with a header, or write a JSON object a line"
            )
        self._names = names

    def _from_csv(self, text: str, names: Sequence[str]) -> Row | None:
        cells = self._cells(text)
        if cells in (self._header, names):
            return None  # the header of a file that was added
        if len(cells) != len(names):
            raise InputError(f"the line has {len(cells)} cells, the header {len(names)}; write one for each column")
        found: dict[str, Any] = {}
        for name, cell in zip(names, cells, strict=True):
            found[name] = None if cell.lower() in MISSING else self._value(name, cell)
        return self._row(found)

    def _value(self, name: str, cell: str) -> Any:
        if name in self._columns.texts or (name == "key" and self._is_key_or_time(name)):
            return cell
        try:
            if self._is_key_or_time(name) and cell.isdecimal():
                return int(cell)  # as it came: a float is too coarse for nanoseconds
            return float(cell if self._separator == "," else cell.replace(",", "."))
        except ValueError:
            return cell

    def _cells(self, text: str) -> list[str]:
        try:
            (cells,) = csv.reader([text], delimiter=self._separator, skipinitialspace=True)
        except csv.Error as error:
            raise InputError(f"the line is no csv ({error}); write a cell for each column") from None
        return [cell.strip() for cell in cells]

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def _from_json(self, text: str) -> Row:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the line is no JSON ({reason_of(error)}); a JSON object a line is needed") from None
        if not isinstance(found, dict):
            raise InputError(f"the line is no JSON object but {text[:40]!r}; write a row as {{'values': {{...}}}}")
        return self._row(found)

    # -- both ----------------------------------------------------------------------------------------------------------

    def _is_key_or_time(self, name: str) -> bool:
        return (name in ("key", self._time) or name.lower() in TIME_NAMES) and name not in self._columns.channels

    def _find_time(self, row: Mapping[str, Any]) -> str:
        """Return the column of the first row that holds a date and is no channel, if it is the only one."""
        own = {name: value for name, value in row.items() if name not in self._columns.channels and name != "key"}
        dates = [name for name, value in own.items() if isinstance(value, str) and DATE.match(value)]
        usual = any(name.lower() in TIME_NAMES for name in own)
        return dates[0] if len(dates) == 1 and not usual else ""

    def _row(self, found: Mapping[str, Any]) -> Row:
        """Tell key and time from the values of a flat row, or of one that has its values apart."""
        apart = found.get("values")
        if "values" in found and "values" not in self._columns.channels and not isinstance(apart, dict):
            raise InputError(f"'values' is {apart!r}, an object is needed: {{'values': {{channel: number}}}}")
        around = found if not isinstance(apart, dict) else {k: v for k, v in found.items() if k != "values"}
        if self._time is None:
            self._time = self._find_time(around)
        own = {name: value for name, value in around.items() if self._is_key_or_time(name)}
        values = apart if isinstance(apart, dict) else {k: v for k, v in around.items() if k not in own}
        key = own.pop("key", None)
        if isinstance(key, bool) or not isinstance(key, str | int | None):
            raise InputError(f"the key is {key!r}; a text or a whole number is needed")
        time = next((value for value in own.values() if value is not None), None)
        known = {name: self._columns.checked(name, value) for name, value in values.items()}
        return Row(key, time, self._moment(time), known)

    def _moment(self, time: Any) -> Any:
        """Return a time as a stream takes it: numbers that are dates as dates, texts as they are."""
        if time is None or isinstance(time, str):
            return time if time is None else unicode(time)
        if isinstance(time, bool) or not isinstance(time, int | float):
            raise InputError(f"the time is {time!r}; an ISO 8601 text or a number is needed")
        try:
            number = np.array([float(time) if isinstance(time, float) or abs(time) > 2**62 else time])
        except OverflowError:
            raise InputError("the time is too large a number") from None
        if not np.isfinite(number[0]):
            raise InputError(f"the time is {time}; a finite number is needed")
        if self._plain_numbers is None:
            self._plain_numbers = times_of_numbers(number)[0].dtype.kind != "M"
        if self._plain_numbers:
            return float(number[0])
        index, zone, _ = times_of_numbers(number)
        return localized(index, zone)[0] if index.dtype.kind == "M" else float(number[0])


def _apart(names: Sequence[str]) -> list[str]:
    """Return names, each once: of columns with one name the first has it, as in a file that is read at once.

    Examples
    --------
    >>> _apart(["flow", "heat", "flow", "flow"])
    ['flow', 'heat', 'flow.1', 'flow.2']
    """
    found: dict[str, None] = {}
    for name in names:
        others = (f"{name}.{number}" for number in range(1, len(names) + 1))
        own = name if name not in found else next(one for one in others if one not in (*found, *names))
        found[own] = None
    return list(found)


def unicode(text: str) -> str:
    """Return a text that can be written as UTF-8; half of a surrogate pair, which JSON can hold, is refused."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text!r} has half of a surrogate pair, which is no character; send Unicode") from None
    return text


class HeaderError(InputError):
    """The header of csv has no channel of the model: no row can be read."""


def comparable(moment: Any) -> np.datetime64 | float:
    """Return a time as streams compare it: in UTC, or a number."""
    (found,) = np.asarray(read_times([moment], None, seen=False)[0])
    return found.astype("datetime64[ns]") if isinstance(found, np.datetime64) else float(found)

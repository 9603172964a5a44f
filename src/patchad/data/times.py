"""Times as people write them: dates as text, numbers since an epoch, with a time zone or without."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from patchad.data.columns import numeric_column
from patchad.data.dates import TIME_OF_DAY, Dates, formatted_dates, parse_dates
from patchad.data.epochs import times_of_numbers
from patchad.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times of a table."""

    index: NDArray[np.generic]
    """(time,), datetime64 (UTC where there is a zone), timedelta64, or numbers."""
    zone: dt.tzinfo | None = None
    """Time zone of the data; None where it has none."""
    notes: tuple[str, ...] = ()
    """What had to be decided to read them, for people."""

    @property
    def differ(self) -> bool:
        """Whether they can tell rows apart: some are known, and they are not all the same."""
        known = self.index[~np.isnat(self.index)] if self.index.dtype.kind in "mM" else self.index
        return len(known) > 0 and (len(self.index) == 1 or bool(known.min() < known.max()))


def times_of_index(native_index: Any) -> Times | None:
    """Read the times of a pandas index; None for an index that is not of times."""
    if type(native_index).__name__ == "PeriodIndex":
        native_index = native_index.to_timestamp()
    if type(native_index).__name__ not in ("DatetimeIndex", "TimedeltaIndex"):
        return None
    zone = getattr(native_index, "tz", None)
    return Times(without_zone(native_index), zone)


def times_of_column(column: nw.Series[Any], *, named: bool, time_format: str | None = None) -> Times | None:
    """Read a column as times; None where it does not hold times.

    Parameters
    ----------
    column
        A column of any library.
    named
        Whether its name, or the caller, says that it holds times: then numbers are times too.
    time_format
        How times are written, as for `datetime.strptime`; None: found out from the whole column.

    Examples
    --------
    >>> import polars as pl
    >>> column = nw.from_native(pl.Series("t", ["01.04.2024", "02.04.2024"]), series_only=True)
    >>> times_of_column(column, named=True).index.astype("datetime64[D]").tolist()
    [datetime.date(2024, 4, 1), datetime.date(2024, 4, 2)]
    """
    kind = column.dtype
    if isinstance(kind, nw.Datetime | nw.Date):
        return _stored_times(column)
    if isinstance(kind, nw.Duration):
        return Times(np.asarray(column.to_pandas().to_numpy()))
    if isinstance(kind, nw.Boolean | nw.Time | nw.Binary) or kind.is_nested() or len(column) == 0:
        return None
    if kind.is_numeric():
        if not named:
            return None
        if time_format is not None:
            return _dated(formatted_dates(_digits(column), time_format, column.name))
        return Times(*times_of_numbers(_numbers(column)))
    return _written_times(column, named=named, time_format=time_format)


def times_of_pair(columns: Sequence[nw.Series[Any]], *, time_format: str | None = None) -> Times | None:
    """Read a column of dates and one of times of day, in either order, as one; None where they are not that.

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"Date": ["01.04.2024", "01.04.2024"], "Time": ["9:00", "10:00"]}))
    >>> times_of_pair([frame["Time"], frame["Date"]]).index.astype("datetime64[m]").astype(str).tolist()
    ['2024-04-01T09:00', '2024-04-01T10:00']
    """
    import pandas as pd

    cells = [column.to_list() for column in columns]
    clocks = next((values for values in cells if values and all(map(_is_clock, values))), None)
    days = next((values for values in cells if values and all(map(_is_day, values))), None)
    if clocks is None or days is None:
        return None
    texts = [f"{_day_text(day)} {clock}" for day, clock in zip(days, clocks, strict=True)]
    if not _is_unicode("".join(texts)):
        return None
    joined = pd.Series(texts, dtype=object)
    if time_format is not None:
        return _dated(formatted_dates(joined, time_format, " and ".join(column.name for column in columns)))
    return _dated(parse_dates(joined))


def _is_clock(value: Any) -> bool:
    return isinstance(value, dt.time) or (isinstance(value, str) and TIME_OF_DAY.match(value) is not None)


def _is_day(value: Any) -> bool:
    return isinstance(value, dt.date) or (isinstance(value, str) and not _is_clock(value) and not value.isdigit())


def _day_text(day: Any) -> str:
    return day.strip() if isinstance(day, str) else day.isoformat()[:10]


def localized(index: NDArray[np.generic], zone: dt.tzinfo | None) -> Any:
    """Return the times with their zone: an array as it is, or a pandas `DatetimeIndex` where there is a zone.

    Examples
    --------
    >>> localized(np.array(["2024-07-01T10:00"], "datetime64[s]"), dt.timezone(dt.timedelta(hours=2)))[0].isoformat()
    '2024-07-01T12:00:00+02:00'
    """
    if zone is None:
        return index
    import pandas as pd

    return pd.DatetimeIndex(index).tz_localize("UTC").tz_convert(zone)


def without_zone(index: Any) -> NDArray[np.generic]:
    """Return times as an array, in UTC where they have a zone."""
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    return index if isinstance(index, np.ndarray) else np.asarray(index.to_numpy())


def zone_name(zone: dt.tzinfo | None) -> str | None:
    """Return the name of a zone, or its offset from UTC where it has none.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> zone_name(ZoneInfo("Europe/Berlin")), zone_name(dt.timezone(-dt.timedelta(hours=3))), zone_name(dt.timezone.utc)
    ('Europe/Berlin', '-03:00', 'UTC')
    """
    if zone is None:
        return None
    named = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if named:
        return str(named)
    offset = zone.utcoffset(None)
    if offset is None:
        return str(zone)
    if not offset:
        return "UTC"
    sign, minutes = "-" if offset < dt.timedelta(0) else "+", round(abs(offset).total_seconds() / 60)
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"


def _stored_times(column: nw.Series[Any]) -> Times:
    """Read a column whose type says that it holds times."""
    values = column.to_pandas()
    zone = getattr(column.dtype, "time_zone", None)
    if zone is None:
        return Times(np.asarray(values.to_numpy()))
    if values.dt.tz is None:  # pyarrow's times lose their zone on the way, and are in UTC
        values = values.dt.tz_localize("UTC").dt.tz_convert(zone)
    return Times(without_zone(values.dt.tz_convert("UTC").dt.tz_localize(None)), values.dt.tz)


def _written_times(column: nw.Series[Any], *, named: bool, time_format: str | None) -> Times | None:
    """Read a column of text, of objects, or of categories."""
    import pandas as pd

    values = pd.Series(column.to_list(), dtype=object)
    values = values.where(values.notna(), None)
    known = values[values.notna()]
    if len(known) == 0:
        return None
    first = known.iloc[0]
    if isinstance(first, dt.date):
        return _dated(parse_dates(values))
    if not isinstance(first, str) or not known.map(type).eq(str).all() or not _is_unicode("".join(known)):
        return None
    if time_format is not None:
        return _dated(formatted_dates(values, time_format, column.name)) if named else None
    if not any(letter.isdigit() for letter in first):
        return None
    if first.replace(".", "", 1).replace("-", "", 1).isdigit():
        numbers = pd.to_numeric(known, errors="coerce")
        if not named or numbers.isna().any():
            return None
        exact = numbers.to_numpy() if len(known) == len(values) else numbers.reindex(values.index).to_numpy()
        return Times(*times_of_numbers(exact))
    return _dated(parse_dates(values))


def _is_unicode(text: str) -> bool:
    """Return whether libraries that store UTF-8 can hold a text: half of a surrogate pair they cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dated(found: Dates | None) -> Times | None:
    return None if found is None else Times(without_zone(found.moments), found.moments.tz, found.notes)


def _numbers(column: nw.Series[Any]) -> NDArray[Any]:
    """Return the numbers of a column, integers as such where none is missing: floats are too coarse for nanoseconds."""
    if column.dtype.is_integer() and column.null_count() == 0:
        return np.asarray(column.to_numpy())
    return np.asarray(numeric_column(column))


def _digits(column: nw.Series[Any]) -> Any:
    """Return numbers as text, as they stood in the file: whole ones without a decimal point."""
    import pandas as pd

    if not column.dtype.is_integer():
        numbers = _numbers(column)
        whole = np.isnan(numbers) | (np.isfinite(numbers) & (numbers == np.round(numbers)))
        if not whole.all():
            raise InputError(f"column {column.name!r} holds fractions, which fit no time format; leave the format out")
        return pd.Series([None if np.isnan(number) else str(int(number)) for number in numbers], dtype=object)
    return pd.Series([None if number is None else str(number) for number in column.to_list()], dtype=object)

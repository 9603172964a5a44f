"""Dates as text: ISO 8601, a given format, or days and months in an order that the whole column decides."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchad.errors import InputError

DAY_MONTH_YEAR = re.compile(r"\s*(\d{1,2}([/.-])\d{1,2}\2(?:\d{4}|\d{2}))(?!\d)\s*[,T]?\s*(.*)")
"""Two numbers that are day and month in either order and the year; and what follows them."""
TIME_OF_DAY = re.compile(r"\s*\d{1,2}:\d\d")
OFFSET = r"(?:[zZ]|[+-]\d\d:?(?:\d\d)?)\s*$"
"""A time's offset from UTC, at its end."""
LONG_STEPS = 10
"""A step over this many median ones is a gap, when readings of a column are compared."""
LAST_SHORT_YEAR = 68
"""Of two digits, the last year that is after 2000."""


@dataclass(frozen=True, slots=True, eq=False)
class Dates:
    """What a column of dates says."""

    moments: Any
    """(time,), a pandas `DatetimeIndex`, with the zone of the data."""
    notes: tuple[str, ...] = ()
    """What had to be decided to read them, for people."""


def parse_dates(values: Any) -> Dates | None:
    """Read a pandas column of text or of date objects; None where it does not hold dates.

    Examples
    --------
    >>> import pandas as pd
    >>> found = parse_dates(pd.Series(["01/04/2024 10:00+02:00", "13/04/2024 10:00+02:00"]))
    >>> found.moments[0].isoformat(), found.notes
    ('2024-04-01T10:00:00+02:00', ())
    """
    first = str(values[values.first_valid_index()])
    if TIME_OF_DAY.match(first):
        return None  # pandas would add today's date
    if DAY_MONTH_YEAR.fullmatch(first):
        return _day_and_month(values)
    return _read(values, "ISO8601") or _read(values)


def formatted_dates(values: Any, time_format: str, name: str) -> Dates:
    """Read a pandas column of text in a format as for `strptime`; refuse what does not fit."""
    texts = values.astype("string").str.strip()
    if texts.dropna().str.fullmatch(r"\d+").all():  # leading zeros do not survive where a file's numbers are parsed
        texts = texts.str.zfill(len(time_format.replace("%Y", "2024").replace("%j", "001")))  # others have two digits
    found = _read(texts, time_format)
    if found is not None:
        return found
    row = _first_misfit(texts, time_format)
    raise InputError(
        f"column {name!r} has {values.iloc[row]!r} in row {row}, which is not of the time format {time_format!r}; "
        "give the format of the whole column, as in '%d/%m/%Y %H:%M'"
    )


def _first_misfit(texts: Any, time_format: str) -> int:
    import pandas as pd

    try:
        found = pd.to_datetime(texts, format=time_format, utc=True, errors="coerce")
    except (ValueError, TypeError, KeyError, re.error):
        return 0  # the format itself is wrong, so that no row fits
    return int(np.argmax(found.isna().to_numpy() & texts.notna().to_numpy()))


def _read(values: Any, time_format: str | None = None) -> Dates | None:
    """Read dates in one format (None: that of the first); several offsets from UTC become UTC."""
    moments = _parsed(values, time_format, utc=False)
    if moments is not None:
        return Dates(moments)
    moments = _parsed(values, time_format, utc=True)
    if moments is None:
        return None
    texts = values.astype("string")
    bare = texts.notna() & ~texts.str.contains(OFFSET, regex=True, na=True)
    if bare.any():
        row = int(np.argmax(bare.to_numpy()))
        raise InputError(
            f"some times have an offset from UTC and some have none, as {values.iloc[row]!r} in row {row}; "
            "give all of them one, or none"
        )
    offsets = texts.dropna().str.extract(f"({OFFSET})")[0].str.strip().unique()
    shown = ", ".join(sorted(map(str, offsets))[:4])
    return Dates(moments, (f"the times have several offsets from UTC ({shown}), and come out in UTC",))


def _parsed(values: Any, time_format: str | None, *, utc: bool) -> Any:
    import pandas as pd

    settings = {} if time_format is None else {"format": time_format}
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = pd.DatetimeIndex(pd.to_datetime(values, utc=utc, **settings))
    except (ValueError, TypeError, OverflowError, KeyError, re.error):
        return None
    if any("Could not infer format" in str(warning.message) for warning in said):
        return None  # pandas read each word by itself, and takes "may" for a month
    return found


# -- day and month -----------------------------------------------------------------------------------------------------


def _day_and_month(values: Any) -> Dates | None:
    """Read dates of two numbers and a year, in the order that the whole column decides.

    A number over 12 is a day. Else the order counts in which times go back less often, and then have fewer gaps.
    Where both are alike the dates are ambiguous: the order with steadier steps is taken, or else the month first,
    and a note says so. With dots the day is first.
    """
    import pandas as pd

    known = values.dropna()
    found = [DAY_MONTH_YEAR.fullmatch(text) for text in known]
    if not all(found):
        return None
    which, days = pd.factorize(np.array([match[1] for match in found if match], dtype=object))
    clocks = [match[3] for match in found if match]
    parts = [re.split("[/.-]", day) for day in days]
    readings: dict[str, Dates] = {}
    for order, day in (("day/month/year", 0), ("month/day/year", 1)):
        written = np.array([_iso(part[2], part[1 - day], part[day]) for part in parts], dtype=object)[which]
        texts = pd.Series(
            [f"{date} {clock}".rstrip() for date, clock in zip(written, clocks, strict=True)], known.index
        )
        read = None if any(int(part[1 - day]) > 12 for part in parts) else _dates(texts.reindex(values.index))
        if read is not None:
            readings[order] = read
    if len(readings) < 2 or "." in days[0]:
        return next(iter(readings.values()), None)
    return _likelier(readings, known.iloc[0], alike=all(int(part[0]) == int(part[1]) for part in parts))


def _likelier(readings: dict[str, Dates], example: str, *, alike: bool) -> Dates:
    """Choose between two readings of a column, and note it where that is a guess."""
    rank = {order: _disorder(found.moments) for order, found in readings.items()}
    order = min(reversed(rank), key=lambda one: rank[one])  # the month first where both are alike
    chosen = readings[order]
    if alike or len({disorder[:2] for disorder in rank.values()}) > 1:
        return chosen
    note = (
        f"dates such as {example!r} can be read in two ways, and were read as {order}; "
        "--time-format (time_format=) decides, as in '%d/%m/%Y %H:%M'"
    )
    return Dates(chosen.moments, (*chosen.notes, note))


def _dates(texts: Any) -> Dates | None:
    return _read(texts, "ISO8601") or _read(texts) or _read(texts, "mixed")


def _iso(year: str, month: str, day: str) -> str:
    century = "" if len(year) == 4 else "20" if int(year) <= LAST_SHORT_YEAR else "19"
    return f"{century}{year}-{month:0>2}-{day:0>2}"


def _disorder(moments: Any) -> tuple[int, int, int]:
    """Return how often times go back, how many gaps they have, and how many steps are unlike the usual one."""
    times = moments[moments.notna()].asi8
    steps = np.diff(np.sort(times))
    steps = steps[steps > 0]
    if len(steps) == 0:
        return 0, 0, 0
    usual = float(np.median(steps))
    backward, gaps = np.sum(np.diff(times) < 0), np.sum(steps > LONG_STEPS * usual)
    return int(backward), int(gaps), int(np.sum(np.abs(steps - usual) > 0.01 * usual))

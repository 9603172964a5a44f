"""Numbers that are times: seconds to nanoseconds since 1970, compact dates, and the day numbers of Excel."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
from numpy.typing import NDArray

EARLIEST, LATEST = 315_532_800, 4_102_444_800
"""Seconds since 1970 of 1980 and of 2100: times that data may have."""
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of epoch times; a column between 1980 and 2100 fits one of them at most."""
COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Dates written as one number, by their digits."""
EXCEL_DAYS = (32_874, 73_050)
"""Day numbers of 1990 and 2099 in Excel, which counts from 1899-12-30."""


def times_of_numbers(numbers: NDArray[Any]) -> tuple[NDArray[np.generic], dt.tzinfo | None, tuple[str, ...]]:
    """Read `(time,)` numbers as what they are likely to be: times since 1970, compact or Excel dates, or just numbers.

    Returns
    -------
    The times, their zone (UTC for those since 1970), and what people should know of how they were read.

    Examples
    --------
    >>> times_of_numbers(np.array([1_711_929_600_000, 1_711_929_660_000]))[0].astype(str).tolist()
    ['2024-04-01T00:00:00.000', '2024-04-01T00:01:00.000']
    >>> times_of_numbers(np.array([0.0, 0.5]))[0].tolist()
    [0.0, 0.5]
    """
    known = numbers[np.isfinite(numbers)]
    if len(known) == 0:
        return numbers, None, ()
    least, most = known.min(), known.max()
    for unit, factor in UNITS.items():
        if EARLIEST * factor <= least and most <= LATEST * factor:
            return _since_1970(numbers, unit), dt.UTC, ()
    compact = _compact(numbers, known)
    if compact is not None:
        return compact, None, ()
    if _is_excel(known):
        days = np.round(numbers * 86_400_000)
        note = (
            "the times are numbers that were read as dates of Excel (days since 1899-12-30); "
            "if they count something else, leave the column out"
        )
        return _stamped(days, "ms") + (np.datetime64("1899-12-30") - np.datetime64("1970-01-01")), None, (note,)
    return numbers, None, ()


def _since_1970(numbers: NDArray[Any], unit: str) -> NDArray[np.datetime64]:
    if numbers.dtype.kind in "iu":
        return _stamped(numbers, unit)
    # A float is exact to a fraction of a microsecond: what lies below is rounding.
    return _stamped(np.round(numbers * UNITS["us"] / UNITS[unit]), "us")


def _stamped(numbers: NDArray[Any], unit: str) -> NDArray[np.datetime64]:
    """Return whole numbers as times, NaT where one is missing."""
    if numbers.dtype.kind in "iu":
        return numbers.astype(np.int64).astype(f"datetime64[{unit}]")
    missing = ~np.isfinite(numbers)
    stamps = np.where(missing, 0, numbers).astype(np.int64).astype(f"datetime64[{unit}]")
    stamps[missing] = np.datetime64("NaT")
    return stamps


def _compact(numbers: NDArray[Any], known: NDArray[Any]) -> NDArray[np.datetime64] | None:
    """Read numbers such as 20240401; None where one of them is no date."""
    import pandas as pd

    digits = len(str(int(known.max())))
    if digits not in COMPACT or known.min() < 1980 * 10 ** (digits - 4) or (known != np.round(known)).any():
        return None
    texts = [str(int(number)) if np.isfinite(number) else None for number in numbers]
    found = pd.to_datetime(pd.Series(texts, dtype=object), format=COMPACT[digits], errors="coerce")
    return np.asarray(found.to_numpy()) if found.notna().sum() == len(known) else None


def _is_excel(known: NDArray[Any]) -> bool:
    """Return whether numbers are days of Excel: in its range, whole seconds apart, and no round decimals.

    A step of a minute is 0.000694 days; seconds that were counted from somewhere have steps such as 1 or 0.1.
    """
    if len(known) < 2 or known.min() < EXCEL_DAYS[0] or known.max() > EXCEL_DAYS[1]:
        return False
    step = abs(float(np.median(np.diff(known))))
    seconds = step * 86_400
    return seconds > 0.5 and abs(seconds - round(seconds)) < 0.05 and abs(step * 1e3 - round(step * 1e3)) > 1e-4

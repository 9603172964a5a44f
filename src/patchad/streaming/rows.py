"""Rows and times as they come from outside, as arrays."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.series import match_channels
from patchad.data.table import FloatArray
from patchad.errors import InputError, listed, reason_of
from patchad.streaming.plan import Plan

PLAIN = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?")
"""Texts of times that need no search for their form."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as arrays."""

    values: FloatArray
    """(time, channel)."""
    index: NDArray[Any] | None = None
    """(time,), the times, in UTC where there is a zone."""
    zone: dt.tzinfo | None = None


def read_rows(rows: Any, plan: Plan) -> Rows:
    """Read rows from an array, a frame, or a list of rows."""
    channels = plan.channels
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        one = len(channels) == 1
        read = [read_row(row, plan) for row in rows] if not one or _are_rows(rows) else [[row] for row in rows]
        return Rows(np.array(read, dtype=np.float64).reshape(len(read), len(channels)))
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1] == len(channels) and rows.dtype.kind in "fiub":
        return Rows(rows.astype(np.float64))
    table = plan.read(rows)
    matched = match_channels(
        table, channels, named=table.channels is not None, columns=plan.fit_columns, detector="this stream"
    )
    return Rows(matched.values.astype(np.float64), table.index, table.zone)


def _are_rows(rows: Sequence[Any]) -> bool:
    return any(isinstance(row, Mapping | Sequence) or np.ndim(row) > 0 for row in rows)


def read_row(row: Any, plan: Plan) -> FloatArray:
    """Read one row: values in the order of the channels, or of all columns of the fit, or a mapping by names.

    A name left out is missing.
    """
    channels = plan.channels
    row = _by_name(row, plan)
    if isinstance(row, np.ndarray) and row.dtype == np.float64 and row.shape == (len(channels),):
        return row.copy()
    if isinstance(row, Mapping) and any(isinstance(value, str) for value in row.values()):
        row = _with_states(row, plan)
    if isinstance(row, Mapping):
        known = [name for name in channels if name in row]
        if row and not known:
            raise InputError(
                f"no channel of the fit is in the row; it has {listed(list(row))}, and {listed(channels)} are known"
            )
        row = [row.get(name) for name in channels]
    values: FloatArray
    try:
        values = np.atleast_1d(np.asarray([np.nan if one is None else one for one in row], dtype=np.float64))
    except TypeError:
        values = _number(row)
    except ValueError as error:
        raise InputError(f"a row holds something that is not a number ({error}); pass numbers, or None") from None
    if values.shape == (len(plan.fit_columns),) != (len(channels),):
        values = values[[plan.fit_columns.index(name) for name in channels]]
    if values.shape != (len(channels),):
        raise InputError(
            f"a row has {values.size} values of shape {values.shape}, {len(channels)} are needed ({listed(channels)}); "
            "pass one for each channel in this order, or a mapping by name"
        )
    return values


def _by_name(row: Any, plan: Plan) -> Any:
    """Return a row of a frame, a pandas Series under the names of columns, as a mapping; others as they are."""
    names = getattr(row, "index", None)
    if names is None or callable(names) or not plan.columns or not any(name in plan.columns for name in names):
        return row
    return dict(zip(names, row, strict=True))


def _with_states(row: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Return a row with a switch for each state of a column of text."""
    import pandas as pd

    known = {name: value for name, value in row.items() if name in plan.columns}
    table = plan.read(pd.DataFrame([known])) if known else None
    if table is None or table.channels is None:
        return dict(row)
    return dict(zip(table.channels, table.values[0].tolist(), strict=True))


def _number(row: Any) -> FloatArray:
    try:
        return np.array([float(row)])
    except (TypeError, ValueError):
        raise InputError(f"a row is {row!r}, numbers are needed; pass an array, a list, or a mapping by name") from None


def read_times(times: Any, before: Any, *, seen: bool) -> tuple[NDArray[Any] | None, dt.tzinfo | None]:
    """Read times of rows: datetimes, ISO 8601 texts, or numbers; of the kind of the time before, where there is one.

    Returns
    -------
    The times, in UTC where they have a zone, and the zone of the first.

    Examples
    --------
    >>> times, zone = read_times(["2026-01-01T00:00+01:00"], None, seen=False)
    >>> times.astype("datetime64[m]").tolist(), str(zone)
    ([datetime.datetime(2025, 12, 31, 23, 0)], 'UTC+01:00')
    """
    if times is None:
        if before is not None:
            raise InputError("a row has no time, and those before it had; pass the time of every row, or of none")
        return None, None
    if before is None and seen:
        raise InputError("a row has a time, and those before it had none; pass the time of every row, or of none")
    found, zone = _as_times(times)
    if before is not None and (found.dtype.kind in "mM") != (np.asarray(before).dtype.kind in "mM"):
        raise InputError(f"time {times[0]!r} is of another kind than the one before, {before}; pass one kind of times")
    return found, zone


def _as_times(times: Any) -> tuple[NDArray[Any], dt.tzinfo | None]:
    one = _plain_moment(times[0]) if isinstance(times, list) and len(times) == 1 else None
    if one is not None:
        return one
    found = np.asarray(times) if getattr(times, "tz", None) is None else np.empty(0, dtype=object)
    if found.dtype.kind in "mM":
        return found, None
    if found.dtype.kind in "iuf":
        return found.astype(np.float64), None
    import pandas as pd

    if all(isinstance(time, dt.timedelta | np.timedelta64) for time in times):
        return np.asarray(pd.to_timedelta(list(times)).to_numpy()), None
    try:
        moments = pd.to_datetime(list(times), utc=True, format="ISO8601").tz_localize(None)
        return np.asarray(moments.to_numpy()), pd.Timestamp(times[0]).tzinfo
    except (ValueError, TypeError) as error:
        reason = reason_of(error).partition(" You might want")[0].rstrip(".")  # to pass arguments that nobody has here
        raise InputError(f"times cannot be read ({reason}); pass datetimes, ISO 8601 texts, or numbers") from None


def _plain_moment(time: Any) -> tuple[NDArray[Any], dt.tzinfo | None] | None:
    """Read one time of the usual form, tens of times as fast as pandas does; None for any other."""
    try:
        if isinstance(time, str) and PLAIN.fullmatch(time):
            time = dt.datetime.fromisoformat(time)
        elif type(time) is not dt.datetime:
            return None
        zone = time.tzinfo
        plain = time if zone is None else time.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return np.array([plain], dtype="datetime64[us]"), zone

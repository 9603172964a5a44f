"""Bodies: what callers send, read within limits, as tables and rows."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import Request
from starlette.requests import ClientDisconnect

from patchad.data.epochs import times_of_numbers
from patchad.data.inputs import read_table
from patchad.data.table import Table, to_table
from patchad.data.times import localized
from patchad.errors import InputError, listed, reason_of
from patchad.live.rows import Columns, Row, unicode
from patchad.serve.problems import Problem
from patchad.serve.settings import Limits

JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"
SUFFIXES = {CSV: ".csv", PARQUET: ".parquet"}
DRAINED = 4
"""A body that is too large is read to its end, and forgotten, up to so many times the limit: a caller that is still
sending hears no answer."""


async def read_body(request: Request, limits: Limits, most: int | None = None) -> bytes:
    """Read a body of at most so many bytes; whatever its length is said to be."""
    limit = limits.body if most is None else most
    too_large = Problem(
        413,
        f"the body has over {limit:,} bytes, which is the limit; send less at once",
        headers={"Connection": "close"},
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > DRAINED * limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.patience):
            async for part in request.stream():
                size += len(part)
                if size > DRAINED * limit:
                    raise too_large
                if size <= limit:
                    parts.append(part)
                else:
                    parts.clear()
    except TimeoutError:
        raise Problem(
            408, f"the body did not arrive within {limits.patience:g} s; send less", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise Problem(400, "the connection was closed before the body had arrived") from None
    if size > limit:
        raise too_large
    return b"".join(parts)


def media_type(request: Request, *known: str) -> str:
    """Return what a request says that its body is; JSON where it says nothing."""
    given = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if given not in known:
        raise Problem(415, f"the body is {given!r}, which is not known here; send {' or '.join(known)}")
    return given


def read_json(body: bytes, fields: Sequence[str], needed: Sequence[str] = ()) -> dict[str, Any]:
    """Read a JSON object with some of these fields."""
    try:
        found = json.loads(body, parse_constant=_refuse_constant) if body.strip() else {}
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is no JSON ({reason_of(error)}); send an object") from None
    if not isinstance(found, dict):
        raise InputError(f"the body is {_shown(found)}, an object is needed, with {listed(fields)}")
    unknown = [name for name in found if name not in fields]
    if unknown:
        raise InputError(f"the body has {listed(unknown)}, which is unknown; {listed(fields)} are known")
    for name in needed:
        if name not in found:
            raise InputError(f"the body has no {name!r}; send {{{name!r}: ...}}")
    return found


def _refuse_constant(name: str) -> Any:
    raise InputError(f"the body has {name}, which is no JSON; send null for a missing value")


def read_rows(found: Mapping[str, Any], columns: Columns, limits: Limits) -> tuple[list[dict[str, Any]], list[Any]]:
    """Read rows and times of a JSON body: values by column, as a model takes them; no times where there are none."""
    rows, times = found["rows"], found.get("times")
    if not isinstance(rows, list):
        raise InputError(f"'rows' is {_shown(rows)}, a list is needed: [{{channel: number}}, ...]")
    if len(rows) > limits.rows:
        raise Problem(413, f"'rows' has {len(rows):,} rows, {limits.rows:,} is the limit; send less at once")
    if times is not None and (not isinstance(times, list) or len(times) != len(rows)):
        given = len(times) if isinstance(times, list) else _shown(times)
        raise InputError(f"'times' is {given}, a list of {len(rows)} is needed, one for each row")
    for number, time in enumerate(times or []):
        if isinstance(time, bool) or not isinstance(time, str | int | float):
            raise InputError(f"time {number} is {_shown(time)}; an ISO 8601 text or a number is needed for every row")
    return [_row(row, number, columns, limits) for number, row in enumerate(rows)], times or []


def _row(row: Any, number: int, columns: Columns, limits: Limits) -> dict[str, Any]:
    if isinstance(row, list):
        if len(row) != len(columns.channels):
            raise InputError(
                f"row {number} has {len(row)} values, {len(columns.channels)} are needed ({listed(columns.channels)})"
            )
        row = dict(zip(columns.channels, row, strict=True))
    if not isinstance(row, dict):
        raise InputError(f"row {number} is {_shown(row)}, an object is needed: {{channel: number}}")
    if len(row) > limits.channels:
        raise Problem(413, f"row {number} has {len(row):,} values, {limits.channels:,} is the limit")
    if not columns.named and not set(row) & set(columns.channels) and len(row) == len(columns.channels):
        row = dict(zip(columns.channels, row.values(), strict=True))  # by place, as in a file
    try:
        return {name: columns.checked(name, value) for name, value in row.items()}
    except InputError as error:
        raise InputError(f"row {number}: {error}") from None


def timed_rows(key: Any, rows: Sequence[dict[str, Any]], times: Sequence[Any], newest: Any) -> list[Row]:
    """Return rows with their times as a stream takes them; numbers are dates where its newest time is one."""
    if not times:
        return [Row(key, None, None, values) for values in rows]
    moments = _moments(times, newest)
    return [Row(key, time, moment, values) for time, moment, values in zip(times, moments, rows, strict=True)]


def _moments(times: Sequence[Any], newest: Any) -> Sequence[Any]:
    if all(isinstance(time, str) for time in times):
        return [unicode(time) for time in times]
    if any(isinstance(time, str) for time in times):
        raise InputError("some times are texts and others numbers; send one kind")
    try:
        numbers = np.array(times, dtype=np.int64 if all(isinstance(time, int) for time in times) else np.float64)
    except OverflowError:
        raise InputError("a time is too large a number") from None
    if not np.isfinite(numbers).all():
        raise InputError("a time is infinite; a finite number is needed")
    index, zone, _ = times_of_numbers(numbers)
    if index.dtype.kind != "M" or isinstance(newest, float):
        return [float(number) for number in numbers]
    return list(localized(index, zone))


def table_of_rows(rows: Sequence[Mapping[str, Any]], times: Sequence[Any], columns: Columns) -> Table:
    """Return rows as the table that `detect` takes."""
    import pandas as pd

    if not rows:
        raise InputError("there are no rows; send at least one")
    names = dict.fromkeys(name for row in rows for name in row)
    known = [name for name in names if name in columns.channels]
    if not known:
        came = f"the rows have {listed(list(names))}" if names else "no row has a value"
        raise InputError(f"{came}, and no channel of the model; send {listed(columns.channels)}")
    cells = {name: [row.get(name) for row in rows] for name in known}
    frame = pd.DataFrame({name: _column(values) for name, values in cells.items()})
    if not times:
        return to_table(frame, only=columns.channels) if columns.named else to_table(frame.to_numpy(dtype=float))
    moments = _moments(times, None)
    name = "time"
    while name in frame:
        name += "_"
    frame.insert(0, name, pd.Series(list(moments)))
    table = to_table(frame, time=name, only=columns.channels if columns.named else ())
    return table if columns.named else _unnamed(table)


def _column(values: list[Any]) -> Any:
    """Return cells as numbers, NaN where missing, or as texts."""
    if any(isinstance(value, str) for value in values):
        return values
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _unnamed(table: Table) -> Table:
    from dataclasses import replace

    return replace(table, channels=None)


def table_of_file(body: bytes, kind: str, columns: Columns, limits: Limits) -> Table:
    """Return a csv or parquet body as a table, read by the rules for files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"body{SUFFIXES[kind]}"
        path.write_bytes(body)
        if kind == PARQUET:
            _check_parquet(path, limits)
        try:
            table = read_table(path, only=columns.channels if columns.named else ())
        except InputError as error:
            raise InputError(str(error).removeprefix(f"{path}: ").replace(str(path), "the body")) from None
    _check_shape(len(table.values), table.values.shape[1], limits)
    return table


def _check_parquet(path: Path, limits: Limits) -> None:
    """Refuse a file that would be too large when it is unpacked."""
    from patchad.data.readers.arrow import parquet_shape

    _check_shape(*parquet_shape(path), limits)


def _check_shape(rows: int, columns: int, limits: Limits) -> None:
    if rows > limits.rows or columns > limits.channels:
        most = f"{limits.rows:,} rows and {limits.channels:,} columns are the limits"
        raise Problem(413, f"the body has {rows:,} rows of {columns:,} columns; {most}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

"""JSON lines: a JSON object for each row, flat or with its values apart, as `patchad watch` takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchad.data.ordering import MOST_CELLS
from patchad.data.readers.text import read_text
from patchad.errors import InputError, reason_of

LONGEST_LINE = 2**24
"""Bytes of one row."""


def read_json_lines(path: Path) -> Any:
    """Read a file of one JSON object a line, `{"a": 1, ...}` or `{"time": ..., "values": {"a": 1, ...}}`."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for number, line in enumerate(read_text(path).split(b"\n"), start=1):
        if line.strip():
            row = _row(line, number)
            rows.append(row)
            names.update(dict.fromkeys(row))
            if len(names) * len(rows) > MOST_CELLS and len(names) > 100 * len(row):
                raise InputError(
                    f"line {number}: every row has other names, {len(names):,} so far; the same channels are needed"
                )
    if not rows:
        raise InputError("the file is empty; a JSON object a line is needed")
    return pd.DataFrame({name: [row.get(name) for row in rows] for name in names})


def _row(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise InputError(f"line {number} is over {LONGEST_LINE:,} bytes long; a JSON object a line is needed")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} is no JSON ({reason_of(error)}); a JSON object a line is needed") from None
    if not isinstance(row, dict):
        raise InputError(f"line {number} is no JSON object; write a row as {{'time': ..., 'flow': 1.5}}")
    values = row.get("values")
    if isinstance(values, dict):
        row = {name: value for name, value in row.items() if name != "values"} | values
    odd = next((name for name, value in row.items() if isinstance(value, dict | list)), None)
    if odd is not None:
        raise InputError(
            f"line {number}: {odd!r} is a list or an object; write values as {{'values': {{'flow': 1.5}}}}"
        )
    return {name: _number(value) for name, value in row.items()}


def _number(value: Any) -> Any:
    """Give integers that no float64 holds as infinite, which is refused where values are checked."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return float(value) if abs(value) < 2**1023 else float("inf")
    return value

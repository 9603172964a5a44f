"""Lines that `patchad watch` may be sent, and states that it may be told to go on from."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.tables import CELLS, HEADERS, TIMES

KEYS: tuple[Any, ...] = (
    "pump", "", 7, -1, 2**70, True, None, 1.5, [], {}, "\x1b[2J", "\ud800", "\u202eab", "k" * 5000, "=1+1", "\x00",
    "🙂",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, "x", "1.5", "", [], {}, [1], {"a": 1}, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-320, 10**400,
    2**63, -0.0, 1e18, "\ud800", "\x1b[2J",
)  # fmt: skip
MOMENTS: tuple[Any, ...] = (
    *TIMES, None, True, [], {}, 0, -1, 1, 1.5, 1e18, -1e300, 10**400, 1704067200, 1704067200000, 1704067200000000000,
    math.nan, math.inf, "\ud800", "2024-03-30T00:05:00", "2024-03-30T00:05:00+02:00", "2500-01-01T00:00",
)  # fmt: skip
LINES = (
    "", " ", "{", "}", "{}", "[]", "null", "1", '"x"', "NaN", '{"values": 1}', '{"values": {}}', '{"a": 1e999}',
    '{"values": {"a": {}}}', '{"a": 1, "a": 2}', '{"time": {"a": 1}}', '{"\\ud800": 1}', "[" * 100_000, '{"a":' * 5000,
    '{"a": ' + "9" * 5000 + "}", "\x00", "\ufeff{}", "a,b,c", "time,a,b,c", "1,2,3", "1;2;3", '"', ",,,", "# note",
    "x" * 70_000,
)  # fmt: skip


def usual_lines(rng: random.Random, channels: tuple[str, ...], rows: int) -> bytes:
    """Return rows as they should come."""
    return "\n".join(json.dumps(_usual(number, rng, channels)) for number in range(rows)).encode()


def hostile_lines(rng: random.Random, channels: tuple[str, ...]) -> tuple[bytes, str]:
    """Return what comes on standard input, and what is wrong with it."""
    usual = [_usual(number, rng, channels) for number in range(rng.choice([0, 1, 5, 20, 20, 40]))]
    if rng.random() < 0.55:
        what = [rng.choice(ROW_CHANGES)(rng, usual) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        nested = rng.random() < 0.3
        lines = [json.dumps(_nested(row, channels) if nested else row) for row in usual]
        what.append("json")
    else:
        lines, what = _csv_lines(rng, usual, channels)
    for _ in range(rng.choice([0, 0, 1, 3])):
        line = rng.choice([*LINES, rng.choice(CELLS)])
        lines.insert(rng.randrange(len(lines) + 1), line)
        what.append(f"line {line[:20]!r}")
    ending = rng.choice(["\n", "\n", "\r\n", "\n\n", "\r"])
    content = (ending.join(lines) + rng.choice(["", ending])).encode(
        rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16"]), "replace"
    )
    if content and rng.random() < 0.1:
        place = rng.randrange(len(content))
        content, how = rng.choice(
            [(content[:place], "cut"), (content[:place] + rng.randbytes(9) + content[place:], "random bytes")]
        )
        what.append(how)
    return content, ", ".join(what)


def _usual(number: int, rng: random.Random, channels: tuple[str, ...]) -> dict[str, Any]:
    values = {name: math.sin(number / 4 + i) + rng.gauss(0, 0.1) for i, name in enumerate(channels)}
    return {"time": f"2024-03-30T{number // 60:02}:{number % 60:02}:00"} | values


def _nested(row: dict[str, Any], channels: tuple[str, ...]) -> dict[str, Any]:
    around = {name: value for name, value in row.items() if name not in channels}
    return around | {"values": {name: row[name] for name in channels if name in row}}


def _csv_lines(
    rng: random.Random, rows: list[dict[str, Any]], channels: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    grid = [["time", *channels], *([str(value) for value in row.values()] for row in rows)]
    what = ["csv"]
    for _ in range(rng.choice([0, 1, 1, 2])):
        row = rng.choice([grid[0], rng.choice(grid), rng.choice(grid)])
        cell = rng.choice(HEADERS if row is grid[0] else [*CELLS, *TIMES])
        row[rng.randrange(len(row))] = cell
        what.append(f"cell {cell[:20]!r}")
    if rng.random() < 0.1:
        rng.choice(grid).append("1")
        what.append("ragged")
    separator = rng.choice([",", ",", ";", "\t", "|", " "])
    return [separator.join(row) for row in grid], what


# -- rows --------------------------------------------------------------------------------------------------------------


def _odd_value(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    value = rng.choice(VALUES)
    for row in rng.choices(rows, k=rng.choice([1, 1, 3, 30])) if rows else []:
        row[rng.choice("abc")] = value
    return f"value {str(value)[:20]!r}"


def _odd_time(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    moment = rng.choice(MOMENTS)
    for row in rng.choices(rows, k=rng.choice([1, 1, 30])) if rows else []:
        row["time"] = moment
    return f"time {str(moment)[:20]!r}"


def _number_times(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    start, step = rng.choice([0, 1704067200, -5, 1e17, 2**63]), rng.choice([1, 60, -1, 0, 0.1])
    for number, row in enumerate(rows):
        row["time"] = start + number * step
    return f"times from {start} by {step}"


def _shuffled(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    rng.shuffle(rows)
    return "shuffled"


def _keyed(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    keys = rng.choices(KEYS, k=2)
    for row in rows:
        row["key"] = rng.choice(keys)
    return f"keys {str(keys)[:40]!r}"


def _renamed(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    before, after = rng.choice(["a", "time", "b"]), rng.choice([*HEADERS, "values", "key", "\ud800"])
    for row in rows:
        if before in row:
            row[after] = row.pop(before)
    return f"{before} named {after[:20]!r}"


def _without(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    name = rng.choice(["a", "time", "c"])
    for row in rows[rng.choice([0, 3]) :]:
        row.pop(name, None)
    return f"no {name}"


ROW_CHANGES: tuple[Callable[[random.Random, list[dict[str, Any]]], str], ...] = (
    _odd_value, _odd_value, _odd_time, _odd_time, _number_times, _shuffled, _keyed, _renamed, _without,
)  # fmt: skip


# -- states ------------------------------------------------------------------------------------------------------------


def hostile_state(rng: random.Random, good: Path, path: Path) -> str:
    """Write a state that was damaged, or is none; return what is wrong with it."""
    how = rng.choice(["good", "good", "bytes", "cut", "bits", "empty", "other", "cells", "cells", "cells", "folder"])
    content = good.read_bytes()
    if how == "folder":
        path.mkdir()
    elif how == "other":
        with sqlite3.connect(path) as other:
            other.execute("create table rows (a)")
        other.close()
    elif how == "cells":
        path.write_bytes(content)
        return _odd_cell(rng, path)
    else:
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 10, 200]) if how == "bits" else 0):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        made = {"bytes": rng.randbytes(300), "cut": content[: rng.randrange(len(content))], "empty": b""}
        path.write_bytes(made.get(how, bytes(damaged)))
    return f"state: {how}"


def _odd_cell(rng: random.Random, path: Path) -> str:
    """Change a column of a table of the state."""
    with sqlite3.connect(path) as state:
        tables = [name for (name,) in state.execute("select name from sqlite_master where type = 'table' order by 1")]
        table = rng.choice([name for name in tables if not name.startswith("sqlite_")])
        column = rng.choice([row[1] for row in state.execute(f'pragma table_info("{table}")')])
        cell = rng.choice([None, "", "x", b"x", -1, 2**62, 1e300, "[" * 3000, "null", "{}", "[]", '{"a": NaN}'])
        try:
            state.execute(f'update "{table}" set "{column}" = ?', (cell,))
        except sqlite3.Error:
            return "state: good"
    state.close()
    return f"state: {table}.{column} = {str(cell)[:10]!r}"

"""Data files as nobody should write them, and as people do: every format, every horror, each by chance."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CELLS = (
    "", " ", "nan", "NaN", "NULL", "None", "inf", "-inf", "1e308", "-1.7e308", "1e400", "9" * 400, "0x1F",
    "1_000", "1,5",
    "1 000", "1.234,5", "true", "FALSE", "ON", "off", "on fire", "=1+1", "@SUM(A1)", "\x00", "\x1b[2J",
    "\u202eabc", "🙂",
    "3.5%", "2024-01-01", "12:30", "00:00", "1e-320", "-0", "٣", "½", "1;2", '"', '""', "'", "#DIV/0!", "#N/A",
    "\ufeff1",
    "18446744073709551616", "9007199254740993", "--", ".", "e", "1e", "a" * 5000,
)  # fmt: skip
HEADERS = (
    "", " ", "a", "time", "Time", "date", "timestamp", "label", "score", "\x1b[31m", "\u202epump", "=cmd()",
    "x" * 3000,
    "a,b", 'a"b', "a\nb", "🙂", "1", "-1.5", "nan", "Unnamed: 0", "index", "\x00", "Höhe", "__class__",
    "{{7*7}}", "<b>",
)  # fmt: skip
TIMES = (
    "2024-01-01 00:00", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00", "01/04/2024", "13/04/2024", "04/13/2024",
    "1.4.2024 12:00", "31.12.9999", "0001-01-01", "1600-01-01", "2262-04-12", "20240101", "1704067200",
    "1704067200000",
    "1704067200000000000", "-1", "0", "1e400", "NaT", "", "yesterday", "24:00", "2024-02-30", "2024-03-31 02:30",
    "2024-W01-1", "1 Jan 2024", "\u0662\u0660\u0662\u0664-01-01", "45292.5", "99999999999999999999",
)  # fmt: skip


def hostile_table(rng: random.Random, folder: Path, model_channels: tuple[str, ...]) -> tuple[Path, str]:
    """Write one data file into a folder; return it and what is wrong with it."""
    kind = rng.choices(list(WRITERS), [weight for weight, _ in WRITERS.values()])[0]
    name = rng.choice(["data", "data", "data", "a b", "=1+1", "\x1b[2J", "ü", "-o"])
    path = folder / f"{name}.{kind.split()[0]}"
    content, what = WRITERS[kind][1](rng, _frame(rng, model_channels))
    if rng.random() < 0.15:
        content, how = _damaged(rng, content)
        what = f"{what}, {how}"
    path.write_bytes(content)
    return path, f"{path.name}: {what}"


def _frame(rng: random.Random, channels: tuple[str, ...]) -> pd.DataFrame:
    """Return a usual table: waves with an odd place, often with times."""
    rows = rng.choice([0, 1, 2, 11, 12, 13, 31, 32, 40, 60, 60, 60, 100])
    source = np.random.default_rng(rng.randrange(2**32))
    values = np.sin(np.arange(rows)[:, None] / 4 + np.arange(len(channels))) + 0.1 * source.standard_normal(
        (rows, len(channels))
    )
    if rows > 30:
        values[25:28, rng.randrange(len(channels))] += rng.choice([5, -5, 1e6, 1e18, 1e300])
    frame = pd.DataFrame(values, columns=list(channels))
    if rng.random() < 0.6:
        step = rng.choice(["1s", "1min", "1h", "1D", "17ms"])
        zone = rng.choice([None, None, "UTC", "Europe/Berlin", "America/New_York"])
        frame.insert(0, "time", pd.date_range("2024-03-30", periods=rows, freq=step, tz=zone))
    return frame


# -- text --------------------------------------------------------------------------------------------------------------


def _csv(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    grid = [list(map(str, frame.columns)), *frame.astype(str).to_numpy().tolist()]
    what = [rng.choice(TEXT_CHANGES)(rng, grid) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    separator = rng.choice([",", ",", ",", ";", "\t", "|", " "])
    ending = rng.choice(["\n", "\n", "\r\n", "\r", "\n\n"])
    quoted = rng.random() < 0.2
    lines = (separator.join(f'"{cell}"' if quoted else cell for cell in row) for row in grid)
    text = ending.join(lines) + rng.choice(["", ending, ending * 3, "\x1a", "# end"])
    encoding = rng.choice(
        ["utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252"]
    )
    return text.encode(encoding, "replace"), ", ".join([*what, repr(separator), encoding])


def _cells(rng: random.Random, grid: list[list[str]]) -> str:
    cell = rng.choice(CELLS)
    for _ in range(rng.choice([1, 1, 3, 50])):
        row = rng.choice(grid or [[]])
        if row:
            row[rng.randrange(len(row))] = cell
    return f"cell {cell[:20]!r}"


def _column(rng: random.Random, grid: list[list[str]]) -> str:
    column, cell = rng.randrange(8), rng.choice(CELLS)
    for row in grid[rng.choice([0, 1, 20]) :]:
        row[column : column + 1] = [cell]
    return f"column of {cell[:20]!r}"


def _headers(rng: random.Random, grid: list[list[str]]) -> str:
    grid[:1] = [[rng.choice([name, name, rng.choice(HEADERS)]) for name in row] for row in grid[:1]]
    return f"headers {grid[:1]!r}"[:100]


def _no_header(_: random.Random, grid: list[list[str]]) -> str:
    del grid[:1]
    return "no header"


def _times(rng: random.Random, grid: list[list[str]]) -> str:
    time = rng.choice(TIMES)
    for number, row in enumerate(grid):
        row[:0] = ["time" if number == 0 else time if rng.random() < 0.5 else rng.choice(TIMES)]
    return f"times like {time!r}"


def _odd_times(rng: random.Random, grid: list[list[str]]) -> str:
    how = rng.choice(["reversed", "repeated", "shuffled"])
    body = grid[1:]
    if how == "reversed":
        body.reverse()
    elif how == "shuffled":
        rng.shuffle(body)
    else:
        body = [row for row in body for _ in range(2)]
    grid[1:] = body
    return f"rows {how}"


def _numbers_as_times(rng: random.Random, grid: list[list[str]]) -> str:
    unit, start = rng.choice([1, 1000, 10**6, 10**9, 0.001]), rng.choice([0, 1704067200, -62135596800, 10**14])
    for number, row in enumerate(grid):
        row[:0] = ["timestamp" if number == 0 else str((start + number) * unit)]
    return f"epochs times {unit} from {start}"


def _ragged(rng: random.Random, grid: list[list[str]]) -> str:
    row = rng.choice(grid) if grid else []
    row[rng.randrange(len(row) + 1) :] = rng.choice([[], ["1"] * 50, [""] * 3])
    return "ragged"


def _decimal_commas(_: random.Random, grid: list[list[str]]) -> str:
    grid[1:] = [[cell.replace(".", ",") for cell in row] for row in grid[1:]]
    return "decimal commas"


def _wide(rng: random.Random, grid: list[list[str]]) -> str:
    width = rng.choice([100, 2000]) if not grid or len(grid[0]) < 1000 else 0
    for number, row in enumerate(grid):
        row.extend(f"c{i}" if number == 0 else "1" for i in range(width))
    return f"{width} more columns"


def _states(rng: random.Random, grid: list[list[str]]) -> str:
    states = [f"state {i}" for i in range(rng.choice([1, 2, 20, 21, 500]))]
    for number, row in enumerate(grid):
        row.append("mode" if number == 0 else rng.choice(states))
    return f"{len(states)} states"


def _preamble(rng: random.Random, grid: list[list[str]]) -> str:
    grid[:0] = [[rng.choice(["# made by a logger", "", "Station 7", "sep=;"])]]
    return "preamble"


TEXT_CHANGES: tuple[Callable[[random.Random, list[list[str]]], str], ...] = (
    _cells, _cells, _column, _headers, _no_header, _times, _odd_times, _numbers_as_times, _ragged,
    _decimal_commas, _wide,
    _states, _preamble,
)  # fmt: skip


def _json_lines(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    text = (
        frame.astype(str).to_json(orient="records", lines=True)
        if rng.random() < 0.3
        else frame.to_json(orient="records", lines=True, date_format="iso")
    )
    lines = str(text).splitlines()
    for _ in range(rng.choice([0, 1, 2])):
        odd = rng.choice(
            ['{"a": 1', "[]", "null", "{}", '{"a": {"b": 1}}', '{"a": [1, 2]}', "NaN", "[" * 5000, '{"a": 1e999}']
        )
        lines.insert(rng.randrange(len(lines) + 1), odd)
    return "\n".join(lines).encode(), "json lines"


def _raw(rng: random.Random, _: pd.DataFrame) -> tuple[bytes, str]:
    size = rng.choice([0, 1, 10, 1000, 100_000])
    return rng.choice(
        [rng.randbytes(size), b"\x00" * size, b"\xff\xfe" * size, b"," * size, b"\n" * size, b'"' * size]
    ), "raw"


# -- arrays ------------------------------------------------------------------------------------------------------------


def _array(rng: random.Random, frame: pd.DataFrame) -> np.ndarray:
    values = frame.drop(columns="time", errors="ignore").to_numpy()
    with np.errstate(all="ignore"):
        return rng.choice([
            values, values.astype("f4"), values.astype("f2"), values.astype(">f8"), values.astype("i8"), values > 0,
            values.astype("c16"), values.astype("U"), values.astype("S"), values.astype("datetime64[s]"),
            values.T, values[0:0],
            values[None], values.reshape(-1), np.float64(1), np.array([], dtype="f8"), np.zeros((5, 0)),
            np.asfortranarray(values),
            np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), np.full((50, 3), np.nan), np.full((50, 3),
            np.inf),
            np.full((50, 3), 2**63, dtype="u8"), values.astype("V8"),
        ])  # fmt: skip


def _npy(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    array = _array(rng, frame)
    np.save(buffer, array)
    content = buffer.getvalue()
    if rng.random() < 0.2:
        claim = rng.choice([b"(1000000000000, 3)", b"(-1, 3)", b"(3,", b"(0, 0, 0)", b"__import__('os')", b"(" * 300])
        start, stop = content.find(b"'shape':") + 9, content.find(b"), }") + 1
        content = content[:start] + claim + content[stop:]
        return content, f"npy that claims {claim[:30]!r}"
    return content, f"npy of {array.dtype} {array.shape}"


def _npz(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    names = rng.choice([["test"], ["train", "test"], ["a", "b"], ["x"], []])
    np.savez_compressed(buffer, **{name: _array(rng, frame) for name in names})
    if rng.random() < 0.1:
        with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(rng.choice(["test.npy", "../x.npy", "y"]), bytes(rng.choice([0, 10, 10**7])))
    return buffer.getvalue(), f"npz of {names}"


# -- binary tables -----------------------------------------------------------------------------------------------------


def _arrow_table(rng: random.Random, frame: pd.DataFrame) -> Any:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=rng.random() < 0.3)
    rows = len(frame)
    extras = [
        pa.array([2**53 + 1] * rows, pa.int64()), pa.array([2**63] * rows, pa.uint64()), pa.array([1] * rows,
        pa.time64("ns")),
        pa.array([1] * rows, pa.duration("us")), pa.array([1] * rows, pa.date32()), pa.array([None] * rows,
        pa.null()),
        pa.array([[1.0]] * rows, pa.list_(pa.float64())), pa.array([{"a": 1}] * rows), pa.array(["x"] * rows),
        pa.array([None, *["x"] * rows][:rows], pa.large_string()), pa.array(["on"] * rows).dictionary_encode(),
        pa.array([b"x"] * rows, pa.binary()), pa.array([True] * rows), pa.array([float("inf")] * rows),
        pa.array([1] * rows, pa.timestamp("ns", "Asia/Tokyo")), pa.array([1.5] * rows, pa.float32()),
        pa.array([None] * rows, pa.float64()), pa.array([1] * rows, pa.decimal128(20, 2)),
    ]  # fmt: skip
    for _ in range(rng.choice([0, 1, 2])):
        table = table.append_column(rng.choice(["extra", "a", "time", "", "b"]), rng.choice(extras))
    return table


def _parquet(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    from pyarrow import parquet

    buffer = io.BytesIO()
    table = _arrow_table(rng, frame)
    if rng.random() < 0.1:
        table = table.replace_schema_metadata(
            {"pandas": rng.choice(["{", "[]", '{"columns": 1}', '{"index_columns": [{}]}'])}
        )
    parquet.write_table(table, buffer)
    return buffer.getvalue(), f"parquet of {table.schema.names}"


def _feather(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    import pyarrow as pa

    buffer = io.BytesIO()
    table = _arrow_table(rng, frame)
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue(), f"feather of {table.schema.names}"


def _xlsx(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    for number, row in enumerate([list(frame.columns), *frame.astype(object).to_numpy().tolist()][:20]):
        cells = [cell.replace(tzinfo=None) if hasattr(cell, "tzinfo") else cell for cell in row]
        if number and rng.random() < 0.1:
            cells[rng.randrange(len(cells))] = rng.choice([None, "x", "=A1+1", "#DIV/0!", True, 1e300, -1])
        sheet.append(cells)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue(), "xlsx"


def _gzipped(rng: random.Random, frame: pd.DataFrame) -> tuple[bytes, str]:
    import gzip

    content, what = _csv(rng, frame)
    return gzip.compress(content, 1), f"gzip of {what}"


def _damaged(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    damaged = bytearray(content)
    if not damaged:
        return content, "empty"
    how = rng.choice(["cut", "flipped", "inserted", "doubled"])
    at = rng.randrange(len(damaged))
    if how == "cut":
        del damaged[at:]
    elif how == "inserted":
        damaged[at:at] = rng.randbytes(rng.randrange(1, 40))
    elif how == "doubled":
        damaged = damaged * 2
    else:
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged), how


WRITERS: dict[str, tuple[int, Callable[[random.Random, pd.DataFrame], tuple[bytes, str]]]] = {
    "csv": (50, _csv),
    "csv raw": (4, _raw),
    "csv.gz": (3, _gzipped),
    "npy": (8, _npy),
    "npy raw": (1, _raw),
    "npz": (6, _npz),
    "npz raw": (1, _raw),
    "parquet": (10, _parquet),
    "parquet raw": (1, _raw),
    "feather": (4, _feather),
    "xlsx": (2, _xlsx),
    "xlsx raw": (1, _raw),
    "jsonl": (5, _json_lines),
    "txt": (1, _csv),
}
"""By suffix: how often, and how it is written."""

"""xlsx workbooks: the first rows of a sheet may be titles, cells may be dates, numbers or errors."""

from __future__ import annotations

import logging
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from patchad.data.readers.delimited import MISSING
from patchad.data.readers.layout import is_header
from patchad.data.readers.members import Members
from patchad.data.readers.numerals import as_numbers
from patchad.data.readers.packed import check_unpacked
from patchad.errors import InputError, MissingExtraError, reason_of

logger = logging.getLogger(__name__)

MOST_CELLS = 2 * 10**7
"""Cells of a sheet; a full sheet of Excel may claim 17 thousand million."""
MOST_ROWS = 2**20
"""Rows of a sheet, as in Excel; a damaged one may claim any number, and all of them would be gone through."""


def read_xlsx(path: Path) -> Members:
    """List the sheets of a workbook that are not empty."""
    try:
        import openpyxl  # noqa: F401 - only whether it is there
    except ImportError:
        raise MissingExtraError("openpyxl", "excel") from None
    try:
        with zipfile.ZipFile(path) as file:
            check_unpacked(sum(info.file_size for info in file.infolist()), path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"not an Excel workbook ({reason_of(error)}); save it again as .xlsx, or as .csv if it is text"
        ) from None
    names = _guarded(path, lambda book: [sheet.title for sheet in book.worksheets if any(_rows(sheet))])
    return Members("sheet", {name: partial(_read_sheet, path, name) for name in names})


def _read_sheet(path: Path, name: str) -> Any:
    rows: list[list[Any]] = _guarded(path, lambda book: list(_rows(book[name])))
    return _frame(rows, path)


def _guarded(path: Path, use: Any) -> Any:
    """Open a workbook and use it; whatever openpyxl says of a damaged one is an `InputError`."""
    import openpyxl

    try:
        with path.open("rb") as file:  # which openpyxl would leave open where it fails
            return use(openpyxl.load_workbook(file, read_only=True, data_only=True))
    except (
        *(KeyError, ValueError, TypeError, AttributeError, IndexError, SyntaxError, OverflowError, EOFError),
        *(zipfile.BadZipFile, zlib.error, RuntimeError, openpyxl.utils.exceptions.InvalidFileException),
    ) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"not an Excel workbook that can be read ({reason_of(error)}); save it again as .xlsx"
        ) from None


def _rows(sheet: Any) -> Iterator[list[Any]]:
    """Yield the rows of a sheet that hold anything, without empty cells at their end."""
    sheet.reset_dimensions()  # what the file says of its size may be wrong, or a trap
    cells = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True)):
        cells += len(row)
        if cells > MOST_CELLS or number >= MOST_ROWS:
            raise InputError(
                f"the sheet has over {MOST_CELLS:,} cells or {MOST_ROWS:,} rows; save it as .csv or .parquet"
            )
        stop = next((i for i in range(len(row), 0, -1) if row[i - 1] not in (None, "")), 0)
        if stop:
            yield [_value(cell) for cell in row[:stop]]


def _value(cell: Any) -> Any:
    return None if isinstance(cell, str) and (cell.strip() in MISSING or not cell.strip()) else cell


def _frame(rows: list[list[Any]], path: Path) -> Any:
    import pandas as pd

    first = next((i for i, row in enumerate(rows) if sum(cell is not None for cell in row) > 1), 0)
    if first:
        logger.warning("%s: rows above the table that were left out: %d", path, first)
    table = rows[first:]
    width = max(map(len, table))
    if width * len(table) > MOST_CELLS:
        raise InputError(f"the sheet has over {MOST_CELLS:,} cells; save it as .csv or .parquet")
    table = [row + [None] * (width - len(row)) for row in table]
    header = is_header([_written(cell) for cell in table[0]], [[_written(c) for c in row] for row in table[1:6]])
    frame = pd.DataFrame(table[1:] if header else table, columns=range(width))
    if header:
        names = [f"Unnamed: {i}" if cell is None else str(cell).strip() for i, cell in enumerate(table[0])]
        frame = frame.set_axis(names, axis="columns")
    kept = [
        i for i, name in enumerate(frame.columns) if not frame.iloc[:, i].isna().all() or "Unnamed" not in str(name)
    ]
    return as_numbers(frame.iloc[:, kept].infer_objects())


def _written(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()

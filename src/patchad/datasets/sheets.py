"""Read csv and xlsx sheets whose header is somewhere in the first rows."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.errors import InputError, MissingExtraError

_log = logging.getLogger(__name__)

_HEADER_ROWS = 25  # the header must be among these
_CHUNK_ROWS = 100_000  # so that 1.2 million rows of 130 columns are in RAM only once, as float32
_NOT_CHANNELS = re.compile(r"row|date|time|timestamp|unnamed: \d+|nan|none|", re.IGNORECASE)
_HEADER_CELLS = frozenset({"timestamp", "normal/attack", "row", "date"})


@dataclass(frozen=True, slots=True)
class Sheet:
    """The channels of a sheet and its label column, if any."""

    channels: tuple[str, ...]
    values: NDArray[np.float32]  # (time, channel), NaN where a cell is not a number
    labels: tuple[str, ...] | None  # (time,), as written


def read_sheet(path: Path) -> Sheet:
    """Read a csv or xlsx file exported from a control system.

    Rows above the header are skipped. A column whose name contains "attack" is the label; row numbers, dates and times
    are dropped; channel names that are paths are cut to their last component. Rows without any number are dropped.
    """
    values: list[NDArray[np.float32]] = []
    labels: list[str] = []
    channels: list[str] = []
    label: str | None = None
    for frame in _frames(path):
        frame.columns = [_clean(name) for name in frame.columns]
        label = next((name for name in frame.columns if "attack" in name.lower()), None)
        channels = [name for name in frame.columns if name != label and not _NOT_CHANNELS.fullmatch(name)]
        numbers = _numbers(frame, channels)
        kept = ~np.isnan(numbers).all(axis=1)
        values.append(numbers[kept])
        if label is not None:
            labels.extend(str(word) for word in frame.loc[kept, label])
    if not channels or not sum(map(len, values)):
        raise InputError(f"{path} has no rows of numbers below its header; copy or download it again")
    return Sheet(tuple(channels), np.concatenate(values), None if label is None else tuple(labels))


def aligned(train: Sheet, test: Sheet, where: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the values of both sheets in the order of train's channels, without those empty in train, gaps filled."""
    missing = [name for name in train.channels if name not in test.channels]
    if missing:
        raise InputError(
            f"{where}: the test file lacks the channels {missing[:5]} of the train file; "
            "use both files of the same release"
        )
    full = [i for i in range(len(train.channels)) if not np.isnan(train.values[:, i]).all()]
    empty = [name for i, name in enumerate(train.channels) if i not in set(full)]
    if empty:
        _log.info("%s: channels without any number in train are dropped: %s", where, ", ".join(empty))
    order = [test.channels.index(train.channels[i]) for i in full]
    return fill_forward(train.values[:, full]), fill_forward(test.values[:, order])


def fill_forward(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill gaps with the last value of their channel, or 0 at the start.

    Examples
    --------
    >>> fill_forward(np.array([[np.nan], [2.0], [np.nan]], dtype=np.float32)).ravel().tolist()
    [0.0, 2.0, 2.0]
    """
    filled = values.copy()
    for column in filled.T:
        gaps = ~np.isfinite(column)
        if gaps.any():
            last = np.maximum.accumulate(np.where(gaps, 0, np.arange(len(column))))
            column[:] = column[last]
            column[~np.isfinite(column)] = 0.0
    return filled


def read_csv(path: Path, **options: Any) -> Any:
    """Read a csv file with pandas; raise `InputError` if it is malformed."""
    import pandas as pd

    try:
        return pd.read_csv(path, **options)
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise InputError(f"{path} cannot be read: {error}; copy or download it again") from error


def _frames(path: Path) -> Iterator[Any]:
    return _excel_frames(path) if path.suffix.lower() == ".xlsx" else _csv_frames(path)


def _csv_frames(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = [line for _, line in zip(range(_HEADER_ROWS), file, strict=False)]
    separator = ";" if sum(line.count(";") for line in lines) > sum(line.count(",") for line in lines) else ","
    try:
        header = _header_row([next(csv.reader([line], delimiter=separator), []) for line in lines], path)
    except csv.Error as error:
        raise InputError(f"{path} cannot be read: {error}; copy or download it again") from error
    return read_csv(  # type: ignore[no-any-return]
        path,
        sep=separator,
        decimal="," if separator == ";" else ".",
        skiprows=header,
        encoding="utf-8-sig",
        encoding_errors="replace",
        chunksize=_CHUNK_ROWS,
        low_memory=False,
    )


def _excel_frames(path: Path) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("openpyxl", "data") from error
    import pandas as pd

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        first = [row for _, row in zip(range(_HEADER_ROWS), rows, strict=False)]
        header = _header_row(first, path)
        names = [str(cell) for cell in first[header]]
        chunk: list[Sequence[object]] = list(first[header + 1 :])
        for row in rows:
            chunk.append(row)
            if len(chunk) == _CHUNK_ROWS:
                yield pd.DataFrame(chunk, columns=names)
                chunk = []
        if chunk:
            yield pd.DataFrame(chunk, columns=names)
    finally:
        book.close()


def _header_row(rows: Sequence[Sequence[object]], path: Path) -> int:
    marked = [
        number for number, row in enumerate(rows) if any(str(cell).strip().lower() in _HEADER_CELLS for cell in row)
    ]
    if not marked:
        raise InputError(
            f"{path} has no header in its first {_HEADER_ROWS} rows; "
            f"a row with a cell out of {sorted(_HEADER_CELLS)} is needed"
        )
    # A preamble may mention dates too, in shorter rows.
    return max(marked, key=lambda number: sum(cell not in (None, "") for cell in rows[number]))


def _clean(name: object) -> str:
    return str(name).split("\\")[-1].strip()


def _numbers(frame: Any, channels: list[str]) -> NDArray[np.float32]:
    import pandas as pd

    numbers = np.empty((len(frame), len(channels)), dtype=np.float32)
    for i, name in enumerate(channels):
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            column = _parsed(column, name)
        numbers[:, i] = column.to_numpy(dtype=np.float32, na_value=np.nan)
    return numbers


def _parsed(column: Any, name: str) -> Any:
    import pandas as pd

    cells = column.dropna().astype(str).str.strip().str.replace(",", ".")  # 2,5 is 2.5
    numbers = pd.to_numeric(cells, errors="coerce")
    text = cells[numbers.isna() & (cells != "")]
    if len(text):
        _log.warning("%s: %d cells with text like %r are treated as missing", name, len(text), text.iloc[0])
    return numbers.reindex(column.index)

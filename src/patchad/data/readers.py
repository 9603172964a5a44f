"""Files to tables: one reader per suffix, and folders of files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patchad.data.table import FloatArray, Table, to_table
from patchad.errors import InputError, MissingExtraError, listed

logger = logging.getLogger(__name__)


def find_files(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """List the data files of files and folders, each with a name for its series: the stem, or the path if needed."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in READERS)
            if not inside:
                raise InputError(f"folder {str(path)!r} has no data file; {', '.join(READERS)} are read")
            files.extend(inside)
        elif not path.exists():
            raise InputError(f"there is no file {str(path)!r}; check the path")
        elif path.suffix.lower() not in READERS:
            raise InputError(f"{str(path)!r} is of an unknown kind; {', '.join(READERS)} are read")
        else:
            files.append(path)
    stems = [file.stem for file in files]
    return [(file.stem if stems.count(file.stem) == 1 else str(file), file) for file in files]


def read_table(path: Path, *, time: str | None = None, part: str = "train", only: Collection[str] = ()) -> Table:
    """Read one data file.

    Parameters
    ----------
    path
        A file with a suffix of `READERS`.
    time
        The column that holds the times; see `to_table`.
    part
        The array to take from an npz file that holds several.
    only
        The columns to read, where they have names; empty: all.
    """
    if path.suffix.lower() not in READERS:
        raise InputError(f"{str(path)!r} is of an unknown kind; {', '.join(READERS)} are read")
    try:
        table = to_table(READERS[path.suffix.lower()](path, part), time=time, only=only)
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if len(table.values) == 0:
        raise InputError(f"{path}: there is no row of values; at least one row of numbers is needed")
    return table


def read_columns(path: Path, names: Sequence[str]) -> dict[str, FloatArray]:
    """Read these columns of a csv or parquet file as numbers."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{str(path)!r} is of an unknown kind; a csv or parquet file with named columns is needed")
    if not path.exists():
        raise InputError(f"there is no file {str(path)!r}; check the path")
    try:
        frame = READERS[path.suffix.lower()](path, "")
        _check_columns(frame, names)
        table = to_table(frame[list(dict.fromkeys(names))].reset_index(drop=True).rename(columns=str))
        for name in table.texts:
            table.without(name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return {name: table.values[:, i].astype(np.float64) for i, name in enumerate(table.channels or ())}


def _check_columns(frame: Any, names: Sequence[str]) -> None:
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise InputError(f"there is no column {listed(absent)}; the columns are {listed(tuple(frame.columns), 12)}")


def _read_csv(path: Path, part: str) -> Any:  # noqa: ARG001 - it holds one table
    import pandas as pd

    try:
        with path.open(encoding="utf-8-sig") as file:
            first = next((line for line in file if line.strip()), "")
        if not first:
            raise InputError("the file is empty; a header and rows of numbers are needed")
        separator = max(",;\t", key=first.count)
        cells = [cell.strip().strip('"') for cell in first.strip().split(separator)]
        frame = pd.read_csv(path, sep=separator, header=None if _all_numbers(cells) else 0, encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the file is not text in UTF-8; save it as CSV in UTF-8") from None
    except pd.errors.ParserError as error:
        raise InputError(
            f"not a well-formed CSV ({str(error).strip()}); every row needs as many cells as the header"
        ) from None
    first_name = frame.columns[0]
    if (
        str(first_name).startswith("Unnamed")
        and np.array_equal(frame[first_name], np.arange(len(frame)))
        and len(frame)
    ):
        logger.warning("%s: left out the first column, which has no name and only counts the rows", path)
        frame = frame.drop(columns=first_name)
    return frame


def _all_numbers(cells: Sequence[str]) -> bool:
    try:
        return [float(cell) for cell in cells] != []
    except ValueError:
        return False


def _read_parquet(path: Path, part: str) -> Any:  # noqa: ARG001 - it holds one table
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    try:
        return parquet.read_table(path).to_pandas()
    except pa.ArrowException as error:
        raise InputError(f"not a parquet file ({str(error).splitlines()[0]})") from None


def _read_npy(path: Path, part: str) -> Any:  # noqa: ARG001 - it holds one array
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"not a file of one array of numbers ({error})") from None


def _read_npz(path: Path, part: str) -> Any:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as file:
            names = file.files
            if part in names:
                return file[part]
            if len(names) == 1:
                return file[names[0]]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"not a file of arrays of numbers ({error})") from None
    raise InputError(f"the file holds arrays {listed(names)}, and none is named {part!r}; name the one to use so")


READERS: Mapping[str, Callable[[Path, str], Any]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
    ".npz": _read_npz,
}
"""How a file is read, by suffix: path, and the array to take where a file may hold several, to a container."""

"""Data files to tables: files, folders and patterns; columns, layout and order as the reading options say."""

from __future__ import annotations

import glob
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from patchad.data.joining import join_tables
from patchad.data.readers.delimited import read_delimited
from patchad.data.readers.members import Members
from patchad.data.readers.registry import FOLDER_KINDS, READERS, kind_of
from patchad.data.reading import Reading
from patchad.data.shaping import columns_of, shape
from patchad.data.table import FloatArray, Table, to_table
from patchad.errors import InputError, listed

logger = logging.getLogger(__name__)

Named = list[tuple[str, Table]]
Refused = list[tuple[str, InputError]]

LONGEST_MESSAGE = 600
"""Characters of an error; a cell it quotes may be of any length."""


def find_files(paths: Sequence[Path]) -> tuple[list[tuple[str, Path]], Refused]:
    """List the data files of files, folders and patterns, each with a name for its series, and what is none.

    The name is that of the file without its suffix, or the whole path where several files have that name.
    """
    found: list[Path] = []
    refused: Refused = []
    for path in (match for given in paths for match in _matches(given)):
        try:
            found.extend(_expanded(path))
        except InputError as error:
            refused.append((str(path), error))
    files = list(dict.fromkeys(found))
    names = [file.name[: len(file.name) - len(kind_of(file) or "")] for file in files]
    return [
        (name if names.count(name) == 1 else str(file), file) for name, file in zip(names, files, strict=True)
    ], refused


def _matches(path: Path) -> list[Path]:
    """Return the files and folders that match a pattern; what is no pattern, or matches nothing, stays as it is."""
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - which takes patterns from any root
    return [Path(match) for match in matches] or [path]


def _expanded(path: Path) -> list[Path]:
    if path.is_dir():
        inside = sorted(file for file in path.iterdir() if kind_of(file) in FOLDER_KINDS and file.is_file())
        if not inside:
            raise InputError(f"folder {str(path)!r} has no data file; {', '.join(FOLDER_KINDS)} are read")
        return inside
    if not path.exists():
        if glob.has_magic(str(path)):
            raise InputError(f"no file matches the pattern {str(path)!r}; check the folder and the pattern")
        raise InputError(f"there is no file {str(path)!r}; check the path")
    if kind_of(path) is None:
        raise InputError(f"{str(path)!r} is of an unknown kind; {', '.join(READERS)} are read")
    if not path.is_file():
        raise InputError(f"{str(path)!r} is no regular file; copy the data into one")
    return [path]


def read_all(paths: Sequence[Path], reading: Reading, *, only: Collection[str] = ()) -> tuple[Named, Refused]:
    """Read the data files of files, folders and patterns: the tables by name, and the errors of those that are wrong.

    Parameters
    ----------
    paths
        What the user named.
    reading
        The reading options; `join` joins files that follow each other in time.
    only
        The columns to read beside labels, where columns have names; empty: all.
    """
    files, refused = find_files(paths)
    tables: Named = []
    for name, path in files:
        try:
            tables.append((name, read_table(path, reading, only=only)))
        except InputError as error:
            refused.append((name, error))
    joined = join_tables(tables) if reading.join else tables
    if len(joined) < len(tables):
        logger.warning(
            "%d files follow each other in time and are read as %d series; --no-join", len(tables), len(joined)
        )
    return joined, refused


def read_table(path: Path, reading: Reading | None = None, *, only: Collection[str] = ()) -> Table:
    """Read one data file; an error names it.

    Parameters
    ----------
    path
        A file with a suffix of `READERS`.
    reading
        The reading options; None: the defaults.
    only
        The columns to read beside labels, where they have names; empty: all.
    """
    reading = reading or Reading()
    try:
        return replace(shape(with_rows(read_container(path, reading.member)), reading, only), name=str(path))
    except InputError as error:
        raise InputError(f"{path}: {shortened(error)}") from None


def with_rows(container: Any) -> Any:
    """Return a container; refuse one without rows."""
    if container.shape[:1] == (0,):
        raise InputError("there is no row of values; at least one row of numbers is needed")
    return container


def read_columns(path: Path, names: Sequence[str]) -> dict[str, FloatArray]:
    """Read these columns of a data file as numbers; an error names the file."""
    _expanded(path)
    try:
        table = to_table(columns_of(read_container(path, "scores"), names).reset_index(drop=True))
        for name in table.texts:
            table.without(name)  # which refuses text
    except InputError as error:
        raise InputError(f"{path}: {shortened(error)}") from None
    found: dict[str, FloatArray] = {
        name: table.values[:, i].astype(np.float64) for i, name in enumerate(table.channels or ())
    }
    if not found.keys() >= set(names):
        raise InputError(f"{path}: one of the columns {listed(names)} holds times; a column of numbers is needed")
    return found


def read_container(path: Path, member: str, *, texts: Collection[str] = ()) -> Any:
    """Read a file as the container that suits its format, a pandas frame or an array.

    Parameters
    ----------
    path
        A file with a suffix of `READERS`.
    member
        What to take from a file that holds several tables.
    texts
        Columns of which the cells are wanted as they are written, where a file is made of text.
    """
    kind = kind_of(path)
    if kind is None:
        raise InputError(f"it is of an unknown kind; {', '.join(READERS)} are read")
    try:
        reader = READERS[kind]
        found = read_delimited(path, texts) if texts and reader is read_delimited else reader(path)
        return found.pick(member) if isinstance(found, Members) else found
    except OSError as error:
        raise InputError(f"it cannot be read ({error.strerror or error}); check the file") from None
    except MemoryError:
        raise InputError("it does not fit into RAM; split it, or read fewer columns") from None


def shortened(error: InputError) -> str:
    """Return the message of an error in one line, without its middle where it is long."""
    message = " ".join(str(error).split())
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} ... {message[-half:]}"

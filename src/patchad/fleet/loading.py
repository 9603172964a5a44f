"""The series of a fleet: which files hold them, and their rows as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.inputs import read_container, shortened, with_rows
from patchad.data.joining import Span, concatenated
from patchad.data.readers.arrow import parquet_columns, read_parquet, read_pieces
from patchad.data.readers.registry import kind_of
from patchad.data.reading import Reading
from patchad.data.shaping import as_table, in_order, shape
from patchad.data.table import Table
from patchad.errors import InputError, listed
from patchad.fleet.sources import File, opened


@dataclass(frozen=True, slots=True)
class Source:
    """A series and the files that its rows are in."""

    name: str
    files: tuple[File, ...]
    rows: int | None = None
    """How many, where it is known."""

    def told(self, reason: object) -> str:
        """Let a reason begin with the series, or the file, that it is about."""
        text = str(reason)
        return text if any(text.startswith(file.path) for file in self.files) else f"{self.name}: {text}"


@dataclass(frozen=True, slots=True)
class Survey:
    """What a file holds, as far as it takes to tell which series there are."""

    rows: Mapping[str, int]
    """Of each series, where a column names them."""
    span: Span | None = None
    """Where a file is a series, or a part of one."""
    unnamed: int = 0
    """Rows that no series has."""


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The rows of a series, as the files hold them."""

    parts: tuple[tuple[str, Any], ...]
    """Containers, each with the path that it was read from, in the order of the rows."""
    by: str | None
    reading: Reading

    def table(self, only: Collection[str] = ()) -> Table:
        """Return the rows as one table: of these columns, where they have names."""
        if self.by is not None:
            return self._gathered(only)
        tables = []
        for path, container in self.parts:
            try:
                tables.append(replace(shape(with_rows(container), self.reading, only), name=path))
            except InputError as error:
                raise InputError(f"{path}: {shortened(error)}") from None
        return concatenated(tables)

    def _gathered(self, only: Collection[str]) -> Table:
        """Put the rows of all files under each other, the files in the order of their times where they have any."""
        tables = [self._stacked(list(run), only) for _, run in groupby(self.parts, key=lambda one: _kind(one[0]))]
        table = replace(_under_each_other(tables), name=" and ".join(dict.fromkeys(path for path, _ in self.parts)))
        bounds = np.cumsum([0, *(len(frame) for _, frame in self.parts)])
        if table.index is not None and len(table.values) == bounds[-1] and self.reading.long is None:
            order = _by_first_time(table.index, bounds)
            table = table if order is None else table.take(order)
        return in_order(table, self.reading)

    def _stacked(self, parts: Sequence[tuple[str, Any]], only: Collection[str]) -> Table:
        """Make a table of frames from files of one kind, whose columns are of the same types."""
        import pandas as pd

        frames = [frame for _, frame in parts]
        timed = all(isinstance(frame.index, pd.DatetimeIndex) for frame in frames)
        try:
            return as_table(
                frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=not timed), self.reading, only
            )
        except InputError as error:
            raise InputError(
                f"{listed(list(dict.fromkeys(path for path, _ in parts)), 2)}: {shortened(error)}"
            ) from None

    def groups(self, channels: Collection[str] = ()) -> dict[str, str]:
        """Return what the series belongs to: columns of text or whole numbers, no channels, with one value in it."""
        found: dict[str, str] | None = None
        for _, container in self.parts:
            own = constants(container, channels)
            found = own if found is None else {name: one for name, one in found.items() if own.get(name) == one}
        return found or {}


def survey(file: File, by: str | None, reading: Reading, only: Collection[str] = ()) -> Survey:
    """Look into a file: which series it has, or which time it covers."""
    with opened(file) as path, _named(file):
        if by is None:
            table = shape(with_rows(read_container(path, reading.member)), reading, only)
            return Survey({file.name: len(table.values)}, Span.of(table))
        codes, names = _coded(_named_columns(path, by, reading.member), by)
        counts = np.bincount(codes + 1, minlength=len(names) + 1).tolist()
        return Survey(dict(zip(names, counts[1:], strict=True)), unnamed=counts[0])


def load(sources: Sequence[Source], by: str | None, reading: Reading) -> Iterator[tuple[Source, Loaded | InputError]]:
    """Read series; those that share files are read together, each file once."""
    if by is None:
        for source in sources:
            yield source, _load_files(source, reading)
        return
    wanted = {source.name for source in sources}
    parts: dict[str, list[tuple[str, Any]]] = {source.name: [] for source in sources}
    failed: dict[str, InputError] = {}
    for file in dict.fromkeys(file for source in sources for file in source.files):
        try:
            for name, frame in _split(file, by, reading.member, wanted):
                parts[name].append((file.path, frame))
        except InputError as error:
            failed |= {source.name: error for source in sources if file in source.files}
    for source in sources:
        found = tuple(parts.pop(source.name))
        if source.name in failed:
            yield source, failed[source.name]
        elif not found:
            yield source, InputError(f"its rows are gone from {listed([one.path for one in source.files])}")
        else:
            yield source, Loaded(found, by, reading)


def _load_files(source: Source, reading: Reading) -> Loaded | InputError:
    parts = []
    try:
        for file in source.files:
            with opened(file) as path, _named(file):
                parts.append((file.path, read_container(path, reading.member)))
    except InputError as error:
        return error
    return Loaded(tuple(parts), None, reading)


@contextmanager
def _named(file: File) -> Iterator[None]:
    """Let errors begin with the path of a file."""
    try:
        yield
    except InputError as error:
        known = str(error).startswith(file.path)
        raise error if known else InputError(f"{file.path}: {shortened(error)}") from None


def _split(file: File, by: str, member: str, wanted: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Give the rows of the wanted series, a piece of the file at a time."""
    with opened(file) as path, _named(file):
        pieces = read_pieces(path) if kind_of(path) == ".parquet" else [_frame(path, member, by)]
        for piece in pieces:
            codes, names = _coded(piece, by)
            rest = piece.drop(columns=[one for one in piece.columns if str(one) == by])
            order = np.argsort(codes, kind="stable")
            edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
            for name, (start, stop) in zip(names, pairwise(edges.tolist()), strict=True):
                if name in wanted:
                    yield name, rest.iloc[order[start:stop]]


def _named_columns(path: Path, by: str, member: str) -> Any:
    """Read as much of a file as it takes to see a column."""
    if kind_of(path) != ".parquet":
        return _frame(path, member, by)
    return read_parquet(path, [by]) if by in parquet_columns(path) else next(read_pieces(path), None)


def _frame(path: Path, member: str, by: str) -> Any:
    import pandas as pd

    container = read_container(path, member, texts=(by,))
    return pd.DataFrame(container) if isinstance(container, np.ndarray) and container.ndim == 2 else container


def _coded(frame: Any, by: str) -> tuple[NDArray[np.intp], list[str]]:
    """Return the number of each row's series, -1 where the column says none, and the names, in order of appearance."""
    import pandas as pd

    known = [str(one) for one in getattr(frame, "columns", ())]
    if by not in known:
        raise InputError(f"there is no column {by!r} to tell series by; the columns are {listed(known, 12)}")
    codes, values = pd.factorize(frame.iloc[:, known.index(by)])
    texts = np.array([*(_text(value) for value in values), ""], dtype=object)
    again, names = pd.factorize(pd.Series(texts).replace("", None))  # values may be written alike
    return np.asarray(again[codes], dtype=np.intp), [str(name) for name in names]


def _text(value: Any) -> str:
    """Write a value as a name: whole numbers without a point, however a file holds them."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip()


def _kind(path: str) -> str | None:
    return kind_of(Path(path))


def _under_each_other(tables: Sequence[Table]) -> Table:
    """Put tables under each other; a channel that one of them lacks is missing in its rows."""
    if len(tables) == 1:
        return tables[0]
    if len({None if table.index is None else table.index.dtype.kind for table in tables}) > 1:
        raise InputError("its files have times of different kinds, or none in some; write them in one way")
    texts = {name for table in tables for name in table.texts}
    if any(name in texts for table in tables for name in table.channels or ()) or any(
        set(table.texts) != texts for table in tables
    ):
        raise InputError("a column holds text in one of its files and numbers in another; write it in one way")
    names = tuple(dict.fromkeys(name for table in tables for name in table.channels or ()))
    if not names:
        return concatenated(tables)
    return concatenated([_with_channels(table, names) for table in tables])


def _with_channels(table: Table, names: tuple[str, ...]) -> Table:
    own = table.channels or ()
    values = np.full((len(table.values), len(names)), np.nan)
    values[:, [names.index(name) for name in own]] = table.values
    return replace(table, values=values, channels=names)


def _by_first_time(index: NDArray[np.generic], bounds: NDArray[np.integer]) -> NDArray[np.intp] | None:
    """Return the rows with the parts in the order of their first times; None where they are so already."""
    parts = [slice(a, b) for a, b in pairwise(bounds.tolist()) if b > a]
    order = sorted(parts, key=lambda part: index[part.start])
    if order == parts:
        return None
    return np.concatenate([np.arange(part.start, part.stop) for part in order])


def constants(container: Any, channels: Collection[str]) -> dict[str, str]:
    """Return the columns of text or whole numbers, no channels, that have one value."""
    found: dict[str, str] = {}
    for number, name in enumerate(getattr(container, "columns", ())):
        column = container.iloc[:, number]
        if str(name) in channels or not len(column) or getattr(column.dtype, "kind", "O") not in "Oiu":
            continue
        first = column.iloc[0]
        if isinstance(first, str | int | np.integer) and bool((column == first).all()):
            found[str(name)] = str(first)
    return found

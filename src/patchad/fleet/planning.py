"""Which series a fleet has, which of them go into one task, and what tells whether a result is still right."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchad import __version__
from patchad.data.inputs import Refused
from patchad.data.joining import Span, chains_of
from patchad.data.reading import Reading
from patchad.errors import InputError, ModelFileError
from patchad.fleet.loading import Source, Survey, survey
from patchad.fleet.models import Model, Models
from patchad.fleet.runner import FEW_BYTES, Runner
from patchad.fleet.sources import File, find_sources

TASKS = 4
"""Tasks for each worker, at least: so that none waits long for the last."""
TASK_BYTES = 2**27
"""Bytes of files that the series of one task may take, where a file has several."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The series of a fleet, and what is none."""

    sources: tuple[Source, ...]
    refused: Refused
    """Names of inputs that cannot be read, with the reasons."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Look:
    """The task of looking into a file."""

    file: File
    by: str | None
    reading: Reading
    model: Model | None
    """Whose channels are wanted."""


def find_series(
    data: Sequence[str], by: str | None, reading: Reading, runner: Runner, models: Models | None = None
) -> Fleet:
    """List the series of data: by a column, or one for each file, files that follow each other in time being one."""
    files, refused = find_sources(data)
    if by is None and (not reading.join or len(files) < 2):
        return Fleet(tuple(Source(file.name, (file,)) for file in files), refused)
    found: dict[File, Survey] = {}
    known = {} if models is None or by is not None else models.by_series(file.name for file in files)
    looks = [_Look(one, by, reading, _usable(known.get(one.name))) for one in files]
    few = sum(one.size for one in files) < FEW_BYTES  # read sooner than a worker starts
    for look, seen in ((one, _look(one)) for one in looks) if few else runner.run(_look, looks):
        if isinstance(seen, InputError):
            refused.append((look.file.name, seen))
        else:
            found[look.file] = seen
    readable = [file for file in files if file in found]
    order = {file.name: number for number, file in enumerate(files)}
    refused.sort(key=lambda one: order.get(one[0], len(order)))
    if by is None:
        return _joined(readable, [found[file] for file in readable], refused)
    return _by_column(readable, found, by, refused)


def _usable(model: Model | InputError | None) -> Model | None:
    return model if isinstance(model, Model) else None


def _look(look: _Look) -> Survey | InputError:
    try:
        only = () if look.model is None else look.model.load().columns_
        return survey(look.file, look.by, look.reading, only)
    except InputError as error:
        return error
    except ModelFileError as error:
        return InputError(str(error))


def _joined(files: Sequence[File], found: Sequence[Survey], refused: Refused) -> Fleet:
    spans: list[Span | None] = [one.span for one in found]
    sources = []
    for chain in chains_of(spans):
        own = tuple(files[number] for number in chain)
        sources.append(Source(own[0].name, own, sum(sum(found[number].rows.values()) for number in chain)))
    notes: tuple[str, ...] = ()
    if len(sources) < len(files):
        notes = (f"{len(files)} files follow each other in time and are read as {len(sources)} series; --no-join",)
    return Fleet(tuple(sources), refused, notes)


def _by_column(files: Sequence[File], found: dict[File, Survey], by: str, refused: Refused) -> Fleet:
    holders: dict[str, list[File]] = {}
    rows: dict[str, int] = {}
    notes = []
    for file in files:
        for name, count in found[file].rows.items():
            holders.setdefault(name, []).append(file)
            rows[name] = rows.get(name, 0) + count
        if found[file].unnamed:
            notes.append(f"{file.path}: left out {found[file].unnamed:,} rows that have nothing in column {by!r}")
        if not found[file].rows:
            refused.append((file.name, InputError(f"{file.path}: no row has anything in column {by!r}; check --by")))
    return Fleet(tuple(Source(name, tuple(own), rows[name]) for name, own in holders.items()), refused, tuple(notes))


def batches(sources: Sequence[Source], workers: int) -> list[tuple[Source, ...]]:
    """Put series into tasks: those of the same files together, so that each file is read a few times at most.

    Examples
    --------
    >>> file = File("plant", "plant.csv", 1000, "")
    >>> [len(one) for one in batches([Source(str(n), (file,)) for n in range(10)], workers=1)]
    [3, 3, 3, 1]
    """
    groups: dict[tuple[File, ...], list[Source]] = {}
    for source in sources:
        groups.setdefault(source.files, []).append(source)
    tasks: list[tuple[Source, ...]] = []
    for files, own in groups.items():
        fair = math.ceil(TASKS * workers * len(own) / len(sources))
        small = math.ceil(sum(file.size for file in files) / TASK_BYTES)
        size = math.ceil(len(own) / max(fair, small, 1))
        tasks += [tuple(own[first : first + size]) for first in range(0, len(own), size)]
    return tasks


def packs(sources: Sequence[Source], workers: int, most: int) -> list[tuple[Source, ...]]:
    """Put series into tasks of up to `most`, a fair part for each worker, whatever files they come from.

    Examples
    --------
    >>> files = [File(str(n), f"{n}.csv", 1000, "") for n in range(10)]
    >>> [len(one) for one in packs([Source(file.name, (file,)) for file in files], workers=2, most=4)]
    [4, 4, 2]
    """
    size = min(math.ceil(len(sources) / workers), most)
    found: list[list[Source]] = []
    files: set[File] = set()
    for source in sources:
        files |= set(source.files)
        if not found or len(found[-1]) == size or sum(file.size for file in files) > TASK_BYTES:
            found.append([])
            files = set(source.files)
        found[-1].append(source)
    return [tuple(one) for one in found]


def size_of(batched: Iterable[Sequence[Source]]) -> int:
    """Return the bytes of all files of these series."""
    return sum(file.size for file in {file for own in batched for one in own for file in one.files})


def shares(sources: Iterable[Source]) -> dict[str, float]:
    """Return which share of the bytes of all files each series takes, about."""
    own = list(sources)
    holders: dict[File, int] = {}
    for source in own:
        for file in source.files:
            holders[file] = holders.get(file, 0) + 1
    sizes = {source.name: sum((file.size + 1) / holders[file] for file in source.files) for source in own}
    return {name: size / sum(sizes.values()) for name, size in sizes.items()}


def key_of(source: Source, *facts: Any) -> str:
    """Return a hash of what a result is made from: files, model, options and this version."""
    files = [
        [file.path if "://" in file.path else str(Path(file.path).absolute()), file.stamp] for file in source.files
    ]
    known = [__version__, source.name, files, [repr(fact) for fact in facts]]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()

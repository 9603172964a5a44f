"""Where the data of a fleet lies: files, folders and patterns, here or wherever fsspec reaches."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchad.data.inputs import Refused, find_files
from patchad.data.readers.registry import FOLDER_KINDS, READERS, kind_of
from patchad.errors import InputError, MissingExtraError, reason_of


@dataclass(frozen=True, slots=True)
class File:
    """A data file."""

    name: str
    """Of its series, where it holds one."""
    path: str
    """A path, or a URL."""
    size: int
    """Bytes."""
    stamp: str
    """Changes when the file does."""


def find_sources(given: Sequence[str]) -> tuple[list[File], Refused]:
    """List the data files of paths, folders, patterns and URLs, each with a name for its series, and what is none.

    The name is that of the file without its suffix, or the whole path where several files have that name.
    """
    local, refused = find_files([Path(one) for one in given if "://" not in one])
    files = [File(name, str(path), size, stamp) for name, path in local for size, stamp in [_stat(path)]]
    for url in (one for one in given if "://" in one):
        try:
            files += _remote_files(url)
        except InputError as error:
            refused.append((url, error))
    unique = list({file.path: file for file in files}.values())
    names = [file.name for file in unique]
    return [
        file if names.count(file.name) == 1 else File(file.path, file.path, file.size, file.stamp) for file in unique
    ], refused


def _stat(path: Path) -> tuple[int, str]:
    found = path.stat()
    return found.st_size, f"{found.st_size} {found.st_mtime_ns}"


@contextmanager
def opened(file: File) -> Iterator[Path]:
    """Give the path of a file; of a remote one, that of a copy that is removed afterwards."""
    if "://" not in file.path:
        yield Path(file.path)
        return
    with tempfile.TemporaryDirectory(prefix="patchad-") as folder:
        copy = Path(folder) / f"data{kind_of(Path(file.path)) or ''}"
        system, inside = _filesystem(file.path)
        try:
            with system.open(inside, "rb") as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
        except Exception as error:  # noqa: BLE001 - every file system has its own
            raise InputError(f"{file.path} cannot be read ({reason_of(error)}); check the address") from None
        yield copy


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise MissingExtraError("fsspec", "fleet") from None
    try:
        system, inside = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"{url}: {reason_of(error)}; install what it names, or check the address") from None
    return system, str(inside)


def _remote_files(url: str) -> list[File]:
    system, inside = _filesystem(url)
    try:
        if any(sign in inside for sign in "*?["):
            paths = [path for path in sorted(system.glob(inside)) if kind_of(Path(path)) is not None]
        elif kind_of(Path(inside)) is None and system.isdir(inside):
            listing = sorted(system.ls(inside, detail=False))
            paths = [path for path in listing if kind_of(Path(path)) in FOLDER_KINDS]
        else:
            paths = [inside]
        infos = [system.info(path) for path in paths]
    except Exception as error:  # noqa: BLE001 - every file system has its own
        raise InputError(f"{url} cannot be read ({reason_of(error)}); check the address") from None
    if not paths:
        raise InputError(f"{url} has no data file; {', '.join(FOLDER_KINDS)} are read")
    if kind_of(Path(paths[0])) is None:
        raise InputError(f"{url} is of an unknown kind; {', '.join(READERS)} are read")
    return [_remote_file(system, path, info) for path, info in zip(paths, infos, strict=True)]


def _remote_file(system: Any, path: str, info: dict[str, Any]) -> File:
    name = path.rsplit("/", 1)[-1]
    size = int(info.get("size") or 0)
    known = [str(info[key]) for key in ("ETag", "etag", "LastModified", "mtime", "updated", "created") if key in info]
    stem = name[: len(name) - len(kind_of(Path(name)) or "")]
    return File(stem, str(system.unstrip_protocol(path)), size, " ".join([str(size), *known]))

"""Files that appear whole or not at all, several of one call together, even if the process is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

from patchad.data.journal import PART, PREFIX, finish, locked, remove, write_file, write_journal
from patchad.errors import InputError

_IN_PLACE = ("/dev/std", "/dev/fd/", "/proc/")
"""How paths of open files begin; they may lead to a plain file, but replacing that would not reach its reader."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Refuse outputs that are folders, each other, or an input, by whatever path they are named.

    Parameters
    ----------
    outputs
        By the option that names each; None where it was not given.
    inputs
        The files that are read, and folders of them.

    Examples
    --------
    >>> check_outputs({"-o": Path("a.csv"), "--events": Path("./a.csv")}, [])
    Traceback (most recent call last):
    patchad.errors.InputError: -o and --events are the same file, 'a.csv'; give each its own path
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        if path.is_dir():
            raise InputError(f"{option} {str(path)!r} is a folder; give the path of a file to write")
    for (one, first), (other, second) in combinations(given.items(), 2):
        if _same(first, second) and not _in_place(first):
            raise InputError(f"{one} and {other} are the same file, {str(first)!r}; give each its own path")
    sources = [file for path in inputs for file in (path.iterdir() if path.is_dir() else [path])]
    for option, path in given.items():
        if any(_same(path, source) for source in sources):
            raise InputError(
                f"{option} {str(path)!r} is also an input, and would be overwritten; give another path to write to"
            )


def write_whole(contents: Mapping[Path, bytes]) -> None:
    """Write files so that all of them appear whole, or none does.

    A symbolic link is kept, and the file that it leads to is replaced; devices and pipes are written to directly.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole({Path(folder) / "a": b"1", Path(folder) / "b": b"2"})
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['a', 'b']
    """
    files: dict[Path, bytes] = {}
    for path, content in contents.items():
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if not _in_place(path):
            files[_target(path)] = content
    made = _make_folders({path.parent for path in files})
    try:
        with locked({path.parent for path in files}):
            staged = _stage(files)
            journal: list[Path] = []
            try:
                for path, content in contents.items():
                    if _in_place(path):
                        write_file(path, content, os.O_WRONLY)
                write_journal(staged, journal)
            except BaseException:
                remove([*journal, *staged])
                raise
            finish(staged, journal)
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _in_place(path: Path) -> bool:
    """Return whether a path is no plain file, so that it cannot be replaced by one."""
    return str(path).startswith(_IN_PLACE) or (path.exists() and not path.is_file())


def _target(path: Path) -> Path:
    """Follow symbolic links to the file that is to be replaced."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, "its symbolic links lead in a circle", str(path))
    return found


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _make_folders(folders: Iterable[Path]) -> list[Path]:
    """Make the folders that are not there; return them, the deepest first."""
    made: list[Path] = []
    for folder in folders:
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(exist_ok=True)
            made.append(missing)
    return made[::-1]


def _stage(files: Mapping[Path, bytes]) -> dict[Path, Path]:
    """Write every file under a temporary name in its folder; return the names that they are to get."""
    token = secrets.token_hex(8)
    staged: dict[Path, Path] = {}
    try:
        for number, (path, content) in enumerate(files.items()):
            temporary = path.parent / f"{PREFIX}{token}-{number}{PART}"
            staged[temporary] = path
            try:
                write_file(temporary, content, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from None
            if path.exists():
                _check_replaceable(path)
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
    except BaseException:
        remove(list(staged))
        raise
    return staged


def _check_replaceable(path: Path) -> None:
    """Refuse another user's file in a folder where everyone may replace only their own, such as /tmp."""
    if hasattr(os, "geteuid") and path.parent.stat().st_mode & stat.S_ISVTX:
        owners = {0, path.stat().st_uid, path.parent.stat().st_uid}
        if os.geteuid() not in owners:
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))

"""The journal of files that are to appear together, and the recovery of what a killed process left.

A journal lists under which temporary name each file lies and which name it is to get. Until it is in place nothing has
changed; from then on whoever next locks one of the folders finishes what it lists. Temporary files without a journal
are removed. Folders are locked while all this goes on, so that whatever is found in them has no living owner.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PREFIX = ".patchad-"
PART = ".part"
_JOURNAL, _POINTER = ".journal", ".pointer"
_KEYS = {_JOURNAL: {"moves"}, _POINTER: {"journal"}}
_PATIENCE = 30.0
"""Seconds to wait for another process that writes to the same folder."""


def write_file(path: Path, content: bytes, flags: int) -> None:
    """Write a file, with `flags` of `os.open`; a new one is on the disk when this returns."""
    handle = os.open(path, flags, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if flags & os.O_CREAT:
            os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)


def write_journal(staged: Mapping[Path, Path], journal: list[Path]) -> None:
    """Write the journal of several files, and add the paths that it takes to a list, itself first.

    It lies in the first folder; each other folder gets, before it, a pointer to it.
    """
    if len(staged) < 2:
        return
    home, *others = dict.fromkeys(path.parent for path in staged.values())
    token = next(iter(staged)).name.removeprefix(PREFIX).split("-")[0]
    main = home / f"{PREFIX}{token}{_JOURNAL}"
    journal.append(main)
    for folder in others:
        journal.append(folder / f"{PREFIX}{token}{_POINTER}")
        _write_note(journal[-1], {"journal": os.path.relpath(main, folder)})
    moves = [[os.path.relpath(one, home), os.path.relpath(path, home)] for one, path in staged.items()]
    _write_note(main, {"moves": moves})


def _write_note(path: Path, content: object) -> None:
    temporary = path.with_name(path.name + PART)
    try:
        write_file(temporary, json.dumps(content).encode(), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def remove(paths: Sequence[Path]) -> None:
    """Remove files in this order: a journal before its pointers, which then mean nothing, and before what it lists."""
    for path in paths:
        path.unlink(missing_ok=True)
        if path.suffix == _JOURNAL:
            _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make the names in a folder last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def finish(staged: Mapping[Path, Path], journal: Sequence[Path]) -> None:
    """Give all files their names; several have a journal, and get them whatever happens."""
    try:
        _rename(staged)
    except BaseException as error:
        if not journal:
            remove(list(staged))
            raise
        if not isinstance(error, KeyboardInterrupt):
            raise
        _rename(staged)  # too late to stop
    remove(journal)


def _rename(moves: Mapping[Path, Path]) -> None:
    """Give files their names, except those that have them already."""
    for temporary, path in moves.items():
        with contextlib.suppress(FileNotFoundError):
            temporary.replace(path)
    for folder in {path.parent for path in moves.values()}:
        _sync(folder)


@contextlib.contextmanager
def locked(folders: set[Path]) -> Iterator[None]:
    """Hold the locks of folders, with what killed processes left in them finished or removed.

    A folder that cannot be locked is written to all the same; what was left in it is then not touched.
    """
    wanted = set(folders)
    while True:
        with contextlib.ExitStack() as locks:
            known = {folder: _leftovers(folder) for folder in sorted(wanted) if _lock(folder, locks)}
            named = {other for notes in known.values() for other in _named_folders(notes)} - wanted
            if not named:
                _recover(known)
                yield
                return
            wanted |= named


def _lock(folder: Path, locks: contextlib.ExitStack) -> bool:
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return False
    locks.callback(os.close, handle)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise BlockingIOError(errno.EAGAIN, "another process is writing there", str(folder)) from None
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _leftovers(folder: Path) -> dict[Path, dict[str, Any]]:
    """Return the journals and pointers of our own in a folder, with their content."""
    found: dict[Path, dict[str, Any]] = {}
    for path in folder.glob(f"{PREFIX}*"):
        if path.suffix in (_JOURNAL, _POINTER) and _is_ours(path):
            with contextlib.suppress(ValueError, OSError):
                content = json.loads(path.read_bytes())
                if isinstance(content, dict) and content.keys() == _KEYS[path.suffix]:
                    found[path] = content
    return found


def _is_ours(path: Path) -> bool:
    """Return whether a file is this user's; in a folder that all may write to, others' journals are not obeyed."""
    with contextlib.suppress(OSError):
        about = path.lstat()
        return stat.S_ISREG(about.st_mode) and (not hasattr(os, "geteuid") or about.st_uid == os.geteuid())
    return False


def _named_folders(notes: Mapping[Path, dict[str, Any]]) -> Iterator[Path]:
    for note, content in notes.items():
        names = (
            [content["journal"]] if note.suffix == _POINTER else [name for move in content["moves"] for name in move]
        )
        for name in names:
            yield Path(os.path.realpath((note.parent / name).parent))


def _recover(known: Mapping[Path, Mapping[Path, dict[str, Any]]]) -> None:
    """Finish what journals list; remove what no journal knows of."""
    notes = {note: content for own in known.values() for note, content in own.items()}
    journals = {note: content for note, content in notes.items() if note.suffix == _JOURNAL}
    for note, content in journals.items():
        with contextlib.suppress(OSError):  # what cannot be finished is given up
            _rename({note.parent / temporary: note.parent / path for temporary, path in content["moves"]})
    remove(list(journals))
    remove([note for note in notes.keys() - journals if not (note.parent / notes[note]["journal"]).exists()])
    for folder in known:
        kept = {path.name.split(".")[1] for path in folder.glob(f"{PREFIX}*{_POINTER}")}
        for path in folder.glob(f"{PREFIX}*{PART}"):
            if _is_ours(path) and path.name.split(".")[1].rsplit("-", 1)[0] not in kept:
                path.unlink(missing_ok=True)

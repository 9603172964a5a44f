"""Store: one SQLite file with the state of the streams, the positions of the sources, and lines not yet written."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from patchad.errors import InputError, reason_of

APPLICATION = 0x50414457
"""Says in the header of the file whose it is."""
FORMAT = 1
SCHEMA = """
CREATE TABLE streams (key TEXT PRIMARY KEY, snapshot BLOB NOT NULL, waiting TEXT NOT NULL, newest TEXT NOT NULL);
CREATE TABLE sources (name TEXT PRIMARY KEY, position TEXT NOT NULL);
CREATE TABLE sinks (name TEXT PRIMARY KEY, written INTEGER NOT NULL, mark INTEGER NOT NULL);
CREATE TABLE lines (number INTEGER PRIMARY KEY AUTOINCREMENT, dead INTEGER NOT NULL, line TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as it is stored."""

    key: Any
    snapshot: bytes
    waiting: list[Any]
    """Times of the rows that have no verdict yet."""
    newest: Any
    """Time of the newest row, as JSON knows it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one batch of rows changed; stored as a whole or not at all."""

    streams: Sequence[StoredStream]
    positions: Mapping[str, Any]
    lines: Sequence[str]
    dead: Sequence[str]


class Store:
    """State in a file, or in RAM where no path is given.

    A step is one transaction: streams, positions, and the lines that it caused. Lines are written to sinks after that;
    how far each sink got is another transaction, and what all sinks have is removed. So a kill at any moment leaves a
    state from which nothing is lost and no line is made twice.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lock: IO[str] | None = None if path is None else _locked(path)
        try:
            with self._explained():
                self._database = sqlite3.connect(":memory:" if path is None else path, isolation_level=None)
            try:
                self._run("PRAGMA journal_mode=WAL")
                self._run("PRAGMA synchronous=NORMAL")
                self._check_format()
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            if self._lock is not None:
                self._lock.close()
            raise

    @property
    def durable(self) -> bool:
        """Whether anything outlives the process."""
        return self.path is not None

    def streams(self) -> Iterator[StoredStream]:
        """Return the streams as they were stored last."""
        for key, snapshot, waiting, newest in self._run("SELECT key, snapshot, waiting, newest FROM streams"):
            yield StoredStream(json.loads(key), snapshot, json.loads(waiting), json.loads(newest))

    def position(self, source: str) -> Any:
        """Return the position of a source; None where it was never read."""
        found = self._run("SELECT position FROM sources WHERE name = ?", source)
        return json.loads(found[0][0]) if found else None

    def mark(self, sink: str) -> int | None:
        """Return the mark of a sink; None where it was never written to."""
        found = self._run("SELECT mark FROM sinks WHERE name = ?", sink)
        return int(found[0][0]) if found else None

    def register(self, marks: Mapping[str, int]) -> None:
        """Name the sinks of this run; a new one also gets the lines that are left, one that is gone is forgotten."""
        with self._transaction():
            for (name,) in self._run("SELECT name FROM sinks"):
                if name not in marks:
                    self._run("DELETE FROM sinks WHERE name = ?", name)
            for name, mark in marks.items():
                self._run(
                    "INSERT INTO sinks VALUES (?, 0, ?) ON CONFLICT (name) DO UPDATE SET mark = excluded.mark",
                    name,
                    mark,
                )

    def commit(self, step: Step) -> None:
        """Store a step."""
        with self._transaction():
            for one in step.streams:
                columns = (json.dumps(one.key), one.snapshot, json.dumps(one.waiting), json.dumps(one.newest))
                self._run("INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?)", *columns)
            for name, position in step.positions.items():
                self._run("INSERT OR REPLACE INTO sources VALUES (?, ?)", name, json.dumps(position))
            for dead, lines in enumerate((step.lines, step.dead)):
                for line in lines:
                    self._run("INSERT INTO lines (dead, line) VALUES (?, ?)", dead, line)

    def unwritten(self, sink: str, *, dead: bool) -> tuple[int, list[str]]:
        """Return the lines that a sink has not got, and the number of the last line that there is."""
        ((written,),) = self._run("SELECT written FROM sinks WHERE name = ?", sink)
        found = self._run("SELECT number, dead, line FROM lines WHERE number > ? ORDER BY number", written)
        return (found[-1][0] if found else written), [line for _, kind, line in found if bool(kind) == dead]

    def confirm(self, written: Mapping[str, tuple[int, int]]) -> None:
        """Store the last line that each sink has, and its mark; remove the lines that all sinks have."""
        with self._transaction():
            for sink, (number, mark) in written.items():
                self._run("UPDATE sinks SET written = ?, mark = ? WHERE name = ?", number, mark, sink)
            self._run("DELETE FROM lines WHERE number <= (SELECT min(written) FROM sinks)")

    def close(self) -> None:
        """Close the file; another process may open it then."""
        self._database.close()
        if self._lock is not None:
            self._lock.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _check_format(self) -> None:
        """Make the tables of a new file; refuse what is not ours."""
        ((application,),), ((version,),) = self._run("PRAGMA application_id"), self._run("PRAGMA user_version")
        if (application, version) == (APPLICATION, FORMAT):
            return
        if application == APPLICATION:
            raise InputError(f"{self.path} has format {version}, this version reads {FORMAT}; name another file")
        if self._run("SELECT count(*) FROM sqlite_master")[0][0]:
            raise InputError(f"{self.path} is a database of something else; name another file for --state")
        with self._transaction():
            for statement in SCHEMA.strip().split("\n"):
                self._run(statement)
            self._run(f"PRAGMA application_id = {APPLICATION}")
            self._run(f"PRAGMA user_version = {FORMAT}")

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with self._explained():
            return self._database.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self._run("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InputError(
                f"the state {str(self.path)!r} cannot be used ({reason_of(error)}); name another file with --state, or "
                "make room and start again"
            ) from None


def _locked(path: Path) -> IO[str]:
    """Hold the state for this process; the lock ends with it, however it ends."""
    if path.is_dir():
        raise InputError(f"--state {str(path)!r} is a folder; give the path of a file")
    lock = path.with_name(f"{path.name}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InputError(f"another process uses the state {str(path)!r}; stop it, or name another file") from None
    return lock

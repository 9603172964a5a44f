"""Records: what a state tells of its streams, to whoever only reads."""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from patchad.errors import InputError, reason_of
from patchad.live.history import Rows, axis
from patchad.live.migrations import MIGRATIONS

APPLICATION = 0x50414457
"""Says in the header of the file whose it is."""
FORMAT = len(MIGRATIONS)
LIVING = ("suspected", "open")
"""States of events that may change still."""
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE)


class StoreFullError(InputError):
    """There is no room for more; what was to be stored was not, and may be tried again."""


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as it is stored."""

    key: Any
    snapshot: bytes
    waiting: list[Any]
    """Of the rows that have no verdict yet: the time as it came, and where it is on the axis of times."""
    newest: Any
    """Time of the newest row, as JSON knows it."""
    extra: Mapping[str, Any]
    """What else has to be known to go on."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What somebody said of an event."""

    key: Any
    event: str
    """Its `id`."""
    kind: str
    """`acknowledge`, `accept`, `confirm` or `comment`."""
    author: str
    text: str
    at: float
    """When, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that a service went on with."""

    checksum: str
    given: str
    """Checksum of the model file that the service was started with then."""
    why: str
    """What made it: `start`, `accept`, `confirm` or `upload`."""
    at: float = 0.0
    """When, in seconds since 1970."""
    file: bytes = b""


class Records:
    """Read a state, while another process or thread writes to it; each thread opens its own.

    Times of questions are ISO 8601 texts, datetimes or numbers; a stream whose rows have no times goes by the wall
    clock.

    Parameters
    ----------
    path
        The file of `--state`.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path
        if not path.is_file():
            raise InputError(f"there is no state {str(path)!r}; give the file that `patchad watch --state` wrote")
        self._connect(f"{path.resolve().as_uri()}?mode=ro")
        try:
            self._check_format()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # -- questions -----------------------------------------------------------------------------------------------------

    def meta(self, name: str) -> str | None:
        """Return a fact about the state: `id`, `model` (checksum), `version` (of the package that wrote it)."""
        found = self._run("SELECT value FROM meta WHERE name = ?", name)
        return str(found[0][0]) if found else None

    def keys(self) -> list[Any]:
        """Return the keys of the streams that have any history, or a state."""
        found = self._run("SELECT key FROM streams UNION SELECT DISTINCT key FROM history ORDER BY 1")
        return [self._parsed(key) for (key,) in found]

    def streams(self) -> Iterator[StoredStream]:
        """Return the streams as they were stored last."""
        for key, snapshot, waiting, newest, extra in self._run(
            "SELECT key, snapshot, waiting, newest, extra FROM streams"
        ):
            parts = (self._parsed(text, kind) for text, kind in ((waiting, list), (newest, object), (extra, dict)))
            stream = StoredStream(self._parsed(key), snapshot, *parts)
            if not isinstance(snapshot, bytes) or not all(isinstance(w, list) and len(w) == 2 for w in stream.waiting):
                raise self._damage(f"stream {stream.key!r} is not what was stored")
            yield stream

    def events(self, key: Any = ..., since: Any = None, until: Any = None) -> list[dict[str, Any]]:
        """Return events, each as its newest line has it, in the order of their times.

        Parameters
        ----------
        key
            Of one stream; of all by default.
        since, until
            Events that touch this time.
        """
        chosen, values = ("", []) if key is ... else (" AND key = ?", [json.dumps(key)])
        found = self._run(
            f"SELECT fields FROM events WHERE until >= ? AND since <= ?{chosen} ORDER BY since, rowid",  # noqa: S608
            *_span(since, until),
            *values,
        )
        return [self._parsed(fields, dict) for (fields,) in found]

    def living(self) -> list[dict[str, Any]]:
        """Return the events that may change still."""
        found = self._run("SELECT fields FROM events WHERE state IN (?, ?) ORDER BY rowid", *LIVING)
        return [self._parsed(fields, dict) for (fields,) in found]

    def event(self, name: str) -> list[dict[str, Any]]:
        """Return the events with this `id`: two streams that began alike may have one of the same."""
        return [self._parsed(fields, dict) for (fields,) in self._run("SELECT fields FROM events WHERE id = ?", name)]

    def rows(self, key: Any, since: Any = None, until: Any = None, *, last: int | None = None) -> Rows:
        """Return the rows of a stream that are kept, as they came.

        Parameters
        ----------
        key
            Of which stream.
        since, until
            From when to when, both included.
        last
            Only so many, the newest.
        """
        return self._history("row", key, since, until, last)

    def verdicts(self, key: Any, since: Any = None, until: Any = None, *, last: int | None = None) -> Rows:
        """Return what was said of the rows of a stream: `score`, `level` and `alarm` (0 or 1), in `numbers`."""
        return self._history("verdict", key, since, until, last)

    def remarks(self, event: str | None = None) -> list[Remark]:
        """Return what was said of an event, or of all, in the order in which it was said."""
        chosen, values = ("", []) if event is None else (" WHERE event = ?", [event])
        found = self._run(
            f"SELECT key, event, kind, author, text, at FROM remarks{chosen} ORDER BY number",  # noqa: S608
            *values,
        )
        return [Remark(self._parsed(key), *rest) for key, *rest in found]

    def first_at(self, key: Any) -> float | None:
        """Return the time of the oldest row of a stream that is kept, on the axis of times."""
        ((found,),) = self._run("SELECT min(since) FROM history WHERE key = ? AND kind = 'row'", json.dumps(key))
        return None if found is None else float(found)

    def holds(self, key: Any, at: float) -> bool | None:
        """Return whether a row of a stream is at this place on the axis of times; None: that is not kept any more."""
        ((number, since),) = self._run(
            "SELECT min(first), min(since) FROM history WHERE key = ? AND kind = 'row'", json.dumps(key)
        )
        if number is None or (number > 0 and at < since):
            return None
        return len(self.rows(key, at, at)) > 0

    def models(self) -> list[StoredModel]:
        """Return the models that a service went on with, newest first, without their files."""
        found = self._run("SELECT checksum, given, why, at FROM models ORDER BY number DESC")
        return [StoredModel(*one) for one in found]

    def model(self) -> StoredModel | None:
        """Return the model that is in force; None where a service never had any."""
        found = self._run("SELECT checksum, given, why, at, file FROM models ORDER BY number DESC LIMIT 1")
        return StoredModel(*found[0]) if found else None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _history(self, kind: str, key: Any, since: Any, until: Any, last: int | None) -> Rows:
        begin, end = _span(since, until)
        found: list[Rows] = []
        statement = (
            "SELECT data FROM history WHERE key = ? AND kind = ? AND until >= ? AND since <= ? ORDER BY first DESC"
        )
        count = 0
        for (data,) in self._each(statement, json.dumps(key), kind, begin, end):
            found.append(self._unpacked(data).between(begin, end))
            count += len(found[-1])
            if last is not None and count >= last:
                break
        whole = Rows.joined(found[::-1])
        return whole if last is None else whole.tail(last)

    def _parsed(self, text: Any, kind: type = object) -> Any:
        """Read what was stored as JSON, and of which kind."""
        try:
            found = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damage(error) from None
        if not isinstance(found, kind):
            raise self._damage(f"{text[:40]!r} stands where a {kind.__name__} was stored")
        return found

    def _unpacked(self, data: Any) -> Rows:
        try:
            return Rows.unpacked(data)
        except (zlib.error, ValueError, TypeError, LookupError, RecursionError) as error:
            raise self._damage(error) from None

    def _damage(self, reason: object) -> InputError:
        told = reason_of(reason) if isinstance(reason, BaseException) else reason
        return InputError(f"the state {str(self.path)!r} is damaged ({told}); use a copy of it, or name another file")

    def _connect(self, path: str) -> None:
        self._mutex = threading.RLock()
        with self._explained():
            self._database = sqlite3.connect(
                path, isolation_level=None, uri=path.startswith("file:"), check_same_thread=False
            )

    def _check_format(self) -> None:
        application, version = self._format()
        if application != APPLICATION:
            raise InputError(f"{self.path} is a database of something else; give a file of `patchad watch --state`")
        self._refuse_newer(version)
        if version < FORMAT:
            raise InputError(f"{self.path} has format {version}, {FORMAT} is needed; let `patchad watch` open it once")

    def _format(self) -> tuple[int, int]:
        ((application,),), ((version,),) = self._run("PRAGMA application_id"), self._run("PRAGMA user_version")
        return application, version

    def _refuse_newer(self, version: int) -> None:
        if version > FORMAT:
            raise InputError(
                f"{self.path} has format {version}, and this version of patchad knows up to {FORMAT}; use the newer "
                "version that wrote it, or name another file"
            )

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with self._mutex, self._explained():
            return self._database.execute(statement, values).fetchall()

    def _each(self, statement: str, *values: Any) -> Iterator[Any]:
        """Return what is found one by one."""
        with self._mutex, self._explained():
            yield from self._database.execute(statement, values)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # what is wrong may itself be told in damaged bytes
            where, reason = f"the state {str(self.path)!r}", reason_of(error)
            if getattr(error, "sqlite_errorcode", None) in _FULL or "disk is full" in reason:
                raise StoreFullError(f"there is no room for {where} ({reason}); make room") from None
            raise InputError(
                f"{where} cannot be used ({reason}); name another file with --state, or make room and start again"
            ) from None


def _span(since: Any, until: Any) -> tuple[float, float]:
    return (
        float("-inf") if since is None else axis(since),
        float("inf") if until is None else axis(until),
    )

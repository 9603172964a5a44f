"""Store: one SQLite file with the state of the streams, their history, and lines that are not yet delivered."""

from __future__ import annotations

import fcntl
import json
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from patchad.errors import InputError
from patchad.live.history import History, Retention, Rows, axis
from patchad.live.migrations import MIGRATIONS
from patchad.live.records import APPLICATION, FORMAT, Records, StoredModel, StoredStream

MODELS = 8
"""Models that are kept, the newest."""
LineKind = Literal["event", "verdict", "dead"]


class Line(NamedTuple):
    """A line for sinks."""

    kind: LineKind
    """`dead`: what could not be used or delivered, for the file of dead letters."""
    text: str


class StoredLine(NamedTuple):
    """A line as it is stored."""

    number: int
    """Counts up, and is never used again."""
    kind: LineKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one batch of rows changed; stored as a whole or not at all."""

    streams: Sequence[StoredStream] = ()
    positions: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[Line] = ()
    rows: Mapping[Any, Rows] = field(default_factory=dict)
    """New rows by the key of their stream."""
    verdicts: Mapping[Any, Rows] = field(default_factory=dict)
    """New verdicts by key: columns `score`, `level`, `alarm`."""
    model: StoredModel | None = None
    """The model that is in force from now on, where it is another one."""
    events: Sequence[Mapping[str, Any]] = ()
    """Events as their lines have them: `key`, `id`, `state` and the other fields."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """For `meta`."""


class Store(Records):
    """State in a file, or in RAM where no path is given; one at a time writes to it.

    A step is one transaction: streams, positions, history, and the lines that it caused. Lines are written to sinks
    after that; how far each sink got is another transaction, and what all sinks have is removed. So a kill at any
    moment leaves a state from which nothing is lost and no line is made twice. What a method has stored is on the disk
    when it returns. Any thread may call; `Records` reads from elsewhere, without waiting.

    Parameters
    ----------
    path
        The file; made, or brought to the newest format.
    retention
        How long rows and verdicts are kept.

    Examples
    --------
    >>> with Store() as store:
    ...     store.commit(Step(rows={"pump": Rows.of(0, [1, 2], [{"flow": 1.5}, {"flow": 2.5}], ["flow"])}))
    ...     store.rows("pump", since=2)[0]
    {'flow': 2.5}
    """

    def __init__(self, path: Path | None = None, retention: Retention | None = None) -> None:
        self.path = path
        self._lock: IO[str] | None = None if path is None else _locked(path)
        try:
            self._connect(":memory:" if path is None else str(path))
            try:
                self._run("PRAGMA journal_mode=WAL")
                self._run("PRAGMA synchronous=FULL")
                self._migrate()
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            if self._lock is not None:
                self._lock.close()
            raise
        self._kept = History(self._run, Retention() if retention is None else retention)

    @property
    def durable(self) -> bool:
        """Whether anything outlives the process."""
        return self.path is not None

    @property
    def id(self) -> str:
        """Tells this state from all others."""
        return str(self.meta("id"))

    def keep(self, retention: Retention) -> None:
        """Keep rows and verdicts for another time from now on."""
        self._kept = History(self._run, retention)

    # -- where sources and sinks are -----------------------------------------------------------------------------------

    def position(self, source: str) -> Any:
        """Return the position of a source; None where it was never read."""
        found = self._run("SELECT position FROM sources WHERE name = ?", source)
        return self._parsed(found[0][0]) if found else None

    def mark(self, sink: str) -> int | None:
        """Return the mark of a sink; None where it was never written to."""
        found = self._run("SELECT mark FROM sinks WHERE name = ?", sink)
        if found and not isinstance(found[0][0], int):
            raise self._damage(f"the mark of {sink!r} is no whole number")
        return found[0][0] if found else None

    def register(self, sinks: Mapping[str, tuple[int, Sequence[LineKind]]]) -> None:
        """Name the sinks of this run, with their marks and the kinds of lines that they want.

        A new one also gets the lines that are left, one that is gone is forgotten.
        """
        with self._transaction():
            for (name,) in self._run("SELECT name FROM sinks"):
                if name not in sinks:
                    self._run("DELETE FROM sinks WHERE name = ?", name)
            for name, (mark, kinds) in sinks.items():
                self._run(
                    "INSERT INTO sinks VALUES (?, 0, ?, ?) "
                    "ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, kinds = excluded.kinds",
                    *(name, mark, " ".join(kinds)),
                )

    def undelivered(self, sink: str, most: int = 5000) -> list[StoredLine]:
        """Return the next lines of the kinds that a sink wants and has not got."""
        found = self._run(
            "SELECT number, kind, line FROM lines, sinks "
            "WHERE name = ? AND number > written AND instr(kinds, kind) ORDER BY number LIMIT ?",
            *(sink, most),
        )
        return [StoredLine(*one) for one in found]

    def confirm(self, delivered: Mapping[str, tuple[int, int]], facts: Mapping[str, str] | None = None) -> None:
        """Store the last line that sinks have got, and their marks; remove the lines that nobody waits for.

        `facts` are stored with it, for `meta`.
        """
        if not delivered and not facts:
            return
        with self._transaction():
            self._confirm(delivered)
            self._note(facts or {})

    def give_up(self, sink: str, number: int, letter: str) -> None:
        """Pass over a line that a sink will not take; `letter` is for the file of dead letters."""
        with self._transaction():
            self._run("INSERT INTO lines (kind, line) VALUES ('dead', ?)", letter)
            self._confirm({sink: (number, self.mark(sink) or 0)})

    # -- what happened -------------------------------------------------------------------------------------------------

    def commit(self, step: Step) -> None:
        """Store a step."""
        with self._transaction():
            for one in step.streams:
                parts = (json.dumps(part) for part in (one.waiting, one.newest, dict(one.extra)))
                self._run(
                    "INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?, ?)", json.dumps(one.key), one.snapshot, *parts
                )
            for name, position in step.positions.items():
                self._run("INSERT OR REPLACE INTO sources VALUES (?, ?)", name, json.dumps(position))
            for kind, text in step.lines:
                self._run("INSERT INTO lines (kind, line) VALUES (?, ?)", kind, text)
            for fields in step.events:
                self._put_event(fields)
            for history, added in (("row", step.rows), ("verdict", step.verdicts)):
                for key, rows in added.items():
                    self._kept.add(json.dumps(key), history, rows)
            self._kept.prune()
            if step.model is not None:
                self._put_model(step.model)
            self._note(step.facts)

    def note(self, **facts: str) -> None:
        """Store facts about the state, for `meta`."""
        with self._transaction():
            self._note(facts)

    def remark(self, key: Any, event: str, kind: str, *, author: str = "", text: str = "") -> None:
        """Store what somebody said of an event."""
        with self._transaction():
            self._run(
                "INSERT INTO remarks (key, event, kind, author, text, at) VALUES (?, ?, ?, ?, ?, ?)",
                *(json.dumps(key), event, kind, author, text, clock.time()),
            )

    def close(self) -> None:
        """Close the file; another process may open it then."""
        with self._mutex:
            super().close()
        if self._lock is not None:
            self._lock.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _note(self, facts: Mapping[str, str]) -> None:
        for name, value in facts.items():
            self._run("INSERT OR REPLACE INTO meta VALUES (?, ?)", name, value)

    def _put_model(self, model: StoredModel) -> None:
        values = (model.checksum, model.given, model.why, clock.time(), model.file)
        self._run("INSERT INTO models (checksum, given, why, at, file) VALUES (?, ?, ?, ?, ?)", *values)
        self._run("DELETE FROM models WHERE number <= (SELECT max(number) FROM models) - ?", MODELS)

    def _put_event(self, fields: Mapping[str, Any]) -> None:
        """Store the newest word on an event; where rows have no times, it begins when it is first heard of."""
        now = clock.time()
        since, until = axis(fields.get("start_time"), now), axis(fields.get("stop_time"), now)
        timed = fields.get("start_time") is not None
        self._run(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key, id) DO UPDATE SET state = excluded.state, "
            "since = CASE WHEN ? THEN excluded.since ELSE since END, until = excluded.until, fields = excluded.fields",
            *(json.dumps(fields["key"]), fields["id"], fields["state"], since, until, json.dumps(dict(fields)), timed),
        )
        before = fields.get("suspected_id")
        if before not in (None, fields["id"]):  # what was suspected has become this one
            key = json.dumps(fields["key"])
            self._run("DELETE FROM events WHERE key = ? AND id = ?", key, before)
            self._run("UPDATE remarks SET event = ? WHERE key = ? AND event = ?", fields["id"], key, before)

    def _confirm(self, delivered: Mapping[str, tuple[int, int]]) -> None:
        for sink, (number, mark) in delivered.items():
            self._run("UPDATE sinks SET written = ?, mark = ? WHERE name = ?", number, mark, sink)
        for kind in ("event", "verdict", "dead"):
            self._run(
                "DELETE FROM lines WHERE kind = ? AND number <= coalesce("
                "(SELECT min(written) FROM sinks WHERE instr(kinds, ?)), (SELECT max(number) FROM lines))",
                *(kind, kind),
            )

    def _migrate(self) -> None:
        """Make the tables of a new file, or bring an older one to the newest format; refuse what is not ours."""
        application, version = self._format()
        if application == APPLICATION:
            self._refuse_newer(version)
        elif self._run("SELECT count(*) FROM sqlite_master")[0][0]:
            raise InputError(f"{self.path} is a database of something else; name another file for --state")
        if version == FORMAT:
            return
        with self._transaction():
            for migration in MIGRATIONS[version:]:
                migration(self._run)
            self._run(f"PRAGMA application_id = {APPLICATION}")
            self._run(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._mutex:
            self._run("BEGIN IMMEDIATE")
            try:
                yield
                self._run("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                if hasattr(self, "_kept"):
                    self._kept.forget()
                raise


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

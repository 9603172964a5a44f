"""Live streams: rows by key in, lines out, and what has to be stored of each stream. `watch` and `serve` drive them."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad.errors import InputError
from patchad.live.history import Rows, axis
from patchad.live.output import event_fields, verdict_line
from patchad.live.records import StoredStream
from patchad.live.rows import Columns, Key, Row, comparable
from patchad.live.silence import SILENCE, Pace
from patchad.live.store import Line, Step
from patchad.results.detection import Event, time_text
from patchad.streaming.pool import StreamPool
from patchad.streaming.verdict import Verdict

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

SAID = ("score", "level", "alarm")
"""What is stored of a verdict."""
SEVERITY = 50.0
"""Of a silence, which no score tells the height of."""


@dataclass(slots=True)
class _Stream:
    """What is known of a stream beside its state in the pool."""

    waiting: deque[Any] = field(default_factory=deque)
    """Of the rows that have no verdict yet: the time as it came, and where it is on the axis of times."""
    newest: Any = None
    """Time of the newest row, as the stream took it."""
    stored: Any = None
    """Time of the newest row that was stored before this run; None once a newer one came."""
    pace: Pace = field(default_factory=Pace)
    silent: dict[str, Any] | None = None
    """The event of its silence, while that lasts."""
    beside: dict[str, Any] = field(default_factory=dict)
    """What else whoever drives the streams wants to be stored."""


@dataclass(slots=True)
class _Kept:
    """Rows or verdicts of one stream that follow each other."""

    first: int
    times: list[Any] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, time: Any, at: float, row: Mapping[str, Any]) -> None:
        self.times.append(time)
        self.at.append(at)
        self.rows.append(row)

    def packed(self, columns: Sequence[str]) -> Rows:
        return Rows.of(self.first, self.times, self.rows, columns, self.at)


@dataclass(slots=True)
class Batch:
    """What becomes of the rows that are taken together."""

    touched: dict[Key, None] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    rows: dict[Key, _Kept] = field(default_factory=dict)
    verdicts: dict[Key, _Kept] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


class LiveStreams:
    """The streams of one model, told apart by a key.

    Verdicts do not depend on how rows are cut into batches; which states of an event are told does, so `watch` pushes
    one row at a time.

    Parameters
    ----------
    detector
        Fitted.
    silence
        Steps between rows after which a stream is silent; 0: never.
    """

    def __init__(self, detector: Detector, silence: float = SILENCE) -> None:
        self.silence = silence
        self.columns = Columns(
            detector.columns_ or detector.channels_, detector.named_, frozenset(detector.switches_.columns)
        )
        self._pool = StreamPool(detector)
        self._streams: dict[Key, _Stream] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def restore(self, stored: Iterable[StoredStream]) -> None:
        """Let streams go on as they were stored."""
        for one in stored:
            self._pool.restore_stream(one.key, one.snapshot)
            newest = _moment_of(one.newest)
            stream = self._streams[one.key] = _Stream(deque(one.waiting), newest, newest)
            stream.silent = one.extra.get("silent")
            stream.beside = dict(one.extra.get("beside", {}))

    def count(self, key: Key) -> int:
        """Return how many rows a stream has taken; 0 where there is none."""
        return self._pool.count(key) if key in self._streams else 0

    def newest(self, key: Key) -> Any:
        """Return the time of the newest row of a stream, as the stream took it."""
        return self._streams[key].newest if key in self._streams else None

    def beside(self, key: Key) -> dict[str, Any]:
        """Return what is stored beside a stream, to be changed."""
        return self._streams[key].beside

    def unfinished(self, key: Key) -> list[dict[str, Any]]:
        """Return the events of a stream that may change still, as they are now."""
        return [event_fields(key, event) for event in self._pool.unfinished(key)]

    def move(self, detector: Detector, batch: Batch) -> LiveStreams:
        """Return the streams as they go on with another model; what that made final is in the batch."""
        pool, made = self._pool.moved(detector)
        after = LiveStreams(detector)
        after._pool, after._streams = pool, self._streams
        for key in self._streams:
            after._tell(key, made[key], batch)
        return after

    def push(
        self, rows: Mapping[Key, Sequence[Row]], batch: Batch
    ) -> tuple[dict[Key, tuple[Verdict, ...]], dict[Key, InputError]]:
        """Push the next rows of some streams; of each all of them or, if one is refused, none.

        Returns
        -------
        The verdicts that became final, and the errors of refused rows.
        """
        times = {key: _moments(own) for key, own in rows.items() if any(row.moment is not None for row in own)}
        found, refused = self._pool.try_many({key: [row.values for row in own] for key, own in rows.items()}, times)
        told: dict[Key, tuple[Verdict, ...]] = {}
        for key, own in rows.items():
            if key in refused:
                if key not in self._streams:
                    self._pool.drop(key)
                continue
            stream = self._streams.setdefault(key, _Stream())
            self._keep(key, own, batch)
            self._hear(key, own, batch)
            stream.newest = own[-1].moment if own else stream.newest
            told[key] = found[key]
            self._tell(key, found[key], batch)
        return told, {key: refused[key] for key in rows if key in refused}

    def flush(self, batch: Batch) -> int:
        """End every stream; return how many verdicts that gave."""
        count = 0
        for key in self._streams:
            verdicts = self._pool.flush(key)
            self._tell(key, verdicts, batch)
            count += len(verdicts)
        return count

    def listen(self, batch: Batch) -> None:
        """Open an event for each stream that has fallen silent."""
        for key, stream in self._streams.items():
            if stream.silent is None and stream.pace.is_silent():
                stream.silent = silence_fields(key, self.count(key), stream.newest)
                self._tell_event(key, stream.silent, batch)

    def came_before(self, row: Row, *, again: bool = False) -> bool:
        """Return whether a row was stored before this run: a source without positions may give it again.

        With `again` the source says that it may, and rows of this run count too.
        """
        stream = self._streams.get(row.key)
        last = None if stream is None else stream.newest if again else stream.stored
        if stream is None or last is None or row.moment is None:
            return False
        now, before = comparable(row.moment), comparable(last)
        if type(now) is not type(before) or now > before:
            stream.stored = None
            return False
        return True

    def stored(self, key: Key) -> StoredStream:
        """Return what has to be stored of a stream."""
        stream = self._streams[key]
        newest = None if stream.newest is None else comparable(stream.newest)
        text = newest if newest is None or isinstance(newest, float) else str(newest)
        extra = {} if stream.silent is None else {"silent": stream.silent}
        extra |= {"beside": stream.beside} if stream.beside else {}
        return StoredStream(key, self._pool.snapshot_stream(key), list(stream.waiting), text, extra)

    def step(self, batch: Batch, positions: Mapping[str, Any]) -> Step:
        """Return what has to be stored of a batch, with the positions of sources after it."""
        return Step(
            streams=[self.stored(key) for key in batch.touched],
            positions=positions,
            lines=batch.lines,
            rows={key: kept.packed(self.columns.channels) for key, kept in batch.rows.items() if kept.rows},
            verdicts={key: kept.packed(SAID) for key, kept in batch.verdicts.items()},
            events=batch.events,
        )

    def _keep(self, key: Key, rows: Sequence[Row], batch: Batch) -> None:
        """Note rows that were taken."""
        kept = batch.rows.setdefault(key, _Kept(self.count(key) - len(rows)))
        for row in rows:
            at = axis(row.moment)
            kept.add(row.time, at, row.values)
            self._streams[key].waiting.append((row.time, at))

    def _hear(self, key: Key, rows: Sequence[Row], batch: Batch) -> None:
        """Note that rows came, which ends a silence."""
        stream = self._streams[key]
        stream.pace.factor = self.silence
        for row in rows:
            if row.moment is not None and not isinstance(row.moment, int | float):
                stream.pace.hear(axis(row.moment), silent=stream.silent is not None)
        if stream.silent is not None and rows:
            over = stream.silent | {"state": "closed", "stop_time": time_text(_stamp(rows[0].moment))}
            stream.silent = None
            self._tell_event(key, over, batch)

    def _tell_event(self, key: Key, fields: dict[str, Any], batch: Batch) -> None:
        batch.touched[key] = None
        batch.events.append(fields)
        batch.lines.append(Line("event", json.dumps(fields)))

    def _tell(self, key: Key, verdicts: Sequence[Verdict], batch: Batch) -> None:
        waiting = self._streams[key].waiting
        batch.touched[key] = None
        for verdict in verdicts:
            time, at = waiting.popleft()
            said = {"score": verdict.score, "level": verdict.level, "alarm": float(verdict.alarm)}
            batch.verdicts.setdefault(key, _Kept(verdict.index)).add(time, at, said)
            batch.lines.append(Line("verdict", verdict_line(key, time, verdict)))
        for event in self._pool.changes(key):
            self._tell_event(key, event_fields(key, event), batch)


def silence_fields(key: Key, count: int, newest: Any) -> dict[str, Any]:
    """Return the event of a stream that is silent since its newest row, which is the event's only one."""
    name = hashlib.sha256(json.dumps([key, "silence", count]).encode()).hexdigest()[:16]
    time = _stamp(newest)
    event = Event(count - 1, count, count - 1, 0.0, SEVERITY, (), time, time, kind="missing", id=name, state="open")
    return event_fields(key, event)


def _stamp(moment: Any) -> Any:
    """Return a time as an event has it."""
    import pandas as pd

    return moment if moment is None or isinstance(moment, int | float) else pd.Timestamp(moment)


def _moments(rows: Sequence[Row]) -> list[Any]:
    """Return the times of rows, NaT where one has none, which a stream refuses."""
    return [np.datetime64("NaT") if row.moment is None else row.moment for row in rows]


def _moment_of(stored: str | float | None) -> Any:
    return np.datetime64(stored, "ns") if isinstance(stored, str) else stored

"""Live streams: rows by key in, lines out, and what has to be stored of each stream. `watch` and `serve` drive them."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad.data.periods import Periods
from patchad.detectors.operator import mark_quiet
from patchad.errors import InputError
from patchad.live.history import Rows, axis
from patchad.live.output import event_fields, verdict_line
from patchad.live.records import LIVING, StoredStream
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
EXTRA = ("silent", "beside", "offset", "names")
"""What else is stored of a stream."""
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
    offset: int = 0
    """Rows before the first that its model has seen: the others were another model's."""
    names: dict[str, str] = field(default_factory=dict)
    """Ids of events that another model had told of, by those that this one gives them."""


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

    def holds(self, key: Key, at: float) -> bool | None:
        """Return whether a row of a stream is at this place on the axis of times; None: it may be in one before."""
        kept = self.rows.get(key)
        if kept is not None and at in kept.at:
            return True
        return False if kept is not None and kept.first == 0 else None


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
    quiet
        Periods without events.
    """

    def __init__(self, detector: Detector, silence: float = SILENCE, quiet: Periods = ()) -> None:
        self.silence = silence
        self.columns = Columns(
            detector.columns_ or detector.channels_, detector.named_, frozenset(detector.switches_.columns)
        )
        self._pool = StreamPool(detector, partial(mark_quiet, detector, quiet) if quiet else None)
        self._streams: dict[Key, _Stream] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._streams)

    def __contains__(self, key: object) -> bool:
        return key in self._streams

    def __len__(self) -> int:
        return len(self._streams)

    def restore(self, stored: Iterable[StoredStream]) -> None:
        """Let streams go on as they were stored."""
        for one in stored:
            self._pool.restore_stream(one.key, one.snapshot)
            newest = _moment_of(one.newest)
            self._streams[one.key] = _Stream(deque(one.waiting), newest, newest, **_known(one.extra))

    @property
    def identity(self) -> tuple[str, str]:
        """The checksum of the model, and what another has to share with it for its streams to go on with that."""
        return self._pool.identity

    def adopt(self, one: StoredStream) -> None:
        """Let a stream go on that was stored with another model of the same shape."""
        self._pool.adopt_stream(one.key, one.snapshot)
        newest = _moment_of(one.newest)
        self._streams[one.key] = _Stream(deque(one.waiting), newest, newest, **_known(one.extra))

    def replay(self, one: StoredStream, rows: Rows, living: Sequence[Mapping[str, Any]], batch: Batch) -> None:
        """Begin a stream that was another model's by its newest rows; tell what is new, and of nothing twice.

        Parameters
        ----------
        one
            The stream as it was stored.
        rows
            Its newest rows.
        living
            Events of it that may change still.
        batch
            Takes the verdicts of rows that had none, and events.
        """
        count = int(rows.index[-1]) + 1 if len(rows) else int(one.extra.get("count", len(one.waiting)))
        offset = int(rows.index[0]) if len(rows) else count
        waiting, newest = deque(one.waiting), _moment_of(one.newest)
        stream = self._streams[one.key] = _Stream(waiting, newest, newest, **_known(one.extra))
        stream.offset, stream.names = offset, {}
        told = count - len(waiting)
        unknown = range(told - offset, 0)  # rows that wait and are not kept any more
        self._pool.drop(one.key)
        found, refused = self._pool.try_many({one.key: list(rows)}, {one.key: moments_of(rows)})
        if refused:
            raise refused[one.key]
        nothing = np.zeros(len(self.columns.channels))
        verdicts = [Verdict(row, np.nan, np.nan, alarm=False, contributions=nothing) for row in unknown]
        verdicts += [verdict for verdict in found[one.key] if verdict.index + offset >= told]
        self._tell_verdicts(one.key, verdicts, batch)
        self._reconcile(one.key, living, told, batch)

    def _reconcile(self, key: Key, living: Sequence[Mapping[str, Any]], told: int, batch: Batch) -> None:
        """Tell of events of the rows that had no verdict; those that were told of go on, or end."""
        stream = self._streams[key]
        events = self._pool.changes(key)
        for old in living:
            same = [one for one in events if one.kind == old["kind"] and one.stop + stream.offset > old["start"]]
            if same:
                nearest = min(same, key=lambda one: abs(one.start + stream.offset - old["start"]))
                stream.names[nearest.id] = old["id"]
            else:
                state = "withdrawn" if old["state"] == "suspected" else "closed"
                self._tell_event(key, {**old, "state": state}, batch)
        known = {old["id"]: old["state"] for old in living}
        for event in events:
            fields = self._fields(key, event)
            new = event.state in LIVING or fields["stop"] > told or fields["id"] in known
            if new and known.get(fields["id"]) != event.state:
                self._tell_event(key, fields, batch)

    def count(self, key: Key) -> int:
        """Return how many rows a stream has taken; 0 where there is none."""
        return self._pool.count(key) + self._streams[key].offset if key in self._streams else 0

    def decided(self, key: Key) -> int:
        """Return how many rows of a stream have a verdict: the first ones."""
        return self.count(key) - len(self._streams[key].waiting)

    def newest(self, key: Key) -> Any:
        """Return the time of the newest row of a stream, as the stream took it."""
        return self._streams[key].newest if key in self._streams else None

    def beside(self, key: Key) -> dict[str, Any]:
        """Return what is stored beside a stream, to be changed."""
        return self._streams[key].beside

    def unfinished(self, key: Key) -> list[dict[str, Any]]:
        """Return the events of a stream that may change still, as they are now."""
        return [self._fields(key, event) for event in self._pool.unfinished(key)]

    def undecided(self, key: Key) -> list[tuple[float, float, float]]:
        """Return where the rows are that have a score but no verdict yet, on the axis of times, and both."""
        scores, levels = self._pool.undecided(key)
        waiting = list(self._streams[key].waiting)[: len(scores)]
        known = zip(waiting, scores.tolist(), levels.tolist(), strict=True)
        return [(at, score, level) for (_, at), score, level in known]

    def outlook(self, key: Key) -> Verdict | None:
        """Return what can be told now of the newest row of a stream."""
        return self._pool.outlook(key)

    def move(self, detector: Detector, batch: Batch) -> LiveStreams:
        """Return the streams as they go on with another model; what that made final is in the batch."""
        pool, made = self._pool.moved(detector)
        after = LiveStreams(detector, self.silence)
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
        extra = {"count": self.count(key)} | {name: getattr(stream, name) for name in EXTRA}
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
        self._tell_verdicts(key, verdicts, batch)
        for event in self._pool.changes(key):
            self._tell_event(key, self._fields(key, event), batch)

    def _tell_verdicts(self, key: Key, verdicts: Sequence[Verdict], batch: Batch) -> None:
        waiting, offset = self._streams[key].waiting, self._streams[key].offset
        batch.touched[key] = None
        if len(waiting) < len(verdicts):
            raise InputError(
                f"the state is damaged: of stream {key!r} {len(waiting)} rows wait, and {len(verdicts)} have a verdict "
                "now; use a copy of the state, or name another file"
            )
        for verdict in (replace(one, index=one.index + offset) for one in verdicts) if offset else verdicts:
            time, at = waiting.popleft()
            said = {"score": verdict.score, "level": verdict.level, "alarm": float(verdict.alarm)}
            batch.verdicts.setdefault(key, _Kept(verdict.index)).add(time, at, said)
            batch.lines.append(Line("verdict", verdict_line(key, time, verdict)))

    def _fields(self, key: Key, event: Event) -> dict[str, Any]:
        """Return what a line says of an event, with rows counted from the first of the stream, of whatever model."""
        stream = self._streams[key]
        fields = event_fields(key, event)
        for name in ("start", "stop", "peak"):
            fields[name] += stream.offset
        for name in ("id", "suspected_id"):
            if fields.get(name) is not None:
                fields[name] = stream.names.get(fields[name], _salted(fields[name], stream.offset))
        return fields


def moments_of(rows: Rows) -> list[Any] | None:
    """Return the times of stored rows as a stream takes them; None where they have none."""
    import pandas as pd

    if any(time is None for time in rows.times):
        return None
    counted = all(time == at for time, at in zip(rows.times, rows.at, strict=True))
    if counted or all(isinstance(time, str) for time in rows.times):
        return list(rows.times)
    return list(pd.to_datetime((rows.at * 1e9).round().astype("int64"), utc=True))


def _salted(name: str, offset: int) -> str:
    """Return an id that no event of the model before has."""
    return name if not offset else hashlib.sha256(f"{name} {offset}".encode()).hexdigest()[: len(name)]


def _known(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {name: extra[name] for name in EXTRA if name in extra}


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


def _moment_of(stored: object) -> Any:
    """Return a stored time as streams compare it."""
    try:
        moment = np.datetime64(stored, "ns") if isinstance(stored, str) else stored
    except ValueError:
        moment = ()
    if not isinstance(moment, np.datetime64 | int | float | None):
        raise InputError(f"the state is damaged: {stored!r} is no time; use a copy of the state, or name another file")
    return moment

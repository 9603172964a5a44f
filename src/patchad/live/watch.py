"""Watch: rows from sources through streams to sinks, a batch at a time, each batch stored before it is told of."""

from __future__ import annotations

import json
import logging
import time as clock
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad.data.names import visible
from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.output import event_line, verdict_line
from patchad.live.rows import Columns, HeaderError, Key, Row, RowReader
from patchad.live.sinks.base import Sink
from patchad.live.sinks.file import FileSink
from patchad.live.sources.base import Source
from patchad.live.store import Step, Store, StoredStream
from patchad.streaming.pool import StreamPool
from patchad.streaming.rows import read_times

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

logger = logging.getLogger(__name__)

IDLE = 0.02
"""Seconds to wait when no source has anything."""
SHOWN = 200
"""Characters of a refused row that a message shows."""


@dataclass(slots=True)
class Counts:
    """What came and what was said, in this run."""

    rows: int = 0
    verdicts: int = 0
    refused: int = 0
    redelivered: int = 0
    """Rows that were stored before the restart and came again."""


@dataclass(slots=True)
class _Stream:
    """What is known of a stream beside its state in the pool."""

    waiting: deque[Any] = field(default_factory=deque)
    """Times of the rows that have no verdict yet."""
    newest: Any = None
    """Time of the newest row, as the stream took it."""
    stored: Any = None
    """Time of the newest row that was stored before this run; None once a newer one came."""


@dataclass(slots=True)
class _Batch:
    """What becomes of the rows that are taken together."""

    touched: dict[Key, None] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)


class Watch:
    """Judge rows as they come, one stream for each key.

    Rows are pushed one at a time, so that what is said does not depend on how they were cut into batches.

    Parameters
    ----------
    detector
        Fitted.
    sources, sinks
        Where rows come from and lines go to; `Watch` opens and closes them.
    store
        Keeps the state.
    """

    def __init__(self, detector: Detector, sources: Sequence[Source], sinks: Sequence[Sink], store: Store) -> None:
        self.counts = Counts()
        self._sources, self._store = sources, store
        self._sinks = sorted(sinks, key=lambda sink: sink.path is None)  # what can be taken back is written first
        self._dead = None if store.path is None else FileSink(dead_letters(store.path))
        self._columns = Columns(
            detector.columns_ or detector.channels_, detector.named_, frozenset(detector.switches_.columns)
        )
        self._pool = StreamPool(detector)
        self._streams: dict[Key, _Stream] = {}
        self._readers: dict[str, RowReader] = {}

    def run(self, stopping: Callable[[], bool] = lambda: False) -> Counts:
        """Go on until all sources have ended, or until it is to stop.

        At the end of the input every stream is flushed. When stopped, streams are flushed only if their state is not
        stored.
        """
        self._open()
        try:
            self._deliver()
            while not stopping():
                came = [(source, lines) for source in self._sources if (lines := source.poll())]
                for source, lines in came:
                    self._take(source, lines)
                if all(source.ended for source in self._sources):
                    self._flush()
                    return self.counts
                if not came:
                    clock.sleep(IDLE)
            if not self._store.durable:
                self._flush()
        finally:
            for source in self._sources:
                source.close()
            for sink in self._all_sinks():
                sink.close()
        return self.counts

    # -- inside --------------------------------------------------------------------------------------------------------

    def _all_sinks(self) -> list[Sink]:
        return self._sinks if self._dead is None else [self._dead, *self._sinks]

    def _open(self) -> None:
        for stored in self._store.streams():
            self._pool.restore_stream(stored.key, stored.snapshot)
            newest = _moment_of(stored.newest)
            self._streams[stored.key] = _Stream(deque(stored.waiting), newest, newest)
        for source in self._sources:
            position = self._store.position(source.name)
            source.open(None if position is None else position["source"])
            fresh = position is None or not source.resumed
            reader = RowReader(self._columns) if fresh else RowReader.restore(self._columns, position["reader"])
            self._readers[source.name] = reader
        self._store.register({sink.name: sink.open(self._store.mark(sink.name)) for sink in self._all_sinks()})

    def _take(self, source: Source, lines: Iterable[bytes]) -> None:
        """Judge the rows of these lines, store what came of them, and write it."""
        batch = _Batch()
        rows: dict[Key, list[tuple[Row, bytes]]] = {}
        reader = self._readers[source.name]
        for line in lines:
            try:
                row = reader.read(line)
                if row is not None and not self._came_before(row, source):
                    rows.setdefault(row.key, []).append((row, line))
            except HeaderError as error:
                raise InputError(f"{source.name}: {error}") from None
            except InputError as error:
                self._refuse(source, line, error, batch)
        for turn in range(max(map(len, rows.values()), default=0)):
            self._push({key: own[turn] for key, own in rows.items() if turn < len(own)}, source, batch)
        self._commit(batch, {source.name: {"source": source.position, "reader": reader.state}})

    def _push(self, rows: dict[Key, tuple[Row, bytes]], source: Source, batch: _Batch) -> None:
        """Push one row of each stream."""
        times = {key: [row.moment] for key, (row, _) in rows.items() if row.moment is not None}
        found, refused = self._pool.try_many({key: [row.values] for key, (row, _) in rows.items()}, times)
        for key, (row, line) in rows.items():
            if key in refused:
                self._refuse(source, line, refused[key], batch)
                if key not in self._streams:
                    self._pool.drop(key)
                continue
            self.counts.rows += 1
            stream = self._streams.setdefault(key, _Stream())
            stream.waiting.append(row.time)
            stream.newest = row.moment
            self._tell(key, found[key], batch)

    def _tell(self, key: Key, verdicts: Sequence[Any], batch: _Batch) -> None:
        waiting = self._streams[key].waiting
        batch.touched[key] = None
        batch.lines += [verdict_line(key, waiting.popleft(), verdict) for verdict in verdicts]
        batch.lines += [event_line(key, event) for event in self._pool.changes(key)]
        self.counts.verdicts += len(verdicts)

    def _flush(self) -> None:
        """End every stream."""
        batch = _Batch()
        for key in self._streams:
            self._tell(key, self._pool.flush(key), batch)
        self._commit(batch, {})

    def _came_before(self, row: Row, source: Source) -> bool:
        """Return whether a row was stored before this run: a source without positions may give it again."""
        stream = self._streams.get(row.key)
        if source.resumed or stream is None or stream.stored is None or row.moment is None:
            return False
        now, before = _comparable(row.moment), _comparable(stream.stored)
        if type(now) is not type(before) or now > before:
            stream.stored = None
            return False
        self.counts.redelivered += 1
        return True

    def _refuse(self, source: Source, line: bytes, error: InputError, batch: _Batch) -> None:
        text = line.decode(errors="backslashreplace").strip()
        self.counts.refused += 1
        logger.warning("%s: a row is refused: %s; the row: %s", source.name, error, visible(text[:SHOWN]))
        batch.dead.append(json.dumps({"source": source.name, "error": str(error), "row": text}))

    def _commit(self, batch: _Batch, positions: dict[str, Any]) -> None:
        """Store the batch, then write its lines."""
        streams = [self._stored(key) for key in batch.touched] if self._store.durable else []
        dead = [] if self._dead is None else batch.dead
        self._store.commit(Step(streams, positions, batch.lines, dead))
        self._deliver()

    def _stored(self, key: Key) -> StoredStream:
        stream = self._streams[key]
        newest = None if stream.newest is None else _comparable(stream.newest)
        text = newest if newest is None or isinstance(newest, float) else str(newest)
        return StoredStream(key, self._pool.snapshot_stream(key), list(stream.waiting), text)

    def _deliver(self) -> None:
        """Write the lines that are stored and not yet written, and store that they were."""
        written: dict[str, tuple[int, int]] = {}
        try:
            for sink in self._all_sinks():
                last, lines = self._store.unwritten(sink.name, dead=sink is self._dead)
                mark = sink.write(lines) if lines else self._store.mark(sink.name) or 0
                written[sink.name] = (last, mark)
        finally:
            self._store.confirm(written)


def dead_letters(state: Path) -> Address:
    """Return where refused rows are kept, beside a state."""
    path = f"{state}.dead"
    return Address(f"file:{path}", "file", path)


def _comparable(moment: Any) -> np.datetime64 | float:
    """Return a time as streams compare it: in UTC, or a number."""
    (found,) = np.asarray(read_times([moment], None, seen=False)[0])
    return found.astype("datetime64[ns]") if isinstance(found, np.datetime64) else float(found)


def _moment_of(stored: str | float | None) -> Any:
    return np.datetime64(stored, "ns") if isinstance(stored, str) else stored

"""Watch: rows from sources through streams to sinks, a batch at a time, each batch stored before it is told of."""

from __future__ import annotations

import json
import logging
import time as clock
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchad.data.names import visible
from patchad.data.periods import Periods
from patchad.errors import InputError, listed
from patchad.live.messages import Message
from patchad.live.outlet import Outlet
from patchad.live.rows import HeaderError, Key, Row
from patchad.live.silence import SILENCE
from patchad.live.sinks.base import RemoteSink, Sink
from patchad.live.sources.base import Reader, Source
from patchad.live.store import Line, Step, Store
from patchad.live.streams import Batch, LiveStreams
from patchad.live.takeover import resume

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

logger = logging.getLogger(__name__)

IDLE = 0.02
"""Seconds to wait when no source has anything."""
LISTEN = 0.5
"""Seconds between looks whether a stream has fallen silent."""
SHOWN = 200
"""Characters of a refused row that a message shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How streams are treated."""

    keys: tuple[str | int, ...] | None = None
    """The only streams that there are; None: a key's stream begins with its first row."""
    silence: float = SILENCE
    """Steps between rows after which a stream is silent, which is an event; 0: never."""

    def __post_init__(self) -> None:
        if not self.silence >= 0:
            raise InputError(f"silence is {self.silence}; a number of steps is needed, 0 for never")


@dataclass(slots=True)
class Counts:
    """What came and what was said, in this run."""

    rows: int = 0
    verdicts: int = 0
    refused: int = 0
    redelivered: int = 0
    """Rows that were stored before the restart and came again."""


class Watch:
    """Judge rows as they come, one stream for each key.

    Parameters
    ----------
    detector
        Fitted.
    sources, sinks
        Where rows come from and lines go to; `Watch` opens and closes them.
    store
        Keeps the state.
    settings
        How streams are treated.
    quiet
        Periods without events.
    """

    def __init__(
        self,
        detector: Detector,
        sources: Sequence[Source],
        sinks: Sequence[Sink | RemoteSink],
        store: Store,
        settings: Settings | None = None,
        quiet: Periods = (),
    ) -> None:
        self.counts = Counts()
        self._settings = Settings() if settings is None else settings
        self._sources, self._store = sources, store
        self._outlet = Outlet(store, sinks)
        self._streams = LiveStreams(detector, self._settings.silence, quiet)
        self.reloading = False
        """Whether it ended for the configuration to be read again."""
        self._stopping: Callable[[], bool] = lambda: False
        self._listened = clock.monotonic()
        self._opened: list[Source] = []
        self._readers: dict[str, Reader] = {}

    def run(
        self, stopping: Callable[[], bool] = lambda: False, reloading: Callable[[], bool] = lambda: False
    ) -> Counts:
        """Go on until all sources have ended, it is to stop, or another watch is to go on with the store.

        At the end of the input every stream is flushed. When stopped, streams are flushed only if their state is not
        stored.
        """
        self._stopping = stopping
        try:
            self._open()
            while not (stopped := stopping()):
                if reloading():
                    self.reloading = True
                    return self.counts
                came = [(source, lines) for source in self._sources if (lines := source.poll())]
                for source, lines in came:
                    self._take(source, lines)
                if all(source.ended for source in self._sources):
                    self._flush()
                    break
                if not came:
                    self._listen()
                    clock.sleep(IDLE)
            if stopped and not self._store.durable:
                self._flush()
            self._outlet.finish(None if stopped else stopping)
        finally:
            for source in self._opened:
                source.close()
            self._outlet.close()
        return self.counts

    # -- inside --------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        resume(self._streams, self._store)
        columns = self._streams.columns
        owner = self._store.id if self._store.durable else None
        for source in self._sources:
            position, reader = self._place(source)
            source.open(position)
            self._opened.append(source)
            self._readers[source.name] = source.reader(columns, reader)
            source.connect(owner)
        self._outlet.open()

    def _place(self, source: Source) -> tuple[Any, Any]:
        """Return where a source and its reader were; None and None where it was never read."""
        found = self._store.position(source.name)
        if found is None:
            return None, None
        if not isinstance(found, dict) or not {"source", "reader"} <= set(found):
            raise InputError(
                f"the state {str(self._store.path)!r} is damaged (it does not say where {source.name} was); use a copy "
                "of it, or name another file"
            )
        return found["source"], found["reader"]

    def _take(self, source: Source, lines: Iterable[bytes]) -> None:
        """Judge the rows of these lines, store what came of them, and write it."""
        batch = Batch()
        rows: dict[Key, list[tuple[Row, bytes]]] = {}
        reader = self._readers[source.name]
        for line in lines:
            try:
                row = reader.read(line)
                if row is not None:
                    self._check_key(row)
                if row is not None and not self._came_before(row, source, line):
                    rows.setdefault(row.key, []).append((row, line))
            except HeaderError as error:
                raise InputError(f"{source.name}: {error}") from None
            except InputError as error:
                self._refuse(source, line, error, batch)
        for turn in range(max(map(len, rows.values()), default=0)):
            self._push({key: own[turn] for key, own in rows.items() if turn < len(own)}, source, batch)
        self._commit(batch, {source.name: {"source": source.position, "reader": reader.state}}, source)

    def _push(self, rows: dict[Key, tuple[Row, bytes]], source: Source, batch: Batch) -> None:
        """Push one row of each stream."""
        found, refused = self._streams.push({key: [row] for key, (row, _) in rows.items()}, batch)
        for key, error in refused.items():
            self._refuse(source, rows[key][1], error, batch)
        self.counts.rows += len(found)
        self.counts.verdicts += sum(map(len, found.values()))

    def _flush(self) -> None:
        """End every stream."""
        batch = Batch()
        self.counts.verdicts += self._streams.flush(batch)
        self._commit(batch, {})

    def _came_before(self, row: Row, source: Source, line: bytes) -> bool:
        again = isinstance(line, Message) and line.again
        came = not source.resumed and self._streams.came_before(row, again=again)
        self.counts.redelivered += came
        return came

    def _refuse(self, source: Source, line: bytes, error: InputError, batch: Batch) -> None:
        text = line.decode(errors="backslashreplace").strip()
        self.counts.refused += 1
        logger.warning("%s: a row is refused: %s; the row: %s", source.name, error, visible(text[:SHOWN]))
        letter = {"source": source.name, "error": str(error), "row": text}
        batch.lines.append(Line("dead", json.dumps(letter)))

    def _commit(self, batch: Batch, positions: dict[str, Any], source: Source | None = None) -> None:
        """Store the batch, say so to where it came from, then write its lines."""
        step = self._streams.step(batch, positions) if self._store.durable else Step(lines=batch.lines)
        self._outlet.commit(step, self._stopping)
        if source is not None:
            source.acknowledge()
        self._outlet.deliver()

    def _listen(self) -> None:
        """Tell of streams that have fallen silent, and write lines that had to wait."""
        now = clock.monotonic()
        if now - self._listened >= LISTEN:
            self._listened = now
            batch = Batch()
            self._streams.listen(batch)
            if batch.touched:
                self._commit(batch, {})
            else:
                self._outlet.deliver()

    def _check_key(self, row: Row) -> None:
        keys = self._settings.keys
        if keys is not None and row.key not in keys:
            raise InputError(f"the key is {row.key!r}, and the configuration names {listed(keys)} only; add it there")

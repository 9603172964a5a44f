"""Hub: what happens, to everybody who listens, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from patchad.live.streams import Batch
from patchad.serve.problems import busy
from patchad.serve.settings import Limits
from patchad.serve.station import Station
from patchad.serve.views import shown, verdict_fields

BACKLOG = 200
"""Messages that wait for a listener; one that is slower is told to begin anew."""
HEARTBEAT = 15.0
"""Seconds after which a silent connection gets a sign of life."""
SHOWN = 200
"""Verdicts and rows of one batch and stream that are sent."""


class Hub:
    """Gives what a station tells to listeners, each with a queue of its own."""

    def __init__(self, station: Station, limits: Limits) -> None:
        self._station, self._limits = station, limits
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._number = 0

    def start(self) -> None:
        """Begin to tell, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._station.listeners.append(self._hear)

    def close(self) -> None:
        """End all connections; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for queue in self._queues:
            _clear(queue)
            queue.put_nowait(None)

    def tell(self, kind: str, content: Any) -> None:
        """Tell everybody something; from any thread."""
        if self._loop is not None and self._queues:
            text = f"event: {kind}\ndata: {json.dumps(content, allow_nan=False)}\n\n"
            self._loop.call_soon_threadsafe(self._spread, text)

    def _hear(self, batch: Batch) -> None:
        if not self._queues:
            return
        for key in batch.touched:
            self.tell("rows", self._rows(key, batch))
        for event in batch.events:
            self.tell("event", event | {"key": shown(event["key"])})

    def _rows(self, key: Any, batch: Batch) -> dict[str, Any]:
        """Return what became of the rows of one stream, the newest of many."""
        found: dict[str, Any] = {"key": shown(key), "rows": self._station.streams.count(key), "verdicts": []}
        kept = batch.verdicts.get(key)
        if kept is not None:
            first = max(len(kept.rows) - SHOWN, 0)
            found["verdicts"] = [
                verdict_fields(kept.first + n, kept.times[n], row["score"], row["level"], row["alarm"])
                | {"at": kept.at[n]}
                for n, row in enumerate(kept.rows)
                if n >= first
            ]
        rows = batch.rows.get(key)
        if rows is not None:
            first = max(len(rows.rows) - SHOWN, 0)
            found["first"] = rows.first + first
            found["at"], found["values"] = rows.at[first:], [self._known(row) for row in rows.rows[first:]]
        found["current"] = self._station.current.get(key, [])
        return found

    def _known(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row.get(name) for name in self._station.streams.columns.channels}

    def _spread(self, text: str) -> None:
        self._number += 1
        for queue in self._queues:
            if queue.qsize() >= BACKLOG:
                _clear(queue)
                queue.put_nowait("event: reset\ndata: {}\n\n")
            queue.put_nowait(f"id: {self._number}\n{text}")

    async def listen(self) -> AsyncIterator[str]:
        """Return messages as they come, until the service ends."""
        if len(self._queues) >= self._limits.listeners:
            raise busy(f"{len(self._queues)} listeners are connected, which is the limit")
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._queues.add(queue)
        self._station.measures.listeners.set(len(self._queues))
        return self._messages(queue)

    async def _messages(self, queue: asyncio.Queue[str | None]) -> AsyncIterator[str]:
        try:
            yield "retry: 2000\nevent: hello\ndata: {}\n\n"
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if message is None:
                    return
                yield message
        finally:
            self._queues.discard(queue)
            self._station.measures.listeners.set(len(self._queues))


def _clear(queue: asyncio.Queue[str | None]) -> None:
    while not queue.empty():
        queue.get_nowait()

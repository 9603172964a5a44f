"""Watch: rows from sources through streams to sinks, a batch at a time, each batch stored before it is told of."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchad.data.periods import Periods
from patchad.errors import InputError
from patchad.live.intake import Counts, Intake
from patchad.live.outlet import Outlet
from patchad.live.silence import SILENCE
from patchad.live.sinks.base import RemoteSink, Sink
from patchad.live.sources.base import Source
from patchad.live.store import Step, Store
from patchad.live.streams import Batch, LiveStreams
from patchad.live.takeover import resume

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

IDLE = 0.02
"""Seconds to wait when no source has anything."""
LISTEN = 0.5
"""Seconds between looks whether a stream has fallen silent."""


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
    counts
        Go on, where a watch follows another; None: from nothing.
    """

    def __init__(
        self,
        detector: Detector,
        sources: Sequence[Source],
        sinks: Sequence[Sink | RemoteSink],
        store: Store,
        settings: Settings | None = None,
        quiet: Periods = (),
        counts: Counts | None = None,
    ) -> None:
        self._settings = Settings() if settings is None else settings
        self._store = store
        self.counts = Counts() if counts is None else counts
        self._intake = Intake(sources, store, self._settings.keys, self.counts)
        self._outlet = Outlet(store, sinks)
        self._streams = LiveStreams(detector, self._settings.silence, quiet)
        self.reloading = False
        """Whether it ended for the configuration to be read again."""
        self._listened = clock.monotonic()

    def run(
        self, stopping: Callable[[], bool] = lambda: False, reloading: Callable[[], bool] = lambda: False
    ) -> Counts:
        """Go on until all sources have ended, it is to stop, or another watch is to go on with the store.

        At the end of the input every stream is flushed. When stopped, streams are flushed only if their state is not
        stored.
        """
        self._outlet.stopping = stopping
        try:
            resume(self._streams, self._store)
            self._intake.open(self._streams)
            self._outlet.open()
            while not (stopped := stopping()):
                if reloading():
                    self.reloading = True
                    return self.counts
                came = list(self._intake.poll())
                for source, lines in came:
                    batch = Batch()
                    self._commit(batch, self._intake.take(source, lines, self._streams, batch), source)
                if self._intake.ended:
                    self._flush()
                    break
                if not came:
                    self._listen()
                    clock.sleep(IDLE)
            if stopped and not self._store.durable:
                self._flush()
            self._outlet.finish(None if stopped else stopping)
        finally:
            self._intake.close()
            self._outlet.close()
        return self.counts

    # -- inside --------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """End every stream."""
        batch = Batch()
        self.counts.verdicts += self._streams.flush(batch)
        self._commit(batch, {})

    def _commit(self, batch: Batch, positions: dict[str, Any], source: Source | None = None) -> None:
        """Store the batch, say so to where it came from, then write its lines."""
        step = self._streams.step(batch, positions) if self._store.durable else Step(lines=batch.lines)
        self._outlet.commit(step)
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

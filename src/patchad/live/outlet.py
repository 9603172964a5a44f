"""Outlet: stored lines to all sinks of a run; what is near is written at once, what is far by threads."""

from __future__ import annotations

import errno
import logging
import time as clock
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from patchad.live.address import Address
from patchad.live.delivery import Delivery
from patchad.live.records import StoreFullError
from patchad.live.sinks.base import RemoteSink, Sink
from patchad.live.sinks.file import FileSink
from patchad.live.store import LineKind, Step, Store

logger = logging.getLogger(__name__)

ROOM = 1.0
"""Seconds between looks whether there is room again on a full disk."""
LAST = 10.0
"""Seconds that are given to sinks far away at the end, where the state keeps what they have not got."""
HURRY = 3.0
"""Seconds that they are given where the process was asked to stop."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Outlet:
    """Store what happened, and tell the sinks.

    Where a disk is full, nothing new is stored, and so nothing acknowledged, until there is room; lines for a file
    that has no room wait in the state.

    Parameters
    ----------
    store
        Keeps lines until all sinks have them.
    sinks
        Where lines go to; opened and closed here.
    """

    def __init__(self, store: Store, sinks: Sequence[Sink | RemoteSink]) -> None:
        self._store = store
        near = [sink for sink in sinks if not isinstance(sink, RemoteSink)]
        near.sort(key=lambda sink: sink.path is None)  # what can be taken back is written first
        dead = [] if store.path is None else [FileSink(dead_letters(store.path), ("dead",))]
        self._near: list[Sink] = [*dead, *near]
        self._far = [Delivery(sink, store) for sink in sinks if isinstance(sink, RemoteSink)]
        self._opened: list[Sink] = []
        self._started: list[Delivery] = []
        self._full: set[str] = set()
        """Files that have no room."""
        self.stopping: Callable[[], bool] = lambda: False
        """Whether to wait no longer for room."""
        self.meanwhile: Callable[[StoreFullError], None] = lambda _: None
        """What to do while there is none."""

    @property
    def kinds(self) -> set[LineKind]:
        """The lines that anybody wants."""
        wanted = [sink.kinds for sink in self._near] + [one.sink.kinds for one in self._far]
        return {kind for kinds in wanted for kind in kinds}

    def open(self) -> None:
        """Open the sinks, and deliver what was left."""
        marks: dict[str, int] = {}
        for sink in self._near:
            marks[sink.name] = sink.open(self._store.mark(sink.name))
            self._opened.append(sink)
        known = {sink.name: (marks[sink.name], sink.kinds) for sink in self._near}
        self._store.register(known | {one.sink.name: (0, one.sink.kinds) for one in self._far})
        for delivery in self._far:
            delivery.start()
            self._started.append(delivery)
        self.deliver()

    def commit(self, step: Step) -> None:
        """Store a step; where there is no room, wait until there is."""
        self._stored(partial(self._store.commit, step))

    def deliver(self, *, last: bool = False) -> None:
        """Write the lines that are stored and not yet written, and store that they were; wake the threads."""
        for sink in self._near:
            while lines := self._store.undelivered(sink.name):
                mark = self._written(sink, [line.text for line in lines], last=last)
                if mark is None:
                    break
                self._stored(partial(self._store.confirm, {sink.name: (lines[-1].number, mark)}))
        for delivery in self._far:
            if delivery.failure is not None:
                raise delivery.failure
            delivery.wake()

    def finish(self, stopping: Callable[[], bool] | None) -> None:
        """Deliver all that can be delivered, until one is asked to stop; None: that was asked already."""
        self.deliver(last=True)
        while self._started:
            delivery = self._started.pop()
            wait = HURRY if stopping is None else LAST if self._store.durable else None
            if not delivery.finish(wait, stopping or (lambda: False)) and delivery.failure is None:
                kept = "they are sent at the next start" if self._store.durable else "they are lost"
                logger.warning("%s: some lines were not delivered; %s", delivery.sink.name, kept)
        self.deliver(last=True)  # what the threads gave up

    def close(self) -> None:
        """Close the sinks."""
        for delivery in self._started:
            delivery.finish(0.0)
        for sink in self._opened:
            sink.close()

    def _written(self, sink: Sink, lines: Sequence[str], *, last: bool) -> int | None:
        """Write lines; None where there is no room for them now."""
        try:
            mark = sink.write(lines)
        except OSError as error:
            if last or not self._store.durable or sink.path is None or error.errno not in _NO_ROOM:
                raise
            if sink.name not in self._full:
                logger.error("there is no room for %s (%s); its lines wait in the state", sink.path, error.strerror)  # noqa: TRY400
            self._full.add(sink.name)
            sink.close()
            sink.open(self._store.mark(sink.name))  # takes back what was written of the lines
            return None
        if sink.name in self._full:
            logger.warning("there is room for %s again", sink.path)
            self._full.remove(sink.name)
        return mark

    def _stored(self, action: Callable[[], None]) -> None:
        waited = False
        while True:
            try:
                action()
            except StoreFullError as error:
                if self.stopping():
                    raise
                if not waited:
                    logger.error("%s; nothing is acknowledged until there is room", error)  # noqa: TRY400
                waited = True
                self.meanwhile(error)
                clock.sleep(ROOM)
            else:
                break
        if waited:
            logger.warning("there is room again for the state; going on")


def dead_letters(state: Path) -> Address:
    """Return where refused rows, and lines that no sink took, are kept, beside a state."""
    path = f"{state}.dead"
    return Address(f"file:{path}", "file", path)

"""Delivery: lines from the store to a place that may be away, in their order, without holding up the rows."""

from __future__ import annotations

import json
import logging
import random
import threading
import time as clock
from collections.abc import Callable, Sequence

from patchad.live.records import StoreFullError
from patchad.live.sinks.base import DeliveryError, RemoteSink
from patchad.live.store import Store, StoredLine

logger = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.5, 60.0
"""Seconds before a line is tried again: the first time, and at most; each time twice as long."""
IDLE = 1.0
"""Seconds between looks at the store where nobody says that there is something."""


def delay_of(tried: int) -> float:
    """Return how long to wait after so many tries: twice as long each time, and up to a half more or less by chance.

    Examples
    --------
    >>> 0.25 <= delay_of(1) <= 0.75, 30 <= delay_of(50) <= 90
    (True, True)
    """
    return min(FIRST_DELAY * 2.0 ** min(tried - 1, 20), LONGEST_DELAY) * random.uniform(0.5, 1.5)  # noqa: S311


class Delivery:
    """A thread that sends the lines of one sink.

    Parameters
    ----------
    sink
        Where to.
    store
        Where lines wait; how far the sink got is stored after each line.
    delay
        Returns how long to wait after so many tries of a line.
    """

    def __init__(self, sink: RemoteSink, store: Store, delay: Callable[[int], float] = delay_of) -> None:
        self.sink, self._store, self._delay = sink, store, delay
        self.failure: BaseException | None = None
        """What ended the thread, if anything did."""
        self._stopping, self._ending, self._news = threading.Event(), threading.Event(), threading.Event()
        self._fact, self._known = f"sink {sink.name}", "{}"
        """Under what name the state of the sink is stored, and what was stored last."""
        self._thread = threading.Thread(target=self._run, name=sink.name, daemon=True)

    def start(self) -> None:
        """Begin where the sink was."""
        self._known = self._store.meta(self._fact) or "{}"
        self.sink.state = json.loads(self._known)
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be lines."""
        self._news.set()

    def finish(self, seconds: float | None, stopping: Callable[[], bool] = lambda: False) -> bool:
        """Send what is there, for so long at most (None: until each line is sent or given up); end.

        Returns
        -------
        Whether nothing is left.
        """
        end = None if seconds is None else clock.monotonic() + seconds
        self._ending.set()
        self.wake()
        while self._thread.is_alive() and (end is None or clock.monotonic() < end) and not stopping():
            self._thread.join(0.05)
        self._stopping.set()
        self.wake()
        self._thread.join()  # a request that is under way ends by its own time limit
        self.sink.close()
        return not self._store.undelivered(self.sink.name, most=1)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._news.clear()
                lines = self._store.undelivered(self.sink.name, most=100)
                for start in range(0, len(lines), self.sink.most):
                    self._deliver(lines[start : start + self.sink.most])
                    if self._stopping.is_set():
                        return
                if not lines and self._ending.is_set():
                    return
                due = self._refresh()
                if not lines:
                    self._news.wait(IDLE if due is None else min(IDLE, due))
        except Exception as failure:  # noqa: BLE001 - whoever started the thread raises it
            self.failure = failure

    def _refresh(self) -> float | None:
        try:
            return self.sink.refresh()
        except DeliveryError as error:
            logger.warning("%s: %s; trying again", self.sink.name, error)
            return None

    def _deliver(self, lines: Sequence[StoredLine]) -> None:
        """Send lines until they are taken or given up."""
        tried = 0
        while not self._stopping.is_set():
            try:
                self.sink.send_all(lines, self._store.id)
            except DeliveryError as error:
                tried += 1
                if error.final or tried >= self.sink.tries:
                    for line in lines:
                        self._give_up(line, error, tried)
                    return
                logger.log(
                    logging.WARNING if tried == 1 else logging.INFO, "%s: %s; trying again", self.sink.name, error
                )
                self._stopping.wait(self._delay(tried))
            else:
                if tried:
                    logger.warning("%s: delivered after %d tries", self.sink.name, tried + 1)
                self._confirm(lines[-1])
                return

    def _confirm(self, line: StoredLine) -> None:
        before, self._known = self._known, json.dumps(self.sink.state)
        facts = {} if self._known == before else {self._fact: self._known}
        self._stored(lambda: self._store.confirm({self.sink.name: (line.number, 0)}, facts))

    def _give_up(self, line: StoredLine, error: DeliveryError, tried: int) -> None:
        logger.error("%s: a line is given up after %d tries: %s", self.sink.name, tried, error)
        letter = json.dumps({"sink": self.sink.name, "error": str(error), "line": line.text})
        self._stored(lambda: self._store.give_up(self.sink.name, line.number, letter))

    def _stored(self, action: Callable[[], None]) -> None:
        """Store something; where there is no room, wait until there is."""
        while not self._stopping.is_set():
            try:
                action()
            except StoreFullError as error:
                logger.info("%s", error)
                self._stopping.wait(IDLE)
            else:
                return

"""Station: one thread that owns the streams and writes the state; everything that changes them goes through it."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from patchad.detectors.base import Detector
from patchad.errors import InputError
from patchad.live.config import Configuration
from patchad.live.intake import Intake, check_key
from patchad.live.outlet import Outlet
from patchad.live.records import Records, StoredModel, StoreFullError
from patchad.live.rows import Key, Row
from patchad.live.sinks.base import RemoteSink, Sink
from patchad.live.sources.base import Source
from patchad.live.store import Step, Store
from patchad.live.streams import Batch, LiveStreams
from patchad.live.watch import IDLE
from patchad.serve.measures import Measures
from patchad.serve.outlooks import Outlooks
from patchad.serve.problems import Problem, busy
from patchad.serve.settings import Limits
from patchad.serve.views import SHOWN_KEY, verdict_fields, verdicts_of
from patchad.streaming.verdict import Verdict

logger = logging.getLogger(__name__)

LISTENING = 1.0
"""Seconds between looks for streams that have fallen silent."""
ANSWERS = 32
"""Requests of a stream whose answers can be given again."""

Listener = Callable[[Batch], None]
ToRows = Callable[[Any], Sequence[Row]]
"""From the newest time of a stream to the rows of a request."""


@dataclass(slots=True, eq=False)
class _Request:
    """Rows that wait to be taken."""

    key: str
    rows: ToRows
    count: int
    first: int | None
    answer: Future[list[dict[str, Any]]] = field(default_factory=Future)
    came: float = field(default_factory=clock.monotonic)
    span: tuple[int, int] = (0, 0)
    """Numbers of the first row, and of the row after the last."""


@dataclass(slots=True, eq=False)
class _Task:
    """Something else that changes streams."""

    work: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)


class Station:
    """The streams of a service, their state, and the thread that they live in.

    Requests that wait are taken together: their windows are scored together, and one transaction stores what came of
    them before any is answered. Rows may also come from sources, as those of `watch`, and sinks are told of all rows.

    Parameters
    ----------
    detector
        Fitted.
    store
        Keeps the state.
    limits, measures
        What is admitted, and what is counted.
    configuration
        How streams are treated.
    """

    def __init__(
        self,
        detector: Detector,
        store: Store,
        limits: Limits,
        measures: Measures,
        configuration: Configuration | None = None,
    ) -> None:
        self.detector, self.store, self.limits, self.measures = detector, store, limits, measures
        self.configuration = Configuration() if configuration is None else configuration
        self._quiet = self.configuration.alarms.periods()
        self.streams = self._fresh_streams()
        self.listeners: list[Listener] = []
        self.current: dict[Key, list[dict[str, Any]]] = {}
        """Events that may change still, as they are now."""
        self.outlooks = Outlooks()
        self.since = clock.time()
        self.failure: BaseException | None = None
        """What ended the thread, if anything did."""
        self._intake: Intake | None = None
        self._outlet: Outlet | None = None
        self._waiting: deque[_Request | _Task] = deque()
        self._requests = 0
        self._listened = clock.monotonic()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="patchad-station", daemon=True)

    # -- from any thread -----------------------------------------------------------------------------------------------

    def attach(self, sources: Sequence[Source], sinks: Sequence[Sink | RemoteSink]) -> None:
        """Let rows come from sources too, and tell sinks of all rows; before the start."""
        if not sources and not sinks:
            return
        self._intake = Intake(sources, self.store, self.configuration.streams.keys)
        self._outlet = Outlet(self.store, sinks)
        self._outlet.stopping, self._outlet.meanwhile = (lambda: self._stopping), self._turn_down
        try:
            self._intake.open(self.streams)
            self._outlet.open()
        except BaseException:
            self._let_go()
            raise

    def start(self) -> None:
        """Go on with the stored streams, and take requests."""
        self.reload()
        self.measures.follow(self)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether requests are taken."""
        return self._thread.is_alive() and not self._stopping

    @property
    def queued(self) -> int:
        """Requests with rows that wait."""
        return self._requests

    def submit(self, key: str, rows: ToRows, count: int, first: int | None) -> Future[list[dict[str, Any]]]:
        """Let rows wait for their turn; the answer has the verdicts that they made final.

        Parameters
        ----------
        key
            Of which stream.
        rows
            Makes the rows, when it is known what the newest time of the stream is.
        count
            How many there are.
        first
            Number of the first one, where the caller says it.
        """
        request = _Request(key, rows, count, first)
        with self._changed:
            self._check_open()
            if self._requests >= self.limits.queue:
                self.measures.turned_away.inc()
                raise busy(f"{self._requests} requests with rows wait, which is the limit; send it again in a while")
            self._requests += 1
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def run(self, work: Callable[[], Any]) -> Future[Any]:
        """Let something that changes streams wait for its turn."""
        task = _Task(work)
        with self._changed:
            self._check_open()
            self._waiting.append(task)
            self._changed.notify()
        return task.answer

    def stop(self) -> None:
        """Take what waits, then end; streams are not flushed, they go on at the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._let_go()

    @contextmanager
    def records(self) -> Iterator[Records]:
        """Open the state for questions; where it is in a file, without waiting for what is being written."""
        if self.store.path is None:
            yield self.store
            return
        with Records(self.store.path) as records:
            yield records

    def find_key(self, text: str) -> Key:
        """Return the key of the stream that is called so in an address; sources also know numbers, and none."""
        if text in self.streams:
            return text
        numbers = (key for key in (*tuple(self.streams), *(self.configuration.streams.keys or ())) if key != text)
        found = next((key for key in numbers if isinstance(key, int) and str(key) == text), text)
        return None if found == SHOWN_KEY else found

    # -- in the thread -------------------------------------------------------------------------------------------------

    def commit(
        self,
        batch: Batch,
        model: StoredModel | None = None,
        positions: Mapping[str, Any] | None = None,
        store: Callable[[Step], None] | None = None,
    ) -> None:
        """Store a batch, and tell of it; `store` where something else than the state itself does it."""
        wanted = () if self._outlet is None else self._outlet.kinds
        batch.lines[:] = [line for line in batch.lines if line.kind in wanted]
        (store or self.store.commit)(replace(self.streams.step(batch, positions or {}), model=model))
        try:
            self.current |= {key: self.streams.unfinished(key) for key in batch.touched}
            self.measures.count(batch)
            for listener in tuple(self.listeners):
                listener(batch)
        except Exception:  # what is stored is stored, and is answered so
            logger.exception("what was stored could not be told")

    def _check_open(self) -> None:
        if self._stopping or not self._thread.is_alive():
            raise Problem(503, "the service is stopping; send it again when it is back", headers={"Retry-After": "5"})

    def _run(self) -> None:
        try:
            while self._take_turn():
                pass
            self._say_the_last()
        except BaseException as failure:  # noqa: BLE001 - whoever runs the service raises it
            self.failure, self._stopping = failure, True
            self._turn_down(Problem(503, "the service has failed and ends; send it again when it is back"))
        finally:
            self._let_go()

    def _take_turn(self) -> bool:
        """Take what sources have and what waits, and listen; return whether to go on."""
        came = not self._stopping and self._draw()
        with self._changed:
            if not self._waiting and not self._stopping and not came:
                self._changed.wait(IDLE if self._intake is not None and not self._intake.ended else LISTENING)
            if self._stopping and not self._waiting:
                return False
            taken = self._next() if self._waiting else None
        if isinstance(taken, _Task):
            _answer(taken.answer, taken.work)
        elif taken is not None:
            self._take(taken)
        self._listen()
        if self._outlet is not None and (came or taken is not None):
            self._outlet.deliver()
        return True

    def _draw(self) -> bool:
        """Take what sources have; each batch is stored with the position that it leads to."""
        if self._intake is None or self._outlet is None:
            return False
        came = False
        for source, lines in self._intake.poll():
            came, batch, refused = True, Batch(), self._intake.counts.refused
            positions = self._intake.take(source, lines, self.streams, batch)
            self.commit(batch, positions=positions, store=self._outlet.commit)
            source.acknowledge()
            self.measures.refused.inc(self._intake.counts.refused - refused)
            self._look_ahead(batch)
        return came

    def _say_the_last(self) -> None:
        """Tell sinks what can be told in a while; streams that are not stored end."""
        if self._outlet is None:
            return
        if not self.store.durable:
            batch = Batch()
            self.streams.flush(batch)
            self.commit(batch)
        self._outlet.finish(None)

    def _let_go(self) -> None:
        """Close sources and sinks."""
        try:
            if self._intake is not None:
                self._intake.close()
        finally:
            if self._outlet is not None:
                self._outlet.close()

    def _turn_down(self, reason: Exception) -> None:
        """Answer all who wait that nothing can be done for them now."""
        with self._changed:
            waiting, self._requests = list(self._waiting), 0
            self._waiting.clear()
        for one in waiting:
            one.answer.set_exception(reason)

    def _listen(self) -> None:
        """Open an event for each stream that has fallen silent, and write lines that had to wait."""
        now = clock.monotonic()
        if now - self._listened < LISTENING:
            return
        self._listened, batch = now, Batch()
        self.streams.listen(batch)
        if batch.touched:
            try:
                self.commit(batch)
            except StoreFullError:
                logger.exception("the silence of a stream could not be stored")
                self.reload()
        if self._outlet is not None:
            self._outlet.deliver()

    def _next(self) -> _Task | list[_Request]:
        """Return a task, or all requests before the next one."""
        if isinstance(self._waiting[0], _Task):
            return self._waiting.popleft()  # type: ignore[return-value]
        found: list[_Request] = []
        while self._waiting and isinstance(self._waiting[0], _Request):
            found.append(self._waiting.popleft())  # type: ignore[arg-type]
        self._requests -= len(found)
        return found

    def _take(self, requests: list[_Request]) -> None:
        """Push the rows of requests, store what came of them, and answer."""
        batch = Batch()
        told: list[tuple[_Request, list[dict[str, Any]]]] = []
        try:
            left = requests
            while left:
                turn, left = _one_of_each(left)
                told += self._push(turn, batch)
            if batch.touched:
                self.commit(batch)
        except Exception as error:  # noqa: BLE001 - the thread has to live, and callers have to be told
            self._recover(error, requests)
            return
        now = clock.monotonic()
        for request, verdicts in told:
            self.measures.latency.observe(now - request.came)
            request.answer.set_result(verdicts)
        self._look_ahead(batch)

    def _look_ahead(self, batch: Batch) -> None:
        self.outlooks.tell(self.streams, {key: kept.at[-1] for key, kept in batch.rows.items() if kept.at})

    def _push(self, turn: Sequence[_Request], batch: Batch) -> Iterable[tuple[_Request, list[dict[str, Any]]]]:
        """Push the rows of one request of each stream; refuse those that do not fit."""
        rows: dict[Key, Sequence[Row]] = {}
        by_key: dict[Key, _Request] = {}
        told: list[tuple[_Request, list[dict[str, Any]]]] = []
        for request in turn:
            key = self.find_key(request.key)
            try:
                new = self._new_rows(key, request)
            except (InputError, Problem) as wrong:
                self.measures.refused.inc(request.count)
                request.answer.set_exception(wrong)
                continue
            if new:
                rows[key], by_key[key] = new, request
            else:
                told.append((request, self._told_before(key, request)))
        found, refused = self.streams.push(rows, batch) if rows else ({}, {})
        for key, error in refused.items():
            self.measures.refused.inc(by_key[key].count)
            by_key[key].answer.set_exception(error)
        for key, verdicts in found.items():
            told.append((by_key[key], self._remembered(key, by_key[key], verdicts, batch)))
        return told

    def _new_rows(self, key: Key, request: _Request) -> Sequence[Row]:
        """Return the rows of a request that were not taken before."""
        check_key(key, self.configuration.streams.keys)
        known = self.streams.count(key)
        first = known if request.first is None else request.first
        request.span = (first, first + request.count)
        if first > known:
            raise Problem(
                409,
                f"first_index is {first}, and the stream {request.key!r} has {known} rows: those between are missing; "
                f"send them first, from {known} on",
                rows=known,
            )
        if key not in self.streams and len(self.streams) >= self.limits.streams:
            raise Problem(409, f"there are {len(self.streams):,} streams, which is the limit; use one of them")
        if known >= request.span[1]:
            return ()
        return request.rows(self.streams.newest(key))[known - first :]

    def _remembered(
        self, key: Key, request: _Request, verdicts: Sequence[Verdict], batch: Batch
    ) -> list[dict[str, Any]]:
        """Return what a request is told, and remember how to tell it again."""
        extra = self.streams.beside(key)
        stop = self.streams.decided(key)
        extra["answers"] = [*extra.get("answers", ()), [*request.span, stop - len(verdicts), stop]][-ANSWERS:]
        kept = batch.verdicts.get(key)
        times = dict(zip(range(kept.first, kept.first + len(kept.times)), kept.times, strict=True)) if kept else {}
        return [verdict_fields(one.index, times.get(one.index), one.score, one.level, one.alarm) for one in verdicts]

    def _told_before(self, key: Key, request: _Request) -> list[dict[str, Any]]:
        """Return the verdicts that rows made final when they came first; none where that was long ago."""
        if key not in self.streams:
            return []
        known = self.streams.beside(key).get("answers", ())
        same = [one for one in known if one[0] < request.span[1] and one[1] > request.span[0]]
        if not same:
            return []
        first, stop = min(one[2] for one in same), max(one[3] for one in same)
        found = self.store.verdicts(key, last=self.streams.count(key) - first)
        return [fields for fields in verdicts_of(found) if first <= fields["index"] < stop]

    def _recover(self, error: Exception, requests: Sequence[_Request]) -> None:
        """Answer requests that could not be stored, and go on from what is stored."""
        if not isinstance(error, InputError):
            logger.exception("rows could not be taken")
        self.reload()
        for request in requests:
            if not request.answer.done():
                request.answer.set_exception(error)

    def reload(self) -> None:
        """Go on from what is stored, with the model as it is now."""
        fresh = self._fresh_streams()
        fresh.restore(self.store.streams())
        self.streams = fresh
        self.current = {key: fresh.unfinished(key) for key in fresh}

    def _fresh_streams(self) -> LiveStreams:
        return LiveStreams(self.detector, self.configuration.streams.silence, self._quiet)


def _one_of_each(requests: Sequence[_Request]) -> tuple[list[_Request], list[_Request]]:
    """Return the first request of each stream, and those that are left."""
    first: dict[str, _Request] = {}
    left = [request for request in requests if first.setdefault(request.key, request) is not request]
    return list(first.values()), left


def _answer(answer: Future[Any], work: Callable[[], Any]) -> None:
    try:
        answer.set_result(work())
    except Exception as error:  # noqa: BLE001 - whoever waits is told
        answer.set_exception(error)

"""Station: one thread that owns the streams and writes the state; everything that changes them goes through it."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from patchad.detectors.base import Detector
from patchad.errors import InputError
from patchad.live.records import Records, StoredModel
from patchad.live.rows import Key, Row
from patchad.live.store import Store
from patchad.live.streams import Batch, LiveStreams
from patchad.serve.measures import Measures
from patchad.serve.problems import Problem, busy
from patchad.serve.settings import Limits
from patchad.streaming.verdict import Verdict

logger = logging.getLogger(__name__)

LISTENING = 1.0
"""Seconds between looks for streams that have fallen silent."""
LOOKED_AT = 60.0
"""Seconds for which somebody who looked at a stream is taken to look at it still."""
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


@dataclass(slots=True, eq=False)
class Outlooks:
    """What was said ahead of the newest rows of one stream."""

    asked: float = field(default_factory=clock.monotonic)
    """When somebody last looked."""
    due: float = 0.0
    """When the next is due: they may take a tenth of the time."""
    said: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=1_000))
    """Where a row is on the axis of times, and its score so far."""

    undecided: list[tuple[float, float, float]] = field(default_factory=list)
    """Where rows are that have a score but no verdict, their scores and levels."""

    def add(self, at: float, verdict: Verdict | None, began: float) -> None:
        """Note what was said of a row."""
        self.said.append((at, None if verdict is None else _finite(verdict.score)))
        self.due = clock.monotonic() + 9 * (clock.monotonic() - began)


class Station:
    """The streams of a service, their state, and the thread that they live in.

    Requests that wait are taken together: their windows are scored together, and one transaction stores what came of
    them before any is answered.

    Parameters
    ----------
    detector
        Fitted.
    store
        Keeps the state.
    limits, measures
        What is admitted, and what is counted.
    """

    def __init__(self, detector: Detector, store: Store, limits: Limits, measures: Measures) -> None:
        self.detector, self.store, self.limits, self.measures = detector, store, limits, measures
        self.streams = LiveStreams(detector)
        self.listeners: list[Listener] = []
        self.current: dict[Key, list[dict[str, Any]]] = {}
        """Events that may change still, as they are now."""
        self.outlooks: dict[Key, Outlooks] = {}
        """Of the streams that somebody looks at: what is said of their newest rows as far as can be told."""
        self.since = clock.time()
        self._waiting: deque[_Request | _Task] = deque()
        self._requests = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="patchad-station", daemon=True)

    # -- from any thread -----------------------------------------------------------------------------------------------

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

    @contextmanager
    def records(self) -> Iterator[Records]:
        """Open the state for questions; where it is in a file, without waiting for what is being written."""
        if self.store.path is None:
            yield self.store
            return
        with Records(self.store.path) as records:
            yield records

    def look_at(self, key: Key) -> Outlooks:
        """Return what was said ahead of the newest rows of a stream, and go on saying it for a while."""
        own = self.outlooks.setdefault(key, Outlooks())
        own.asked = clock.monotonic()
        return own

    def find_key(self, text: str) -> Key:
        """Return the key of the stream that is called so in an address; `watch` also knows numbers and none."""
        for key in (text, None if text == "-" else text):
            if key in self.streams:
                return key
        return next((key for key in self.streams if isinstance(key, int) and str(key) == text), text)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, model: StoredModel | None = None) -> None:
        """Store a batch, and tell of it."""
        batch.lines.clear()  # no sink waits for lines
        self.store.commit(replace(self.streams.step(batch, {}), model=model))
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
        while True:
            with self._changed:
                if not self._waiting and not self._stopping:
                    self._changed.wait(LISTENING)
                if self._stopping and not self._waiting:
                    return
                taken = self._next() if self._waiting else None
            if taken is None:
                self._listen()
            elif isinstance(taken, _Task):
                _answer(taken.answer, taken.work)
            else:
                self._take(taken)

    def _listen(self) -> None:
        """Open an event for each stream that has fallen silent."""
        batch = Batch()
        self.streams.listen(batch)
        if batch.touched:
            try:
                self.commit(batch)
            except Exception:
                logger.exception("the silence of a stream could not be stored")
                self.reload()

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
        """Say what can be told of the newest rows of the streams that somebody looks at; a final word comes later."""
        now = clock.monotonic()
        for key, kept in batch.rows.items():
            own = self.outlooks.get(key)
            if own is not None and now - own.asked > LOOKED_AT:
                del self.outlooks[key]
            elif own is not None and now >= own.due:
                try:
                    own.undecided = self.streams.undecided(key)
                    own.add(kept.at[-1], self.streams.outlook(key), now)
                except Exception:
                    logger.exception("nothing could be told ahead of %r", key)

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
        before = extra.get("verdicts", 0)
        answers = [*extra.get("answers", ()), [*request.span, before, before + len(verdicts)]]
        extra |= {"verdicts": before + len(verdicts), "answers": answers[-ANSWERS:]}
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
        fresh = LiveStreams(self.detector)
        fresh.restore(self.store.streams())
        self.streams = fresh
        self.current = {key: fresh.unfinished(key) for key in fresh}


def verdict_fields(index: int, time: Any, score: float, level: float, alarm: bool) -> dict[str, Any]:
    """Return a verdict as callers get it."""
    return {"index": index, "time": time, "score": _finite(score), "level": _finite(level), "alarm": bool(alarm)}


def verdicts_of(rows: Any) -> Iterator[dict[str, Any]]:
    """Return stored verdicts as callers get them."""
    if len(rows):
        columns = (rows.numbers[name].tolist() for name in ("score", "level", "alarm"))
        for index, time, *said in zip(rows.index.tolist(), rows.times, *columns, strict=True):
            yield verdict_fields(index, time, *said)


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


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

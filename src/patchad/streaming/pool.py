"""StreamPool: many streams of one model, whose windows are scored together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from patchad.data.table import FloatArray
from patchad.data.windows import Asked, Block
from patchad.errors import InputError
from patchad.results.detection import Event
from patchad.streaming.plan import Marker, Plan, Streamable
from patchad.streaming.rows import read_row
from patchad.streaming.snapshot import from_bytes, to_bytes
from patchad.streaming.stream import Answer, Stream, Work
from patchad.streaming.verdict import Verdict


class StreamPool:
    """Streams of one model, told apart by a key; a key's stream begins with its first row.

    Each stream gives the verdicts that it would give by itself. `push_many` scores the windows of all streams together,
    which is many times faster than one stream after the other.

    Parameters
    ----------
    detector
        Fitted.
    quiet
        Marks the rows and channels of which no events are wanted.

    Examples
    --------
    >>> from patchad import make
    >>> rows = np.random.default_rng(0).normal(size=(300, 2))
    >>> pool = StreamPool(make("sub_pca", window=20).fit(rows))
    >>> found = pool.push_many({"pump": rows[:50], "valve": rows[50:90]})
    >>> len(found["pump"]) > len(found["valve"]), list(pool)
    (True, ['pump', 'valve'])
    """

    def __init__(self, detector: Streamable, quiet: Marker | None = None) -> None:
        self._plan: Plan = replace(detector.plan_stream(), quiet=quiet)
        self._streams: dict[Hashable, Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._streams)

    def push(self, key: Hashable, row: Any, time: Any = None) -> tuple[Verdict, ...]:
        """Take the next row of a stream; return its verdicts that became final."""
        values = read_row(row, self._plan)[None]
        refused: dict[Hashable, InputError] = {}
        found = self._run({key: self._stream(key).work(values, None if time is None else [time])}, refused)
        if refused:
            raise refused[key]
        return found[key]

    def push_many(
        self, rows: Mapping[Any, Any], times: Mapping[Any, Any] | None = None
    ) -> dict[Hashable, tuple[Verdict, ...]]:
        """Take the next rows of several streams; return the verdicts of each that became final.

        Rows of one stream that are refused leave that stream as it was; the others go on, and then `InputError` names
        the streams that were refused.
        """
        found, refused = self.try_many(rows, times)
        if refused:
            first = next(key for key in rows if key in refused)
            more = f", and {len(refused) - 1} more streams were refused" if len(refused) > 1 else ""
            raise InputError(f"stream {first!r}: {refused[first]}{more}; the rows of the other streams were taken")
        return found

    def try_many(
        self, rows: Mapping[Any, Any], times: Mapping[Any, Any] | None = None
    ) -> tuple[dict[Hashable, tuple[Verdict, ...]], dict[Hashable, InputError]]:
        """Do as `push_many`, and return the errors of the streams whose rows were refused beside the verdicts."""
        work: dict[Hashable, Work] = {}
        refused: dict[Hashable, InputError] = {}
        for key, own in rows.items():
            try:
                stream = self._stream(key)
                work[key] = stream.work(*stream.read(own, None if times is None else times.get(key)))
            except InputError as error:
                refused[key] = error
        return self._run(work, refused), refused

    def flush(self, key: Hashable) -> tuple[Verdict, ...]:
        """End the segment of a stream; return the verdicts of its rows that were left."""
        return self._known(key).flush()

    def outlook(self, key: Hashable) -> Verdict | None:
        """Return what batch would say of the newest row of a stream if it were the last."""
        return self._known(key).outlook()

    def changes(self, key: Hashable) -> tuple[Event, ...]:
        """Return the events of a stream that are new, or in another state than when this was called last."""
        return self._known(key).changes()

    def undecided(self, key: Hashable) -> tuple[FloatArray, FloatArray]:
        """Return the scores and levels of the rows of a stream after its last verdict that are known."""
        return self._known(key).undecided

    def unfinished(self, key: Hashable) -> tuple[Event, ...]:
        """Return the events of a stream that may change still, as they are now."""
        return self._known(key).unfinished

    def count(self, key: Hashable) -> int:
        """Return how many rows a stream has taken."""
        return self._known(key).count

    def drop(self, key: Hashable) -> None:
        """Forget a stream."""
        self._streams.pop(key, None)

    @property
    def events(self) -> dict[Hashable, tuple[Event, ...]]:
        """Events so far of each stream."""
        return {key: stream.events for key, stream in self._streams.items()}

    def snapshot(self) -> bytes:
        """Return everything that the streams have to know to go on; keys are texts or numbers."""
        stored = [(key, stream.stored()) for key, stream in self._streams.items()]
        return to_bytes(self._plan.checksum, stored)

    @classmethod
    def restore(cls, detector: Streamable, snapshot: bytes) -> Self:
        """Return a pool that goes on where a snapshot of one of the same model was taken."""
        pool = cls(detector)
        taken, stored = from_bytes(snapshot, pool._plan.checksum, "list")
        for pair in stored["list"]:
            key, state = pair["tuple"]
            pool._stream(taken.take(key)).fill(taken, state)
        return pool

    def snapshot_stream(self, key: Hashable) -> bytes:
        """Return everything that one stream has to know to go on."""
        return to_bytes(self._plan.checksum, self._known(key).stored())

    def restore_stream(self, key: Hashable, snapshot: bytes) -> None:
        """Let a stream go on where a snapshot of it was taken."""
        self._stream(key).fill(*from_bytes(snapshot, self._plan.checksum))

    @property
    def identity(self) -> tuple[str, str]:
        """The checksum of the model, and what another has to share with it for its streams to go on with that."""
        return self._plan.checksum, repr(self._plan.shape)

    def adopt_stream(self, key: Hashable, snapshot: bytes) -> None:
        """Let a stream go on where a snapshot was taken with another model of the same shape.

        Level and judgements are those of this one. Raises `InputError` where rows are being compared with what was
        judged by the other.
        """
        self._stream(key).adopt(*from_bytes(snapshot, None))

    def moved(self, detector: Streamable) -> tuple[Self, dict[Hashable, tuple[Verdict, ...]]]:
        """Return a pool of another model whose streams go on where these are, and the verdicts that this made final.

        Raises `InputError` where the other model cannot take over, as one with other channels or another window.
        """
        pool = type(self)(detector, self._plan.quiet)
        return pool, pool.take_over(self._plan.shape, self._streams)

    def take_over(
        self, shape: tuple[object, ...], streams: Mapping[Hashable, Stream]
    ) -> dict[Hashable, tuple[Verdict, ...]]:
        """Go on with copies of the streams of a model of this shape; return the verdicts that this made final."""
        if shape != self._plan.shape:
            raise InputError(f"streams of a model of the shape {shape} cannot go on with one of {self._plan.shape}")
        found: dict[Hashable, tuple[Verdict, ...]] = {}
        for key, stream in streams.items():
            self._streams[key], found[key] = stream.moved(self._plan)
        return found

    # -- inside --------------------------------------------------------------------------------------------------------

    def _known(self, key: Hashable) -> Stream:
        if key not in self._streams:
            raise InputError(f"there is no stream {key!r}; push a row of it first")
        return self._streams[key]

    def _stream(self, key: Hashable) -> Stream:
        if key not in self._streams:
            self._streams[key] = Stream(self._plan)
        return self._streams[key]

    def _run(
        self, work: Mapping[Hashable, Work], refused: dict[Hashable, InputError]
    ) -> dict[Hashable, tuple[Verdict, ...]]:
        """Let all streams work until each waits for scores; score what they wait for together; and so on."""
        found: dict[Hashable, tuple[Verdict, ...]] = {}
        answers: dict[Hashable, list[Answer] | None] = dict.fromkeys(work)
        while answers:
            asked: dict[Hashable, list[Asked]] = {}
            for key, answer in answers.items():
                try:
                    asked[key] = next(work[key]) if answer is None else work[key].send(answer)
                except StopIteration as done:
                    found[key] = done.value
                except InputError as error:
                    refused[key] = error
            answers = dict(zip(asked, self._answers(list(asked.values())), strict=True))
        return {key: found[key] for key in work if key in found}

    def _answers(self, asked: list[list[Asked]]) -> list[list[Answer]]:
        """Score the windows that several streams ask for, in batches of those with the same number of steps."""
        flat = [one for own in asked for one in own]
        answers: dict[int, Answer] = {}
        for steps in sorted({one.steps for one in flat}):
            waiting: list[int] = []
            count = 0
            same = [place for place, one in enumerate(flat) if one.steps == steps]
            for place in same:
                waiting.append(place)
                count += len(flat[place].ends)
                if count >= self._plan.batch or place == same[-1]:
                    answers |= zip(waiting, self._score([flat[one] for one in waiting]), strict=True)
                    waiting, count = [], 0
        ordered = iter([answers[place] for place in range(len(flat))])
        return [[next(ordered) for _ in own] for own in asked]

    def _score(self, asked: list[Asked]) -> list[Answer]:
        if len(asked) == 1:
            return [self._plan.scored(asked[0])]
        offsets = np.cumsum([0, *(len(one.block.rows) for one in asked)])
        starts = np.concatenate([one.block.starts + offset for one, offset in zip(asked, offsets, strict=False)])
        block = Block(np.concatenate([one.block.rows for one in asked]), starts)
        whole = replace(asked[0], block=block)
        scores, attribution = self._plan.scored(whole)
        bounds = np.cumsum([0, *(len(one.ends) for one in asked)])
        return [
            (scores[a:b], None if attribution is None else attribution[a:b])
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]

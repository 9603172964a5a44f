"""One very long series: read a row group at a time, scored in shards by all workers, judged in one pass.

The driver cuts rows into segments and shards; workers score shards; the driver puts the scores in order again and
pushes them through the alarm stages once, as a stream does. What waits is bounded, so RAM is, whatever the length.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.readers.arrow import parquet_shape, read_pieces
from patchad.data.readers.registry import kind_of
from patchad.data.reading import Reading
from patchad.data.shaping import as_table
from patchad.data.stages import Scored, Stage
from patchad.data.table import BoolArray, FloatArray, Table
from patchad.data.times import localized
from patchad.detectors.base import Detector
from patchad.detectors.reading import match, read_table
from patchad.detectors.shards import Cutter, Shard, score_shard
from patchad.errors import InputError, UnsupportedError
from patchad.fleet.loading import Source, constants
from patchad.fleet.models import Model
from patchad.fleet.results import KEY, OUTLINE, Result, metadata_of, score_columns
from patchad.fleet.runner import Runner
from patchad.fleet.sources import opened
from patchad.results.detection import time_text
from patchad.streaming.plan import Plan
from patchad.streaming.stream import Stream
from patchad.streaming.verdict import Verdict

LONG_ROWS = 2_000_000
"""Rows from which on a series of parquet files is judged in shards."""
SHARD_ROWS, SHARD_VALUES = 100_000, 2_000_000
"""Most rows and values of a shard."""
SHARD_CONTEXTS = 4
"""Least rows of a shard, in rows that it takes along from before."""


def long_rows(source: Source, reading: Reading) -> int:
    """Return the rows of a series that can be judged in shards; 0 where it has to be read as a whole."""
    whole = reading.sort or reading.dedupe or reading.every or reading.long or reading.labels
    if whole or any("://" in file.path or kind_of(Path(file.path)) != ".parquet" for file in source.files):
        return 0
    try:
        return sum(parquet_shape(Path(file.path))[0] for file in source.files)
    except (InputError, OSError):
        return 0


@dataclass(frozen=True, slots=True, eq=False)
class ShardTask:
    """A shard on its way to a worker and back."""

    number: int
    shard: Shard
    model: Model


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Rows that were cut, and how many shards there were once they were."""

    values: FloatArray
    times: NDArray[Any] | None
    shards: int


class _Collected(Stream):
    """A stream that hands verdicts over as arrays."""

    def __init__(self, plan: Plan, write: Any) -> None:
        super().__init__(plan)
        self._write = write

    def _verdicts(self, alarms: BoolArray) -> tuple[Verdict, ...]:
        if not len(alarms):
            return ()
        scores, levels, shares = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        rest = slice(len(alarms), None)
        self._waiting = [(scores[rest], levels[rest], shares[rest])]
        self._write(scores[: len(alarms)], levels[: len(alarms)], alarms)
        return ()


class _Scored:
    """The scores of one segment, from shards that were scored elsewhere; they are there when they are asked for."""

    def __init__(self, found: deque[Scored]) -> None:
        self._found = found
        self._asked = 0
        """Rows that came and have no score yet."""

    def push(self, rows: FloatArray) -> Scored:
        """Return the scores of rows that came, as far as their shards are known, in order."""
        self._asked += len(rows)
        parts = [Scored(np.empty(0))]
        while self._found and self._asked:
            first = self._found.popleft()
            if len(first) > self._asked:  # shards may be ahead of the rows
                self._found.appendleft(first[slice(self._asked, None)])
                first = first[slice(0, self._asked)]
            self._asked -= len(first)
            parts.append(first)
        return Scored.join(parts)

    def flush(self) -> Scored:
        """Return the scores that are left."""
        return self.push(np.empty(0))


class LongSeries:
    """Judges one series in shards.

    Parameters
    ----------
    source
        The series, in parquet files.
    reading
        How to read it.
    model, detector
        The model for the workers, and the detector with its threshold as it is to judge.
    rows
        Rows of the series.
    """

    def __init__(
        self,
        source: Source,
        reading: Reading,
        model: Model,
        detector: Detector,
        rows: int,
    ) -> None:
        self._source, self._reading, self._model, self._detector = source, reading, model, detector
        self._rows, self._shard_rows = rows, shard_rows_of(detector)
        self._plan = detector.plan_stream()
        self._chunks: deque[_Chunk] = deque()
        self._segments: list[deque[Scored]] = []
        """Scores that wait, of each segment."""
        self._owner: list[int] = []
        """Segment of each shard."""
        self._ready: dict[int, Scored] = {}
        self._handed = 0
        """Shards whose scores are in `_segments`."""
        self._error: Exception | None = None
        self._zone: Any = None
        self._groups: dict[str, str] | None = None

    def detect(self, runner: Runner, path: Path, key: str) -> Result:
        """Judge the series and write its scores."""
        began = time.perf_counter()
        plan = self._plan
        with _Writer(path, self._source.name, self._rows) as writer:
            scorers = self._scorers() if self._detector.context is not None else None
            sharded = plan if scorers is None else replace(plan, scorer=lambda: next(scorers), score=None)
            stream = _Collected(sharded, writer.write)
            if scorers is None:
                for chunk in self._cut(None):
                    self._push(stream, chunk, writer)
            else:
                self._run(runner, stream, writer)
            stream.flush()
            events = tuple(
                {"series": self._source.name} | event.in_zone(self._zone).to_dict() for event in stream.events
            )
            result = Result(
                series=self._source.name,
                rows=writer.rows,
                events=events,
                seconds=time.perf_counter() - began,
                key=key,
                groups=self._groups or {},
                outline=writer.outline(),
                first_time=writer.first_time,
                last_time=writer.last_time,
            )
            writer.finish(result)
        return result

    def _run(self, runner: Runner, stream: Stream, writer: _Writer) -> None:
        for task, scored in runner.run(score_task, self._tasks()):
            self._ready[task.number] = _own(scored)
            while self._handed in self._ready:
                self._segments[self._owner[self._handed]].append(self._ready.pop(self._handed))
                self._handed += 1
            self._replay(stream, writer)
        if self._error is not None:
            raise self._error
        self._replay(stream, writer)

    def _replay(self, stream: Stream, writer: _Writer) -> None:
        """Push the chunks whose scores are all known through the stream."""
        while self._chunks and self._chunks[0].shards <= self._handed:
            self._push(stream, self._chunks.popleft(), writer)

    def _push(self, stream: Stream, chunk: _Chunk, writer: _Writer) -> None:
        writer.expect(chunk.times, self._zone)
        work = stream.work(chunk.values, chunk.times)
        with contextlib.suppress(StopIteration):
            asked = next(work)
            while True:  # where nothing is sharded, windows are scored here
                asked = work.send([self._plan.scored(one) for one in asked])

    def _scorers(self) -> Iterator[Stage[FloatArray]]:
        number = 0
        while True:
            yield _Scored(self._segments[number])
            number += 1

    def _tasks(self) -> Iterator[ShardTask]:
        """Read the series and give its shards; an error is kept for the driver, which may be another thread."""
        made: list[Shard] = []
        number = 0
        try:
            for chunk in self._cut(made):
                self._chunks.append(chunk)
                for shard in made:
                    yield ShardTask(number, shard, self._model)
                    number += 1
                made.clear()
        except Exception as error:  # noqa: BLE001 - a thread of the runner would swallow it
            self._error = error

    def _cut(self, made: list[Shard] | None) -> Iterator[_Chunk]:
        """Read chunks; put the shards that they complete into `made`, where shards are wanted."""
        preparer = self._plan.preparer()
        cutter: Cutter | None = None

        def keep(shards: list[Shard]) -> None:
            if made is not None:
                made.extend(shards)
                self._owner.extend([len(self._segments) - 1] * len(shards))

        tables = self._tables()
        table = next(tables, None)
        while table is not None:
            following = next(tables, None)
            values = self._matched(table)
            if made is not None:
                ready = preparer.push(values, table.index)
                for part in ready.parts:
                    if part.begins or cutter is None:
                        keep([] if cutter is None else cutter.flush())
                        self._segments.append(deque())
                        cutter = Cutter(self._detector, self._shard_rows)
                    keep(cutter.push(part.values))
                if cutter is not None and (ready.ended or following is None):
                    keep(cutter.flush())
                    cutter = None
            yield _Chunk(values, table.index, len(self._owner))
            table = following

    def _matched(self, table: Table) -> FloatArray:
        matched = match(self._detector, table)
        if matched.absent:
            raise WholeError
        return matched.values

    def _tables(self) -> Iterator[Table]:
        for file in self._source.files:
            with opened(file) as path:
                for frame in read_pieces(path):
                    yield self._table(frame)

    def _table(self, frame: Any) -> Table:
        table = as_table(frame, self._reading, self._detector.columns_)
        self._zone = table.zone
        own = constants(frame, self._detector.columns_)
        known = own if self._groups is None else self._groups
        self._groups = {name: one for name, one in known.items() if own.get(name) == one}
        return read_table(self._detector, table)


def shard_rows_of(detector: Detector) -> int:
    """Return the rows of a shard: fewer where there are many channels, but several times those it takes along."""
    bounded = min(SHARD_ROWS, SHARD_VALUES // max(len(detector.channels_), 1))
    return max(bounded, SHARD_CONTEXTS * (detector.context or 0), 1)


def _own(scored: Scored) -> Scored:
    """Return scores whose attribution can be changed: what comes from a store of objects cannot."""
    shares = scored.attribution
    return scored if shares is None or shares.flags.writeable else replace(scored, attribution=shares.copy())


class WholeError(UnsupportedError):
    """A series that has to be judged as a whole after all."""


def score_task(task: ShardTask) -> Scored:
    """Score a shard; this is what a worker does."""
    return score_shard(task.model.load(), task.shard)


class _Writer:
    """Writes the scores of a series as they become final, under a temporary name until they are complete."""

    def __init__(self, path: Path, series: str, total: int) -> None:
        self._path, self._series = path, series
        self._temporary = path.with_name(f".{path.stem}.{os.getpid()}.long")
        self._times: deque[Any] = deque()
        self._file: Any = None
        self._starts = np.unique(np.linspace(0, total, min(OUTLINE, max(total, 1)), endpoint=False).astype(np.intp))
        self._heights = np.zeros(len(self._starts))
        self.rows = 0
        self.first_time: str | float | None = None
        self.last_time: str | float | None = None

    def __enter__(self) -> _Writer:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def expect(self, times: NDArray[Any] | None, zone: Any) -> None:
        """Take the times of rows that are to be written later."""
        self._times.append(None if times is None else localized(times, zone))

    def write(self, scores: FloatArray, levels: FloatArray, alarms: BoolArray) -> None:
        """Write the next rows."""
        from pyarrow import parquet

        times = self._next_times(len(scores))
        columns = score_columns(self._series, self.rows, times, scores, levels, alarms)
        if self._file is None:
            self._file = parquet.ParquetWriter(self._temporary, columns.schema)
        self._file.write_table(columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            heights = np.nan_to_num(scores / np.where(levels > 0, levels, np.nan), nan=0.0, posinf=0.0, neginf=0.0)
        bins = np.searchsorted(self._starts, np.arange(self.rows, self.rows + len(scores)), side="right") - 1
        np.maximum.at(self._heights, bins, heights)
        if times is not None:
            self.first_time = time_text(times[0]) if self.rows == 0 else self.first_time
            self.last_time = time_text(times[-1])
        self.rows += len(scores)

    def outline(self) -> tuple[float, ...]:
        """Return the highest score of each stretch, in levels."""
        return tuple(round(float(one), 3) for one in self._heights)

    def finish(self, result: Result) -> None:
        """Give the file its name."""
        self._file.add_key_value_metadata({KEY.decode(): metadata_of(asdict(result))})
        self._file.close()
        self._file = None
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())
        self._temporary.replace(self._path)

    def _next_times(self, count: int) -> Any:
        if self._times and self._times[0] is None:
            return None
        parts = []
        while count:
            first = self._times.popleft()
            parts.append(first[:count])
            if len(first) > count:
                self._times.appendleft(first[count:])
            count -= len(parts[-1])
        return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return parts[0].append(parts[1:])

"""History: stored rows and verdicts, packed in chunks of consecutive rows, and kept for a while."""

from __future__ import annotations

import json
import time as clock
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray
from patchad.errors import InputError, reason_of

DAY = 86_400.0
MEGABYTE = 2**20
LOOSE = 64
"""Chunks of one stream that wait to be packed into larger ones."""
FULL = 512
"""Rows of a chunk that is left as it is."""

DIGITS = 7
"""Decimals that numbers may have to be stored as whole ones, less one."""
MISSING = np.iinfo(np.int64).min

Cell = float | str | None
Time = str | float | None
"""A time as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long rows and verdicts are kept; events are kept for ever."""

    days: float = 30.0
    """Days since a row came."""
    megabytes: float = 1024.0
    """Size of all rows and verdicts as they are stored; the oldest go first."""

    def __post_init__(self) -> None:
        for name in ("days", "megabytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise InputError(f"retention: {name} is {value!r}; a number over 0 is needed")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Consecutive rows of one stream: values as they came, or verdicts, by column.

    Examples
    --------
    >>> rows = Rows.of(7, ["2026-01-01T00:00", None], [{"flow": 1.5, "mode": "on"}, {"flow": None}], ("flow", "mode"))
    >>> rows.index.tolist(), [rows[0], rows[1]]
    ([7, 8], [{'flow': 1.5, 'mode': 'on'}, {'flow': None, 'mode': None}])
    """

    index: NDArray[np.int64]
    """(row,), numbers of the rows, counted from the first of the stream."""
    times: Sequence[Time]
    """As they came."""
    at: FloatArray
    """(row,), seconds since 1970, or the number that a time is; where there is none, when the row came."""
    numbers: Mapping[str, FloatArray] = field(default_factory=dict)
    """By column, NaN where missing."""
    texts: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    """Columns of states."""

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> dict[str, Cell]:
        """Return one row as a mapping; None where a value is missing."""
        found: dict[str, Cell] = {
            name: None if np.isnan(values[row]) else float(values[row]) for name, values in self.numbers.items()
        }
        return found | {name: values[row] for name, values in self.texts.items()}

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        return (self[row] for row in range(len(self)))

    @classmethod
    def of(
        cls,
        first: int,
        times: Sequence[Time],
        rows: Sequence[Mapping[str, Any]],
        columns: Sequence[str],
        at: Sequence[float] | None = None,
    ) -> Rows:
        """Make rows of mappings; only these columns are kept, and one left out is missing."""
        numbers: dict[str, FloatArray] = {}
        texts: dict[str, list[str | None]] = {}
        for name in columns:
            cells = [row.get(name) for row in rows]
            if any(isinstance(cell, str) for cell in cells):
                texts[name] = [None if cell is None else str(cell) for cell in cells]
            else:
                numbers[name] = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
        now = clock.time()
        moments = np.array([axis(time, now) for time in times] if at is None else at, dtype=np.float64)
        return cls(np.arange(first, first + len(rows)), tuple(times), moments, numbers, texts)

    def between(self, since: float, until: float) -> Rows:
        """Return the rows from one moment to another, both included."""
        return self.take(np.flatnonzero((self.at >= since) & (self.at <= until)))

    def tail(self, count: int) -> Rows:
        """Return the newest rows, so many at most."""
        return self.take(np.arange(max(len(self) - count, 0), len(self)))

    def take(self, chosen: NDArray[np.intp]) -> Rows:
        """Return the rows at these places."""
        if len(chosen) == len(self):
            return self
        numbers = {name: values[chosen] for name, values in self.numbers.items()}
        texts = {name: [values[row] for row in chosen] for name, values in self.texts.items()}
        return Rows(self.index[chosen], [self.times[row] for row in chosen], self.at[chosen], numbers, texts)

    def packed(self) -> bytes:
        """Return bytes, compressed: columns one after the other, decimals as whole numbers where that loses nothing."""
        header: dict[str, Any] = {"first": int(self.index[0]), "times": list(self.times), "names": list(self.numbers)}
        whole, digits = _as_integers(np.array([self.at, *self.numbers.values()], dtype=np.float64))
        header |= {"digits": digits, "texts": {k: list(v) for k, v in self.texts.items()}}
        bare = json.dumps(header).encode()
        shuffled = whole.view(np.uint8).reshape(-1, 8).T.tobytes()  # bytes of one rank are alike
        return zlib.compress(len(bare).to_bytes(4, "little") + bare + shuffled)

    @classmethod
    def unpacked(cls, data: bytes) -> Rows:
        """Read what `packed` returned."""
        content = zlib.decompress(data)
        stop = 4 + int.from_bytes(content[:4], "little")
        header = json.loads(content[4:stop])
        count = len(header["times"])
        shuffled = np.frombuffer(content[stop:], dtype=np.uint8).reshape(8, -1)
        whole = np.ascontiguousarray(shuffled.T).view("<i8").reshape(-1, count)
        at, *values = (_as_floats(own, digits) for own, digits in zip(whole, header["digits"], strict=True))
        index = np.arange(header["first"], header["first"] + count)
        return cls(index, header["times"], at, dict(zip(header["names"], values, strict=True)), header["texts"])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return parts that follow each other as one; a column that a part does not have is missing there."""
        if not parts:
            return cls(np.empty(0, dtype=np.int64), (), np.empty(0))
        texts = dict.fromkeys(name for part in parts for name in part.texts)
        numbers = [name for name in dict.fromkeys(n for part in parts for n in part.numbers) if name not in texts]
        missing: Callable[[Rows], FloatArray] = lambda part: np.full(len(part), np.nan)  # noqa: E731
        return cls(
            np.concatenate([part.index for part in parts]),
            [time for part in parts for time in part.times],
            np.concatenate([part.at for part in parts]),
            {name: np.concatenate([part.numbers.get(name, missing(part)) for part in parts]) for name in numbers},
            {name: [cell for part in parts for cell in _texts(part, name)] for name in texts},
        )


def _as_integers(values: FloatArray) -> tuple[NDArray[np.int64], list[int | None]]:
    """Return each `(column, row)` as whole numbers, in units of so many decimals; or as its bits, with None."""
    missing = np.isnan(values)
    known = np.where(missing, 0.0, values)
    whole = values.astype("<f8").view(np.int64)
    digits: list[int | None] = [None] * len(values)
    left = np.arange(len(values))
    for count in range(DIGITS):
        scaled = np.rint(known[left] * 10.0**count)
        small = (np.abs(scaled) < 2**52).all(axis=1)
        same = (np.signbit(known[left]) == (scaled < 0)) & (scaled / 10.0**count == known[left])
        exact = small & same.all(axis=1)
        for place, column in zip(np.flatnonzero(exact).tolist(), left[exact].tolist(), strict=True):
            whole[column] = np.where(missing[column], MISSING, scaled[place].astype(np.int64))
            digits[column] = count
        left = left[small & ~exact]
        if not len(left):
            break
    return whole, digits


def _as_floats(whole: NDArray[np.int64], digits: int | None) -> FloatArray:
    if digits is None:
        return np.ascontiguousarray(whole).view("<f8")
    return np.where(whole == MISSING, np.nan, whole / 10.0**digits)


def _texts(part: Rows, name: str) -> Sequence[str | None]:
    """Return the states of a column; it may have been all missing in a part, and so no text there."""
    if name in part.texts:
        return part.texts[name]
    values = part.numbers.get(name, np.full(len(part), np.nan))
    return [None if np.isnan(value) else f"{value:g}" for value in values]


def axis(time: Any, now: float | None = None) -> float:
    """Return where a time is on the axis of times: seconds since 1970, or the number that it is; `now` for none.

    Examples
    --------
    >>> axis("2026-01-01T01:00+01:00"), axis(5), axis("1677-01-01")
    (1767225600.0, 5.0, -9246096000.0)
    """
    if time is None:
        return clock.time() if now is None else now
    if isinstance(time, int | float | np.integer | np.floating):
        return float(time)
    import pandas as pd

    try:
        moment = pd.Timestamp(time)
    except (ValueError, TypeError) as error:
        raise InputError(f"{time!r} is no time ({reason_of(error)}); pass ISO 8601, or a number") from None
    plain = moment if moment.tz is None else moment.tz_convert(None)
    return float(plain.asm8.astype("datetime64[us]").astype(np.int64) / 1e6)  # of any year; nanoseconds end in 2262


class History:
    """The table of chunks. Every method runs inside a transaction of the store.

    Parameters
    ----------
    run
        Runs a statement with values, and returns what it found.
    retention
        How long chunks are kept.
    """

    def __init__(self, run: Callable[..., list[Any]], retention: Retention) -> None:
        self._run, self._retention = run, retention
        self._loose: dict[tuple[str, str], int] = {}
        self._size: int | None = None
        """Bytes of all chunks, counted when they are first needed."""

    def add(self, key: str, kind: str, rows: Rows) -> None:
        """Store rows that follow those of the stream; pack chunks into larger ones when there are many."""
        self._insert(key, kind, rows, clock.time())
        loose = self._loose[key, kind] = self._loose.get((key, kind), 0) + (len(rows) < FULL)
        if loose >= LOOSE:
            self._loose[key, kind] = 0
            self._pack(key, kind)

    def prune(self) -> None:
        """Remove the chunks that are too old, and the oldest ones of too many."""
        horizon = clock.time() - self._retention.days * DAY
        self._remove("SELECT rowid, length(data) FROM history WHERE stored < ? LIMIT 1000", horizon)
        limit = self._retention.megabytes * MEGABYTE
        while self._total() > limit:
            self._remove("SELECT rowid, length(data) FROM history ORDER BY stored LIMIT 16")

    def forget(self) -> None:
        """Count anew: a transaction was undone."""
        self._size = None

    def _total(self) -> int:
        if self._size is None:
            ((size,),) = self._run("SELECT coalesce(sum(length(data)), 0) FROM history")
            self._size = int(size)
        return self._size

    def _insert(self, key: str, kind: str, rows: Rows, stored: float) -> None:
        data = rows.packed()
        since, until = float(np.min(rows.at)), float(np.max(rows.at))
        values = (key, kind, int(rows.index[0]), len(rows), since, until, stored, data)
        self._run("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)
        self._size = self._total() if self._size is None else self._size + len(data)

    def _remove(self, chosen: str, *values: Any) -> None:
        for number, size in self._run(chosen, *values):
            self._run("DELETE FROM history WHERE rowid = ?", number)
            self._size = None if self._size is None else self._size - size

    def _pack(self, key: str, kind: str) -> None:
        """Make one chunk of each run of small ones that follow each other."""
        found = self._run(
            "SELECT rowid, first, count, stored, data FROM history WHERE key = ? AND kind = ? AND count < ? "
            "ORDER BY first",
            *(key, kind, FULL),
        )
        for run in _runs(found):
            parts = [Rows.unpacked(data) for *_, data in run]
            for number, *_, data in run:
                self._run("DELETE FROM history WHERE rowid = ?", number)
                self._size = self._total() if self._size is None else self._size - len(data)
            self._insert(key, kind, Rows.joined(parts), max(stored for _, _, _, stored, _ in run))


def _runs(chunks: Sequence[Any]) -> Iterable[list[Any]]:
    """Cut chunks, ordered by their first row, into runs without a hole of about `FULL` rows."""
    if not chunks:
        return
    run = [chunks[0]]
    for before, after in pairwise(chunks):
        if after[1] != before[1] + before[2] or sum(chunk[2] for chunk in run) >= FULL:
            yield run
            run = []
        run.append(after)
    yield run

"""Sensor rules: dead, frozen, missing and out-of-range channels, by what was normal for each channel in train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import BoolArray, FloatArray

SensorKind = Literal["stuck", "missing", "range"]

LONGER = 2.0
"""A run has to be this many times as long as the longest of train, and more by a number of rows."""
MORE_ROWS = 30
MAX_FREEZE = 0.05
"""Share of train for which a channel may rest in one piece; one that rests longer has no rule for being stuck."""
MIN_VALUES = 10
"""Different values that a channel needs in train for such a rule: a switch may rest for ever."""
RANGE_MARGIN = 0.5
"""Distance outside the range of train, in ranges, from which on a value is impossible."""


@dataclass(frozen=True, slots=True, eq=False)
class SensorRules:
    """Limits of each channel, (channel,)."""

    freeze: FloatArray
    """Rows of one value after which a channel is stuck; infinite ones are stored as the largest float."""
    silence: FloatArray
    """Rows without a value after which a channel is missing."""
    low: FloatArray
    high: FloatArray
    """Values outside of these are out of range."""

    @classmethod
    def fit(cls, series: Sequence[FloatArray]) -> Self:
        """Learn from `(time, channel)` values of train, NaN where they are missing.

        Examples
        --------
        >>> rules = SensorRules.fit([np.random.default_rng(0).normal(size=(1000, 1))])
        >>> rules.freeze.tolist(), rules.silence.tolist()
        ([32.0], [30.0])
        """
        rows = sum(map(len, series))
        never = float(np.finfo(np.float64).max)
        limits = []
        for channel in range(series[0].shape[1]):
            parts = [values[:, channel].astype(np.float64) for values in series]
            still = max(_longest(~_changes(part) & ~np.isnan(part)) + 1 for part in parts)
            silent = max(_longest(np.isnan(part)) for part in parts)
            known = np.concatenate([part[~np.isnan(part)] for part in parts])
            low, high = (float(known.min()), float(known.max())) if len(known) else (-never, never)
            margin = RANGE_MARGIN * (high - low) if high > low else never
            moves = still <= MAX_FREEZE * rows and len(np.unique(known)) >= MIN_VALUES
            freeze = LONGER * still + MORE_ROWS if moves else never
            limits.append((freeze, LONGER * silent + MORE_ROWS, max(low - margin, -never), min(high + margin, never)))
        return cls(*np.array(limits).T)


@dataclass(frozen=True, slots=True)
class SensorFinding:
    """Rows in which channels break a rule."""

    kind: SensorKind
    start: int
    stop: int
    channels: tuple[int, ...]
    excess: float
    """How many times the limit was reached."""


class SensorStage:
    """Find what breaks the rules in one series, from values as they were measured.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(500, 2))
    >>> stage = SensorStage(SensorRules.fit([rows]))
    >>> rows[100:200, 1] = rows[99, 1]; rows[300:400, 0] = np.nan
    >>> stage.push(rows)
    >>> [(found.kind, found.start, found.stop, found.channels) for found in stage.flush()]
    [('stuck', 99, 200, (1,)), ('missing', 300, 400, (0,))]
    """

    def __init__(self, rules: SensorRules) -> None:
        self._rules = rules
        self._seen = 0
        self._last = np.full(len(rules.low), np.nan)
        self._since: dict[SensorKind, NDArray[np.int64]] = {
            kind: np.full(len(rules.low), -1, dtype=np.int64) for kind in ("stuck", "missing", "range")
        }
        """First row of the run that lasts until now; -1: none."""
        self._found: list[SensorFinding] = []

    def push(self, values: FloatArray) -> None:
        """Take the next rows."""
        if not len(values):
            return
        for channel in range(values.shape[1]):
            column = values[:, channel].astype(np.float64)
            same: BoolArray = np.diff(column, prepend=self._last[channel]) == 0
            missing: BoolArray = np.isnan(column)
            with np.errstate(invalid="ignore"):
                outside: BoolArray = (column < self._rules.low[channel]) | (column > self._rules.high[channel])
            self._runs("stuck", channel, same, float(self._rules.freeze[channel]) - 1)
            self._runs("missing", channel, missing, float(self._rules.silence[channel]))
            self._runs("range", channel, outside, 0.0)
            self._last[channel] = column[-1]
        self._seen += len(values)

    def flush(self) -> list[SensorFinding]:
        """End the series; return what was found; what is of one kind and overlaps, or nearly does, is one."""
        for kind, since in self._since.items():
            for channel in np.flatnonzero(since >= 0):
                self._end(kind, int(channel), int(since[channel]), self._seen, self._limit(kind, int(channel)))
            since[:] = -1
        return sorted(_merged(self._found), key=lambda found: (found.start, found.kind))

    def _limit(self, kind: SensorKind, channel: int) -> float:
        limits = {"stuck": self._rules.freeze[channel] - 1, "missing": self._rules.silence[channel], "range": 0.0}
        return float(limits[kind])

    def _runs(self, kind: SensorKind, channel: int, mask: BoolArray, limit: float) -> None:
        since = self._since[kind]
        edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=np.int8(since[channel] >= 0))) + self._seen
        for edge in edges.tolist():
            if since[channel] < 0:
                since[channel] = edge
            else:
                self._end(kind, channel, int(since[channel]), edge, limit)
                since[channel] = -1

    def _end(self, kind: SensorKind, channel: int, start: int, stop: int, limit: float) -> None:
        if stop - start > limit:
            first = start - 1 if kind == "stuck" else start  # the value that was repeated belongs to the run
            self._found.append(SensorFinding(kind, max(first, 0), stop, (channel,), (stop - start) / max(limit, 1.0)))


def _merged(found: Sequence[SensorFinding]) -> Iterator[SensorFinding]:
    """Join findings of one kind that overlap, or lie at most `MORE_ROWS` apart."""
    for kind in ("stuck", "missing", "range"):
        own = sorted((one for one in found if one.kind == kind), key=lambda one: one.start)
        together: SensorFinding | None = None
        for one in own:
            if together is None or one.start > together.stop + MORE_ROWS:
                if together is not None:
                    yield together
                together = one
            else:
                channels = tuple(dict.fromkeys([*together.channels, *one.channels]))
                stop, excess = max(together.stop, one.stop), max(together.excess, one.excess)
                together = SensorFinding(kind, together.start, stop, channels, excess)
        if together is not None:
            yield together


def _changes(column: FloatArray) -> BoolArray:
    """Mark the rows whose value differs from the one before; the first row counts as a change."""
    return np.asarray(np.concatenate([[True], np.diff(column) != 0]))


def _longest(mask: BoolArray) -> int:
    """Return the length of the longest run of True."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return int((edges[1::2] - edges[::2]).max(initial=0))

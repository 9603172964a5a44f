"""Sensor rules: dead, frozen, missing and out-of-range channels, by what was normal for each channel in train."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.chunk import UNSTEADY_ROWS
from patchad.data.scaling import channel_range
from patchad.data.table import BoolArray, FloatArray

SensorKind = Literal["stuck", "missing", "range"]
KINDS: tuple[SensorKind, ...] = ("stuck", "missing", "range")

LONGER = 2.0
"""A run has to be this many times as long as the longest of train, and more by a number of rows."""
MORE_ROWS = 30
MAX_FREEZE = 0.05
"""Share of train for which a channel may rest in one piece; one that rests longer has no rule for being stuck."""
MAX_FAULTS = 3
"""Runs of train, of all channels, that may be faults: they break the rule learned from the others. Where more do,
long rests are normal."""
MIN_VALUES = 10
"""Different values that a channel needs in train for such a rule: a switch may rest for ever."""
BLOCK_ROWS = 8192
"""Rows that are looked at together: RAM stays bounded."""
RANGE_MARGIN = 0.5
"""Distance outside the range of train, in ranges, from which on a value is impossible, where train is long."""
RANGE_ROWS = 200
"""Values of train for which that distance is twice as far: a few rows show little of what a channel can be."""


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
        # A series without any value of a channel that others have says nothing of it: the sensor came later.
        columns = [_measured([values[:, channel] for values in series]) for channel in range(series[0].shape[1])]
        rests = _longest_normal([~_changes(part) & ~np.isnan(part) for part in parts] for parts in columns)
        silences = _longest_normal([np.isnan(part) for part in parts] for parts in columns)
        for parts, rest, silent in zip(columns, rests, silences, strict=True):
            still = rest + 1
            known = np.concatenate([part[~np.isnan(part)] for part in parts])
            low, high, _ = channel_range([known]) if len(known) else (0.0, 0.0, False)
            # a channel that never moved has no range
            margin = RANGE_MARGIN * (1 + RANGE_ROWS / len(known)) * (high - low) if high > low else never
            moves = still <= MAX_FREEZE * rows and len(np.unique(known)) >= MIN_VALUES
            freeze = LONGER * still + MORE_ROWS if moves else never
            limits.append((freeze, LONGER * silent + MORE_ROWS, max(low - margin, -never), min(high + margin, never)))
        return cls(*np.array(limits).T)

    def with_range(self, channels: BoolArray, limits: tuple[float, float]) -> Self:
        """Return the rules with this range for some channels, which are switches: in train they may have rested."""
        low, high = (np.where(channels, limit, own) for limit, own in zip(limits, (self.low, self.high), strict=True))
        return replace(self, low=low, high=high)

    def lasting(self, rows: int) -> Self:
        """Return the rules by which a channel is stuck or missing for this many rows at least."""
        return replace(self, freeze=np.maximum(self.freeze, rows - 1), silence=np.maximum(self.silence, rows - 1))

    def extended(self, freeze: FloatArray, silence: FloatArray, low: FloatArray, high: FloatArray) -> Self:
        """Return limits that allow runs twice as long as these, and values somewhat outside this range.

        That is a quarter of the distance between the limits, which is half of the range of a long train. Each is
        `(channel,)`: 0, or an empty range, where nothing is added.

        Examples
        --------
        >>> rules = SensorRules.fit([np.random.default_rng(0).normal(size=(1000, 1))])
        >>> wider = rules.extended(*np.array([[100.0], [0.0], [9.0], [-9.0]]))
        >>> wider.freeze.tolist(), wider.silence.tolist(), bool(wider.low == rules.low)
        ([200.0], [30.0], True)
        """
        never = float(np.finfo(np.float64).max)
        with np.errstate(over="ignore"):
            margin = RANGE_MARGIN / (1 + 2 * RANGE_MARGIN) * (self.high - self.low)
            wider = low <= high
            return type(self)(
                np.minimum(np.maximum(self.freeze, LONGER * freeze), never),
                np.minimum(np.maximum(self.silence, LONGER * silence), never),
                np.where(wider, np.maximum(np.minimum(self.low, low - margin), -never), self.low),
                np.where(wider, np.minimum(np.maximum(self.high, high + margin), never), self.high),
            )


@dataclass(frozen=True, slots=True)
class Dead:
    """Rows in which channels were stuck or missing."""

    start: int
    stop: int
    lasting: bool
    """Whether they are so still, or were at the end of the series."""
    channels: tuple[int, ...]


def explained_rows(dead: Sequence[Dead], rows: NDArray[np.intp], lead: int | None, smear: int) -> BoolArray:
    """Mark the rows of an event that dead channels explain: windows smear to both sides.

    What begins while they are dead, and blames another channel most, is news. A channel that was dead from the start
    explains no change but its end.

    Examples
    --------
    >>> dead = [Dead(100, 200, False, (1,))]
    >>> [int(explained_rows(dead, np.arange(a, a + 20), 0, 10).sum()) for a in (85, 150, 300)]
    [15, 0, 0]
    >>> int(explained_rows(dead, np.arange(150, 170), 1, 10).sum())
    20
    """
    explained: BoolArray = np.zeros(len(rows), dtype=bool)
    for one in dead if len(rows) else ():
        elsewhere = lead is not None and lead not in one.channels
        is_news = elsewhere and one.start + smear <= rows[0] < one.stop - smear
        if not is_news and (one.start > 0 or not one.lasting):
            explained |= (rows >= (one.start or one.stop) - smear) & (rows < one.stop + smear)
    return explained


@dataclass(slots=True, eq=False)
class SensorFinding:
    """Rows in which channels break a rule: runs of one kind that overlap, or lie at most `MORE_ROWS` apart."""

    kind: SensorKind
    start: int
    stop: int
    """One after its last row so far."""
    runs: dict[int, tuple[int, float]]
    """For each channel where it first broke the rule, and how many times it reached the limit at most."""
    going: list[int] = field(default_factory=list)
    """Channels that break the rule still."""
    settled: bool = False
    """Whether its start is final."""
    finished: bool = False
    """Whether nothing can be added to it."""
    cut: bool = False
    """Whether it lasted until the end of the series."""
    peak: int = -1
    """Row with the highest score of its rows so far; -1: none has a score."""
    peak_score: float = -np.inf
    listed: bool | None = None
    """Whether it is an event; None: not decided."""
    repeats: int = 0
    latest: int = 0
    """Where it, or its newest repeat, ended, once it is listed."""
    quiet_until: int = 0
    """First row of which it is told, where it began in a quiet period."""
    start_time: np.generic | None = None
    stop_time: np.generic | None = None

    @property
    def first(self) -> int:
        """The first row of which it is told."""
        return max(self.start, self.quiet_until)

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels in the order in which they broke the rule."""
        return tuple(sorted(self.runs, key=lambda channel: (self.runs[channel][0], channel)))

    @property
    def recognised(self) -> int | None:
        """First row that no longer alarms: impossible values that last are a regime. None where they have not."""
        lasts = self.kind == "range" and self.stop - self.first > UNSTEADY_ROWS
        return self.first + UNSTEADY_ROWS if lasts else None

    @property
    def dead(self) -> Dead:
        """These rows, as far as they explain others."""
        return Dead(self.start, self.stop, self.cut or bool(self.going), self.channels)

    @property
    def excess(self) -> float:
        """How many times the limit was reached."""
        return max(excess for _, excess in self.runs.values())

    def absorb(self, other: SensorFinding) -> None:
        """Take over the rows of another finding."""
        self.start, self.stop = min(self.start, other.start), max(self.stop, other.stop)
        self.going += other.going
        if (other.peak_score, -other.peak) > (self.peak_score, -self.peak):
            self.peak, self.peak_score = other.peak, other.peak_score
        for channel, (start, excess) in other.runs.items():
            own = self.runs.get(channel, (start, excess))
            self.runs[channel] = min(start, own[0]), max(excess, own[1])


class SensorStage:
    """Find what breaks the rules in one series, from values as they were measured.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(500, 2))
    >>> stage = SensorStage(SensorRules.fit([rows]))
    >>> rows[100:200, 1] = rows[99, 1]; rows[300:400, 0] = np.nan
    >>> found = stage.push(rows) + stage.flush()
    >>> [(one.kind, one.start, one.stop, one.channels) for one in found]
    [('stuck', 99, 200, (1,)), ('missing', 300, 400, (0,))]
    """

    state = ("seen", "_last", "_since", "_running", "_open")

    def __init__(self, rules: SensorRules) -> None:
        self._rules, self._width = rules, len(rules.low)
        never = np.zeros(self._width)
        self._limits = np.concatenate([rules.freeze - 1, rules.silence, never])
        """(kind and channel,), rows that a run has to exceed."""
        self._early = np.repeat([1, 0, 0], self._width)
        """Rows before a run that belong to it: the value that is repeated."""
        self._ruled: BoolArray = self._limits < np.finfo(np.float64).max / 2
        """(kind and channel,), whether there is a limit."""
        self._may_freeze = bool(self._ruled[: self._width].any())
        self.seen = 0
        self._last = np.full(self._width, np.nan)
        self._since = np.full(3 * self._width, -1, dtype=np.int64)
        """First row of the run that lasts until now, by kind and channel; -1: none."""
        self._running = False
        """Whether there is such a run."""
        self._open: list[SensorFinding] = []

    def push(self, values: FloatArray) -> list[SensorFinding]:
        """Take the next rows; return what was found in them first."""
        found: list[SensorFinding] = []
        for first in range(0, len(values), BLOCK_ROWS):
            found += self._push(values[first : first + BLOCK_ROWS].astype(np.float64))
        return found

    def flush(self) -> list[SensorFinding]:
        """End the series; return what was found first now."""
        found = self._update([], final=True)
        self._last[:], self._since[:], self._running = np.nan, -1, False
        return found

    def undecided(self, kinds: Collection[SensorKind]) -> int:
        """Return the first row that may yet turn out to be in a finding of these kinds, or in none."""
        first = self.seen - (1 if "stuck" in kinds and self._may_freeze else 0)
        for kind in kinds if self._running else ():
            own = self._by_kind(kind)
            waiting = (self._since[own] >= 0) & (self.seen - self._since[own] <= self._limits[own])
            if waiting.any():
                first = min(first, int((self._since[own] - self._early[own])[waiting].min()))
        for one in self._open:
            if one.kind in kinds and not one.going:
                first = min(first, one.stop)
        return max(first, 0)

    def _by_kind(self, kind: SensorKind) -> slice:
        place = KINDS.index(kind)
        return slice(place * self._width, (place + 1) * self._width)

    def _push(self, values: FloatArray) -> list[SensorFinding]:
        same = values == (self._last[None] if len(values) == 1 else np.concatenate([self._last[None], values[:-1]]))
        outside = (values < self._rules.low) | (values > self._rules.high)
        mask: BoolArray = np.concatenate([same, np.isnan(values), outside], axis=1) & self._ruled
        ended: list[tuple[int, int, int]] = []
        if self._running or mask.any():
            ended = self._runs(mask, self._since >= 0)
            self._running = bool((self._since >= 0).any())
        self._last = values[-1].copy()
        self.seen += len(values)
        return self._update(ended) if ended or self._open or self._running else []

    def _runs(self, mask: BoolArray, running: BoolArray) -> list[tuple[int, int, int]]:
        """Follow the runs of True; return `(kind and channel, start, stop)` of those that ended and are long enough."""
        change = np.diff(mask.astype(np.int8), axis=0, prepend=running[None].astype(np.int8)).T
        begun, begins = np.nonzero(change > 0)
        which, stops = np.nonzero(change < 0)
        carried = np.flatnonzero(running)
        begun, begins = np.concatenate([carried, begun]), np.concatenate([self._since[carried], begins + self.seen])
        order = np.lexsort((begins, begun))
        begun, begins = begun[order], begins[order]
        last = np.flatnonzero(np.append(begun[1:] != begun[:-1], True)) if len(begun) else np.empty(0, dtype=np.intp)
        going = last[mask[-1, begun[last]]]  # the newest run of each column where it lasts
        self._since[:] = -1
        self._since[begun[going]] = begins[going]
        starts, stops = np.delete(begins, going), stops + self.seen
        long = stops - starts > self._limits[which]
        return list(zip(which[long].tolist(), starts[long].tolist(), stops[long].tolist(), strict=True))

    def _update(self, ended: list[tuple[int, int, int]], *, final: bool = False) -> list[SensorFinding]:
        """Add runs that ended and those that are long enough by now; return new findings."""
        fresh: list[SensorFinding] = []
        over = np.flatnonzero((self._since >= 0) & (self.seen - self._since > self._limits))
        lasting = [(int(column), int(self._since[column]), self.seen) for column in over]
        for one in self._open:
            one.going = []
        for column, start, stop in sorted([*ended, *lasting], key=lambda run: run[1]):
            place, channel = divmod(column, self._width)
            first, excess = (
                max(start - int(self._early[column]), 0),
                (stop - start) / max(float(self._limits[column]), 1.0),
            )
            going = [channel] if stop == self.seen and self._since[column] == start and not final else []
            found = SensorFinding(KINDS[place], first, stop, {channel: (first, excess)}, going)
            found.cut = final and stop == self.seen
            self._add(found, fresh)
        for one in self._open:
            own = self._by_kind(one.kind)
            waiting = (self._since[own] >= 0) & (self.seen - self._since[own] <= self._limits[own]) & (not final)
            starts = (self._since[own] - self._early[own])[waiting]
            one.settled = not (starts < one.start).any()
            near = one.stop + MORE_ROWS
            early = int(self._early[own][0])
            one.finished = final or not (one.going or self.seen - early <= near or (starts <= near).any())
        self._open = [one for one in self._open if not one.finished]
        return sorted(fresh, key=lambda one: (one.start, one.kind))

    def _add(self, found: SensorFinding, fresh: list[SensorFinding]) -> None:
        """Join a run with what is near it."""
        near = [one for one in self._open if one.kind == found.kind and _is_near(one, found)]
        if not near:
            self._open.append(found)
            fresh.append(found)
            return
        first = min(near, key=lambda one: (one in fresh, one.start))
        first.absorb(found)
        first.cut = first.cut or found.cut
        for other in near:
            if other is not first:
                first.absorb(other)
                other.listed = False  # it is part of another
                self._open.remove(other)
                if other in fresh:
                    fresh.remove(other)


def _is_near(one: SensorFinding, other: SensorFinding) -> bool:
    return one.start <= other.stop + MORE_ROWS and other.start <= one.stop + MORE_ROWS


def _changes(column: FloatArray) -> BoolArray:
    """Mark the rows whose value differs from the one before; the first row counts as a change."""
    return np.asarray(np.concatenate([[True], column[1:] != column[:-1]]))


def _measured(parts: Sequence[FloatArray]) -> Sequence[FloatArray]:
    """Leave out the parts that hold no value, unless none does."""
    return [part for part in parts if not np.isnan(part).all()] or parts


def _longest_normal(channels: Iterable[Sequence[BoolArray]]) -> list[int]:
    """Return the length of each channel's longest run of True.

    A few runs that break the rule learned from the others may be faults and do not count, unless there are more.
    """
    longest, normal, faults = [], [], 0
    for masks in channels:
        edges = [np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0)) for mask in masks]
        lengths = np.sort(np.concatenate([edge[1::2] - edge[::2] for edge in edges]))[::-1].tolist()
        lengths += [0] * (MAX_FAULTS + 1)
        broken = [n for n in range(MAX_FAULTS) if lengths[n] > LONGER * lengths[n + 1] + MORE_ROWS]
        first = broken[-1] + 1 if broken and lengths[0] <= MAX_FREEZE * sum(map(len, masks)) else 0
        longest.append(int(lengths[0]))
        normal.append(int(lengths[first]))
        faults += first
    return normal if faults <= MAX_FAULTS else longest

"""Events: from scores and levels to what a person on call is told, row by row with bounded state.

An event opens over the level and closes once the score has stayed under a lower one for `merge_gap` rows. Its edges lie
where the data changes: at the first and last row that even the least strange window finds unusual (see `Edges`). What
lasts stays: an event stays open until the score, adaptation to it left out, returns to normal; after `REGIME_ROWS`
steady rows it is a regime, whose further rows no longer alarm and in which new events are judged by what is new. A
third event like the two just before it is a repeat, counted on the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.edges import Edges
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray

Kind = Literal["anomaly", "stuck", "missing", "range", "regime"]

CLOSING = 0.5
"""Height of the closing level between the median held-out score and the level."""
REGIME_ROWS = 600
"""Rows for which the score of an open event has to be steady before it is called a regime."""
STEADY_SPREAD = 1.0
"""Spread of a steady score (from its 10th to its 90th percentile), as a share of its height over normal."""
CHECK_EVERY = 50
"""Rows between two checks whether an open event is steady."""
EXPLAINED = 0.5
"""Share of its rows from which on a broken sensor explains an event."""
REPEATS_AFTER = 2
"""Like events that are listed; those after them are repeats."""
REPEAT_ROWS = 1000
"""Rows after an event in which one like it is a repeat; as many more for each repeat before it."""
REPEATS_COUNTED = 4
"""Repeats that count for that, at most."""
REPEAT_PEAK = 1.5
"""A peak this many times as high as the median of the like events before it is no repeat."""


@dataclass(slots=True, eq=False)
class Finding:
    """An event in the making; rows are counted from the start of the segment."""

    first: int
    """Where the score rose over the closing level."""
    opened: int
    """Where it rose over the level."""
    level: float
    """The level that it rose over."""
    last: int
    """The last row over the closing level so far."""
    attribution: FloatArray | None
    """(channel,), weighted by how far rows are over the level."""
    kind: Kind = "anomaly"
    peak: int = 0
    peak_score: float = -np.inf
    over_last: int = 0
    edges: Edges = field(default_factory=Edges)
    """Unusual rows by local scores."""
    recognised: int | None = None
    """Where it was recognised as a regime."""
    repeats: int = 0
    explained: int = 0
    """Rows over the closing level in which a broken sensor explains what is seen."""
    active: int = 0
    """Rows over the closing level."""
    peaks: list[float] = field(default_factory=list)
    """Peaks of this event and its newest repeats."""
    latest: int = 0
    """Where it, or its newest repeat, ended."""

    @property
    def rows(self) -> tuple[int, int]:
        """Half-open rows of the event."""
        first, last = self.edges.rows or (self.opened, self.over_last)
        if self.kind == "regime":
            last = self.last
        return first, max(last, first) + 1

    @property
    def lead(self) -> int | None:
        """The channel most to blame."""
        return None if self.attribution is None or not self.attribution.any() else int(self.attribution.argmax())


class EventStage:
    """Find the events of one segment.

    Parameters
    ----------
    base
        Median held-out score.
    edge
        Local score over which a row is unusual.
    merge_gap
        Longest pause inside an event, in rows.
    min_duration
        Shortest event, in rows.

    Examples
    --------
    >>> stage = EventStage(base=0.0, edge=1.0, merge_gap=2, min_duration=1)
    >>> scores = np.array([0.0, 3.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0])
    >>> stage.push(Scored(scores), np.full(8, 2.0), np.zeros(8, dtype=bool)); stage.flush()
    >>> [(found.rows, found.peak) for found in stage.listed]
    [((1, 4), 3)]
    """

    def __init__(self, *, base: float, edge: float, merge_gap: int, min_duration: int) -> None:
        self._base, self._edge, self._gap, self._shortest = base, edge, merge_gap, min_duration
        self.listed: list[Finding] = []
        """Events so far, in the order of their ends; open ones are not among them."""
        self._seen = 0
        self._run: int | None = None
        """First row of the run over the closing level that lasts until now."""
        self._run_edges = Edges()
        """Unusual rows of that run."""
        self._open: Finding | None = None
        self._regime: Finding | None = None
        self._offset = 0.0
        """By how much scores are higher inside the regime."""
        self._recent = np.empty((0, 2))
        """The last scores, before and after adaptation, at most `REGIME_ROWS`."""

    def push(self, rows: Scored, levels: FloatArray, muted: BoolArray, explained: BoolArray | None = None) -> None:
        """Take the next rows with their levels.

        Muted rows neither open an event nor extend it. An event most of whose rows are explained, by a sensor that is
        stuck or missing, is not listed.
        """
        if not len(rows):
            return
        explained = np.zeros(len(rows), dtype=bool) if explained is None else explained
        chunk = _Chunk(rows, levels, muted, explained, self._base, self._edge, self._recent)
        row = 0
        while row < len(rows):
            if self._open is None and self._regime is None:
                active = chunk.next_active(row)
                if active > row:
                    self._end_run()
                row = active
                if row == len(rows):
                    break
            self._step(chunk, row)
            row += 1
        self._seen += len(rows)
        self._recent = chunk.history[-REGIME_ROWS:].copy()

    def flush(self) -> None:
        """End the segment: close what is open."""
        for found in (self._open, self._regime):
            if found is not None:
                self._close(found)
        self._open = self._regime = None

    def _step(self, chunk: _Chunk, row: int) -> None:
        now = self._seen + row
        if chunk.is_active(row, self._offset):
            self._run = now if self._run is None else self._run
            if chunk.unusual[row] and self._open is None and self._regime is None:
                self._run_edges.add(now, float(chunk.unusual[row]))
        else:
            self._end_run()
        if self._open is None and chunk.is_over(row, self._offset):
            self._open = self._opened(chunk, row, now)
        if self._open is not None:
            self._extend(self._open, chunk, row, now)
        if self._regime is not None:
            self._watch_regime(self._regime, chunk, row, now)

    def _watch_regime(self, regime: Finding, chunk: _Chunk, row: int, now: int) -> None:
        """Close the regime on return to normal; until then follow what is steady in it."""
        if chunk.lasting[row]:
            regime.last = now
        elif now - regime.last > self._gap:
            self._close(regime)
            self._regime, self._offset = None, 0.0
        if self._regime is not None and self._open is None and (now - regime.first) % CHECK_EVERY == 0:
            self._offset = chunk.height(row)

    def _opened(self, chunk: _Chunk, row: int, now: int) -> Finding:
        attribution = None if chunk.attribution is None else np.zeros(chunk.attribution.shape[1])
        first, edges = now if self._run is None else self._run, self._run_edges
        self._run_edges = Edges()
        return Finding(first, now, float(chunk.levels[row]), now, attribution, edges=edges)

    def _extend(self, found: Finding, chunk: _Chunk, row: int, now: int) -> None:
        """Update the open event with a row, and close it or call it a regime where that is due."""
        # Within a regime only what is new counts; elsewhere nothing is closed by getting used to it.
        if chunk.is_active(row, self._offset) or (self._regime is None and chunk.lasting[row]):
            found.last = now
            found.active += 1
            found.explained += int(chunk.explained[row])
            if chunk.unusual[row] and self._regime is None:
                found.edges.add(now, float(chunk.unusual[row]))
        if chunk.is_over(row, self._offset):
            found.over_last = now
            if chunk.scores[row] > found.peak_score:
                found.peak, found.peak_score = now, float(chunk.scores[row])
            if found.attribution is not None and chunk.attribution is not None:
                found.attribution += (chunk.scores[row] - chunk.levels[row]) * chunk.attribution[row]
        if now - found.last > self._gap:
            self._close(found)
            self._open = None
        elif self._regime is None and found.last == now and _is_due(now - found.first) and chunk.is_steady(row):
            found.kind, found.recognised = "regime", now
            self._regime, self._open, self._offset = found, None, chunk.height(row)
            self._end_run()
        elif self._regime is not None and _is_due(now - found.first):  # the regime has changed once more
            self._close(found)
            self._open, self._offset = None, chunk.height(row)
            self._end_run()

    def _end_run(self) -> None:
        self._run, self._run_edges = None, Edges()

    def _close(self, found: Finding) -> None:
        """List an event, or count it as a repeat."""
        start, stop = found.rows
        if stop - start < self._shortest or found.explained > EXPLAINED * found.active:
            return
        alike = [other for other in self.listed if start - other.latest <= _reach(other) and _is_alike(found, other)]
        for other in alike:
            other.latest = stop
        if len(alike) >= REPEATS_AFTER or any(other.repeats for other in alike):
            alike[0].repeats += 1
            alike[0].peaks = [*alike[0].peaks[-19:], found.peak_score]
        else:
            found.peaks, found.latest = [found.peak_score], stop
            self.listed.append(found)


def _is_due(age: int) -> bool:
    return age >= REGIME_ROWS and age % CHECK_EVERY == 0


def _reach(other: Finding) -> int:
    """Return the rows in which an event like this one is a repeat."""
    return REPEAT_ROWS * (1 + min(other.repeats, REPEATS_COUNTED))


def _is_alike(found: Finding, other: Finding) -> bool:
    """Return whether an event is like an earlier one: the same channel leads, and its peak is not clearly higher."""
    alike = other.lead == found.lead and found.kind == other.kind == "anomaly"
    return alike and found.peak_score <= REPEAT_PEAK * float(np.median(other.peaks))


class _Chunk:
    """Rows that are pushed together, with what the stage asks of them."""

    def __init__(
        self,
        rows: Scored,
        levels: FloatArray,
        muted: BoolArray,
        explained: BoolArray,
        base: float,
        edge: float,
        recent: FloatArray,
    ) -> None:
        self.scores, self.levels, self.attribution = rows.scores, levels, rows.attribution
        self.explained = explained
        closing = base + CLOSING * (levels - base)
        lasting = rows.scores if rows.unadapted is None else rows.unadapted
        with np.errstate(invalid="ignore"):  # NaN is over no level
            self.active: BoolArray = (rows.scores > closing) & ~muted
            self.lasting: BoolArray = (lasting > closing) & ~muted
            self.unusual: FloatArray = (
                1.0 * (rows.scores > closing) if rows.local is None else _unusual(rows.local, base, edge)
            )
        self.history = np.concatenate([recent, np.column_stack([lasting, rows.scores])])
        self._before, self._base, self._closing, self._muted = len(recent), base, closing, muted
        self._where: NDArray[np.intp] = np.flatnonzero(self.active)

    def next_active(self, row: int) -> int:
        """Return the next row over the closing level, or the end of the chunk."""
        place = int(np.searchsorted(self._where, row))
        return int(self._where[place]) if place < len(self._where) else len(self.active)

    def is_over(self, row: int, offset: float) -> bool:
        """Return whether a score is over the level, by so much more than usual."""
        return bool(self.scores[row] - offset > self.levels[row]) and not self._muted[row]

    def is_active(self, row: int, offset: float) -> bool:
        """Return whether a score is over the closing level, by so much more than usual."""
        return bool(self.scores[row] - offset > self._closing[row]) and not self._muted[row]

    def is_steady(self, row: int) -> bool:
        """Return whether the last rows have kept their height over normal."""
        low, middle, high = np.nanquantile(self._last(row)[:, 0], [0.1, 0.5, 0.9])
        return bool(high - low <= STEADY_SPREAD * (middle - self._base))

    def height(self, row: int) -> float:
        """Return by how much the newest scores, all but the highest, are over normal."""
        newest = self._last(row)[-REGIME_ROWS // 2 :, 1]
        return max(float(np.nanquantile(newest, 0.99)) - self._base, 0.0)

    def _last(self, row: int) -> FloatArray:
        stop = self._before + row + 1
        return self.history[max(stop - REGIME_ROWS, 0) : stop]


def _unusual(local: FloatArray, base: float, edge: float) -> FloatArray:
    """Return how unusual rows are: 0 for usual ones, others in distances of the edge from normal."""
    distance = (local - base) / (edge - base) if edge > base else np.ones(len(local))
    return np.where(local > edge, distance, 0.0)

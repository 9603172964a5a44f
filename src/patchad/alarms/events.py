"""Events: from scores and levels to what may be told to a person on call, row by row with bounded state.

An event opens over the level and closes once, for `merge_gap` rows, no row was over the level, or over the closing
level and unusual by itself. Its edges lie where the data changes: at the first and last row that even the least strange
window finds unusual (see `Edges`). What lasts stays: an event stays open until the score, adaptation to it left out,
returns to normal; after `REGIME_ROWS` steady rows, or `UNSTEADY_ROWS` in any case, it is a regime, whose further rows
no longer alarm and in which new events are judged by what is new.

No row waits for ever to be known as inside or outside of an event. What came a reach (`Shape.reach`: a window and a
pause) before an event opened is not part of it; rows of an open event that no unusual one follows within a reach are
part of it; and `Shape.patience` rows after it opened an event is ripe: where it starts is settled, and whether it is
listed can be decided (see `patchad.alarms.listing`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.chunk import REGIME_ROWS, UNSTEADY_ROWS, Chunk, heights
from patchad.alarms.edges import CLOSING, Edges, closing_level
from patchad.alarms.knowledge import Judge
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray

Kind = Literal["anomaly", "stuck", "missing", "range", "regime"]

GREATER = 4.0
"""Peak of an event, in those of the regime before it over normal, over which it is not how the regime ended."""
CHECK_EVERY = 10
"""Rows between two checks whether an open event is steady, and what is usual in a regime."""
MIN_PATIENCE = 120
"""Rows after its opening from which on an event is ripe, at least."""
MIN_SMEAR = 10
"""Rows around a broken sensor in which it explains what is seen, at least."""
FAINT = np.float64(1e-200)
"""Weight in the blame of a row that only people call strange: nothing beside rows over the level, all without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How events are put together."""

    merge_gap: int
    """Longest pause inside an event, in rows."""
    min_duration: int
    """Shortest event, in rows."""
    window: int = 1
    """Rows that are scored together: a score smears as far. Shorter segments never alarm."""
    before: int = 0
    after: int = 0
    """Rows by which a score reaches ahead and back."""

    @property
    def reach(self) -> int:
        """Rows that are looked back from where an event opens, and ahead from its last unusual row."""
        return self.window + self.merge_gap

    @property
    def smear(self) -> int:
        """Rows to both sides of a broken sensor that see it too."""
        return max(self.window, MIN_SMEAR)

    @property
    def patience(self) -> int:
        """Rows from the opening of an event until it is ripe; a shorter one has closed by then."""
        return max(2 * self.reach, MIN_PATIENCE)


@dataclass(slots=True, eq=False)
class Finding:
    """An event in the making. Rows are those of the table, unless they are said to be counted in the segment."""

    first: int
    """Where the score rose over the closing level, counted in the segment."""
    opened: int
    """Where it rose over the level."""
    level: float
    """The level that it rose over."""
    last: int
    """The last row over the closing level so far, counted in the segment."""
    attribution: FloatArray | None
    """(channel,), weighted by how far rows are over the level."""
    until: int = 0
    """The last row over the closing level so far."""
    kind: Kind = "anomaly"
    peak: int = 0
    peak_score: float = -np.inf
    over_last: int = 0
    edges: Edges = field(default_factory=Edges)
    """Unusual rows by local scores."""
    recognised: int | None = None
    """Where it was recognised as a regime."""
    repeats: int = 0
    active: list[int] = field(default_factory=list)
    """Rows over the closing level, until it is ripe."""
    ripe: bool = False
    """Whether its first row is settled and it is long enough."""
    ripe_lead: int | None = None
    """The channel most to blame when it was ripe: what comes later decides nothing any more."""
    ripe_last: int = 0
    """The last row over the level then."""
    matters: bool = True
    """Whether the operator wants to know of it, once it is ripe."""
    closed: bool = False
    confirmed: bool = False
    """Whether people said that rows like these are strange."""
    lasted: bool = False
    """Whether it was ripe before it closed."""
    peaks: list[float] = field(default_factory=list)
    """Peaks of this event and its newest repeats."""
    latest: int = 0
    """Where it, or its newest repeat, ended."""
    start_time: np.generic | None = None
    stop_time: np.generic | None = None
    edge_time: np.generic | None = None
    """Of the last unusual row, where a regime that closes stops."""
    suspected_id: str | None = None
    """Of what was suspected before scores were final."""

    @property
    def rows(self) -> tuple[int, int]:
        """Half-open rows of the event so far."""
        first, last = self.edges.rows or (self.opened, self.over_last)
        if self.kind == "regime" and not self.closed:
            last = self.until
        return first, max(last, first) + 1

    @property
    def lead(self) -> int | None:
        """The channel most to blame."""
        return lead_of(self.attribution)


def lead_of(attribution: FloatArray | None) -> int | None:
    """Return the channel most to blame; None where nobody can tell."""
    return None if attribution is None or not attribution.any() else int(attribution.argmax())


class EventStage:
    """Find the events of one segment.

    Parameters
    ----------
    base
        Median held-out score.
    edge
        Local score over which a row is unusual.
    shape
        How events are put together.
    judge
        Tells which events matter; None: all do.
    closing
        Height of the closing level between `base` and the level.

    Examples
    --------
    >>> stage = EventStage(base=0.0, edge=1.0, shape=Shape(merge_gap=2, min_duration=1))
    >>> scores = np.array([0.0, 3.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0])
    >>> found = stage.push(Scored(scores), np.full(8, 2.0), np.zeros(8, dtype=bool)) + stage.flush()
    >>> [(one.rows, one.peak) for one in found]
    [((1, 4), 3)]
    """

    state = ("_seen", "_run", "_unusual", "_open", "_regime", "_offset", "_recent")

    def __init__(
        self, *, base: float, edge: float, shape: Shape, judge: Judge | None = None, closing: float = CLOSING
    ) -> None:
        self._base, self._edge, self._shape, self._judge, self._closing = base, edge, shape, judge, closing
        self._seen = 0
        self._run: int | None = None
        """First row of the run over the closing level that lasts until now, counted in the segment."""
        self._unusual: deque[tuple[int, float]] = deque()
        """Unusual rows of that run, a reach back at most."""
        self._open: Finding | None = None
        self._regime: Finding | None = None
        self._offset = 0.0
        """By how much scores are higher inside the regime."""
        self._recent = np.empty((0, 2))
        """The last scores, before and after adaptation, at most `REGIME_ROWS`."""
        self._ripe: list[Finding] = []

    @property
    def running(self) -> Finding | None:
        """The event that is open and not ripe yet."""
        return None if self._open is None or self._open.ripe else self._open

    @property
    def is_open(self) -> bool:
        """Whether an event is open that is no regime."""
        return self._open is not None

    @property
    def offset(self) -> float:
        """By how much scores are higher inside the regime; 0 outside of one."""
        return self._offset

    def undecided(self) -> int | None:
        """Return the first row that an event which is not ripe may begin with; None where there is none."""
        rows = [found.rows[0] for found in (self._open, self._regime) if found is not None and not found.ripe]
        return min(rows) if rows else self._unusual[0][0] if self._unusual else None

    def push(
        self,
        rows: Scored,
        levels: FloatArray,
        muted: BoolArray,
        numbers: NDArray[np.intp] | None = None,
        confirmed: BoolArray | None = None,
    ) -> list[Finding]:
        """Take the next rows with their levels; return the events that became ripe.

        Muted rows neither open an event nor extend it; others that are confirmed count as over the level, whatever they
        score. `numbers` are the rows of the table, by default those of the segment.
        """
        if not len(rows):
            return []
        numbers = np.arange(self._seen, self._seen + len(rows)) if numbers is None else numbers
        confirmed = np.zeros(len(rows), dtype=bool) if confirmed is None else confirmed & ~muted
        if self._open is None and self._regime is None and self._is_calm(rows, levels, confirmed):
            self._end_run()
            self._seen += len(rows)
            self._recent = np.concatenate([self._recent, heights(rows)])[-REGIME_ROWS:]
            return []
        closing = closing_level(self._base, levels, self._closing)
        chunk = Chunk(rows, levels, closing, muted, confirmed, self._base, self._edge, self._recent, numbers)
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
        return self._ripened()

    def flush(self) -> list[Finding]:
        """End the segment: close what is open; return the events that became ripe."""
        for found in (self._open, self._regime):
            if found is not None:
                self._close(found)
        self._open = self._regime = None
        self._end_run()
        return self._ripened()

    def _is_calm(self, rows: Scored, levels: FloatArray, confirmed: BoolArray) -> bool:
        """Return whether no row is over the closing level, as nearly always."""
        closing = closing_level(self._base, levels, self._closing)
        return not (rows.scores > closing).any() and not confirmed.any()  # NaN is over no level

    def _ripened(self) -> list[Finding]:
        found, self._ripe = self._ripe, []
        return found

    def _step(self, chunk: Chunk, row: int) -> None:
        now = self._seen + row
        if chunk.is_active(row, self._offset):
            self._run = now if self._run is None else self._run
            if chunk.unusual[row] and self._open is None and self._regime is None:
                self._note_unusual(int(chunk.numbers[row]), float(chunk.unusual[row]))
        else:
            self._end_run()
        if self._open is not None and self._open.ripe and chunk.confirmed[row] and not self._open.confirmed:
            self._close(self._open)  # it may not be listed: what people confirmed is an event of its own
            self._open = None
            self._end_run()
        if self._open is None and chunk.is_over(row, self._offset):
            self._open = self._opened(chunk, row, now)
        if self._open is not None:
            self._extend(self._open, chunk, row, now)
        if self._regime is not None:
            self._watch_regime(self._regime, chunk, row, now)

    def _note_unusual(self, number: int, unusual: float) -> None:
        self._unusual.append((number, unusual))
        while self._unusual[0][0] < number - self._shape.reach:
            self._unusual.popleft()

    def _watch_regime(self, regime: Finding, chunk: Chunk, row: int, now: int) -> None:
        """Close the regime on return to normal; until then follow what is steady in it."""
        if chunk.lasting[row]:
            number = int(chunk.numbers[row])
            regime.last, regime.until = now, number
            if chunk.unusual[row]:
                regime.edges.add(number, float(chunk.unusual[row]))
            self._catch_up(regime, number)
            self._let_ripen(regime)
        elif now - regime.last > self._shape.merge_gap:
            self._close(regime)
            self._regime, self._offset = None, 0.0
        if self._regime is not None and self._open is None and (now - regime.first) % CHECK_EVERY == 0:
            self._offset = chunk.height(row)

    def _opened(self, chunk: Chunk, row: int, now: int) -> Finding:
        attribution = None if chunk.attribution is None else np.zeros(chunk.attribution.shape[1])
        first, edges = now if self._run is None else self._run, Edges()
        for number, unusual in self._unusual:
            edges.add(number, unusual)
        self._unusual.clear()
        number = int(chunk.numbers[row])
        return Finding(first, number, float(chunk.levels[row]), now, attribution, number, edges=edges)

    def _extend(self, found: Finding, chunk: Chunk, row: int, now: int) -> None:
        """Update the open event with a row, and close it or call it a regime where that is due."""
        number = int(chunk.numbers[row])
        over = chunk.is_over(row, self._offset)
        if over:
            found.over_last = number
            found.confirmed |= bool(chunk.confirmed[row]) and not found.ripe
            if chunk.scores[row] > found.peak_score:
                found.peak, found.peak_score = number, float(chunk.scores[row])
            if found.attribution is not None and chunk.attribution is not None:
                found.attribution += max(chunk.scores[row] - chunk.levels[row], FAINT) * chunk.attribution[row]
        unusual = float(chunk.unusual[row])
        # Within a regime only what is new counts; elsewhere nothing is closed by getting used to it.
        active = chunk.is_active(row, self._offset) or (self._regime is None and chunk.lasting[row])
        if active and (over or unusual or self._regime is not None or found.edges.rows is None):
            self._go_on(found, number, now, unusual, over=over)
        self._ripen(found, number)
        if now - found.last > self._shape.merge_gap:
            if chunk.lasting[row] or not self._ends_regime(found):
                self._close(found)
            self._open = None
            self._end_run()
        elif found.confirmed:
            pass  # nobody gets used to what was confirmed
        elif self._regime is None and found.last == now and _is_due(found, now) and _settles(found, chunk, row):
            found.kind, found.recognised = "regime", number
            self._let_ripen(found)
            self._regime, self._open, self._offset = found, None, chunk.height(row)
            self._end_run()
        elif self._regime is not None and _is_due(found, now):  # the regime has changed once more
            self._close(found)
            self._open, self._offset = None, chunk.height(row)
            self._end_run()

    def _ends_regime(self, found: Finding) -> bool:
        """Return whether an event is only how a regime that seems over ended: the return to normal is a change too.

        The same channel leads then, and it is no greater than the change that the regime began with.
        """
        regime, window = self._regime, self._shape.window
        if regime is None or found.ripe or found.confirmed or found.lead != regime.lead:
            return False
        if found.peak_score - self._base > GREATER * (regime.peak_score - self._base):
            return False
        return found.first >= regime.last - 2 * window and regime.last <= found.last + window

    def _go_on(self, found: Finding, number: int, now: int, unusual: float, *, over: bool) -> None:
        """Take a row over the closing level into the event."""
        found.last, found.until = now, number
        if not found.ripe:
            found.active.append(number)
        if unusual and self._regime is None:
            found.edges.add(number, unusual)
        elif over and found.edges.settled and not found.edges.rises[0][1]:  # no row was unusual
            found.edges.last = number
        self._catch_up(found, number)

    def _catch_up(self, found: Finding, number: int) -> None:
        """Take the rows into an event that no unusual one followed within a reach."""
        edges = found.edges.rows
        if edges is not None and number - edges[1] > self._shape.reach:
            found.edges.last = number
        elif edges is None and number - found.over_last > self._shape.reach:
            found.over_last = number

    def _ripen(self, found: Finding, number: int) -> None:
        """Settle where an event starts once it has lasted, and let it ripen as soon as it is long enough."""
        if found.ripe or number - found.opened < self._shape.patience:
            return
        if not found.edges.settled:
            found.edges.settle(found.opened, found.over_last)
        found.lasted = True
        self._let_ripen(found)

    def _let_ripen(self, found: Finding) -> None:
        """Call an event ripe if it is long enough."""
        start, stop = found.rows
        if not found.ripe and (found.confirmed or stop - start >= self._shape.min_duration):
            if not found.edges.settled:
                found.edges.settle(found.opened, found.over_last)
            found.ripe, found.ripe_lead, found.ripe_last = True, found.lead, found.over_last
            if self._judge is not None:
                found.matters = self._judge.matters(*found.rows, found.attribution, found.active, found.confirmed)
            self._ripe.append(found)

    def _end_run(self) -> None:
        self._run = None
        self._unusual.clear()

    def _close(self, found: Finding) -> None:
        found.closed = True
        self._let_ripen(found)


def _is_due(found: Finding, now: int) -> bool:
    """Return whether an event has lasted long enough to be a regime, at a row where that is checked.

    It has lasted from its first to its last unusual row: what windows smear does not count.
    """
    start, stop = found.rows
    return (now - found.first) % CHECK_EVERY == 0 and stop - start >= REGIME_ROWS


def _settles(found: Finding, chunk: Chunk, row: int) -> bool:
    """Return whether an event that is due is steady, or has lasted so long that this does not matter."""
    start, stop = found.rows
    return stop - start >= UNSTEADY_ROWS or chunk.is_steady(row)

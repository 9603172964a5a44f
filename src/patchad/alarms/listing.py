"""Listing: which findings are events that a person is told of, and which rows alarm, known as early as can be.

A row's alarm is final once every finding that it may be part of is decided. An event by score is decided when it is
ripe (see `patchad.alarms.events`) and it is known whether a broken sensor explains it. A channel that rests or is
silent is decided when it goes on or has reached its limit. Impossible values are decided a reach after they began: they
are an event unless the score found one there, or was over the level, or the channel is dead. So the rows that wait are
bounded, by `Shape.patience` and by the longest limit of a channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.events import EventStage, Finding, Shape, lead_of
from patchad.alarms.knowledge import Judge, Knowledge
from patchad.alarms.pending import PendingRows
from patchad.alarms.repeats import RangeRepeats, Repeats
from patchad.alarms.rules import AlarmRules, Teller
from patchad.alarms.sensors import Dead, SensorFinding, SensorKind, SensorStage, explained_rows
from patchad.alarms.suspicion import Ahead, Suspicion, Suspicions
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray
from patchad.results.detection import Event

EXPLAINED = 0.5
"""Share of its rows from which on a broken sensor explains an event."""
DEAD: tuple[SensorKind, ...] = ("stuck", "missing")


class AlarmStage:
    """Find the events of a series, and mark the rows that alarm.

    What the operator does not want to know of, or a dead sensor explains, is dropped before it can be a repeat or hide
    impossible values.
    Values come in by `observe`, as soon as they are measured; scores follow in the same order by `push`, with NaN where
    a row has none. `end_segment` says that the next rows do not follow the last. `push`, `end_segment` and `flush`
    return the alarms that became final, in the order of the rows.

    Parameters
    ----------
    rules, shape
        What is normal, and how events are put together.
    channels
        Names of the channels.
    series
        Name of the series, part of the id of every event.
    knowledge
        What the operator knows of the channels; None: nothing.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(400, 1))
    >>> rules = AlarmRules.fit(Scored(np.linspace(0, 1, 400)), [values])
    >>> stage = AlarmStage(rules, Shape(merge_gap=2, min_duration=1), ("flow",))
    >>> values[100:103] += 9.0
    >>> stage.observe(values)
    >>> alarms = np.concatenate([stage.push(Scored(np.abs(values[:, 0])), np.full(400, 8.0)), stage.flush()])
    >>> np.flatnonzero(alarms).tolist(), [event.kind for event in stage.events]
    ([100, 101, 102], ['anomaly'])
    """

    state = (
        "_sensors",
        "_events",
        "_repeats",
        "_kept",
        "_held",
        "_waiting",
        "_going",
        "_broken",
        "_ranges",
        "_ended",
        "_pending",
        "_passed",
        "_done",
        "_judge",
        "_dropped",
        "_forgotten",
        "_suspicions",
    )

    def __init__(
        self,
        rules: AlarmRules,
        shape: Shape,
        channels: tuple[str, ...],
        series: str = "",
        knowledge: Knowledge | None = None,
    ) -> None:
        knowledge = Knowledge.of(channels) if knowledge is None else knowledge
        self._rules, self._shape = rules, shape
        self._teller = Teller(rules.base, channels, series)
        self._suspicions = Suspicions(rules.base, shape.merge_gap, rules.closing)
        self._sensors = SensorStage(knowledge.limits(rules.sensors.lasting(shape.min_duration), rules.usual.center))
        self._judge = Judge(knowledge, rules.usual, before=shape.before, after=shape.after)
        self._dropped: list[Finding] = []
        """Findings that do not matter or that a dead sensor explains, whose rows are not final."""
        self._kept = 0
        """Rows of the segment that have a score."""
        self._held: list[tuple[NDArray[np.intp], Scored, FloatArray, BoolArray, BoolArray]] = []
        """Rows of a segment that is shorter than the window so far."""
        self._begin_segment()
        self._waiting: list[tuple[Finding, Repeats]] = []
        """Ripe findings that are not decided."""
        self._going: list[Finding] = []
        """Listed findings that are open."""
        self._broken: list[SensorFinding] = []
        """Findings of sensors that are not finished or not decided."""
        self._ranges = RangeRepeats()
        self._ended: list[Dead] = []
        """Dead sensors whose rows may still be asked for."""
        self._done: list[Event] = []
        """Events that are closed."""
        self._forgotten = 0
        self._pending = PendingRows()
        self._passed = 0
        """Rows that were searched for events."""

    # -- what comes in -------------------------------------------------------------------------------------------------

    def observe(self, values: FloatArray, times: NDArray[Any] | None = None, quiet: BoolArray | None = None) -> None:
        """Take the next rows as they were measured, `(time, channel)`, NaN where a value is missing.

        `quiet` tells of which rows and channels no events are wanted.
        """
        self._broken += self._sensors.push(values)
        self._judge.observe(values, quiet)
        self._pending.add_times(times)

    def push(
        self,
        rows: Scored,
        levels: FloatArray,
        muted: BoolArray | None = None,
        confirmed: BoolArray | None = None,
        *,
        length: int = 0,
    ) -> BoolArray:
        """Take the next rows with their scores and levels.

        Muted rows neither open an event nor extend it; others that are confirmed are an event whatever they score.
        `length` is how many rows of the segment have come, where some of them have no score yet.
        """
        muted = np.zeros(len(rows), dtype=bool) if muted is None else muted
        confirmed = np.zeros(len(rows), dtype=bool) if confirmed is None else confirmed
        kept = ~np.isnan(rows.scores)
        numbers = np.arange(self._pending.next, self._pending.next + len(rows))
        self._pending.add(rows.scores)
        if not kept.all():
            numbers, rows, levels = numbers[kept], rows[np.flatnonzero(kept)], levels[kept]
            muted, confirmed = muted[kept], confirmed[kept]
        self._kept += len(rows)
        if max(self._kept, length) >= self._shape.window:
            for held in self._held:
                self._search(*held)
            self._held = []
            self._search(numbers, rows, levels, muted, confirmed)
        elif len(rows):
            self._held.append((numbers, rows, levels, muted, confirmed))
        self._passed = int(self._held[0][0][0]) if self._held else self._pending.next
        return self._decide()

    def look_ahead(self, ahead: Ahead) -> None:
        """Look at the rows that have no final score yet: an event may be suspected there."""
        muted = ahead.muted | self._judge.quiet.stills(ahead.numbers, None, ahead.scores)
        self._suspicions.look(
            replace(ahead, muted=muted),
            self._events.offset,
            opens=not self._events.is_open,
            matters=self._matters,
            times=self._pending.time,
        )

    def end_segment(self) -> BoolArray:
        """End the segment: the next rows do not follow the last; one shorter than the window never alarms."""
        self._end_segment()
        return self._decide()

    def flush(self) -> BoolArray:
        """End the series."""
        self._end_segment()
        self._broken += self._sensors.flush()
        return self._decide(final=True)

    @property
    def events(self) -> tuple[Event, ...]:
        """Events so far, in the order of their rows: closed, open, only suspected yet, and suspected wrongly."""
        none = [self._teller.suspicion(one, "withdrawn") for one in self._suspicions.withdrawn]
        return tuple(
            sorted([*self._done, *self._unfinished(), *none], key=lambda event: (event.start, event.stop, event.kind))
        )

    def recent_events(self) -> list[Event]:
        """Return the events that are not closed, and those that closed since `forget_recent` was called last."""
        return [*self._done[self._forgotten :], *self._unfinished()]

    def forget_recent(self) -> None:
        """Let `recent_events` leave out what has closed by now."""
        self._forgotten = len(self._done)

    @contextmanager
    def without_history(self) -> Iterator[None]:
        """Leave out the events that are closed, for as long as this lasts."""
        done, self._done = self._done, []
        try:
            yield
        finally:
            self._done = done

    def _unfinished(self) -> list[Event]:
        told = [self._teller.event(found, "open") for found in self._going]
        told += [self._teller.event(found, "suspected") for found in self._undecided_findings()]
        told += [self._teller.sensor_event(one, "open") for one in self._broken if one.listed]
        early = self._suspicions.now
        return told if early is None else [*told, self._teller.suspicion(early, "suspected")]

    @property
    def suspects(self) -> bool:
        """Whether an event is suspected in rows that have no final score."""
        return self._suspicions.now is not None

    @property
    def is_quiet(self) -> bool:
        """Whether no event is open or suspected."""
        return not self._unfinished()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _end_segment(self) -> None:
        self._await(self._events.flush())
        self._suspicions.end_segment()
        self._held, self._kept, self._passed = [], 0, self._pending.next
        self._begin_segment()

    def _await(self, found: Sequence[Finding]) -> None:
        """Let ripe findings wait for a decision."""
        running = self._events.running
        for one in found if running is None else [*found, running]:
            self._suspicions.confirm(one, self._teller.suspected_id)
        self._waiting += [(one, self._repeats) for one in found]

    def _matters(self, one: Suspicion) -> bool:
        """Return whether what is suspected would be listed, as far as can be told."""
        return not self._is_explained(one.active, lead_of(one.attribution), one.last) and self._judge.matters(
            one.start, one.last + 1, one.attribution, one.active
        )

    def _begin_segment(self) -> None:
        rules, shape = self._rules, self._shape
        self._events = EventStage(
            base=rules.base, edge=rules.edge, shape=shape, judge=self._judge, closing=rules.closing
        )
        self._repeats = Repeats(self._rules.base)

    def _search(
        self, numbers: NDArray[np.intp], rows: Scored, levels: FloatArray, muted: BoolArray, confirmed: BoolArray
    ) -> None:
        muted = muted | self._judge.quiet.stills(numbers, rows.local, levels)
        self._await(self._events.push(rows, levels, muted, numbers, confirmed))
        self._pending.over[numbers - self._pending.first] = (rows.scores > levels) & ~muted

    def _decide(self, *, final: bool = False) -> BoolArray:
        """Decide what can be decided; return the alarms of the rows that nothing can change any more."""
        dead_from = self._pending.next if final else self._sensors.undecided(DEAD)
        self._list_events(dead_from, final=final)
        self._list_dead()
        until = min([self._passed, dead_from, *self._undecided_events()])
        until = min(until, self._list_ranges(until))
        alarms = self._pending.finish(until)
        if len(alarms):
            # an event may begin after the rows that a dead sensor explains, and yet be explained by them
            needed = min([until, *(found.active[0] for found in self._undecided_findings() if found.active)])
            self._ended = [one for one in self._ended if one.stop + self._shape.smear > needed]
            self._dropped = [one for one in self._dropped if not one.closed or one.until >= until]
            self._judge.forget(until)
        return alarms

    def _undecided_findings(self) -> list[Finding]:
        """Return the events by score of which it is not known whether they are listed."""
        running = self._events.running
        return [*(found for found, _ in self._waiting), *([] if running is None else [running])]

    def _undecided_events(self) -> list[int]:
        """Return the first rows that events by score leave open."""
        first = self._events.undecided()
        rows = [] if first is None else [first]
        rows += [found.rows[0] for found, _ in self._waiting]
        return rows + [found.rows[1] for found in self._going if found.recognised is None]

    def _list_events(self, dead_from: int, *, final: bool) -> None:
        """Decide ripe findings in order, as far as it is known which sensors are dead; follow those that are open."""
        smear, place = self._shape.smear, 0
        for found, repeats in self._waiting:
            newest = max(found.active, default=found.opened)
            if newest + smear >= dead_from and not final:
                break
            place += 1
            if found.matters and found.confirmed:
                self._going.append(found)
            elif not found.matters or self._is_explained(found.active, found.ripe_lead, found.ripe_last):
                self._dropped.append(found)
            else:
                first = repeats.counted_on(found)
                self._going += [found] if first is None else []
                self._recount(None if first is None else self._teller.event(first, "closed"))
        del self._waiting[:place]
        for one in [*self._going, *self._undecided_findings()]:
            self._pending.set_times(one)
        for found in self._going:
            start, stop = found.rows
            self._pending.mark(self._pending.inside, start, stop)
            self._pending.mark(self._pending.alarms, start, stop if found.recognised is None else found.recognised)
        self._done += [self._teller.event(found, "closed") for found in self._going if found.closed]
        self._going = [found for found in self._going if not found.closed]

    def _recount(self, again: Event | None) -> None:
        """Tell an event anew that a repeat was counted on, where it was told as closed."""
        if again is not None:
            self._done = [again if one.id == again.id else one for one in self._done]

    def _is_explained(self, active: Sequence[int], lead: int | None, last: int) -> bool:
        """Return whether a dead sensor explains an event: most rows lie around, and none over the level long after."""
        smear, newest = self._shape.smear, max(active, default=-1)
        dead = [one for one in self._dead() if one.start - smear <= newest]  # what breaks later explains nothing of it
        if dead and last >= max(one.stop for one in dead) + smear:
            return False
        explained = explained_rows(dead, np.asarray(active, dtype=np.intp), lead, smear)
        return bool(explained.sum() > EXPLAINED * len(active))

    def _dead(self) -> list[Dead]:
        """Return the sensors that are dead, or were so in rows that may still be asked for."""
        return [*self._ended, *(one.dead for one in self._broken if one.kind in DEAD)]

    def _list_dead(self) -> None:
        for one in self._broken:
            if one.kind in DEAD and one.listed is not False and self._is_loud(one):
                self._pending.follow(one)
                self._pending.mark(self._pending.alarms, one.first, one.stop)
                one.listed = True if one.settled else one.listed
            if one.kind in DEAD and one.listed is not False and one.finished and one.stop <= self._pending.next:
                self._done += [self._teller.sensor_event(one, "closed")] if one.listed else []
                self._ended.append(one.dead)
                one.listed = False
        self._broken = [one for one in self._broken if one.kind not in DEAD or one.listed is not False]

    def _is_loud(self, one: SensorFinding) -> bool:
        """Return whether a broken sensor is to be told of; where it began quietly, from where it is not quiet."""
        if one.listed:
            return True
        loud = self._judge.quiet.loud(one.start, one.stop, one.channels[:1])  # more may join later
        one.quiet_until = one.quiet_until if loud is None else loud
        return loud is not None

    def _list_ranges(self, until: int) -> int:
        """Decide on impossible values whose first rows are final otherwise; return the first row that waits for one."""
        left: list[SensorFinding] = []
        waits = until
        for one in self._broken:
            if one.kind in DEAD:
                left.append(one)
                continue
            if one.listed is False or not self._is_loud(one):
                left += [] if one.finished else [one]
                continue
            one.listed = self._is_event(one, until) if one.listed is None else one.listed
            if one.listed and not one.latest and self._is_repeat(one):
                one.listed = False
                continue
            self._pending.follow(one)
            if one.listed:
                self._pending.mark(self._pending.alarms, one.first, one.recognised or one.stop)
                if one.finished and one.stop <= self._pending.next:
                    self._done.append(self._teller.sensor_event(one, "closed"))
                    continue
            left.append(one)
            if one.listed is not False:
                waits = min(waits, one.stop if one.listed else one.first)
        self._broken = left
        return waits

    def _is_event(self, one: SensorFinding, until: int) -> bool | None:
        """Return whether impossible values are an event of their own; None: not known yet."""
        is_short = one.stop - one.first < self._shape.min_duration
        limit = min(one.stop, one.first + self._shape.reach)
        if until < limit or not (one.finished or (limit < one.stop and not is_short)):
            return None
        around = [dead for dead in self._dead() if dead.start < limit and one.first < dead.stop]
        dead = {channel for other in around for channel in other.channels}
        if is_short or dead.issuperset(one.channels):  # those are told of by another event
            return False
        seen = self._pending.slice(one.first, limit)
        return not (self._pending.inside[seen] | self._over_level()[seen]).any()

    def _is_repeat(self, one: SensorFinding) -> bool:
        """Return whether an event of impossible values is counted on one before it; one that lasts is not."""
        if one.stop - one.first > self._shape.reach:
            one.latest = one.stop
            return False
        first = self._ranges.counted_on(one)
        self._recount(None if first is None else self._teller.sensor_event(first, "closed"))
        return first is not None

    def _over_level(self) -> BoolArray:
        """Mark the rows over the level, but for those of findings that are dropped."""
        over = self._pending.over.copy()
        for found in self._dropped:
            over[self._pending.slice(min(found.active), found.until + 1)] = False
        return over

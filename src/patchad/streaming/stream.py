"""Stream: the stages of one series, pushed row by row."""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.suspicion import Ahead
from patchad.data.preparing import Ready
from patchad.data.series import first_values
from patchad.data.stages import Chain, Scored, Stage, shares_of
from patchad.data.table import BoolArray, FloatArray
from patchad.data.times import localized
from patchad.data.windows import Asked, Preview, WindowStage
from patchad.errors import InputError
from patchad.results.detection import Event
from patchad.streaming.marking import Marked
from patchad.streaming.plan import EarlyWords, Plan
from patchad.streaming.rows import read_rows, read_times
from patchad.streaming.snapshot import Snapshot
from patchad.streaming.verdict import Verdict

NEVER = np.iinfo(np.int64).max
Answer = tuple[FloatArray, FloatArray | None]
Work = Generator[list[Asked], list[Answer], tuple[Verdict, ...]]
"""Asks for windows to be scored, takes their scores, and returns verdicts in the end."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Rows as they were measured."""

    values: FloatArray
    """(time, channel)."""
    times: NDArray[Any] | None
    quiet: BoolArray | None
    """(time, channel), where no events are wanted."""

    @classmethod
    def join(cls, parts: Sequence[Arrived]) -> Arrived:
        """Concatenate consecutive rows: all have times or none, and likewise the rest."""
        times = [one.times for one in parts if one.times is not None]
        quiet = [one.quiet for one in parts if one.quiet is not None]
        values = np.concatenate([one.values for one in parts])
        return cls(values, np.concatenate(times) if times else None, np.concatenate(quiet) if quiet else None)


class Stream:
    """The stages of one series: rows in, verdicts out. Whoever runs it scores the windows that it asks for."""

    state = (
        "_preparer",
        "_threshold",
        "_alarms",
        "_marking",
        "_values",
        "_muted",
        "_kept",
        "_handed",
        "_since",
        "_waiting",
        "_newest",
        "_told",
        "_length",
        "_zone",
    )

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._preparer, self._alarms = plan.preparer(), plan.alarms()
        self._marking = plan.marking()
        self._values = np.empty((0, len(plan.channels)))
        """Values of the rows that wait for a score, which are compared with what was judged."""
        self._threshold = Level(copy.deepcopy(plan.threshold))
        self._scorer: Stage[FloatArray] | None = None
        """Of the segment that is open."""
        self._length = 0
        """Rows of that segment."""
        self._muted: BoolArray = np.empty(0, dtype=bool)
        self._kept: BoolArray = np.empty(0, dtype=bool)
        """Of the rows whose scores are not known yet: whether they are muted, and have a score at all."""
        self._handed = 0
        """Rows whose scores are known."""
        self._since = np.full(len(plan.channels), NEVER)
        """(channel,), the first row in which each channel has a value: it bears no blame before."""
        self._waiting: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        """Scores, levels and contributions of rows whose alarms are not final."""
        self._newest: Verdict | None = None
        self._zone: str | None = None
        self._held: list[Arrived] = []
        """Rows that no window is due after, and that lack nothing: they are taken together, for a fifth of the work."""
        self._fresh = False
        """Whether windows were scored since rows without a final score were looked at."""
        self._told: dict[str, Event] = {}
        """Events as they were when `changes` was called last, those that may change still."""

    def read(self, rows: Any, times: Any) -> tuple[FloatArray, Any]:
        """Read rows and times as they come from outside."""
        read = read_rows(rows, self._plan)
        if times is None:
            times = None if read.index is None else localized(read.index, read.zone)
        if times is not None and len(times) != len(read.values):
            raise InputError(f"{len(read.values)} rows have {len(times)} times; pass one for each row")
        return read.values, times

    def work(self, values: FloatArray, times: Any) -> Work:
        """Take rows; ask for the scores of windows on the way."""
        if not len(values):
            return ()
        preparer = self._preparer
        index, zone = read_times(times, preparer.time, seen=preparer.seen > 0)
        numbers = range(preparer.seen, preparer.seen + len(values))
        quiet = None if self._plan.quiet is None else self._plan.quiet(index, numbers, zone)
        ready = preparer.push(values, index)
        self._note_first(values, numbers.start)
        self._zone = self._zone if zone is None else str(zone)
        arrived = Arrived(values, index, quiet)
        if ready.plain and len(self._held) + 1 < self._rows_to_window():
            self._held.append(arrived)
            return ()
        if self._held and ready.plain:
            arrived = Arrived.join([*self._held, arrived])
            self._held, ready = [], Ready.of(arrived.values, preparer.seen)
        self._catch_up()
        return (yield from self._take(arrived, ready))

    def _note_first(self, values: FloatArray, first: int) -> None:
        """Note which channels have their first value in these rows."""
        unseen = np.flatnonzero(self._since == NEVER)
        if len(unseen):
            rows = first_values(values[:, unseen])
            self._since[unseen] = np.where(rows < len(values), first + rows, NEVER)

    def _blame(self, attribution: FloatArray, numbers: NDArray[np.intp]) -> None:
        """Take the blame from channels that bear none in these rows."""
        attribution[:, self._plan.blameless] = 0.0
        attribution[numbers[:, None] < self._since] = 0.0

    def _rows_to_window(self) -> int:
        """Return how many rows the next window waits for; 0 where every row may change what is known."""
        scorer = self._scorer
        if self._plan.score is None or not isinstance(scorer, Chain) or not isinstance(scorer.first, WindowStage):
            return 0
        return scorer.first.missing

    def _catch_up(self) -> None:
        """Let the stages take the rows that are held: no window is due, so that no verdict becomes final."""
        if self._held:
            arrived, self._held = Arrived.join(self._held), []
            for _ in self._take(arrived, Ready.of(arrived.values, self._preparer.seen)):
                raise AssertionError("rows were held though a window was due")

    def _take(self, arrived: Arrived, ready: Ready) -> Work:
        """Let the stages take rows."""
        found: list[Verdict] = []
        self._alarms.observe(arrived.values, arrived.times, arrived.quiet)
        self._muted = np.concatenate([self._muted, ready.muted])
        self._kept = np.concatenate([self._kept, ready.kept])
        for part in ready.parts:
            if part.begins:
                found += self._end_segment()
            if self._scorer is None:
                self._scorer = self._plan.scorer()
            self._length += len(part.values)
            self._values = np.concatenate([self._values, part.values])
            scored = yield from self._scored(self._scorer, part.values)
            found += self._hand_over(scored)
        if ready.ended:
            found += self._end_segment()
        found += self._hand_over(None)
        if self._fresh:
            self._look_ahead()
        return tuple(found)

    def flush(self) -> tuple[Verdict, ...]:
        """End the segment and every event."""
        self._catch_up()
        verdicts = self._end_segment()
        self._preparer.end_segment()
        return verdicts + self._verdicts(self._alarms.flush())

    def outlook(self) -> Verdict | None:
        """Return what batch would say of the newest row if it were the last; held to the level of so early a score."""
        if self._preparer.seen == 0:
            return None
        if self._newest is not None and self._newest.index == self._preparer.seen - 1:
            return self._newest
        self._catch_up()
        with self._alarms.without_history():
            copied = _copied(self)
        fork = Stream(self._plan)
        fork.fill(*copied)
        verdict, early = fork.flush()[-1], self._plan.early
        if early is None:
            return verdict
        level = max(early.rules.raw(verdict.level, age=1), verdict.level)
        return replace(
            verdict, level=level, alarm=verdict.alarm and (verdict.score > level or not self._alarms.is_quiet)
        )

    @property
    def count(self) -> int:
        """Rows that it has taken."""
        return self._preparer.seen

    @property
    def events(self) -> tuple[Event, ...]:
        """Events so far, in the order of their rows."""
        self._catch_up()
        return tuple(event.in_zone(self._tz()) for event in self._alarms.events)

    @property
    def undecided(self) -> tuple[FloatArray, FloatArray]:
        """Scores and levels of the rows after the last verdict that are known, though not whether the rows alarm."""
        if not self._waiting:
            return np.empty(0), np.empty(0)
        scores, levels, _ = zip(*self._waiting, strict=True)
        return np.concatenate(scores), np.concatenate(levels)

    @property
    def unfinished(self) -> tuple[Event, ...]:
        """Events that may change still, as they are now."""
        self._catch_up()
        found = (event for event in self._alarms.recent_events() if event.state != "closed")
        return tuple(event.in_zone(self._tz()) for event in found)

    def _tz(self) -> tzinfo | None:
        """Return the time zone of the newest times that had any."""
        if self._zone is None:
            return None
        import pandas as pd

        return cast("tzinfo", pd.DatetimeIndex([]).tz_localize(self._zone).tz)

    def changes(self) -> tuple[Event, ...]:
        """Return the events that are new or in another state than when this was called last."""
        self._catch_up()
        now = {event.id: event for event in self._alarms.recent_events()}
        found = [one for name, one in now.items() if name not in self._told or self._told[name].state != one.state]
        known = {*now, *(event.suspected_id for event in now.values())}
        gone = [event.withdrawn() for name, event in self._told.items() if name not in known]
        self._told = {name: event for name, event in now.items() if event.state != "closed"}
        self._alarms.forget_recent()
        return tuple(event.in_zone(self._tz()) for event in (*found, *gone))

    def stored(self) -> dict[str, Any]:
        """Return what a snapshot has to hold."""
        self._catch_up()
        return {"stream": {name: getattr(self, name) for name in self.state}, "scorer": self._scorer}

    def fill(self, snapshot: Snapshot, stored: Any, *, without: Sequence[str] = ()) -> None:
        """Take over what a snapshot holds, but for some parts."""
        parts = dict(stored["dict"])
        for key, item in parts["stream"]["dict"]:
            if key in without:
                continue
            setattr(self, key, snapshot.take(item, getattr(self, key)))
        self._scorer = None if parts["scorer"] is None else snapshot.take(parts["scorer"], self._plan.scorer())

    def adopt(self, snapshot: Snapshot, stored: Any) -> None:
        """Take over what a snapshot of a stream of another model of the same shape holds."""
        if dict(dict(stored["dict"])["stream"]["dict"])["_marking"] is not None:
            raise InputError("rows of the stream are being compared with what was accepted or confirmed")
        self.fill(snapshot, stored, without=("_marking", "_threshold"))

    def decide_marked(self) -> tuple[Verdict, ...]:
        """Decide on the rows that are being compared with what was judged, as if no row like them followed."""
        return self._search([] if self._marking is None else self._marking.end_segment())

    def moved(self, plan: Plan) -> tuple[Stream, tuple[Verdict, ...]]:
        """Return a stream of another model of the same shape that goes on where this one is.

        Rows that are being compared with what was judged are decided now: their verdicts are returned beside it. Level
        and judgements are those of the other model.
        """
        before, after = (Stream(one) for one in (self._plan, plan))
        before.fill(*_copied(self))
        verdicts = before.decide_marked()
        after.fill(*_copied(before), without=("_marking", "_threshold"))
        return after, verdicts

    def _scored(self, scorer: Stage[FloatArray], rows: FloatArray) -> Generator[list[Asked], list[Answer], Scored]:
        """Score rows; windows that any stream of the model may score are asked for."""
        if self._plan.score is None or not isinstance(scorer, Chain) or not isinstance(scorer.first, WindowStage):
            return scorer.push(rows)
        asked = scorer.first.ask(rows)
        if not asked:
            return Scored(np.empty(0))
        for one, answer in zip(asked, (yield asked), strict=True):
            scorer.first.answer(one, *answer)
        self._fresh = self._plan.early is not None
        return scorer.go_on(scorer.first.collect())

    def _look_ahead(self) -> None:
        """Look for events in the rows whose scores are not final."""
        self._fresh = False
        early, scorer = self._plan.early, self._scorer
        if early is None or not isinstance(scorer, Chain) or not isinstance(scorer.first, WindowStage):
            return
        seen = scorer.first.preview()
        if seen is None:
            return
        found = scorer.preview(replace(seen.rows, local=None))
        scores = early.rules.of(found.scores, seen.ages)
        if self._alarms.suspects or scores.max() > self._threshold.level:
            found = scorer.preview(seen.rows)
            self._alarms.look_ahead(self._ahead(early, replace(found, scores=scores), seen))

    def _ahead(self, early: EarlyWords, found: Scored, seen: Preview) -> Ahead:
        """Say what early scores, in the scale of final ones, mean."""
        places = np.flatnonzero(self._kept)[: len(found)]
        numbers = self._handed + places
        attribution = found.attribution
        if attribution is not None:
            attribution = attribution.copy()
            self._blame(attribution, numbers)
        return Ahead(
            numbers=numbers,
            scores=found.scores,
            level=self._threshold.level,
            muted=self._muted[places] | (np.arange(seen.start, seen.start + len(found)) < early.skipped),
            unusual=(found.scores if found.local is None else found.local) > early.edge,
            newest=int(numbers[np.argmax(seen.ages == seen.ages[-1])]),
            attribution=attribution,
        )

    def _end_segment(self) -> tuple[Verdict, ...]:
        if self._scorer is None:
            return ()
        found = self._hand_over(self._scorer.flush())
        found += self.decide_marked()
        self._scorer, self._length = None, 0
        return found + self._verdicts(self._alarms.end_segment())

    def _hand_over(self, scored: Scored | None) -> tuple[Verdict, ...]:
        """Hand the next scores to the alarms, with the rows between and right after them that have none."""
        count = 0 if scored is None else len(scored)
        if count == 0 and (not len(self._kept) or self._kept[0]):
            return ()
        kept = np.flatnonzero(self._kept)
        rows = int(kept[count]) if count < len(kept) else len(self._kept)  # up to the next row that waits for a score
        own = kept[:count]
        filled = scored if scored is not None and count == rows else _spread(scored, own, rows)
        shares = self._shares(filled.attribution, rows)
        levels = self._threshold.advance(filled.scores)
        muted = self._muted[:rows]
        self._kept, self._muted = self._kept[rows:], self._muted[rows:]
        self._handed += rows
        self._waiting.append((filled.scores, levels, shares))
        scores = Scored(filled.scores, shares, filled.local, filled.unadapted)
        values, self._values = self._values[:count], self._values[count:]
        if self._marking is None:
            return self._verdicts(self._alarms.push(scores, levels, muted, length=self._length))
        return self._search(self._marking.push(scores, levels, muted, values))

    def _shares(self, attribution: FloatArray | None, rows: int) -> FloatArray:
        """Divide each row of attribution by its sum; zeros where nothing is known."""
        if attribution is None:
            return np.zeros((rows, len(self._plan.channels)), dtype=np.float32)
        self._blame(attribution, np.arange(self._handed, self._handed + rows))
        return shares_of(attribution.astype(np.float32, copy=False))

    def _search(self, parts: Sequence[Marked]) -> tuple[Verdict, ...]:
        """Look for events in rows that were compared with what was judged."""
        found: list[Verdict] = []
        for one in parts:
            alarms = self._alarms.push(one.rows, one.levels, one.muted, one.confirmed, length=self._length)
            found += self._verdicts(alarms)
        return tuple(found)

    def _verdicts(self, alarms: BoolArray) -> tuple[Verdict, ...]:
        """Give the verdicts of the rows whose alarms these are."""
        if not len(alarms):
            return ()
        if len(self._waiting) > 1:
            scores, levels, shares = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        else:
            scores, levels, shares = self._waiting[0]
        first = self._handed - len(scores)
        found = tuple(
            Verdict(first + row, score, level, alarm, share)
            for row, (score, level, alarm, share) in enumerate(
                zip(scores.tolist(), levels.tolist(), alarms.tolist(), shares[: len(alarms)], strict=False)
            )
        )
        rest = slice(len(alarms), None)
        self._waiting = [(scores[rest], levels[rest], shares[rest])] if len(scores) > len(alarms) else []
        self._newest = found[-1]
        return found


class Level:
    """A threshold that adapts along a stream, as something that a snapshot can hold."""

    def __init__(self, threshold: Any) -> None:
        self._threshold = threshold
        self.advance = threshold.advance

    state = ("values",)

    @property
    def level(self) -> float:
        """The level for the next score."""
        return float(self._threshold.level)

    @property
    def values(self) -> dict[str, Any]:
        """What the threshold has learned."""
        return dict(vars(self._threshold))

    @values.setter
    def values(self, values: dict[str, Any]) -> None:
        vars(self._threshold).update(values)


def _copied(stream: Stream) -> tuple[Snapshot, Any]:
    """Return all that a stream carries, for another to take over."""
    snapshot = Snapshot()
    stored = snapshot.put(stream.stored())
    return Snapshot(snapshot.arrays, snapshot.objects), stored


def _spread(scored: Scored | None, places: NDArray[np.intp], rows: int) -> Scored:
    """Put scores at these places among `rows` rows that have none."""
    scores = np.full(rows, np.nan)
    if scored is None or not len(places):
        return Scored(scores)
    fields: dict[str, FloatArray] = {}
    for name in ("attribution", "local", "unadapted"):
        values = getattr(scored, name)
        if values is not None:
            empty = 0.0 if name == "attribution" else np.nan
            fields[name] = np.full((rows, *values.shape[1:]), empty, dtype=values.dtype)
            fields[name][places] = values
    scores[places] = scored.scores
    return Scored(scores, **fields)

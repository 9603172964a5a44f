"""How early streams speak: rows from a fault to the first word, suspicions withdrawn, false events opened.

Rows are pushed one hop at a time. The first word on a fault is the first event, suspected or final, that is told of
and lies in the rows of the fault (with a grace of 10 rows). What was opened is what a person is told of: suspicions,
and events that no suspicion came before. It is false where it touches no row of a fault, with the same grace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from patchad import PatchAD
from patchad.cli.demo import ROWS_PER_FAULT
from patchad.cli.demo import TRAIN_ROWS as PLANT_ROWS
from patchad.data.table import Table
from patchad.data.windows import Asked, Block
from patchad.datasets import load
from patchad.datasets.backgrounds import BACKGROUNDS, calm
from patchad.datasets.faults import PlannedFault, faulty
from patchad.datasets.plant import FAULTS, simulate_plant
from patchad.detectors.reading import read
from patchad.results.detection import alarm_runs
from patchad.streaming.plan import Plan

GRACE = 10
TRAIN_ROWS, TEST_ROWS = 20_000, 20_000
ABRUPT = ("level", "offset", "zero", "spike", "dip")
Faults = Sequence[tuple[int, int]]


@dataclass
class Words:
    """What streams told, over several series."""

    faults: int = 0
    first: list[int] = field(default_factory=list)
    """Rows from the onset of each found fault to the first word."""
    final: list[int] = field(default_factory=list)
    """The same to the first word by a final score."""
    suspected: int = 0
    withdrawn: int = 0
    opened: int = 0
    false: int = 0
    """Of what was opened."""
    listed: int = 0
    listed_false: int = 0
    """Of the events of batch, by score."""
    normal: int = 0
    """Rows outside of faults."""
    window: int = 0

    def add(self, detector: PatchAD, rows: Any, faults: Faults) -> None:
        """Push the rows of one series, and hold what was told against its faults."""
        told = follow(detector, rows)
        near = np.zeros(len(rows), dtype=bool)
        for start, stop in faults:
            near[max(start - GRACE, 0) : stop + GRACE] = True
        self.window = detector.window_
        self.faults += len(faults)
        self.normal += int((~near).sum())
        final = [one for one in told if one.final is not None]
        listed = {one.key for one in final if one.listed}
        for start, stop in faults:
            own = [one for one in told if one.start < stop + GRACE and one.stop > start - GRACE]
            if any(one.key in listed for one in own):
                self.first.append(max(min(one.row for one in own) - start, 0))
                self.final.append(max(min(one.final for one in own if one.final is not None) - start, 0))
        early = [one for one in told if one.early]
        self.suspected += len(early)
        self.withdrawn += sum(not one.listed for one in early)
        self.opened += len(told)
        self.false += sum(not near[one.start : one.stop].any() for one in told)
        self.listed += len(listed)
        self.listed_false += sum(not near[one.start : one.stop].any() for one in final if one.listed)

    def figures(self) -> dict[str, Any]:
        """Return the figures of all series so far."""
        return {
            "faults": self.faults,
            "found": len(self.first),
            "first_word_median": float(np.median(self.first)) if self.first else None,
            "first_word_mean": float(np.mean(self.first)) if self.first else None,
            "final_word_median": float(np.median(self.final)) if self.final else None,
            "in_windows": float(np.median(self.first)) / self.window if self.first else None,
            "suspected": self.suspected,
            "withdrawn": self.withdrawn,
            "withdrawn_share": self.withdrawn / max(self.suspected, 1),
            "opened": self.opened,
            "false_opened_per_10k": 1e4 * self.false / max(self.normal, 1),
            "false_listed_per_10k": 1e4 * self.listed_false / max(self.normal, 1),
            "normal_rows": self.normal,
        }


@dataclass
class Told:
    """One thing that a person was told of: a suspicion with what became of it, or an event."""

    key: str
    row: int
    """The newest row when it was told first."""
    start: int
    stop: int
    early: bool
    final: int | None = None
    """The newest row when it was told by a final score."""
    listed: bool = False


def follow(detector: PatchAD, rows: Any) -> list[Told]:
    """Push rows a hop at a time; return what was told of by score."""
    live = detector.stream()
    live._plan = ScoredAhead(live._plan, detector, rows)
    told: dict[str, Told] = {}
    for stop in range(detector.hop_, len(rows) + detector.hop_, detector.hop_):
        part = rows[stop - detector.hop_ : stop]
        live.push_many(part)
        if stop >= len(rows):
            live.flush()
        now = min(stop, len(rows)) - 1
        for event in live.changes():
            if event.kind not in ("anomaly", "regime"):
                continue
            before = event.suspected_id if event.suspected_id in told else event.id
            early = before == event.id and event.state == "suspected" and event.id not in {e.id for e in final_of(live)}
            one = told.setdefault(before, Told(before, now, event.start, event.stop, early))
            one.start, one.stop = min(one.start, event.start), max(one.stop, event.stop)
            if event.id != before or not one.early:
                one.final = now if one.final is None else one.final
            one.listed = event.state in ("open", "closed")
    return list(told.values())


class ScoredAhead:
    """The plan of a stream whose windows were scored in batches before: what is measured here is no speed."""

    def __init__(self, plan: Plan, detector: PatchAD, rows: Any) -> None:
        self._plan, self._window = plan, detector.window_
        segments = read(detector, rows).prepared.segments
        self._rows = segments[0].values if len(segments) == 1 else np.empty((0, len(plan.channels)))
        self._answers: dict[int, Any] = {}
        ends = np.arange(self._window, len(self._rows) + 1, detector.hop_, dtype=np.intp)
        for some in np.array_split(ends, range(plan.batch, len(ends), plan.batch)) if len(ends) else ():
            starts = some - self._window
            block = Block(self._rows[starts[0] : some[-1]], starts - starts[0])
            scores, attribution = plan.score(block, self._window)
            self._answers |= {end: (scores[[n]], attribution[[n]]) for n, end in enumerate(some.tolist())}

    def scored(self, asked: Asked) -> Any:
        """Return what is known of one window; score others."""
        end = int(asked.ends[0])
        known = len(asked.ends) == 1 and end in self._answers
        if known and np.array_equal(asked.block.rows, self._rows[end - self._window : end]):
            return self._answers.pop(end)
        return self._plan.scored(asked)


def final_of(live: Any) -> list[Any]:
    """Return the events of a stream that final scores found."""
    suspicion = live._stream._alarms._suspicions.now
    name = None if suspicion is None else live._stream._alarms._teller.suspected_id(suspicion)
    return [event for event in live.events if event.id != name]


def studies(root: Path | None, hop: int, seeds: int) -> Iterator[tuple[str, Words]]:
    """Study fault-free rows, abrupt faults, the plant, and real series where they are given."""
    quiet, abrupt = Words(), Words()
    for seed in range(seeds):
        for background in BACKGROUNDS:
            detector = PatchAD(hop=hop, random_state=seed).fit(calm(background, 6000, 5, seed=seed))
            quiet.add(detector, calm(background, 20_000, 5, seed=seed, stream=9), ())
            plan = [PlannedFault(kind, 100 if kind in ("level", "offset") else 10, *_size(kind)) for kind in ABRUPT]
            rows, faults = faulty(background, 5, plan * 2, spacing=600, seed=seed)
            abrupt.add(detector, rows, [(one.start, one.stop) for one in faults])
    yield "fault-free rows of five backgrounds", quiet
    yield "abrupt faults of 8 deviations", abrupt
    plant = Words()
    for seed in range(seeds):
        train = simulate_plant(PLANT_ROWS, seed=1000 + seed)
        detector = PatchAD(hop=hop, random_state=seed).fit(Table(train.values, train.channels))
        run = simulate_plant(ROWS_PER_FAULT * 2 * len(FAULTS), seed=2000 + seed, kinds=tuple(FAULTS) * 2)
        plant.add(detector, run.values, [(one.start, one.stop) for one in run.faults])
    yield "the simulated plant", plant
    for family, every in {"SKAB": 3, "ASD": 2, "IOPS": 3}.items() if root is not None else ():
        words = Words()
        for entity in load(family, root)[::every]:
            detector = PatchAD(hop=hop).fit(entity.train[-TRAIN_ROWS:])
            words.add(detector, np.asarray(entity.test[:TEST_ROWS]), alarm_runs(entity.labels[:TEST_ROWS]))
        yield family, words


def _size(kind: str) -> tuple[float, ...]:
    return () if kind == "zero" else (8.0,)

"""`patchad demo`: fit to a simulated plant, detect its faults, and check whether the right sensor was blamed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchad.data.files import write_whole
from patchad.data.table import Table
from patchad.datasets.plant import FAULTS, Fault, PlantRun, simulate_plant
from patchad.detectors.patchad import PatchAD
from patchad.report.page import Chapter, render_page
from patchad.report.truth import counts_for
from patchad.results.detection import Detection, Event

TRAIN_ROWS = 8_000
ROWS_PER_FAULT = 600


@dataclass(frozen=True, slots=True)
class Outcome:
    """A fault and the event that found it, or None."""

    fault: Fault
    event: Event | None

    @property
    def rank(self) -> int | None:
        """Rank of the faulty channel among the blamed ones, from 1; None if it is not among them."""
        names = [] if self.event is None else [name for name, _ in self.event.channels]
        return names.index(self.fault.channel) + 1 if self.fault.channel in names else None


@dataclass(frozen=True, slots=True, eq=False)
class Demonstration:
    """What the demo found and wrote."""

    run: PlantRun
    detection: Detection
    outcomes: tuple[Outcome, ...]
    false_events: tuple[Event, ...]
    report: Path
    data: tuple[Path, Path]
    """The csv files of normal operation and of the faults, with a column of labels."""


def demonstrate(out: Path, *, seed: int = 0, verbose: bool = False) -> Demonstration:
    """Fit on a plant without faults, detect on one with two of each kind, write a report and the data into a folder."""
    train = simulate_plant(TRAIN_ROWS, seed=seed)
    kinds = tuple(FAULTS) * 2
    run = simulate_plant(ROWS_PER_FAULT * len(kinds), seed=seed + 1, kinds=kinds, start="2024-02-01")
    detector = PatchAD(random_state=seed, verbose=verbose).fit(_table(train))
    detection = detector.detect(_table(run))
    outcomes, false_events = match_faults(run.faults, detection.events)
    report, normal, faulty = (out / name for name in ("report.html", "train.csv", "test.csv"))
    page = render_page([Chapter.of("", detection, run.labels)], "PatchAD demo: a pumping station")
    write_whole({report: page, normal: _csv(train), faulty: _csv(run, labels=True)})
    return Demonstration(run, detection, outcomes, false_events, report, (normal, faulty))


def match_faults(faults: tuple[Fault, ...], events: tuple[Event, ...]) -> tuple[tuple[Outcome, ...], tuple[Event, ...]]:
    """Match each fault with the most severe event that overlaps it; return also the events that overlap none."""
    outcomes: list[Outcome] = []
    claimed: set[int] = set()
    for fault in faults:
        own = [event for event in events if counts_for(event, fault.start, fault.stop)]
        claimed.update(event.start for event in own)
        outcomes.append(Outcome(fault, max(own, key=lambda event: event.peak_score, default=None)))
    return tuple(outcomes), tuple(event for event in events if event.start not in claimed)


def _table(run: PlantRun) -> Table:
    return Table(run.values, run.channels, run.times)


def _csv(run: PlantRun, *, labels: bool = False) -> bytes:
    import pandas as pd

    frame = pd.DataFrame(run.values, columns=run.channels)
    frame.insert(0, "time", run.times)
    if labels:
        frame["label"] = run.labels.astype(int)
    return str(frame.to_csv(index=False)).encode()

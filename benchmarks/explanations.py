"""Whether the right channel is blamed: PatchAD's shares against two simple alternatives, on the simulated plant.

python benchmarks/explanations.py [--seeds 10] [--first 1000]

Each seed is a fit on 8,000 fault-free rows and a run with two faults of each kind. Judged are the faults that an event
found. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from patchad import PatchAD
from patchad.cli.demo import ROWS_PER_FAULT, TRAIN_ROWS, match_faults
from patchad.data.series import Series
from patchad.data.table import Table
from patchad.datasets.plant import FAULTS, Fault, PlantRun, simulate_plant
from patchad.model.relations import Relations
from patchad.results.detection import Event

BREAK = "correlation break"


@dataclass(frozen=True, eq=False)
class Case:
    """One fault that was found, and everything an explanation may look at: nothing but the detector and its input."""

    detector: PatchAD
    train: PlantRun
    run: PlantRun
    event: Event
    bare: Event
    """The same event, its shares made without broken relations."""


def by_shares(case: Case) -> list[str]:
    """Rank by the shares of the event, as `detect` gives them."""
    return [name for name, _ in case.event.channels]


def by_shares_without_relations(case: Case) -> list[str]:
    """Rank by shares of residual and discrepancy alone, to show what the relations add."""
    return [name for name, _ in case.bare.channels]


def by_largest_z(case: Case) -> list[str]:
    """Rank by the largest z-score of the event's rows, with mean and deviation of train."""
    rows = case.run.values[case.event.start : case.event.stop]
    z = np.abs(rows - case.train.values.mean(axis=0)) / case.train.values.std(axis=0)
    return _ranked(case.run.channels, z.max(axis=0))


def leave_out_by_mean(case: Case) -> list[str]:
    """Rank by how far the event's mean score falls when a channel is held at its mean in train."""
    flat = np.broadcast_to(case.train.values.mean(axis=0), case.run.values.shape)
    return _leave_out(case, flat[case.event.start : case.event.stop])


def leave_out_by_expected(case: Case) -> list[str]:
    """Rank by how far the event's mean score falls when a channel takes the values that the net reconstructs."""
    series = Series(case.run.values, case.run.channels)
    expected = case.detector._expected_rows(series, slice(case.event.start, case.event.stop))
    assert expected is not None
    return _leave_out(case, expected[0])


def _leave_out(case: Case, instead: np.ndarray) -> list[str]:
    event, detector = case.event, case.detector
    before = detector.window_ + detector.smoothing
    start = max(event.start - before, 0) // detector.hop_ * detector.hop_  # the same windows as in the run
    part = case.run.values[start : event.stop + detector.window_]  # all windows that cover the event
    rows = slice(event.start - start, event.stop - start)

    def score(values: np.ndarray) -> float:
        return float(np.mean(detector.decision_function(Table(values, case.run.channels))[rows]))

    usual, falls = score(part), []
    for channel in range(part.shape[1]):
        changed = part.copy()
        changed[rows, channel] = instead[:, channel]
        falls.append(usual - score(changed))
    return _ranked(case.run.channels, np.array(falls))


def _ranked(channels: tuple[str, ...], weights: np.ndarray) -> list[str]:
    return [channels[i] for i in np.argsort(-weights, kind="stable")]


EXPLANATIONS: dict[str, Callable[[Case], list[str]]] = {
    "shares of PatchAD": by_shares,
    "shares without relations": by_shares_without_relations,
    "largest z-score": by_largest_z,
    "leave one out, by its mean": leave_out_by_mean,
    "leave one out, by its expected values": leave_out_by_expected,
}


@dataclass
class Study:
    """Ranks over all seeds, by explanation and kind of fault."""

    faults: int = 0
    guilty: dict[str, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    """Place of the faulty channel, from 1."""
    partner: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Correlation breaks: place of the channel that goes with the faulty one most closely in train."""

    def add(self, name: str, fault: Fault, ranked: list[str], partner: str) -> None:
        """Note where the faulty channel stands; one that is not blamed at all stands last."""
        places = {channel: place for place, channel in enumerate(ranked, start=1)}
        self.guilty[name][fault.kind].append(places.get(fault.channel, 99))
        if fault.kind == BREAK:
            self.partner[name].append(places.get(partner, 99))


def closest_partner(train: PlantRun, channel: str) -> str:
    """Return the channel with the largest absolute correlation with this one in train."""
    correlation = np.abs(np.corrcoef(train.values.T)[train.channels.index(channel)])
    correlation[train.channels.index(channel)] = -1
    return train.channels[int(correlation.argmax())]


def study(seeds: int, first: int, explanations: Mapping[str, Callable[[Case], list[str]]] = EXPLANATIONS) -> Study:
    """Fit and explain once per seed."""
    result = Study()
    kinds = tuple(FAULTS) * 2
    for seed in range(seeds):
        train = simulate_plant(TRAIN_ROWS, seed=first + seed)
        run = simulate_plant(ROWS_PER_FAULT * len(kinds), seed=2 * first + seed, kinds=kinds)
        detector = PatchAD(random_state=seed).fit(Table(train.values, train.channels))
        outcomes, _ = match_faults(run.faults, detector.detect(Table(run.values, run.channels)).events)
        bare = copy(detector)
        bare.rule_ = replace(detector.rule_, relations=Relations.none())
        twins = {event.start: event for event in bare.detect(Table(run.values, run.channels)).events}
        result.faults += len(outcomes)
        for outcome in outcomes:
            if outcome.event is None:
                continue
            case = Case(detector, train, run, outcome.event, twins[outcome.event.start])
            partner = closest_partner(train, outcome.fault.channel)
            for name, explain in explanations.items():
                result.add(name, outcome.fault, explain(case), partner)
        print(f"seed {first + seed} done", flush=True)
    return result


def tables(result: Study) -> str:
    """Write the two tables."""
    single = [kind for kind in FAULTS if kind != BREAK]
    some = next(iter(result.guilty.values()))
    count, breaks = sum(len(some[kind]) for kind in single), len(some[BREAK])
    lines = [
        f"Found: {count + breaks} of {result.faults} faults, {breaks} of them correlation breaks.",
        "",
        "| explanation | one channel: first | in the first three | break: first | both partners in the first four |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, ranks in result.guilty.items():
        places = np.array([place for kind in single for place in ranks[kind]])
        pairs = np.maximum(ranks[BREAK], result.partner[name])
        cells = [(places == 1), (places <= 3), (np.array(ranks[BREAK]) == 1), (pairs <= 4)]
        lines.append(f"| {name} | " + " | ".join(f"{c.mean():.0%} ({c.sum()} of {len(c)})" for c in cells) + " |")
    lines += ["", "| faulty channel first | " + " | ".join(FAULTS) + " |", "| --- |" + " --- |" * len(FAULTS)]
    for name, ranks in result.guilty.items():
        cells = [np.array(ranks[kind]) == 1 for kind in FAULTS]
        lines.append(f"| {name} | " + " | ".join(f"{c.sum()} of {len(c)}" for c in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--first", type=int, default=1000, help="seeds from 1000 are for reporting, others for choosing"
    )
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    result = study(arguments.seeds, arguments.first)
    print("\n" + tables(result))


if __name__ == "__main__":
    main()

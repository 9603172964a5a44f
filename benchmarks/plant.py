"""What `PatchAD()` finds in the simulated plant: faults by kind, channels blamed, false events. Prints Markdown tables.

python benchmarks/plant.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field

import torch

from patchad import PatchAD
from patchad.cli.demo import ROWS_PER_FAULT, TRAIN_ROWS, match_faults
from patchad.data.table import Table
from patchad.datasets.plant import FAULTS, PlantRun, simulate_plant

CALM_ROWS = 20_000


@dataclass
class Study:
    """Counts over all seeds."""

    seeds: int = 0
    found: Counter[str] = field(default_factory=Counter)
    """Faults found, by kind; two of each kind per seed."""
    seeds_with: Counter[str] = field(default_factory=Counter)
    """Seeds in which both faults of a kind were found."""
    first: int = 0
    """Found events whose most blamed channel is the faulty one."""
    first_three: int = 0
    calm_events: list[int] = field(default_factory=list)
    """Events in `CALM_ROWS` rows without a fault, by seed."""
    false_events: list[int] = field(default_factory=list)
    """Events outside any fault in the run with faults, by seed."""


def study(seeds: int) -> Study:
    """Fit, detect and judge once per seed; every run has its own noise."""
    result = Study()
    kinds = tuple(FAULTS) * 2
    for seed in range(seeds):
        began = time.perf_counter()
        detector = PatchAD(random_state=seed)
        detector.fit(_table(simulate_plant(TRAIN_ROWS, seed=1000 + seed)))
        run = simulate_plant(ROWS_PER_FAULT * len(kinds), seed=2000 + seed, kinds=kinds)
        outcomes, false_events = match_faults(run.faults, detector.detect(_table(run)).events)
        hits = Counter(outcome.fault.kind for outcome in outcomes if outcome.event is not None)
        result.seeds += 1
        result.found += hits
        result.seeds_with += Counter(kind for kind, count in hits.items() if count == 2)
        ranks = [outcome.rank for outcome in outcomes if outcome.event is not None]
        result.first += sum(rank == 1 for rank in ranks)
        result.first_three += sum(rank is not None and rank <= 3 for rank in ranks)
        result.calm_events.append(len(detector.detect(_table(simulate_plant(CALM_ROWS, seed=3000 + seed))).events))
        result.false_events.append(len(false_events))
        print(
            f"seed {seed}: {dict(hits)}, calm {result.calm_events[-1]}, {time.perf_counter() - began:.0f} s", flush=True
        )
    return result


def _table(run: PlantRun) -> Table:
    return Table(run.values, run.channels)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    result = study(arguments.seeds)
    print(f"\n| fault | found, of {2 * result.seeds} | seeds with both found, of {result.seeds} |\n| --- | --- | --- |")
    for kind in FAULTS:
        print(f"| {kind} | {result.found[kind]} | {result.seeds_with[kind]} |")
    total = result.found.total()
    rate = sum(result.calm_events) / (result.seeds * CALM_ROWS / 10_000)
    print(
        f"\nFaulty channel first in {result.first} and among the first three in {result.first_three} of {total} found."
    )
    print(f"False events per 10,000 fault-free rows: {rate:.2f} ({result.calm_events} in {CALM_ROWS:,} rows each).")
    print(f"Events outside any fault in the runs with faults: {result.false_events}.")


if __name__ == "__main__":
    main()

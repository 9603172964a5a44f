"""What faults in train cost: events on generated series, fitted on clean and on unclean rows of one process.

    python -m benchmarks.unclean --detectors patchad sub_knn --workers 2 -o unclean.jsonl
    python -m benchmarks.unclean table unclean.jsonl
    python -m benchmarks.unclean screen --data DIR    # what is left out of real train data

Every process of `datasets.backgrounds` is fitted on 6,000 rows, four times:

- `clean`: without faults;
- `other`: with faults over 5 % of the rows, of kinds that test does not have;
- `same`: with faults over 5 % of the rows, of the kinds of test;
- `own`: on the test rows themselves, with their faults.

Test has the faults of half of the kinds (the other half in a second round). Events are counted as in
`benchmarks.alarms`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.alarms import CHANNELS, DEVELOPED, count
from benchmarks.alarms import TRAIN_ROWS as REAL_ROWS

from patchad import make
from patchad.data.screening import foreign_rows
from patchad.datasets import load
from patchad.datasets.backgrounds import BACKGROUNDS, calm
from patchad.datasets.faults import FAULT_KINDS, PlannedFault, durations, faulty

TRAIN_ROWS = 6_000
SHARE = 0.05
"""Share of train that is faulty."""
AMPLITUDES = (8.0, 4.0)
HALVES = (("level", "stuck", "spike", "noisy", "large"), ("offset", "zero", "dip", "drift", "faster"))
MODES = ("clean", "other", "same", "own")
Record = dict[str, Any]


def plan(background: str, kinds: Sequence[str], rows: float) -> list[PlannedFault]:
    """List faults of these kinds, in turn, that last for so many rows together, or a little more."""
    planned: list[PlannedFault] = []
    kinds = [kind for kind in kinds if durations(kind, background)]
    while sum(fault.duration for fault in planned) < rows:
        turn, kind = divmod(len(planned), len(kinds))
        allowed = [n for n in durations(kinds[kind], background) if n <= 100] or durations(kinds[kind], background)[:1]
        size = AMPLITUDES[turn % len(AMPLITUDES)] if FAULT_KINDS[kinds[kind]].sized else None
        planned.append(PlannedFault(kinds[kind], allowed[-1 - turn % len(allowed)], size))
    return planned


def train_rows(mode: str, background: str, channels: int, half: int, seed: int) -> Any:
    """Return the rows to fit on."""
    if mode == "clean":
        return calm(background, TRAIN_ROWS, channels, seed=seed)
    if mode == "own":
        return rows_of_test(background, channels, half, seed)[0]
    kinds = HALVES[half if mode == "same" else 1 - half]
    faults = plan(background, kinds, SHARE * TRAIN_ROWS)
    spacing = int((TRAIN_ROWS - SHARE * TRAIN_ROWS) / (1.25 * len(faults) + 1))
    return faulty(background, channels, faults, spacing=spacing, seed=seed, stream=100 + half)[0]


def rows_of_test(background: str, channels: int, half: int, seed: int) -> tuple[Any, Any]:
    """Return rows with faults of half of the kinds, each in both amplitudes, and their labels."""
    faults = []
    for kind in HALVES[half]:
        allowed, sized = durations(kind, background), FAULT_KINDS[kind].sized
        if allowed:
            faults += [
                PlannedFault(kind, allowed[len(allowed) // 2], size) for size in (AMPLITUDES if sized else [None])
            ]
    values, placed = faulty(background, channels, faults, seed=seed, stream=200 + half)
    labels = np.zeros(len(values), dtype=bool)
    for fault in placed:
        labels[fault.start : fault.stop] = True
    return values, labels


def measure(name: str, seed: int, job: tuple[str, int, int, str]) -> Record:
    """Fit on the rows of one mode; count the events of test."""
    background, channels, half, mode = job
    test, labels = rows_of_test(background, channels, half, seed)
    detector = make(name, random_state=seed).fit(train_rows(mode, background, channels, half, seed))
    found = count(detector.detect(test), labels, detector.alarm_rules_.base)
    return {"detector": name, "background": background, "channels": channels, "half": half, "mode": mode, **found}


def screen(root: Path) -> None:
    """Print the real series of which rows are left out, and how many there are."""
    for family in DEVELOPED:
        series = load(family, root)[:: 4 if family == "UCR" else 1]
        shares = {one.name: foreign_rows([np.asarray(one.train[:REAL_ROWS], float)])[0].mean() for one in series}
        found = ", ".join(f"{name} {share:.2%}" for name, share in shares.items() if share)
        print(f"{family}: {sum(map(bool, shares.values()))} of {len(shares)} {found}", flush=True)


def table(records: Sequence[Record]) -> str:
    """Write event F1 by detector and mode, and what is left of that of clean train."""
    lines = [
        "| detector | train | event F1 | found | false | share of clean |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(one["detector"] for one in records):
        own = {mode: [one for one in records if (one["detector"], one["mode"]) == (name, mode)] for mode in MODES}
        best = np.mean([one["event_f1"] for one in own["clean"]])
        for mode, some in own.items():
            if some:
                f1 = np.mean([one["event_f1"] for one in some])
                found = f"{sum(one['found'] for one in some)} of {sum(one['labelled'] for one in some)}"
                false = sum(one["false"] for one in some)
                lines.append(f"| `{name}` | {mode} | {f1:.3f} | {found} | {false} | {f1 / best:.0%} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the table of records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("measure", "table", "screen"), default="measure")
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--detectors", nargs="+", default=["patchad"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--channels", nargs="+", type=int, default=CHANNELS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("unclean.jsonl"))
    asked = parser.parse_args()
    if asked.part == "table":
        lines = [line for path in asked.records for line in path.read_text().splitlines()]
        print(table([json.loads(line) for line in lines]))
        return
    if asked.part == "screen":
        screen(asked.data)
        return
    jobs = [
        (background, channels, half, mode)
        for channels in asked.channels
        for background in BACKGROUNDS
        for half in range(len(HALVES))
        for mode in asked.modes
    ]
    with ProcessPoolExecutor(asked.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name in asked.detectors:
            for number, found in enumerate(pool.map(partial(measure, name, asked.seed), jobs), start=1):
                with asked.output.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                print(f"{name}: {number} of {len(jobs)}", file=sys.stderr)


if __name__ == "__main__":
    main()

"""How well `scan` does without train: events of severity 50 and more, on the test parts of twenty real series.

    python -m benchmarks.scan --data DIR --weights WEIGHTS --workers 4 -o scan.jsonl
    python -m benchmarks.scan --data DIR --weights WEIGHTS --past-only -o cold.jsonl
    python -m benchmarks.scan table scan.jsonl

Each series is judged twice: by a detector fitted on its clean train part, and by `scan`, which has the test part alone.
With `--past-only` it judges rows by those before them. WEIGHTS is a folder that `training.leave_one_out` made: no net
judges a family that its weights have seen.
Events are counted as in `benchmarks.alarms`. The series are spread evenly over the families developed on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.alarms import TEST_ROWS, TRAIN_ROWS, count, unseen

from patchad import make, scan
from patchad.datasets import load

SERIES = {
    "SMAP": ("A-2", "D-2", "E-1", "P-1", "T-1"),
    "ASD": ("omi-1", "omi-3", "omi-5"),
    "SKAB": ("other_1", "valve1_0", "valve1_8", "valve2_2"),
    "UCR": ("021", "101", "141", "201"),
    "IOPS": ("260", "264", "268", "272"),
}
"""By family; UCR and IOPS by the numbers that the names of their series begin with."""
SEVERE = 50.0
Record = dict[str, Any]
Job = tuple[str, str, Any, Any, Any]


def jobs(root: Path, families: Sequence[str]) -> Iterator[Job]:
    """Load the named series."""
    for family in families:
        found = {one.name: one for one in load(family, root)}
        for name in SERIES[family]:
            whole = next((own for own in found if own == name or own.startswith(f"{name}_{family}")), None)
            if whole is None:
                sys.exit(f"{family} has no series {name}; there are {', '.join(found)}")
            one = found[whole]
            yield family, name, one.train[:TRAIN_ROWS], one.test[:TEST_ROWS], one.labels[:TEST_ROWS]


def measure(name: str, folds: int, weights: Path | None, past_only: bool, job: Job) -> Record:
    """Judge a series with train and without."""
    family, series, train, test, labels = job
    given = unseen(name, weights, family)
    detector = make(name, **given).fit(train)
    fitted = detector.detect(test).severe(SEVERE)
    scanned = scan(test, make(name, **given), folds=folds, past_only=past_only).severe(SEVERE)
    return {
        "detector": name,
        "family": family,
        "series": series,
        "folds": folds,
        "clean": count(fitted, labels, detector.alarm_rules_.base),
        "scan": count(scanned, labels, 0.0),
    }


def table(records: Sequence[Record]) -> str:
    """Write event F1 by series, and the means."""
    lines = [
        "| detector | series | labelled | clean fit: found | false | event F1 | scan: found | false | event F1 |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(one["detector"] for one in records):
        own = [one for one in records if one["detector"] == name]
        for one in own:
            cells = [
                f"{one[way]['found']} | {one[way]['false']} | {one[way]['event_f1']:.3f}" for way in ("clean", "scan")
            ]
            lines.append(
                f"| `{name}` | {one['family']} {one['series']} | {one['clean']['labelled']} | {' | '.join(cells)} |"
            )
        clean, scanned = (float(np.mean([one[way]["event_f1"] for one in own])) for way in ("clean", "scan"))
        lines.append(
            f"| `{name}` | mean of {len(own)} | | | | {clean:.3f} | | | {scanned:.3f} ({scanned / clean:.0%}) |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the table of records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("measure", "table"), default="measure")
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--families", nargs="+", choices=SERIES, default=list(SERIES))
    parser.add_argument("--detectors", nargs="+", default=["patchad"])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--weights", type=Path, help="folder of weights that never saw a family each")
    parser.add_argument("--past-only", action="store_true", help="judge rows by those before them")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("scan.jsonl"))
    asked = parser.parse_args()
    if asked.part == "table":
        lines = [line for path in asked.records for line in path.read_text().splitlines()]
        print(table([json.loads(line) for line in lines]))
        return
    wanted = list(jobs(asked.data, asked.families))
    with ProcessPoolExecutor(asked.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name in asked.detectors:
            for number, found in enumerate(
                pool.map(partial(measure, name, asked.folds, asked.weights, asked.past_only), wanted), start=1
            ):
                with asked.output.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                print(f"{name}: {number} of {len(wanted)}", file=sys.stderr)


if __name__ == "__main__":
    main()

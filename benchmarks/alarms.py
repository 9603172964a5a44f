"""How good the alarms are: events on real series, a grid of plain faults, and the promised rate on fault-free rows.

    python -m training.leave_one_out --data DIR --out WEIGHTS --workers 8 --device cuda
    python -m benchmarks.alarms real --data DIR --weights WEIGHTS --detectors patchad sub_knn -o real.jsonl
    python -m benchmarks.alarms grid -o grid.jsonl
    python -m benchmarks.alarms promise -o promise.jsonl
    python -m benchmarks.alarms table real.jsonl grid.jsonl promise.jsonl > docs/results/alarms.md

A found event is a labelled event that a listed event overlaps. A false event is a listed event of any kind that
overlaps no labelled row extended by 10 rows to both sides. Repeats are in neither count; a column of its own counts
every run of rows over the level.
Train is cut to 20,000 rows and test to 40,000. Nothing is chosen by labels here.
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
from scipy.stats import chi2, poisson
from training.leave_one_out import weights_file

from patchad import Detection, make
from patchad.datasets import load
from patchad.datasets.backgrounds import BACKGROUNDS, calm
from patchad.datasets.faults import fault_grid
from patchad.results.detection import alarm_runs

DEVELOPED = ("SMAP", "ASD", "SKAB", "UCR", "IOPS")
REPORTED = ("MSL", "SMD", "GECCO", "NAB", "Exathlon")
GRACE = 10
"""Rows around a labelled event in which an event counts for it."""
AROUND = 400
"""Rows to both sides of a fault of the grid among which its score should be the highest."""
TRAIN_ROWS, TEST_ROWS = 20_000, 40_000
RATES = (0.5, 1.0, 3.0, 10.0)
CHANNELS = (1, 5, 20)
CALM_ROWS = 134_000
"""Fault-free rows of each of the fifteen processes: two million in all."""
ABRUPT = ("level", "offset", "zero", "stuck")
Record = dict[str, Any]


# -- real series -------------------------------------------------------------------------------------------------------


def real(name: str, seed: int, job: tuple[str, str, Any, Any, Any], *, weights: Path | None = None) -> Record:
    """Fit and detect on one entity; count found and false events."""
    family, entity, train, test, labels = job
    detector = make(name, random_state=seed, **unseen(name, weights, family)).fit(train[:TRAIN_ROWS])
    test, labels = test[:TEST_ROWS], labels[:TEST_ROWS]
    _score_once(detector)
    found = detector.detect(test)
    away = _away(labels, int(getattr(detector, "window_", GRACE)))
    others = [found if rate == detector.false_alarms else _again(detector, rate, test) for rate in RATES]
    return {
        "part": "real",
        "family": family,
        "entity": entity,
        "detector": name,
        "seed": seed,
        "basis": getattr(detector.threshold_, "basis", ""),
        "away_rows": int(away.sum()),
        "away_events": [sum(bool(away[event.start : event.stop].all()) for event in one.events) for one in others],
        **count(found, labels, detector.alarm_rules_.base),
    }


def unseen(name: str, weights: Path | None, family: str) -> dict[str, str]:
    """Return the weights in a folder that never saw a family, for the detector that has pretrained ones."""
    return {"weights": str(weights_file(weights, family))} if name == "patchad" and weights is not None else {}


def _score_once(detector: Any) -> None:
    """Let a detector keep the scores of the first series that it judges: another promise changes none of them."""
    score, kept = detector._score_all, []

    def first(prepared: Any, **options: Any) -> Any:
        if not kept:
            kept.append(score(prepared, **options))
        return kept[0]

    detector._score_all = first


def _again(detector: Any, rate: float, test: Any) -> Detection:
    """Detect with another promise, and restore the one before."""
    before = detector.false_alarms
    found: Detection = detector.set_false_alarms(rate).detect(test)
    detector.set_false_alarms(before)
    return found


def _away(labels: Any, window: int) -> Any:
    """Mark the rows that are at least a window away from any label."""
    near = np.zeros(len(labels), dtype=bool)
    for start, stop in alarm_runs(labels):
        near[max(start - window, 0) : stop + window] = True
    return ~near


def count(found: Detection, labels: Any, base: float) -> Record:
    """Hold the events of a detection against labels."""
    runs = alarm_runs(labels)
    near = np.zeros(len(labels), dtype=bool)
    for start, stop in runs:
        near[max(start - GRACE, 0) : stop + GRACE] = True
    false = [event for event in found.events if not near[event.start : event.stop].any()]
    hits = sum(any(event.start < stop and event.stop > start for event in found.events) for start, stop in runs)
    precision = 1 - len(false) / len(found.events) if found.events else 0.0
    recall = hits / len(runs) if runs else 0.0
    over = alarm_runs(np.nan_to_num(found.scores, nan=base) > found.levels)
    normal = int((~labels).sum())
    return {
        "labelled": len(runs),
        "found": hits,
        "events": len(found.events),
        "false": len(false),
        "repeats": sum(event.repeats for event in found.events),
        "false_runs": sum(not near[start:stop].any() for start, stop in over),
        "normal": normal,
        "under": float((found.alarms & ~labels).sum() / max(normal, 1)),
        "event_f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
    }


def entities(root: Path, families: Sequence[str], every: int) -> Iterator[tuple[str, str, Any, Any, Any]]:
    """List the entities of these families that have anomalies."""
    for family in families:
        for entity in load(family, root)[:: every if family == "UCR" else 1]:
            if entity.labels[:TEST_ROWS].any():
                yield family, entity.name, entity.train, entity.test, entity.labels


# -- generated series --------------------------------------------------------------------------------------------------


def grid(name: str, seed: int, process: tuple[str, int]) -> list[Record]:
    """Fit on one fault-free process; look for every fault of its test series."""
    background, channels = process
    detector, found = None, []
    for series in fault_grid(channels=(channels,), seed=seed):
        if series.background != background:
            continue
        detector = detector or make(name).fit(series.train)
        detection = detector.detect(series.test)
        events = detection.events
        for fault in series.faults:
            around = slice(max(fault.start - AROUND, 0), fault.stop + AROUND)
            peak = around.start + int(np.nanargmax(detection.scores[around]))
            hits = [event for event in events if event.start < fault.stop and event.stop > fault.start]
            inside = np.zeros(len(series.test), dtype=bool)
            for event in hits:
                inside[event.start : event.stop] = True
            worst = max(hits, key=lambda event: event.severity, default=None)
            found.append(
                {
                    "part": "grid",
                    "detector": name,
                    "background": background,
                    "channels": channels,
                    "kind": fault.kind,
                    "amplitude": fault.amplitude,
                    "rows": fault.stop - fault.start,
                    "found": bool(hits),
                    "peak": fault.start - GRACE <= peak < fault.stop + GRACE,
                    "inside": float(inside[fault.start : fault.stop].mean()),
                    "start_error": None if worst is None else min(e.start for e in hits) - fault.start,
                    "stop_error": None if worst is None else max(e.stop for e in hits) - fault.stop,
                    "first": bool(worst and worst.channels and worst.channels[0][0] == f"channel_{fault.channel}"),
                }
            )
    return found


def promise(name: str, seed: int, process: tuple[str, int]) -> list[Record]:
    """Count the events of fault-free rows for several promises."""
    background, channels = process
    detector = make(name).fit(calm(background, 6_000, channels, seed=seed))
    rows = calm(background, CALM_ROWS, channels, seed=seed, stream=1_000)
    _score_once(detector)
    found = []
    for rate in RATES:
        events = detector.set_false_alarms(rate).detect(rows).events
        found.append(
            {
                "part": "promise",
                "detector": name,
                "background": background,
                "channels": channels,
                "promised": rate,
                "events": len(events),
                "rows": len(rows),
            }
        )
    return found


# -- tables ------------------------------------------------------------------------------------------------------------


def table(records: Sequence[Record]) -> str:
    """Write the tables of records as Markdown."""
    own = {part: [one for one in records if one["part"] == part] for part in ("real", "grid", "promise")}
    tables = [real_table(own["real"]), away_table(own["real"]), grid_table(own["grid"]), promise_table(own["promise"])]
    return "\n\n".join(tables)


def real_table(records: Sequence[Record]) -> str:
    """Write one row for each detector and group of families."""
    rates = "false per 10,000, pooled | mean | every run | over the promise"
    head = f"| families | detector | series | event F1 | found | {rates} | nothing found | normal rows under an alarm |"
    lines = [head, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    groups = {"developed on": DEVELOPED, "kept apart": REPORTED}
    groups |= {family: (family,) for family in (*DEVELOPED, *REPORTED)}
    for title, families in groups.items():
        for name in dict.fromkeys(one["detector"] for one in records):
            own = [one for one in records if one["detector"] == name and one["family"] in families]
            if own:
                lines.append(_real_row(title, name, own))
    return "\n".join(lines)


def _real_row(title: str, name: str, own: Sequence[Record]) -> str:
    normal = sum(one["normal"] for one in own)
    over = sum(poisson.sf(one["false"] - 1, one["normal"] / 1e4) < 0.05 for one in own)
    cells = [
        title,
        f"`{name}`",
        len(own),
        f"{np.mean([one['event_f1'] for one in own]):.3f}",
        f"{sum(one['found'] for one in own)} of {sum(one['labelled'] for one in own)}",
        f"{1e4 * sum(one['false'] for one in own) / normal:.2f}",
        f"{np.mean([1e4 * one['false'] / max(one['normal'], 1) for one in own]):.2f}",
        f"{1e4 * sum(one['false_runs'] for one in own) / normal:.2f}",
        f"{over / len(own):.0%}",
        f"{np.mean([one['found'] == 0 for one in own]):.0%}",
        f"{np.mean([one['under'] for one in own]):.1%}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def away_table(records: Sequence[Record]) -> str:
    """Write promised and measured rates on test rows far from any label, of series whose level was measured."""
    lines = ["| detector | promised | measured | 95 % interval | rows |", "| --- | ---: | ---: | ---: | ---: |"]
    for name in dict.fromkeys(one["detector"] for one in records):
        own = [one for one in records if one["detector"] == name and one["basis"] == "measured"]
        rows = sum(one["away_rows"] for one in own)
        for number, rate in enumerate(RATES if rows else ()):
            events = sum(one["away_events"][number] for one in own)
            low, high = (1e4 * chi2.ppf(q, 2 * (events + k)) / 2 / rows for q, k in ((0.025, 0), (0.975, 1)))
            interval = f"{np.nan_to_num(low):.2f} to {high:.2f}"
            lines.append(f"| `{name}` | {rate:g} | {1e4 * events / rows:.2f} | {interval} | {rows:,} |")
    return "\n".join(lines)


def grid_table(records: Sequence[Record]) -> str:
    """Write what was found of the grid, by amplitude and by kind."""
    lines = ["| faults | found | of | share |", "| --- | ---: | ---: | ---: |"]
    groups = {f"of {a:g} deviations" if a else "without amplitude": ("amplitude", a) for a in (8.0, 4.0, None)}
    groups |= {kind: ("kind", kind) for kind in dict.fromkeys(one["kind"] for one in records)}
    for title, (field, value) in groups.items():
        own = [one["found"] for one in records if one[field] == value]
        lines.append(f"| {title} | {sum(own)} | {len(own)} | {np.mean(own):.1%} |")
    abrupt = [one for one in records if one["found"] and one["kind"] in ABRUPT and one["rows"] >= GRACE]
    errors = [np.median([abs(one[field]) for one in abrupt]) for field in ("start_error", "stop_error")]
    long = [one["inside"] for one in records if one["rows"] >= 1_000]
    first = [one["first"] for one in records if one["found"] and one["channels"] > 1]
    edges = f"Median error of abrupt faults, in rows: {errors[0]:g} at the start, {errors[1]:g} at the stop."
    inside = f"Rows of faults of 1,000 rows or more inside an event: {np.mean(long):.1%}."
    large = [one["peak"] for one in records if one["amplitude"] == 8.0]
    peaks = f"Highest score of the {AROUND} rows to both sides in place, 8 deviations: {np.mean(large):.1%}."
    return "\n".join([*lines, "", edges, inside, f"Right channel first: {np.mean(first):.1%}.", peaks])


def promise_table(records: Sequence[Record]) -> str:
    """Write the promised and the measured rates."""
    lines = ["| promised per 10,000 rows | measured | rows | measured / promised |", "| ---: | ---: | ---: | ---: |"]
    for rate in RATES:
        own = [one for one in records if one["promised"] == rate]
        rows = sum(one["rows"] for one in own)
        measured = 1e4 * sum(one["events"] for one in own) / max(rows, 1)
        lines.append(f"| {rate:g} | {measured:.2f} | {rows:,} | {measured / rate:.2f} |")
    return "\n".join(lines)


# -- command line ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run a part, or print the tables of records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("real", "grid", "promise", "table"))
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--families", nargs="+", default=[*DEVELOPED, *REPORTED])
    parser.add_argument("--every", type=int, default=1, help="take every so many series of UCR")
    parser.add_argument("--detectors", nargs="+", default=["patchad"])
    parser.add_argument("--weights", type=Path, help="folder of weights that never saw a family each, on real series")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    if asked.part == "table":
        lines = [line for path in asked.records for line in path.read_text().splitlines()]
        print(table([json.loads(line) for line in lines]))
        return
    processes = [(background, channels) for channels in CHANNELS for background in BACKGROUNDS]
    jobs: Any = entities(asked.data, asked.families, asked.every) if asked.part == "real" else processes
    work: Any = {"real": partial(real, weights=asked.weights), "grid": grid, "promise": promise}[asked.part]
    with ProcessPoolExecutor(asked.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = list(jobs)
        for name in asked.detectors:
            for number, found in enumerate(pool.map(partial(work, name, asked.seed), jobs), start=1):
                text = "".join(json.dumps(one) + "\n" for one in (found if isinstance(found, list) else [found]))
                with asked.output.open("a") as file:
                    file.write(text)
                print(f"{name}: {number} of {len(jobs)}", file=sys.stderr)


if __name__ == "__main__":
    main()

"""What pretrained weights are worth: nets fitted to each series against pretrained ones, entity by entity.

    python -m training.leave_one_out --data DIR --out WEIGHTS --workers 8 --device cuda
    python -m benchmarks.pretrained families --data DIR --weights WEIGHTS --workers 16 -o families.jsonl
    python -m benchmarks.pretrained families --data DIR --weights WEIGHTS --train-rows 300 -o short.jsonl
    python -m benchmarks.pretrained speed -o speed.jsonl
    python -m benchmarks.pretrained table families.jsonl short.jsonl speed.jsonl

No net judges a family that its weights have seen. Train is cut to 20,000 rows (or to its newest `--train-rows`), test
to its first 40,000. `--columns DIR` keeps the columns of the score, to try out how they are combined.
A file that exists is continued.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.alarms import TEST_ROWS, TRAIN_ROWS, count

FAMILIES = ("MSL", "SMAP", "GECCO", "SMD", "ASD", "SKAB", "UCR", "NAB", "Exathlon", "IOPS")
VARIANTS: dict[str, dict[str, Any]] = {"fitted": {"weights": None}, "pretrained": {}, "tuned": {"tune_steps": 50}}
SPEED_ROWS, SPEED_CHANNELS = 20_000, 38
MANY, MANY_ROWS, MANY_CHANNELS = 200, 2_000, 10
RESAMPLES = 4_000
Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One fit and its judgement."""

    family: str
    entity: Any
    variant: str
    seed: int
    weights: Path | None
    rows: int
    """Newest rows of train to fit on."""
    device: str
    columns: Path | None

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other jobs."""
        return self.family, self.entity.name, self.label, self.seed, self.rows

    @property
    def label(self) -> str:
        """The variant, and the folder of its weights."""
        return self.variant if self.weights is None else f"{self.variant} {self.weights.parent.name}"

    @property
    def cost(self) -> float:
        """A guess at how long it takes, to begin with the longest."""
        train = 1 if self.variant == "pretrained" else 6
        return float(self.entity.train.shape[1] * (5_000 * train + min(len(self.entity.test), TEST_ROWS)))


def run(job: Job) -> Record:
    """Fit one variant to one entity; say how well it ranks and alarms."""
    import torch

    from patchad import PatchAD
    from patchad.metrics import vus

    torch.set_num_threads(1)
    settings = {} if job.weights is None else {"weights": str(job.weights)}
    began = time.perf_counter()
    detector = PatchAD(random_state=job.seed, device=job.device, **(settings | VARIANTS[job.variant]))
    detector.fit(job.entity.train[:TRAIN_ROWS][-job.rows :])
    fitted = time.perf_counter()
    test, labels = job.entity.test[:TEST_ROWS], job.entity.labels[:TEST_ROWS]
    found = detector.detect(test)
    detected = time.perf_counter()
    scores = np.nan_to_num(found.scores, nan=float(np.nanmin(found.scores)))
    if job.columns is not None:
        _keep_columns(job, detector, test, labels)
    return {
        **dict(zip(("family", "entity", "variant", "seed", "rows"), job.key, strict=True)),
        "channels": int(test.shape[1]),
        "train": int(min(len(job.entity.train), TRAIN_ROWS, job.rows)),
        "window": detector.window_,
        "vus_pr": float(vus(labels=labels, scores=scores).pr),
        **count(found, labels, detector.alarm_rules_.base),
        "fit_s": round(fitted - began, 3),
        "detect_s": round(detected - fitted, 3),
        "weights": [round(float(one), 4) for one in detector.rule_.weights],
    }


def _keep_columns(job: Job, detector: Any, test: Any, labels: Any) -> None:
    """Store the scaled columns of test, their weights and the labels."""
    from patchad.detectors.calibrating import folded

    columns = folded(detector, [np.asarray(test, dtype=np.float32)]).scores
    job.columns.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        job.columns / f"{job.family}_{job.entity.name}_{job.label.replace(' ', '-')}_{job.seed}_{job.rows}.npz",
        columns=np.clip(detector.rule_.scale(columns), -6e4, 6e4).astype(np.float16),
        weights=detector.rule_.weights,
        labels=labels,
    )


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """List the fits that are asked for."""
    from training.leave_one_out import weights_file

    from patchad.bench.suites import SUITES
    from patchad.datasets import load

    for family in options.families:
        entities = load(family, options.data)[:: options.every if family == "UCR" and not options.sample else 1]
        if options.sample:
            entities = [one for one in entities if one.name in SUITES["open"].sample[family]]
        for entity in entities[: options.most]:
            if not entity.labels[:TEST_ROWS].any():
                continue
            for variant in options.variants:
                weights = None if variant == "fitted" else weights_file(options.weights, family)
                for seed in options.seeds:
                    for rows in options.train_rows:
                        yield Job(family, entity, variant, seed, weights, rows, options.device, options.columns)


def families(options: argparse.Namespace) -> None:
    """Run all jobs that the file has no record of, the longest first."""
    done = {tuple(one[name] for name in ("family", "entity", "variant", "seed", "rows")) for one in read(options.out)}
    todo = sorted((job for job in jobs(options) if job.key not in done), key=lambda job: -job.cost)
    if options.shuffle:
        np.random.default_rng(0).shuffle(todo)  # type: ignore[arg-type]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context) as pool, options.out.open("a") as file:
        running = {pool.submit(run, job): job for job in todo}
        for number, one in enumerate(as_completed(running), start=1):
            try:
                file.write(json.dumps(one.result()) + "\n")
            except Exception as error:  # noqa: BLE001 - the others go on
                print(f"{running[one].key}: {type(error).__name__}: {error}", flush=True)
            file.flush()
            if number % 50 == 0:
                print(f"{number} of {len(todo)}", flush=True)


def speed(options: argparse.Namespace) -> None:
    """Time fits with and without training, one after the other in one run: by the clock, and of all cores together."""
    import torch

    from patchad import PatchAD

    random = np.random.default_rng(0)
    waves = np.sin(2 * np.pi * np.arange(SPEED_ROWS)[:, None] / 60 + random.uniform(0, 6, SPEED_CHANNELS))
    rows = waves + 0.1 * random.standard_normal(waves.shape)
    few = rows[:MANY_ROWS, :MANY_CHANNELS]
    with options.out.open("a") as file:
        for variant, settings in (("fitted", {"weights": None}), ("pretrained", {})):
            PatchAD(**settings).fit(few)  # what is loaded at the first call is not counted
            record: Record = {"part": "speed", "variant": variant, "threads": torch.get_num_threads()}
            with _timed(record, "fit"):
                PatchAD(**settings).fit(rows)
            if variant == "pretrained":
                with _timed(record, "many", MANY):
                    for number in range(MANY):
                        PatchAD(**settings).fit(rows[50 * number :][:MANY_ROWS, :MANY_CHANNELS])
            file.write(json.dumps(record) + "\n")
            print(record, flush=True)


@contextmanager
def _timed(record: Record, name: str, count: int = 1) -> Iterator[None]:
    """Note the seconds that something takes, of which `count` are done."""
    began, worked = time.perf_counter(), time.process_time()
    yield
    record[f"{name}_s"] = round((time.perf_counter() - began) / count, 3)
    record[f"{name}_cpu_s"] = round((time.process_time() - worked) / count, 3)


def read(path: Path) -> list[Record]:
    """Read the records of a file, none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(records: Sequence[Record]) -> str:
    """Write VUS-PR, event F1 and seconds by family and variant, of the entities that every variant has."""
    some = [one for one in records if "vus_pr" in one]
    lines = []
    for rows in sorted({one["rows"] for one in some}, reverse=True):
        lines += _table([one for one in some if one["rows"] == rows], rows)
    lines += [json.dumps(one) for one in records if one.get("part") == "speed"]
    return "\n".join(lines)


def _table(some: Sequence[Record], rows: int) -> list[str]:
    variants = list(dict.fromkeys(sorted(one["variant"] for one in some)))
    keys = {name: {(o["family"], o["entity"], o["seed"]): o for o in some if o["variant"] == name} for name in variants}
    both = sorted(set.intersection(*(set(one) for one in keys.values())))
    title = f"train of at most {rows:,} rows"
    lines = [
        f"| {title} | entities | " + " | ".join(f"{name}: VUS-PR, event F1, fit s" for name in variants) + " |",
        "| --- | ---: |" + " --- |" * len(variants),
    ]

    def line(label: str, chosen: Sequence[tuple[Any, ...]]) -> str:
        cells = []
        for name in variants:
            found = [keys[name][key] for key in chosen]
            cells.append(
                ", ".join(f"{np.mean([o[what] for o in found]):.3f}" for what in ("vus_pr", "event_f1", "fit_s"))
            )
        return f"| {label} | {len(chosen)} | " + " | ".join(cells) + " |"

    names = dict.fromkeys(key[0] for key in both)
    lines += [line(family, [key for key in both if key[0] == family]) for family in names]
    single = [key for key in both if keys[variants[0]][key]["channels"] == 1]
    many = [key for key in both if keys[variants[0]][key]["channels"] > 1]
    groups = [(label, own) for label, own in (("one channel", single), ("many channels", many), ("all", both)) if own]
    lines += [line(label, chosen) for label, chosen in groups]
    if "fitted" in keys:
        lines += [
            "",
            "VUS-PR over that of `fitted`, and the difference from it, with 95 % intervals over entities:",
            "",
        ]
        lines += [beside(label, name, keys, own) for label, own in groups for name in variants if name != "fitted"]
    return [*lines, ""]


def beside(
    label: str, name: str, keys: dict[str, dict[tuple[Any, ...], Record]], chosen: Sequence[tuple[Any, ...]]
) -> str:
    """Say how a variant compares with fitted nets, seeds averaged first."""
    entities = sorted({key[:2] for key in chosen})
    own, fitted = (
        np.array([np.mean([keys[one][key]["vus_pr"] for key in chosen if key[:2] == entity]) for entity in entities])
        for one in (name, "fitted")
    )
    draws = np.random.default_rng(0).integers(0, len(entities), (RESAMPLES, len(entities)))
    ratios = np.quantile(own[draws].mean(axis=1) / fitted[draws].mean(axis=1), [0.025, 0.975])
    differences = np.quantile((own - fitted)[draws].mean(axis=1), [0.025, 0.975])
    return (
        f"- {label}, {name}: {own.mean() / fitted.mean():.3f} [{ratios[0]:.3f}, {ratios[1]:.3f}], "
        f"{own.mean() - fitted.mean():+.3f} [{differences[0]:+.3f}, {differences[1]:+.3f}]"
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("families")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--weights", type=Path, required=True, help="folder that training.leave_one_out wrote")
    one.add_argument("--families", nargs="+", default=FAMILIES)
    one.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    one.add_argument("--seeds", nargs="+", type=int, default=[0])
    one.add_argument("--train-rows", nargs="+", type=int, default=[TRAIN_ROWS])
    one.add_argument("--every", type=int, default=4, help="of UCR, one series in so many")
    one.add_argument("--sample", action="store_true", help="the entities of the suite `open`, instead of all")
    one.add_argument("--most", type=int, help="most entities of a family")
    one.add_argument("--workers", type=int, default=1)
    one.add_argument("--device", default="cpu")
    one.add_argument("--columns", type=Path, help="folder for the columns of the score")
    one.add_argument("--shuffle", action="store_true", help="in random order, where time may run out")
    one.add_argument("-o", "--out", type=Path, required=True)
    one = parts.add_parser("speed")
    one.add_argument("-o", "--out", type=Path, required=True)
    one = parts.add_parser("table")
    one.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.part == "table":
        print(table([record for file in options.files for record in read(file)]))
    else:
        {"families": families, "speed": speed}[options.part](options)


if __name__ == "__main__":
    main()

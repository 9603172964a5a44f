"""Measure what a fleet gives: what series gain or lose by sharing a net, and false alarms of fault-free fleets.

`python -m benchmarks.fleet modes` and `python -m benchmarks.fleet promise` call it.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.processes import Watch
from training.leave_one_out import weights_file

from patchad import datasets, load, make
from patchad.datasets.backgrounds import BACKGROUNDS, calm
from patchad.datasets.entity import Entity
from patchad.fleet.detecting import Job, Options, detect_fleet
from patchad.fleet.fitting import FitJob, Mode, fit_fleet
from patchad.fleet.runner import Runner, make_runner
from patchad.metrics import vus

LEAST_ROWS = 400
"""Rows of train that suffice for the default window and what is held out."""
MODES: tuple[Mode, ...] = ("each", "global", "tuned")
PRETRAINED = "pretrained"
"""The usual fit of each series: nothing is trained."""


def frame_of(rows: np.ndarray) -> pd.DataFrame:
    """Give columns of the same names to all series of a family."""
    return pd.DataFrame(rows, columns=[f"c{number}" for number in range(rows.shape[1])])


def chosen(name: str, data: Path, entities: int | None) -> list[Entity]:
    """Return entities of the family's most usual width that have events in test: all, or those with the fewest rows.

    A train too short for the whole window would have a net of another shape.
    """
    found = [one for one in datasets.load(name, data) if one.labels.any() and not one.labels.all()]
    found = [one for one in found if len(one.train) >= LEAST_ROWS]
    widths = [one.channels for one in found]
    own = [one for one in found if one.channels == max(set(widths), key=widths.count)]
    return sorted(own, key=lambda one: len(one.train) + len(one.test))[:entities]


@dataclass(frozen=True)
class Judged:
    """A model and the series that it is judged by."""

    model: Path
    entity: Entity


def modes(
    data: Path,
    families: list[str],
    entities: int | None,
    steps: int,
    device: str,
    workers: int,
    weights: Path | None,
    records: Path | None,
) -> None:
    """Fit families of series in all modes; print VUS-PR and the seconds of a series."""
    print(f"{'family':<8}{'series':>8}{'channels':>10}{'mode':>12}{'VUS-PR':>9}{'seconds a series':>18}{'CPU s':>8}")
    with make_runner("local", workers, None) as runner:
        for _ in runner.run(_start, range(4 * workers)):
            pass
        for name in families:
            fits = _fits(steps, device, None if weights is None else weights_file(weights, name))
            for found in _family(name, chosen(name, data, entities), fits, runner):
                print(
                    "{family:<8}{series:>8}{channels:>10}{mode:>12}{vus_pr:>9.3f}{seconds:>18.2f}{cpu:>8.1f}".format(
                        **found
                    ),
                    flush=True,
                )
                if records is not None:
                    with records.open("a") as file:
                        file.write(json.dumps(found) + "\n")
    print(
        f"{steps} steps of training, device {device}, {workers} workers, {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[0]:.1f}"
    )


def _start(_: int) -> None:
    """Let a worker import what it will need."""
    time.sleep(0.1)


def _fits(steps: int, device: str, weights: Path | None) -> dict[str, tuple[Mode, dict[str, Any]]]:
    """Return mode and parameters of the fits to compare."""
    trained = {"weights": None, "max_steps": steps, "device": device}
    fits: dict[str, tuple[Mode, dict[str, Any]]] = {mode: (mode, trained) for mode in MODES}
    if weights is not None:
        fits[PRETRAINED] = ("each", {"weights": str(weights), "device": device})
    return fits


def _family(
    name: str, own: list[Entity], fits: dict[str, tuple[Mode, dict[str, Any]]], runner: Runner
) -> Iterator[dict[str, Any]]:
    """Yield what was measured of a family in each mode."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "train").mkdir()
        for one in own:
            np.save(folder / "train" / f"{one.name}.npy", one.train)
        for label, (mode, parameters) in fits.items():
            job = FitJob(data=(str(folder / "train"),), out=folder / label, mode=mode, parameters=parameters)
            with Watch(ram=False) as watch:
                began = time.perf_counter()
                outcome = fit_fleet(job, runner)
                seconds = time.perf_counter() - began
            if outcome.failed:
                raise RuntimeError(outcome.failed)
            tasks = [Judged(folder / label / f"{one.name}.safetensors", one) for one in own]
            scores = {task.entity.name: score for task, score in runner.run(_vus_pr, tasks)}
            yield {
                "family": name,
                "series": len(own),
                "channels": own[0].channels,
                "mode": label,
                "vus_pr": float(np.mean(list(scores.values()))),
                "seconds": seconds / len(own),
                "cpu": watch.cpu / len(own),
                "judging_seconds": time.perf_counter() - began - seconds,
                "of_series": dict(sorted(scores.items())),
            }


def _vus_pr(task: Judged) -> float:
    scores = load(task.model).decision_function(task.entity.test)
    return float(vus(labels=task.entity.labels, scores=np.asarray(scores)).pr)


def promise(series: int, rows: int, rate: float, rounds: int, detector: str) -> None:
    """Judge fault-free fleets, every series with a model of its own, and count the events."""
    counts: list[int] = []
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name in ("models", "data"):
                (folder / name).mkdir()
            for number in range(series):
                background = list(BACKGROUNDS)[number % len(BACKGROUNDS)]
                train, test = (
                    frame_of(calm(background, rows, 3, seed=1000 * turn + number, stream=stream)) for stream in (0, 1)
                )
                make(detector).fit(train).save(folder / "models" / f"s{number}.safetensors")
                test.to_parquet(folder / "data" / f"s{number}.parquet", index=False)
            options = Options(fleet_false_alarms=f"{rate:g}")
            job = Job(model=folder / "models", data=(str(folder / "data"),), out=folder / "out", options=options)
            with make_runner("local", 1, None) as runner:
                outcome = detect_fleet(job, runner)
            counts.append(sum(len(one.events) for one in outcome.results))
            print(f"fleet {turn + 1}: {counts[-1]} false events", flush=True)
    promised = rate * rows / 10_000
    spread = np.std(counts, ddof=1) / len(counts) ** 0.5 if len(counts) > 1 else float("nan")
    print(
        f"{detector}, {series} fault-free series of {rows:,} rows each, {rounds} fleets: {np.mean(counts):.1f} false "
        f"events of a fleet (standard error {spread:.1f}); promised {promised:g}"
    )

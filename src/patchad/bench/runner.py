"""Run a suite: cells to workers, records to a file. Cells that the file holds already are not run again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from patchad.bench.cells import Cell, Notify, RunOptions, load_entities, narrow, plan_cells, same_parameters
from patchad.bench.cost import measure_cost
from patchad.bench.fits import UNAVAILABLE, Fit, fit_and_score, n_parameters
from patchad.bench.protocols import judge
from patchad.bench.provenance import checksum, hardware, versions
from patchad.bench.records import Record, RecordFile, identity, measurement_key, summary_line
from patchad.bench.suites import SUITES, Suite
from patchad.bench.workers import as_completed
from patchad.datasets.entity import Entity
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.patchad import PatchAD
from patchad.detectors.registry import make
from patchad.model.pretrained import WITHOUT


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Cells of one entity that share a fit: the work of one worker at a time."""

    entity: Entity
    cells: tuple[Cell, ...]
    cost: bool
    weights: Path | None = None
    """Folder of the weights that cells name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no records, as text: not every exception can be pickled."""

    text: str
    unavailable: bool
    """Whether the detector cannot run on this machine at all."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did."""

    cells: int
    """Cells selected, without those of detectors that cannot run on this machine."""
    already: int
    """Cells whose records were in the file before."""
    failed: tuple[str, ...]
    """Errors of cells without a record, one line each."""
    missing: tuple[str, ...]
    """Datasets that were not found."""
    unavailable: tuple[str, ...]
    """Detectors that cannot run on this machine."""


def run_suite(suite: Suite, path: Path, options: RunOptions, notify: Notify = lambda _: None) -> RunSummary:
    """Run the cells of a suite that a file does not hold yet, and append their records to it.

    Parameters
    ----------
    suite
        What to run.
    path
        The file of records.
    options
        How much of it, and with what.
    notify
        Takes lines of progress: missing datasets, and a line for every record.
    """
    suite = narrow(suite, options)
    cells, missing = plan_cells(suite, options, notify)
    unavailable: set[str] = set()
    with RecordFile(path) as file:
        todo = [cell for cell in cells if not any(record["suite"] == suite.name for record in _known(file, cell))]
        already = len(cells) - len(todo)
        notify(f"{suite.name}: {len(cells)} cells, {already} of them in {path} already")
        todo = _reuse_records(suite, todo, options, file, notify)
        failed = _run_cells(suite, todo, options, file, notify, unavailable)
        left_out = sum(identity(cell.to_dict()) not in file.done for cell in todo if cell.detector in unavailable)
    return RunSummary(len(cells) - left_out, already, tuple(failed), missing, tuple(sorted(unavailable)))


def _known(file: RecordFile, cell: Cell) -> list[Record]:
    """Return the records of a cell's measurement that the file held when it was opened, whatever their suites."""
    about = file.measured.get(measurement_key(cell.to_dict()), [])
    return [record for record in about if same_parameters(record["parameters"], cell.parameters)]


def _reuse_records(
    suite: Suite, todo: Sequence[Cell], options: RunOptions, file: RecordFile, notify: Notify
) -> list[Cell]:
    """Copy the records that other suites have of the same measurements on the same data; return the remaining cells."""
    remaining: list[Cell] = []
    sums: dict[str, dict[str, str]] = {}
    for cell in todo:
        known = [] if suite.cost else _known(file, cell)
        known = [record for record in known if record["suite"] in SUITES and not SUITES[record["suite"]].cost]
        if known and cell.dataset not in sums:
            sums[cell.dataset] = {e.name: checksum(e) for e in load_entities(suite, cell.dataset, options)}
        same = [record for record in known if record["data_sha256"] == sums[cell.dataset][cell.entity]]
        if same:
            file.append([same[0] | {"suite": suite.name}])
        else:
            remaining.append(cell)
    if len(remaining) < len(todo):
        notify(f"{len(todo) - len(remaining)} records of other suites, of the same measurements, are reused")
    return remaining


def _run_cells(
    suite: Suite, todo: Sequence[Cell], options: RunOptions, file: RecordFile, notify: Notify, unavailable: set[str]
) -> list[str]:
    """Run cells and append their records; return the errors, and add detectors that cannot run to `unavailable`."""
    began, done = time.monotonic(), 0
    failed: list[str] = []
    for task, result in as_completed(_attempt, _tasks(suite, todo, options, unavailable), options.workers):
        done += len(task.cells)
        first = task.cells[0]
        if isinstance(result, Failure):
            if not result.unavailable:
                text = f"{first.dataset} {first.entity} {first.detector} seed {first.seed}: {result.text}"
                failed.append(" ".join(text.split()))
                notify(f"failed: {failed[-1]}")
            elif first.detector not in unavailable:
                unavailable.add(first.detector)
                notify(f"skipped: {first.detector} cannot run here: {result.text}")
            continue
        file.append(result)
        left = (time.monotonic() - began) / done * (len(todo) - done)
        for record in result:
            notify(f"[{done}/{len(todo)}] {summary_line(record)}; about {_duration(left)} left")
    return failed


def _tasks(suite: Suite, todo: Sequence[Cell], options: RunOptions, unavailable: set[str]) -> Iterator[Task]:
    """Group the cells by fit, loading one dataset at a time; detectors that turn out `unavailable` are left out."""
    groups: dict[str, list[Cell]] = {}
    for cell in todo:
        groups.setdefault(cell.fit_key, []).append(cell)
    loaded: tuple[str, dict[str, Entity]] = ("", {})
    for cells in groups.values():
        if cells[0].detector in unavailable:
            continue
        dataset = cells[0].dataset
        if loaded[0] != dataset:
            loaded = (dataset, {entity.name: entity for entity in load_entities(suite, dataset, options)})
        yield Task(loaded[1][cells[0].entity], tuple(cells), suite.cost, options.weights)


def _attempt(task: Task) -> list[Record] | Failure:
    try:
        return run_task(task)
    except UNAVAILABLE as error:
        return Failure(str(error), unavailable=True)
    except Exception as error:  # noqa: BLE001 - one cell's failure must not end the others
        return Failure(f"{type(error).__name__}: {error}", unavailable=False)


def run_task(task: Task) -> list[Record]:
    """Fit once and judge every cell; this is what a worker does."""
    first = task.cells[0]
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in first.parameters.items()}
    if task.weights is not None and str(settings.get("weights")).startswith(WITHOUT):
        settings["weights"] = str(task.weights / f"{settings['weights']}.safetensors")
    detector = make(first.detector, **(settings | {"random_state": first.seed}))
    fit = fit_and_score(detector, task.entity)
    shared = {
        "fit_seconds": fit.fit_seconds,
        "score_seconds": fit.score_seconds,
        "peak_memory": fit.peak_memory,
        "n_parameters": None if fit.detector is None else n_parameters(fit.detector),
        "data_sha256": checksum(task.entity),
        "versions": versions(),
        "hardware": hardware(),
    }
    records = []
    for cell in task.cells:
        fit = _oriented(fit, task.entity, cell)
        found: Mapping[str, Any]
        if task.cost and isinstance(fit.detector, NeuralDetector):
            found = measure_cost(fit.detector, len(task.entity.train))
        else:
            found = judge(fit, task.entity, cell.protocol, cell.parameters["threshold"])
        records.append(cell.to_dict() | {"metrics": dict(found)} | shared)
    return records


def _oriented(fit: Fit, entity: Entity, cell: Cell) -> Fit:
    """Return the fit with its scores in the orientation of the cell; the net stays the same."""
    wanted = cell.parameters.get("orientation")
    if not isinstance(fit.detector, PatchAD) or fit.detector.orientation == wanted:
        return fit
    fit.detector.set_orientation(wanted)
    return replace(fit, scores=np.asarray(fit.detector.decision_function(entity.test), dtype=np.float64))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

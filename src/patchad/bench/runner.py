"""Run a suite: cells to workers, records to a file. What is in the file already is not run again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from patchad.bench.cost import measure_cost
from patchad.bench.protocols import (
    PROTOCOLS,
    UNAVAILABLE,
    Fit,
    checksum,
    fit_and_score,
    hardware,
    judge,
    n_parameters,
    versions,
)
from patchad.bench.records import Record, RecordFile, identity, in_a_line, measurement
from patchad.bench.suites import SUITES, Suite, Variant
from patchad.bench.workers import results
from patchad.datasets.catalogue import lookup
from patchad.datasets.entity import Entity, join
from patchad.datasets.loading import find
from patchad.datasets.published import differences_from_published
from patchad.datasets.synthetic import SYNTHETIC, generate
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.patchad import PatchAD
from patchad.detectors.registry import DETECTORS, make
from patchad.errors import InputError, PatchADError, listed
from patchad.model.training import find_device

Say = Callable[[str], None]

ALL = "all"
"""The name that stands for every row of a suite and every other detector of the registry."""

NOT_RECORDED = ("random_state", "device", "verbose")
"""Parameters that are no part of a cell's: the seed and the hardware have fields of their own."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement to make: the fields that identify its record."""

    suite: str
    protocol: str
    dataset: str
    entity: str
    detector: str
    parameters: Mapping[str, Any]
    seed: int

    def to_dict(self) -> Record:
        """Give the fields as a record has them."""
        return {name: getattr(self, name) for name in Cell.__slots__}

    @property
    def fit_key(self) -> str:
        """What cells that can share one fit have in common: all but protocol, threshold and a mere orientation."""
        free = ("threshold", "orientation") if self.parameters.get("score") == "discrepancy" else ("threshold",)
        rest = {name: value for name, value in self.parameters.items() if name not in free}
        return identity(self.to_dict() | {"protocol": "", "parameters": rest})


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Cells of one entity that share a fit; what a worker gets."""

    entity: Entity
    cells: tuple[Cell, ...]
    cost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much of a suite to run, and with what."""

    data: Path = Path("data")
    """Folder that holds the datasets."""
    workers: int = 2
    limit: int | None = None
    """Cells at most, the first ones."""
    entities: int | None = None
    """Entities at most of each dataset, the first ones."""
    seeds: int | None = None
    """How many seeds; None: the suite's."""
    detectors: tuple[str, ...] = ()
    """Rows of the suite by name, or names of the registry, or `all`; none: the rows of the suite."""
    datasets: tuple[str, ...] = ()
    """Datasets of the suite; none: all."""
    max_steps: int | None = None
    """Training steps at most of detectors without a bound of their own, whatever the machine."""

    def __post_init__(self) -> None:
        for name in ("workers", "limit", "entities", "seeds", "max_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    cells: int
    """Cells asked for, without those of detectors that cannot run here."""
    already: int
    """Of them, those whose records were there before."""
    failed: tuple[str, ...]
    """Errors of cells without a record, one line each."""
    missing: tuple[str, ...]
    """Datasets that were not there."""
    unavailable: tuple[str, ...]
    """Detectors that cannot run here."""


def run_suite(suite: Suite, path: Path, options: Options, say: Say = lambda _: None) -> Outcome:
    """Run what a file does not hold yet of a suite, and append the records to it.

    Parameters
    ----------
    suite
        What to run.
    path
        The file of records.
    options
        How much of it, and with what.
    say
        Takes lines for people: datasets that are missing, a line for every record.
    """
    suite = narrowed(suite, options)
    cells, missing = plan(suite, options, say)
    unavailable: set[str] = set()
    with RecordFile(path) as file:
        todo = [cell for cell in cells if identity(cell.to_dict()) not in file.done]
        already = len(cells) - len(todo)
        say(f"{suite.name}: {len(cells)} cells, {already} of them in {path} already")
        todo = _taken_over(suite, todo, options, file, say)
        failed = _run_cells(suite, todo, options, file, say, unavailable)
        left_out = sum(identity(cell.to_dict()) not in file.done for cell in todo if cell.detector in unavailable)
    return Outcome(len(cells) - left_out, already, tuple(failed), missing, tuple(sorted(unavailable)))


def all_rows(suite: Suite) -> tuple[Variant, ...]:
    """Give the rows of a suite, and a row for every other detector of the registry.

    Examples
    --------
    >>> from patchad.bench.suites import SUITES
    >>> names = [variant.name for variant in all_rows(SUITES["open"])]
    >>> names[:4], "sensor_range" in names[4:]
    (['patchad', 'patchad-paper', 'patchad-letter', 'random'], True)
    """
    present = {variant.detector for variant in suite.variants}
    return (*suite.variants, *(Variant(name, name) for name in DETECTORS if name not in present), *suite.others)


def narrowed(suite: Suite, options: Options) -> Suite:
    """Give the suite with only the detectors, datasets and seeds that are asked for."""
    variants: list[Variant] = []
    for name in options.detectors:
        rows = all_rows(suite)
        chosen = [v for v in rows if name in (v.name, ALL)] or [v for v in rows if v.detector == name]
        if not chosen:
            names = dict.fromkeys([*(variant.name for variant in rows), *DETECTORS, ALL])
            raise InputError(f"there is no detector {name!r} in {suite.name}; use one of {listed(tuple(names), 100)}")
        variants += [variant for variant in chosen if variant not in variants]
    datasets = [dataset if dataset in SYNTHETIC else lookup(dataset).name for dataset in options.datasets]
    strange = [dataset for dataset in datasets if dataset not in suite.datasets]
    if strange:
        raise InputError(f"{suite.name} has no dataset {listed(strange)}; it has {listed(suite.datasets, 100)}")
    return replace(
        suite,
        variants=tuple(variants) or suite.variants,
        datasets=tuple(datasets) or suite.datasets,
        seeds=suite.seeds if options.seeds is None else tuple(range(options.seeds)),
    )


def plan(suite: Suite, options: Options, say: Say = lambda _: None) -> tuple[list[Cell], tuple[str, ...]]:
    """List the cells of a suite, each once, for the datasets that are there; name those that are not."""
    steps = options.max_steps
    if steps is None and find_device("auto").type == "cpu":
        steps = suite.cpu_steps
    chosen = [
        (protocol, v.detector, parameters_of(v, protocol, steps))
        for v in suite.variants
        for protocol in suite.protocols
    ]
    cells: dict[str, Cell] = {}
    missing: list[str] = []
    for dataset in suite.datasets:
        try:
            entities = load_entities(suite, dataset, options, say)
        except PatchADError as error:
            missing.append(dataset)
            say(f"{dataset} is left out: {error}")
            continue
        for entity in entities:
            for seed in suite.seeds:
                for protocol, detector, parameters in chosen:
                    cell = Cell(suite.name, protocol, dataset, entity.name, detector, parameters, seed)
                    cells.setdefault(identity(cell.to_dict()), cell)
    if not cells:
        raise InputError(
            f"nothing of {suite.name} can be run: {listed(missing, 20)} not in {str(options.data)!r}; name the folder "
            "with --data, fetch data with `patchad data get`, or run the suite 'smoke', which needs none"
        )
    return list(cells.values())[: options.limit], tuple(missing)


def parameters_of(variant: Variant, protocol: str, cpu_steps: int | None) -> dict[str, Any]:
    """Give all parameters of a variant as JSON has them, so that a record stays true when defaults change.

    Examples
    --------
    >>> parameters_of(Variant("random", "random"), "open", None)["threshold"]
    'auto'
    >>> found = parameters_of(Variant("patchad-paper", preset="paper"), "paper", 50)
    >>> found["d_model"], found["max_steps"], found["threshold"]
    (40, 50, 'ratio:1')
    """
    preset = PatchAD.paper if variant.preset == "paper" else DETECTORS[variant.detector]
    found = preset(**variant.parameters).get_params(deep=False)
    found["threshold"] = variant.parameters.get("threshold", PROTOCOLS[protocol].threshold)
    if found.get("max_steps", 0) is None:
        found["max_steps"] = cpu_steps
    plain: dict[str, Any] = json.loads(json.dumps({n: v for n, v in found.items() if n not in NOT_RECORDED}))
    return plain


def load_entities(suite: Suite, dataset: str, options: Options, say: Say = lambda _: None) -> list[Entity]:
    """Give the entities of a dataset as the suite wants them: sampled, joined, thinned, cut."""
    if dataset in SYNTHETIC:
        return generate(dataset)[: options.entities]
    row = lookup(dataset)
    entities = find(row, options.data)
    if not entities:
        raise InputError(f"no files of it in {str(options.data)!r}; {row.how_to_get}")
    differences = differences_from_published(row, entities)
    if differences:
        say(f"{dataset} differs from what is published: {'; '.join(map(str, differences))}")
    entities = [entity.thinned(suite.every.get(dataset, 1)) for entity in entities]
    if dataset in suite.joined:
        return [join(entities, dataset)]
    if suite.sample is not None:
        entities = _sampled(dataset, entities, suite.sample[dataset], say)
    return [_cut(entity, suite) for entity in entities[: options.entities]]


def _sampled(dataset: str, entities: Sequence[Entity], sample: Sequence[str], say: Say) -> list[Entity]:
    by_name = {entity.name: entity for entity in entities}
    absent = [name for name in sample if name not in by_name]
    if absent:
        say(f"{dataset}: {listed(absent)} of the sample not there")
    if len(absent) == len(sample):
        raise InputError(f"none of the sample's entities is there: {listed(sample)}")
    return [by_name[name] for name in sample if name in by_name]


def _cut(entity: Entity, suite: Suite) -> Entity:
    train = entity.train[-suite.train_rows :] if suite.train_rows else entity.train
    return Entity(entity.name, train, entity.test[: suite.test_rows], entity.labels[: suite.test_rows])


# -- running ---------------------------------------------------------------------------------------------------------


def _taken_over(suite: Suite, todo: Sequence[Cell], options: Options, file: RecordFile, say: Say) -> list[Cell]:
    """Copy the records of other suites that measured the same of the same rows; give the cells that are left."""
    left: list[Cell] = []
    sums: dict[str, dict[str, str]] = {}
    for cell in todo:
        known = [] if suite.cost else file.measured.get(measurement(cell.to_dict()), [])
        known = [record for record in known if record["suite"] in SUITES and not SUITES[record["suite"]].cost]
        if known and cell.dataset not in sums:
            sums[cell.dataset] = {e.name: checksum(e) for e in load_entities(suite, cell.dataset, options)}
        same = [record for record in known if record["data_sha256"] == sums[cell.dataset][cell.entity]]
        if same:
            file.append([same[0] | {"suite": suite.name}])
        else:
            left.append(cell)
    if len(left) < len(todo):
        say(f"{len(todo) - len(left)} records of other suites, of the same measurements, are taken over")
    return left


def _run_cells(
    suite: Suite, todo: Sequence[Cell], options: Options, file: RecordFile, say: Say, unavailable: set[str]
) -> list[str]:
    """Run cells and append their records; give the errors, and add to `unavailable` the detectors that cannot run."""
    began, done = time.monotonic(), 0
    failed: list[str] = []
    for task, result in results(_attempt, _tasks(suite, todo, options, unavailable), options.workers):
        done += len(task.cells)
        first = task.cells[0]
        if isinstance(result, Trouble):
            if not result.unavailable:
                text = f"{first.dataset} {first.entity} {first.detector} seed {first.seed}: {result.text}"
                failed.append(" ".join(text.split()))
                say(f"failed: {failed[-1]}")
            elif first.detector not in unavailable:
                unavailable.add(first.detector)
                say(f"skipped: {first.detector} cannot run here: {result.text}")
            continue
        file.append(result)
        left = (time.monotonic() - began) / done * (len(todo) - done)
        for record in result:
            say(f"[{done}/{len(todo)}] {in_a_line(record)}; about {_duration(left)} left")
    return failed


def _tasks(suite: Suite, todo: Sequence[Cell], options: Options, unavailable: set[str]) -> Iterator[Task]:
    """Group the cells by what they fit; load each dataset when its first cell comes; leave `unavailable` ones out."""
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
        yield Task(loaded[1][cells[0].entity], tuple(cells), suite.cost)


def run_task(task: Task) -> list[Record]:
    """Fit once, judge each cell; what a worker does."""
    first = task.cells[0]
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in first.parameters.items()}
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
    """Give the fit with its scores oriented as the cell wants them; the net stays as it is."""
    wanted = cell.parameters.get("orientation")
    if not isinstance(fit.detector, PatchAD) or fit.detector.orientation == wanted:
        return fit
    fit.detector.set_orientation(wanted)
    return replace(fit, scores=np.asarray(fit.detector.decision_function(entity.test), dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a task has no records, in words: not every exception can travel between processes."""

    text: str
    unavailable: bool
    """Whether the detector cannot run on this machine, as it is, at all."""


def _attempt(task: Task) -> list[Record] | Trouble:
    try:
        return run_task(task)
    except UNAVAILABLE as error:
        return Trouble(str(error), unavailable=True)
    except Exception as error:  # noqa: BLE001 - one cell's failure must not end the others
        return Trouble(f"{type(error).__name__}: {error}", unavailable=False)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

"""`patchad fleet detect`: every series of a fleet through `detect`, each finished one written at once."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np

from patchad.data.files import write_whole
from patchad.data.periods import Period
from patchad.data.reading import Reading
from patchad.data.table import Table
from patchad.detectors.base import Detector
from patchad.detectors.registry import load as load_model
from patchad.errors import InputError, PatchADError, UnsupportedError
from patchad.fleet.incidents import find_incidents, incidents_json
from patchad.fleet.loading import Loaded, Source, load
from patchad.fleet.long import LONG_ROWS, LongSeries, long_rows
from patchad.fleet.models import Model, Models
from patchad.fleet.names import file_names
from patchad.fleet.page import render_fleet
from patchad.fleet.planning import Fleet, batches, find_series, key_of, shares, size_of
from patchad.fleet.results import (
    Outcome,
    Result,
    events_json,
    manifest_csv,
    pyarrow,
    read_result,
    result_of,
    write_scores,
)
from patchad.fleet.runner import Runner
from patchad.report.page import Chapter, render_page
from patchad.thresholds.promise import parse_rate

SCORES = "scores"
"""Folder of the scores."""
REPORTS = "reports"
"""Folder of the reports."""
OUTPUTS = ("manifest.csv", "events.json", "incidents.json", "index.html")
"""Files of a run, beside the scores."""

Watch = Callable[[Result, float], None]
"""Takes every result that is known, with the share of all work that it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How `detect` is to judge, where not as the model says."""

    threshold: str | None = None
    false_alarms: str | None = None
    merge_gap: int | None = None
    min_duration: int | None = None
    quiet: tuple[Period, ...] = ()
    fleet_false_alarms: str | None = None
    """Expected false events of all series together."""
    reports: bool = False
    """Whether series with events get a report each."""

    def divided(self, series: int) -> Options:
        """Return the options of one of so many series: each has the same part of the false events of all."""
        if self.fleet_false_alarms is None:
            return self
        number, slash, period = self.fleet_false_alarms.partition("/")
        rate = f"{float(number) / max(series, 1):.12g}{slash}{period}"
        return replace(self, false_alarms=rate, fleet_false_alarms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to detect, and where to write it."""

    model: Path
    data: tuple[str, ...]
    out: Path
    by: str | None = None
    reading: Reading = field(default_factory=Reading)
    options: Options = field(default_factory=Options)
    long_rows: int = LONG_ROWS
    """Rows from which on a series of parquet files is judged in shards."""


@dataclass(frozen=True, slots=True)
class Task:
    """Series that one worker judges, one after the other."""

    sources: tuple[Source, ...]
    models: tuple[Model, ...]
    paths: tuple[Path, ...]
    keys: tuple[str, ...]
    by: str | None
    reading: Reading
    options: Options


def detect_fleet(job: Job, runner: Runner, watch: Watch = lambda *_: None) -> Outcome[Result]:
    """Judge every series of a fleet; write scores, events and a manifest.

    Series whose results are in the folder already, made from the same data, model and options, are not judged again.

    Parameters
    ----------
    job
        What to do.
    runner
        Who does it.
    watch
        Is told of every result as it comes.
    """
    pyarrow()
    models = Models(job.model, runner)
    _check_options(job.options, models)
    fleet = find_series(job.data, job.by, job.reading, runner, models)
    check_apart(job.out, [file.path for one in fleet.sources for file in one.files], models.files())
    share = shares(fleet.sources)
    done: dict[str, Result] = {}
    job = replace(job, options=job.options.divided(len(fleet.sources)))
    tasks = _plan(job, fleet, models, runner.workers, done)
    resumed = sum(not one.error for one in done.values())
    for result in done.values():
        watch(result, share[result.series])
    for result in _long_results(job, tasks, runner):
        done[result.series] = result
        watch(result, share[result.series])
    left = [task for task in tasks if task.sources[0].name not in done]
    for _, results in runner.suited(size_of(task.sources for task in left)).run(detect_task, left):
        for result in results:
            done[result.series] = result
            watch(result, share[result.series])
    results = [done[source.name] for source in fleet.sources]
    results += [Result(series=name, error=str(error)) for name, error in fleet.refused]
    outcome = Outcome(tuple(results), resumed, fleet.notes)
    if len(outcome.failed) < len(results):
        _finish(job.out, results)
    return outcome


def _check_options(options: Options, models: Models) -> None:
    """Refuse what would be wrong for every series."""
    if options.false_alarms is not None and options.fleet_false_alarms is not None:
        raise InputError(
            "--false-alarms is for each series and --fleet-false-alarms for all together; give one of them"
        )
    for rate in (options.false_alarms, options.fleet_false_alarms):
        if rate is not None:
            parse_rate(rate, [np.arange(2).astype("datetime64[s]")])
    if options.threshold is not None:
        copy.copy(load_model(models.files()[0])).set_threshold(options.threshold)


def check_apart(out: Path, inputs: Sequence[str], models: Sequence[Path]) -> None:
    """Refuse a folder for results that inputs or models lie in: they would be overwritten, or read next time."""
    folder = out.resolve()
    if out.exists() and not out.is_dir():
        raise InputError(f"-o {str(out)!r} is no folder; give the path of one to write to")
    given = [Path(one) for one in inputs if "://" not in one]
    for path in (*given, *models):
        if path.resolve().parent in (folder, folder / SCORES):
            raise InputError(f"-o {str(out)!r} holds the input {str(path)!r}; give another folder to write to")


def _plan(job: Job, fleet: Fleet, models: Models, workers: int, done: dict[str, Result]) -> list[Task]:
    """Return the tasks that are left; what is known already is put into `done`."""
    names = file_names(source.name for source in fleet.sources)
    chosen = models.by_series(names)
    todo: list[Source] = []
    keys: dict[str, str] = {}
    ready: dict[str, Model] = {}
    for source in fleet.sources:
        model = chosen[source.name]
        if isinstance(model, InputError):
            done[source.name] = Result(series=source.name, error=f"{source.name}: {model}")
            continue
        ready[source.name] = model
        keys[source.name] = key_of(source, model.checksum, job.by, job.reading, job.options)
        before = read_result(_path(job.out, names[source.name]))
        if before is not None and before.key == keys[source.name]:
            done[source.name] = before
        else:
            todo.append(source)
    return [
        Task(
            batch,
            tuple(ready[one.name] for one in batch),
            tuple(_path(job.out, names[one.name]) for one in batch),
            tuple(keys[one.name] for one in batch),
            job.by,
            job.reading,
            job.options,
        )
        for batch in batches(todo, workers)
    ]


def _long_results(job: Job, tasks: Sequence[Task], runner: Runner) -> Iterator[Result]:
    """Judge very long series one after the other, each with all workers."""
    for task in tasks:
        rows = long_rows(task.sources[0], job.reading) if job.by is None and not job.options.quiet else 0
        if rows < job.long_rows:
            continue
        source, model, path, key = task.sources[0], task.models[0], task.paths[0], task.keys[0]
        try:
            detector = prepared(model.load(), job.options, None)
            yield LongSeries(source, job.reading, model, detector, rows).detect(runner, path, key)
        except UnsupportedError:
            continue  # it is read as a whole, by one worker
        except PatchADError as error:
            yield Result(series=source.name, error=source.told(error))


def _path(out: Path, name: str) -> Path:
    return out / SCORES / f"{name}.parquet"


def _report(out: Path, name: str) -> Path:
    return out / REPORTS / f"{name}.html"


def _finish(out: Path, results: Sequence[Result]) -> None:
    """Write what concerns all series, and remove the scores of series that are no longer there."""
    names = file_names(one.series for one in results if one.key)
    current = {_path(out, name) for name in names.values()}
    for path in sorted((out / SCORES).glob("*.parquet")):
        if path not in current and read_result(path) is not None:
            path.unlink(missing_ok=True)
            _report(out, path.stem).unlink(missing_ok=True)
    incidents = find_incidents(results)
    reports = {one: f"{REPORTS}/{quote(names[one])}.html" for one in names if _report(out, names[one]).exists()}
    contents = (manifest_csv(results), events_json(results), incidents_json(incidents))
    page = render_fleet(results, incidents, reports)
    write_whole({out / name: content for name, content in zip(OUTPUTS, (*contents, page), strict=True)})


# -- in a worker ------------------------------------------------------------------------------------------------------


def detect_task(task: Task) -> list[Result]:
    """Judge the series of a task and write the scores of each."""
    return list(_results(task))


def _results(task: Task) -> Iterator[Result]:
    where = dict(
        zip([one.name for one in task.sources], zip(task.models, task.paths, task.keys, strict=True), strict=True)
    )
    left = []
    for source in task.sources:  # what a killed worker has finished
        before = read_result(where[source.name][1])
        if before is not None and before.key == where[source.name][2]:
            yield before
        else:
            left.append(source)
    for source, loaded in load(left, task.by, task.reading):
        yield _attempt(source, loaded, task, *where[source.name])


def _attempt(source: Source, loaded: Loaded | InputError, task: Task, model: Model, path: Path, key: str) -> Result:
    if isinstance(loaded, InputError):
        return Result(series=source.name, error=source.told(loaded))
    began = time.perf_counter()
    try:
        return _judge(source, loaded, task, model, path, key, began)
    except OSError:
        raise
    except PatchADError as error:
        reason = str(error)
    except MemoryError:
        reason = "there is not enough RAM for it; give fewer workers, or less data at once"
    except Exception as error:  # noqa: BLE001 - one series' failure must not end the others
        reason = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - began
    return Result(series=source.name, seconds=seconds, error=source.told(reason))


def _judge(source: Source, loaded: Loaded, task: Task, model: Model, path: Path, key: str, began: float) -> Result:
    fitted = model.load()
    table = loaded.table(fitted.columns_)
    labels = task.reading.labels
    table, truth = (table, None) if labels is None else table.without(labels)
    detection = prepared(fitted, task.options, table).detect(table, quiet=task.options.quiet)
    groups = loaded.groups(fitted.columns_)
    result = result_of(source.name, detection, key=key, seconds=time.perf_counter() - began, groups=groups)
    report = _report(path.parent.parent, path.stem)
    if task.options.reports and detection.events:
        write_whole({report: render_page([Chapter.of(source.name, detection, truth)])})
    else:
        report.unlink(missing_ok=True)
    write_scores(path, result, detection, truth)
    return result


def prepared(fitted: Detector, options: Options, table: Table | None) -> Detector:
    """Return a copy of a detector that judges as the options say; a rate in a time needs the table's."""
    detector = copy.copy(fitted)
    shape = {"merge_gap": options.merge_gap, "min_duration": options.min_duration}
    detector.set_params(**{name: value for name, value in shape.items() if value is not None})
    if options.false_alarms is not None:
        if table is None and "/" in options.false_alarms:
            raise UnsupportedError(f"a rate of {options.false_alarms} needs the times of all rows")
        detector.false_alarms = parse_rate(options.false_alarms, [] if table is None else [table.index])
    return detector.set_threshold(detector.threshold if options.threshold is None else options.threshold)

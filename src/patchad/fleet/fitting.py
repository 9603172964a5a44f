"""`patchad fleet fit`: a model for each series, fitted alone, with a shared net, or with a shared one that is tuned.

In the modes `global` and `tuned` series with the same channels, by name, are a family. One net is trained on the scaled
rows of all of its series; each series then has its own scale, memory and calibration, and in `tuned` trains the net a
few steps further on its own rows.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from patchad.data.files import write_whole
from patchad.data.periods import Period, exclude_periods
from patchad.data.reading import Reading
from patchad.data.switches import Switches
from patchad.data.table import Table
from patchad.detectors.patchad import PatchAD
from patchad.detectors.preparing import check_rows, read_train
from patchad.detectors.together import Run, fit_together, is_stackable
from patchad.errors import InputError, PatchADError
from patchad.fleet.detecting import check_apart
from patchad.fleet.loading import Source, load
from patchad.fleet.models import SUFFIX, Model
from patchad.fleet.names import file_names
from patchad.fleet.planning import batches, find_series, key_of, packs, shares
from patchad.fleet.results import Fitted, Outcome, fit_manifest_csv
from patchad.fleet.runner import Runner
from patchad.model.ranks import current_ranks
from patchad.model.training import find_device

Mode = Literal["each", "global", "tuned"]
TUNE_STEPS = 100
"""Steps that `tuned` trains a shared net on the rows of one series."""
SHARED_ROWS = 400_000
"""Rows of a family, its series' newest, that its net is trained on."""
TRAINING = ".training"
"""How the file of a training ends, so that one that is killed goes on."""
PACK = 200
"""Most series whose nets are trained together."""
DONE, SHARED = ".done", ".shared"
"""Folders of what a later run needs to go on."""

Watch = Callable[[Fitted, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitJob:
    """What to fit, and where to write it."""

    data: tuple[str, ...]
    out: Path
    by: str | None = None
    mode: Mode = "each"
    parameters: dict[str, Any] = field(default_factory=dict)
    """Of `PatchAD`."""
    excluded: tuple[Period, ...] = ()
    """Periods that are no part of train."""
    reading: Reading = field(default_factory=Reading)
    tune_steps: int = TUNE_STEPS
    together: bool | None = None
    """Whether series that train their own nets train them at once; None: where there is a GPU."""

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the detectors: a net that series share is trained on them, and not pretrained on others."""
        return self.parameters if self.mode == "each" else {"weights": None, **self.parameters}


@dataclass(frozen=True, slots=True)
class Task:
    """Series that one worker fits."""

    job: FitJob
    sources: tuple[Source, ...]
    files: tuple[str, ...]
    keys: tuple[str, ...]
    net: Model | None = None
    """The family's, in its own units; None: each series has its own."""


def fit_fleet(job: FitJob, runner: Runner, watch: Watch = lambda *_: None) -> Outcome[Fitted]:
    """Fit a model for every series of a fleet; write `SERIES.safetensors` for each, and a manifest.

    Series whose models are in the folder already, made from the same data and settings, are not fitted again.
    """
    fleet = find_series(job.data, job.by, job.reading, runner)
    check_apart(job.out, [file.path for one in fleet.sources for file in one.files], [])
    share = shares(fleet.sources)
    names = file_names(source.name for source in fleet.sources)
    done: dict[str, Fitted] = {}
    families, keys = _families(job, fleet.sources, runner, done)
    for source in fleet.sources:
        before = None if source.name in done else read_fitted(job.out, names[source.name])
        if before is not None and before.key == keys[source.name]:
            done[source.name] = before
    resumed = sum(not one.error for one in done.values())
    for one in done.values():
        watch(one, share[one.series])
    for found in _fitted(_tasks(job, families, keys, names, done, runner), runner):
        for one in found:
            done[one.series] = one
            watch(one, share[one.series])
    results = [done[source.name] for source in fleet.sources]
    results += [Fitted(series=name, error=str(error)) for name, error in fleet.refused]
    outcome = Outcome(tuple(results), resumed, fleet.notes)
    if len(outcome.failed) < len(results):
        _finish(job.out, results)
    return outcome


def read_fitted(out: Path, name: str) -> Fitted | None:
    """Return what is known of a model that is finished; None where it is not."""
    try:
        found = Fitted(**json.loads((out / DONE / f"{name}.json").read_text()))
        content = (out / f"{name}{SUFFIX}").read_bytes()
    except (OSError, ValueError, TypeError):
        return None
    return found if hashlib.sha256(content).hexdigest() == found.checksum else None


def _families(
    job: FitJob, sources: Sequence[Source], runner: Runner, done: dict[str, Fitted]
) -> tuple[list[list[Source]], dict[str, str]]:
    """Put series with the same channels together; return them, and the keys of all series."""
    own = {source.name: key_of(source, _settings(job)) for source in sources}
    if job.mode == "each":
        return [[source] for source in sources], own
    known: dict[str, tuple[str, ...]] = {}
    tasks = [Task(job, batch, (), ()) for batch in batches(sources, runner.workers)]
    for _, found in runner.run(look_task, tasks):
        for name, channels, error in found:
            if error:
                done[name] = Fitted(series=name, error=error)
            else:
                known[name] = channels
    families: dict[frozenset[str], list[Source]] = {}
    for source in sources:
        if source.name in known:
            families.setdefault(frozenset(known[source.name]), []).append(source)
    keys: dict[str, str] = {}
    for family in families.values():  # a model depends on all that its net was trained on
        together = hashlib.sha256(" ".join(own[one.name] for one in family).encode()).hexdigest()
        keys |= {one.name: key_of(one, _settings(job), together) for one in family}
    return list(families.values()), keys


def _settings(job: FitJob) -> tuple[Any, ...]:
    return (job.by, job.mode, sorted(job.parameters.items()), job.excluded, job.reading, job.tune_steps)


def _tasks(
    job: FitJob,
    families: Sequence[Sequence[Source]],
    keys: dict[str, str],
    names: dict[str, str],
    done: dict[str, Fitted],
    runner: Runner,
) -> list[Task]:
    """Return the tasks that are left, once the nets that they need are trained."""
    left = [(family, [one for one in family if one.name not in done]) for family in families]
    left = [(family, own) for family, own in left if own]
    if job.mode == "each":
        groups: list[tuple[Sequence[Source], Model | str | None]] = [([one for _, own in left for one in own], None)]
    else:
        nets = _shared_nets(job, [family for family, _ in left if len(family) > 1], keys, runner)
        groups = [(own, nets.get(family[0].name)) for family, own in left]
    tasks: list[Task] = []
    for own, net in groups:
        if isinstance(net, str):
            done |= {one.name: Fitted(series=one.name, error=one.told(net)) for one in own}
            continue
        at_once = net is None and _together(job)
        workers = 1 if _on_gpu(job) else runner.workers  # one process has the GPU
        for batch in packs(own, workers, PACK) if at_once else batches(own, runner.workers):
            files, hashes = tuple(names[one.name] for one in batch), tuple(keys[one.name] for one in batch)
            tasks.append(Task(job, batch, files, hashes, net))
    return tasks


def _fitted(tasks: Sequence[Task], runner: Runner) -> Iterator[list[Fitted]]:
    """Yield what becomes of each task: this process trains the nets that are trained together on a GPU."""
    here: list[Task] = []
    elsewhere: list[Task] = []
    for task in tasks:
        (here if task.net is None and _together(task.job) and _on_gpu(task.job) else elsewhere).append(task)
    run = runner.run if runner.workers > 1 else None
    yield from (fit_task(task, run) for task in here)
    yield from (found for _, found in runner.run(fit_task, elsewhere))


def _shared_nets(
    job: FitJob, families: Sequence[Sequence[Source]], keys: dict[str, str], runner: Runner
) -> dict[str, Model | str]:
    """Train the nets of families, a task for each; return each, or why there is none, by the first series' name."""
    paths = {family[0].name: _shared_path(job, [keys[one.name] for one in family]) for family in families}
    missing = [tuple(family) for family in families if not paths[family[0].name].exists()]
    nets: dict[str, Model | str] = {}
    for task, error in runner.train(share_task, [Task(job, one, (str(paths[one[0].name]),), ()) for one in missing]):
        if error:
            nets[task.sources[0].name] = error
    for name, path in paths.items():
        if name not in nets:
            nets[name] = Model(path, hashlib.sha256(path.read_bytes()).hexdigest(), runner.share(path))
    return nets


def _shared_path(job: FitJob, keys: Sequence[str]) -> Path:
    return job.out / SHARED / f"{hashlib.sha256(' '.join(keys).encode()).hexdigest()[:16]}{SUFFIX}"


def _finish(out: Path, results: Sequence[Fitted]) -> None:
    """Write the manifest, and remove the models of series that are no longer there."""
    current = set(file_names(one.series for one in results if one.key).values())
    for path in sorted((out / DONE).glob("*.json")):
        if path.stem not in current:
            (out / f"{path.stem}{SUFFIX}").unlink(missing_ok=True)
            path.unlink()
    for path in (out / SHARED).glob("*"):
        path.unlink()
    if (out / SHARED).is_dir():
        (out / SHARED).rmdir()
    write_whole({out / "manifest.csv": fit_manifest_csv(results)})


# -- in a worker ------------------------------------------------------------------------------------------------------


def look_task(task: Task) -> list[tuple[str, tuple[str, ...], str]]:
    """Return the channels of each series, or why it cannot be read or fitted: then it is no part of a family."""
    found: list[tuple[str, tuple[str, ...], str]] = []
    for source, loaded in load(task.sources, task.job.by, task.job.reading):
        try:
            if isinstance(loaded, InputError):
                found.append((source.name, (), str(loaded)))
            else:
                table = encoded(loaded.table(), task.job)
                pieces, *_ = read_train(PatchAD(**task.job.settings), _pieces(table, task.job))
                check_rows([segment for piece in pieces for segment in piece.segments])
                found.append((source.name, table.channels or (), ""))
        except InputError as error:
            found.append((source.name, (), source.told(error)))
    return found


def share_task(task: Task) -> str:
    """Train the net of a family on the scaled rows of its series; return what went wrong, or nothing."""
    most = max(SHARED_ROWS // len(task.sources), 4 * int(task.job.parameters.get("window", PatchAD().window)))
    tables: list[Table] = []
    try:
        for _, loaded in load(task.sources, task.job.by, task.job.reading):
            if isinstance(loaded, InputError):
                return str(loaded)
            table = encoded(loaded.table(), task.job)
            newest = table.take(slice(max(len(table.values) - most, 0), None))
            tables += _scaled(_pieces(newest, task.job), tables[:1])
        path = Path(task.files[0])
        detector = PatchAD(**task.job.settings).keep_training(path.with_suffix(TRAINING)).fit(tables)
        if current_ranks().number == 0:
            detector.save(path)
            path.with_suffix(TRAINING).unlink(missing_ok=True)
    except PatchADError as error:
        return str(error)
    return ""


def fit_task(task: Task, run: Run | None = None) -> list[Fitted]:
    """Fit the series of a task and write the model of each; `run` lets other processes help."""
    at_once = task.net is None and _together(task.job)
    waiting: list[_Waiting] = []
    results: list[Fitted] = []
    for source, loaded in load(task.sources, task.job.by, task.job.reading):
        try:
            if isinstance(loaded, InputError):
                results.append(Fitted(series=source.name, error=str(loaded)))
                continue
            waiting.append(_prepared(source, loaded.table(), task))
        except PatchADError as error:
            results.append(Fitted(series=source.name, error=source.told(error)))
        if not at_once:
            results += _fit(waiting, task, run)
            waiting = []
    return results + _fit(waiting, task, run)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A series that is read and waits for its model."""

    source: Source
    detector: PatchAD
    tables: Sequence[Table]
    rows: int


def _together(job: FitJob) -> bool:
    try:
        return (_on_gpu(job) if job.together is None else job.together) and is_stackable(PatchAD(**job.settings))
    except PatchADError:
        return False  # each series says why it cannot be fitted


def _on_gpu(job: FitJob) -> bool:
    return find_device(str(job.parameters.get("device", "auto"))).type == "cuda"


def _prepared(source: Source, table: Table, task: Task) -> _Waiting:
    job = task.job
    table = without_groups(table)
    detector = PatchAD(**job.settings)
    if task.net is not None:
        shared = cast("PatchAD", task.net.load())
        steps = job.tune_steps if job.mode == "tuned" else 0
        detector.begin_with(shared.net_.state_dict(), steps)
        table = _ordered(encoded(table, job), shared.fit_columns_)
    return _Waiting(source, detector, _pieces(table, job), len(table.values))


def _pieces(table: Table, job: FitJob) -> list[Table]:
    """Return what is left of a table without the periods that are no part of train."""
    return exclude_periods([table], job.excluded) if job.excluded else [table]


def _fit(waiting: Sequence[_Waiting], task: Task, run: Run | None) -> list[Fitted]:
    """Fit series, one or several at once, and write their models."""
    files = dict(zip([one.name for one in task.sources], zip(task.files, task.keys, strict=True), strict=True))
    began = time.perf_counter()
    errors: list[PatchADError | None] = [None] * len(waiting)
    if len(waiting) > 1:
        errors = fit_together([one.detector for one in waiting], [one.tables for one in waiting], run=run)
    elif waiting:
        try:
            waiting[0].detector.fit(waiting[0].tables)
        except PatchADError as error:
            errors = [error]
    seconds = (time.perf_counter() - began) / max(len(waiting), 1)
    return [
        _written(one, task.job, *files[one.source.name], seconds)
        if error is None
        else Fitted(series=one.source.name, seconds=seconds, error=one.source.told(error))
        for one, error in zip(waiting, errors, strict=True)
    ]


def _written(one: _Waiting, job: FitJob, file: str, key: str, seconds: float) -> Fitted:
    detector = one.detector
    with tempfile.TemporaryDirectory(prefix="patchad-") as folder:
        content = detector.save(Path(folder) / f"model{SUFFIX}").read_bytes()
    found = Fitted(
        series=one.source.name,
        rows=one.rows,
        channels=len(detector.channels_),
        seconds=seconds,
        key=key,
        checksum=hashlib.sha256(content).hexdigest(),
        notes=detector.fit_notes_,
    )
    note = json.dumps(asdict(found)).encode()
    write_whole({job.out / f"{file}{SUFFIX}": content, job.out / DONE / f"{file}.json": note})
    return found


def without_groups(table: Table) -> Table:
    """Leave out columns of text with one state: they say where a series belongs, and never change."""
    return replace(table, texts={name: one for name, one in table.texts.items() if len(one.names) > 1})


def encoded(table: Table, job: FitJob) -> Table:
    """Return a table with switches for its columns of text, without the channels that are ignored."""
    table = without_groups(table)
    found = Switches.learn([table])[0].encode(table)
    if found.channels is None:
        return replace(found, channels=tuple(f"channel_{i}" for i in range(found.values.shape[1])))
    kept = [name for name in found.channels if name not in job.parameters.get("ignore", ())]
    return _ordered(found, kept)


def _ordered(table: Table, names: Sequence[str]) -> Table:
    own = table.channels or ()
    return replace(table, values=table.values[:, [own.index(name) for name in names]], channels=tuple(names))


def _scaled(tables: Sequence[Table], first: Sequence[Table]) -> list[Table]:
    """Scale each channel of a series to mean 0 and spread 1, with the channels in the order of the first table."""
    tables = [_ordered(table, first[0].channels or ()) if first else table for table in tables]
    values = np.concatenate([table.values for table in tables]).astype(np.float64)
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, values - mean, 0) ** 2).sum(axis=0) / count)
    spread[spread == 0] = 1
    return [
        replace(table, values=((table.values - mean) / spread).astype(np.float32), kind="numpy") for table in tables
    ]

"""`patchad fleet`: many series, or very long ones, on all cores or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchad.cli.console import StoppedError, notify
from patchad.cli.options import ExcludedPeriods, FailOnEvent, MergeGap, MinDuration, Quiet, Rate, Settings
from patchad.cli.output import refusal
from patchad.cli.reading import reading_options
from patchad.data.reading import Reading

if TYPE_CHECKING:
    from patchad.fleet.results import Fitted, Result

app = typer.Typer(help="Many series, or very long ones, on all cores of this machine or on a cluster.")

MOST_PRINTED = 20
"""Series that are printed; all are in the manifest."""


class EngineName(StrEnum):
    """Who does the work."""

    local = "local"
    ray = "ray"


class ModeName(StrEnum):
    """What the models of a fleet share."""

    each = "each"
    shared = "global"
    tuned = "tuned"


Data = Annotated[
    list[str],
    typer.Argument(help="Data files (csv, parquet, ...), folders of them, patterns in quotes, or URLs (s3://, gs://)."),
]
By = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column that names the series; by default every file is one series."),
]
Out = Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Folder to write to; a later run goes on.")]
Engine = Annotated[EngineName, typer.Option(help="local: the cores of this machine; ray: a cluster.")]
Workers = Annotated[int | None, typer.Option(metavar="N", help="Tasks at a time; by default one for each core.")]
Address = Annotated[str | None, typer.Option(metavar="A", help="Address of a Ray cluster; by default one is started.")]


@app.command()
@reading_options(member="train")
def fit(
    data: Data,
    output: Out,
    reading: Reading,
    by: By = None,
    mode: Annotated[
        ModeName,
        typer.Option(
            help="each: the pretrained net, with scale, memory and calibration of each series (with --set weights=None "
            "each trains a net of its own); global: series with the same channels train one net together; tuned: and "
            "each trains it a little further."
        ),
    ] = ModeName.each,
    together: Annotated[
        bool | None,
        typer.Option(
            "--together/--one-by-one",
            help="Whether series that train nets of their own train them at once; by default where there is a GPU.",
        ),
    ] = None,
    engine: Engine = EngineName.local,
    workers: Workers = None,
    address: Address = None,
    settings: Settings = None,
    exclude_periods: ExcludedPeriods = None,
) -> None:
    """Fit a model for every series of a fleet.

    Writes OUT/SERIES.safetensors for each, which `patchad fleet detect OUT DATA` takes, and OUT/manifest.csv. Series
    that are finished are not done again when the same command is run once more.
    """
    from patchad.data.parameters import parse_assignments
    from patchad.data.periods import read_periods
    from patchad.detectors.patchad import PatchAD
    from patchad.fleet.fitting import FitJob, fit_fleet
    from patchad.fleet.ranks import follow, is_follower, make_fit_runner

    if is_follower():
        follow()
        return
    parameters = parse_assignments(settings or [], PatchAD)
    job = FitJob(
        data=tuple(data),
        out=output,
        by=by,
        mode=mode.value,
        parameters=parameters,
        excluded=() if exclude_periods is None else tuple(read_periods(exclude_periods)),
        reading=replace(_without(reading, by), unread=parameters.get("ignore", ())),
        together=together,
    )
    with _resumable(output), make_fit_runner(engine, workers, address) as runner, _bar("fitting") as watch:
        outcome = fit_fleet(job, runner, watch)
    for note in outcome.notes:
        notify(f"note: {note}")
    done = [one for one in outcome.results if not one.error]
    if not done:
        raise refusal(outcome.failed)
    before = f", {outcome.resumed} of them finished before" if outcome.resumed else ""
    notify(f"fitted {sum(one.rows for one in done):,} rows of {len(done)} series{before}; wrote {output}")
    if outcome.failed:
        raise refusal(outcome.failed, len(done))


@app.command()
@reading_options(member="test", labels=True)
def detect(
    model: Annotated[Path, typer.Argument(help="Model file, or a folder with SERIES.safetensors for each series.")],
    data: Data,
    output: Out,
    reading: Reading,
    by: By = None,
    engine: Engine = EngineName.local,
    workers: Workers = None,
    address: Address = None,
    threshold: Annotated[str | None, typer.Option(help="Threshold, instead of the model's own.")] = None,
    false_alarms: Rate = None,
    fleet_false_alarms: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="The same for all series together: each gets an equal part of it."),
    ] = None,
    merge_gap: MergeGap = None,
    min_duration: MinDuration = None,
    quiet: Quiet = None,
    reports: Annotated[
        bool, typer.Option("--reports", help="Write OUT/reports/SERIES.html for every series with events.")
    ] = False,
    fail_on_event: FailOnEvent = False,
) -> None:
    """Detect events in every series of a fleet.

    Writes OUT/manifest.csv, OUT/events.json, OUT/incidents.json (events of several series at one time), a page,
    OUT/index.html, and OUT/scores/SERIES.parquet; prints the series with the worst events.
    Series that are finished are not done again when the same command is run once more.
    """
    from patchad.data.periods import read_periods
    from patchad.fleet.detecting import Job, Options, detect_fleet
    from patchad.fleet.runner import make_runner

    periods = () if quiet is None else tuple(read_periods(quiet))
    options = Options(
        threshold=threshold,
        false_alarms=false_alarms,
        merge_gap=merge_gap,
        min_duration=min_duration,
        quiet=periods,
        fleet_false_alarms=fleet_false_alarms,
        reports=reports,
    )
    job = Job(model=model, data=tuple(data), out=output, by=by, reading=_without(reading, by), options=options)
    with _resumable(output), make_runner(engine, workers, address) as runner, _bar("detecting") as watch:
        outcome = detect_fleet(job, runner, watch)
    for note in outcome.notes:
        notify(f"note: {note}")
    done = [one for one in outcome.results if not one.error]
    if not done:
        raise refusal(outcome.failed)
    _print_worst(done)
    total = sum(len(one.events) for one in done)
    before = f", {outcome.resumed} of them finished before" if outcome.resumed else ""
    rows = sum(one.rows for one in done)
    notify(f"{total} event{'' if total == 1 else 's'} in {rows:,} rows of {len(done)} series{before}; wrote {output}")
    if outcome.failed:
        raise refusal(outcome.failed, len(done))
    if fail_on_event and total:
        raise typer.Exit(1)


def _without(reading: Reading, by: str | None) -> Reading:
    """Leave the column that names the series out of the channels."""
    return replace(reading, columns=tuple(name for name in reading.columns if name != by))


def _print_worst(results: list[Result]) -> None:
    from patchad.data.names import visible

    worst = sorted((one for one in results if one.events), key=lambda one: -(one.worst_severity or 0))
    if not worst:
        return
    rows = [("series", "rows", "events", "worst severity")]
    rows += [
        (visible(one.series), f"{one.rows:,}", str(len(one.events)), f"{one.worst_severity:.0f}")
        for one in worst[:MOST_PRINTED]
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if len(worst) > MOST_PRINTED:
        notify(f"and {len(worst) - MOST_PRINTED} more series with events")


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Let Ctrl-C say that the work can go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(
            f"stopped; the series that are finished are kept in {out}, and the same command goes on with the others"
        ) from None


@contextmanager
def _bar(doing: str) -> Iterator[Callable[[Any, float], None]]:
    """Yield a function that draws what is done, rows per second and the time left, on stderr."""
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(doing),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[series]} series, {task.fields[rate]} rows/s"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=1.0, series=0, rate="-")
        began, counts = time.monotonic(), [0, 0]

        def watch(result: Result | Fitted, share: float) -> None:
            counts[0] += 1
            counts[1] += result.rows
            rate = counts[1] / max(time.monotonic() - began, 1e-3)
            bar.update(task, advance=share, series=counts[0], rate=f"{rate:,.0f}")

        yield watch

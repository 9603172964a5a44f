"""The command line: parses, calls, prints. Data goes to stdout, messages to stderr.

Exit codes: 0 done; 1 done, with events found under `--fail-on-event`; 2 wrong call or input; 3 an extra is missing.
"""

from __future__ import annotations

import json
import sys
import time as clock
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from patchad import __version__
from patchad.cli import accept as accept_cli
from patchad.cli import bench as bench_cli
from patchad.cli import data as data_cli
from patchad.cli import fleet as fleet_cli
from patchad.cli import live as live_cli
from patchad.cli import mcp as mcp_cli
from patchad.cli import scan as scan_cli
from patchad.cli import serve as serve_cli
from patchad.cli.console import STOPPED, StoppedError, fail, notify, prepare
from patchad.cli.options import ExcludedPeriods, FailOnEvent, MergeGap, MinDuration, Quiet, Rate, Settings
from patchad.cli.output import blamed, deliver, refusal, result_files, results_of
from patchad.cli.reading import Data, reading_options
from patchad.data.reading import Reading
from patchad.errors import InputError, MissingExtraError, PatchADError

if TYPE_CHECKING:
    from patchad.data.periods import Period
    from patchad.data.table import BoolArray, FloatArray, Table

app = typer.Typer(
    help="Time-series anomaly detection: fit on normal data, detect events, name the sensors to blame.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(bench_cli.app, name="bench")
app.add_typer(data_cli.app, name="data")
app.add_typer(fleet_cli.app, name="fleet")
app.command()(accept_cli.accept)

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong call; it has no public name there."""

Model = Annotated[Path, typer.Argument(help="Model file written by `patchad fit`.")]


class DetectCommand(TyperCommand):
    """`patchad detect`, which imports the thresholds only if their names are to be shown."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        """Return the help text."""
        from patchad.thresholds import usage

        for option in self.params:
            if option.name == "threshold":
                option.help = f"Threshold, instead of the model's own: {usage()}."  # type: ignore[attr-defined]
        return super().get_help(ctx)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"patchad {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Hold the options of all commands."""


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Folder for the report and the data.")] = Path("patchad-demo")) -> None:
    """Find the faults of a simulated plant.

    Fits a model to normal operation, detects faults, names the faulty sensors and writes a report and the data as csv.
    """
    from patchad.cli.demo import demonstrate

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {str(out)!r} is a file; give the path of a folder to write to")
    notify("A pumping station with 16 sensors: learning from 8,000 minutes of normal operation.")
    result = demonstrate(out, verbose=True)
    print(f"{'fault':<18} {'in channel':<14} {'at':<17} {'found':<7} {'blamed, most first'}")
    for outcome in result.outcomes:
        guilty = "" if outcome.event is None else blamed(outcome.event)
        found = "missed" if outcome.event is None else "yes"
        at = str(result.run.times[outcome.fault.start])[:16].replace("T", " ")
        print(f"{outcome.fault.kind:<18} {outcome.fault.channel:<14} {at:<17} {found:<7} {guilty}".rstrip())
    found_count = sum(outcome.event is not None for outcome in result.outcomes)
    first_three = sum(outcome.rank is not None and outcome.rank <= 3 for outcome in result.outcomes)
    print(
        f"\n{found_count} of {len(result.outcomes)} faults found, the faulty channel among the first three blamed in "
        f"{first_three}; {len(result.false_events)} false events in {len(result.detection.scores):,} rows"
    )
    print(f"report: {result.report}; the data: {', '.join(str(path) for path in result.data)}")


@app.command()
@reading_options(member="train")
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    reading: Reading,
    settings: Settings = None,
    exclude_periods: ExcludedPeriods = None,
) -> None:
    """Fit a model to normal operation.

    Every file is one series, or several that follow each other in time. Writes a model file. The net comes trained;
    `--set weights=None` trains one on this data.
    """
    from patchad.data import periods
    from patchad.data.files import check_outputs
    from patchad.data.inputs import find_files, read_all
    from patchad.data.parameters import parse_assignments
    from patchad.detectors.patchad import PatchAD

    files = [path for _, path in find_files(data)[0]]
    check_outputs({"-o": output}, [*files, *([] if exclude_periods is None else [exclude_periods])])
    parameters = parse_assignments(settings or [], PatchAD)
    reading = replace(reading, unread=parameters.get("ignore", ()))
    named, refused = read_all(data, reading)
    if refused:
        raise refusal(refused)
    tables = [table for _, table in named]
    if exclude_periods is not None:
        known = periods.read_periods(exclude_periods)
        _warn_of_unused(known, tables)
        tables = periods.exclude_periods(tables, known)
    rows = sum(len(table.values) for table in tables)
    began = clock.monotonic()
    detector = PatchAD(**({"verbose": True} | parameters)).fit(tables)
    detector.save(output)
    for note in detector.fit_notes_:
        notify(f"note: {note}")
    notify(
        f"fitted {rows:,} rows x {len(detector.channels_)} channels in {clock.monotonic() - began:.1f} s "
        f"({detector.n_parameters_:,} parameters); wrote {output}"
    )


@app.command(cls=DetectCommand)
@reading_options(member="test", labels=True)
def detect(
    model: Model,
    data: Data,
    reading: Reading,
    threshold: Annotated[str | None, typer.Option()] = None,
    false_alarms: Rate = None,
    merge_gap: MergeGap = None,
    min_duration: MinDuration = None,
    quiet: Quiet = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the scores to this csv file.")] = None,
    events: Annotated[Path | None, typer.Option(help="Write the events to this json file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    fail_on_event: FailOnEvent = False,
) -> None:
    """Detect events and the channels to blame.

    Prints the events; writes scores, events or a report if asked to.
    """
    from patchad.data.files import check_outputs
    from patchad.data.inputs import find_files, read_all
    from patchad.data.periods import read_periods
    from patchad.detectors.registry import load
    from patchad.thresholds.promise import parse_rate

    inputs = [model, *(path for _, path in find_files(data)[0]), *([] if quiet is None else [quiet])]
    check_outputs({"-o": output, "--events": events, "--report": report}, inputs)
    detector = load(model)
    tables, refused = read_all(data, reading, only=detector.columns_)
    if not tables:
        raise refusal(refused)
    shape = {"merge_gap": merge_gap, "min_duration": min_duration}
    detector.set_params(**{name: value for name, value in shape.items() if value is not None})
    if false_alarms is not None:
        detector.false_alarms = parse_rate(false_alarms, [table.index for _, table in tables])
    detector.set_threshold(detector.threshold if threshold is None else threshold)
    periods = () if quiet is None else read_periods(quiet)
    _warn_of_unused(periods, [table for _, table in tables])
    found, truths = results_of(tables, reading.labels, refused, partial(detector.detect, quiet=periods))
    deliver(found, result_files(found, truths, scores=output, events=events, report=report))
    total = sum(len(one.detection.events) for one in found)
    notify(f"{total} event{'' if total == 1 else 's'} in {sum(len(one.detection.scores) for one in found):,} rows")
    if refused:
        raise refusal(refused, len(found))
    if fail_on_event and total:
        raise typer.Exit(1)


app.command()(scan_cli.scan)
app.command()(live_cli.watch)
app.command()(live_cli.refit)
app.command()(mcp_cli.mcp)
app.command()(serve_cli.serve)


@app.command()
def export(model: Model, output: Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")]) -> None:
    """Export a model as an ONNX graph.

    The graph maps raw windows to what each witness observes, and is checked against the model.
    """
    from patchad.data.files import check_outputs
    from patchad.detectors.backends.onnx import export as write
    from patchad.detectors.registry import load

    check_outputs({"-o": output}, [model])
    detector = load(model)
    write(detector, output)
    notify(f"wrote {output}; the graph and the model agree")


@app.command()
def inspect(model: Model) -> None:
    """Print the contents of a model file."""
    from patchad.detectors.describing import describe_model

    for name, value in describe_model(model).items():
        print(f"{name:<13} {value}")


@app.command()
def evaluate(
    table: Annotated[Path, typer.Argument(metavar="SCORES.csv", help="csv file with labels and scores.")],
    labels: Annotated[str, typer.Option(help="Label column (1 = anomalous).")],
    scores: Annotated[str, typer.Option(help="Score column.")] = "score",
    alarms: Annotated[str | None, typer.Option(help="Alarm column, for the metrics that need alarms.")] = None,
    window: Annotated[int, typer.Option(help="Tolerance in rows for range-AUC, VUS and PATE.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print every metric of a csv file of scores.

    Each stands beside the value that random scores reach.
    """
    from patchad import metrics
    from patchad.data.inputs import read_columns

    columns = read_columns(table, [labels, scores] if alarms is None else [labels, scores, alarms])
    truth, strangeness = _mask(table, labels, columns, "--labels"), columns[scores]
    raised = None if alarms is None else _mask(table, alarms, columns, "--alarms")
    ours = metrics.evaluate(labels=truth, scores=strangeness, alarms=raised, window=window)
    random = metrics.evaluate_random(labels=truth, alarms=raised, window=window)
    if as_json:
        print(json.dumps({"scores": _without_nan(ours), "random": _without_nan(random)}, indent=1))
        return
    print(f"{'metric':<24} {'scores':>9} {'random':>9}")
    for name, value in ours.items():
        print(f"{name:<24} {value:>9.4f} {random[name]:>9.4f}")
    notify("PA-F1 rewards random scores: judge it, and every other metric, by its distance from the random column.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; an error is one line on stderr."""
    try:
        prepare()
        code = run(arguments)
    except KeyboardInterrupt:  # it may come while another error is told
        code = fail("stopped; nothing was written", STOPPED)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = int(_command()(args=arguments, standalone_mode=False, prog_name="patchad") or 0)
        sys.stdout.flush()
        return fail("stopped; nothing was written", STOPPED) if code == STOPPED else code
    except MissingExtraError as error:
        return fail(str(error), 3)
    except PatchADError as error:
        return fail(str(error), 2)
    except UsageError as error:
        message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
        given = _given(error, sys.argv[1:] if arguments is None else arguments)
        came = "" if given is None or given in message else f", got {given!r}"
        return fail(f"{message}{came}; `patchad --help` lists the commands and their options", 2)
    except OSError as error:
        what = "" if error.filename is None else f" {str(error.filename)!r}"
        return fail(f"cannot write{what}: {error.strerror or error}; choose another path", 2)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):  # torch has no error of its own for it
            raise
        return fail("there is not enough memory for this; give less data at once, or a smaller model", 2)
    except StoppedError as stopped:
        return fail(str(stopped), STOPPED)
    except (KeyboardInterrupt, typer.Abort):
        return fail("stopped; nothing was written", STOPPED)


@cache
def _command() -> Any:
    """Build the command line once: typer builds it for every call."""
    return typer.main.get_command(app)


def _warn_of_unused(periods: Sequence[Period], tables: Sequence[Table]) -> None:
    """Say which periods cover no row: a slip in a date is easily made."""
    from patchad.data.periods import mark_periods

    for period in periods:
        free = replace(period, channel=None)
        rows = (mark_periods([free], ("",), t.index, range(len(t.values)), zone=t.zone) for t in tables)
        if not any(marked.any() for marked in rows):
            notify(f"note: {period} covers no row of the data")


def _given(error: Exception, arguments: Sequence[str]) -> str | None:
    """Return what was given for the option that an error is about; None where that cannot be told."""
    for option in getattr(getattr(error, "param", None), "opts", ()):
        for word, following in zip(arguments, [*arguments[1:], None], strict=True):
            if word == option:
                return following
            if word.startswith(f"{option}="):
                return word[len(option) + 1 :]
    return None


def _mask(table: Path, name: str, columns: dict[str, FloatArray], option: str) -> BoolArray:
    """Turn a column of 0 and 1 into a mask; refuse anything else."""
    column = columns[name]
    mask: BoolArray = column != 0
    wrong = mask & (column != 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{table}: column {name!r} has {column[row]:g} in row {row}, and 0 or 1 is needed in every row; "
            f"name another column with {option}"
        )
    return mask


def _without_nan(values: dict[str, float]) -> dict[str, float | None]:
    return {name: None if value != value else value for name, value in values.items()}

"""`patchad bench`: run suites, print tables, draw figures. Parses, calls, prints."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchad.cli.console import notify, stoppable
from patchad.errors import PatchADError

if TYPE_CHECKING:
    from patchad.bench.records import Record
    from patchad.bench.suites import Suite

app = typer.Typer(
    help="Run benchmarks; make tables and figures.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


class Format(StrEnum):
    """Formats of `bench table`."""

    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="Name of a suite; `patchad bench list` lists them.")],
    data: Annotated[Path, typer.Option(help="Folder with the datasets.")] = Path("data"),
    output: Annotated[Path, typer.Option("--output", "-o", help="File of records; existing records are kept.")] = Path(
        "records.jsonl"
    ),
    workers: Annotated[int, typer.Option(help="Number of processes, with one thread each.")] = 2,
    limit: Annotated[int | None, typer.Option(help="Run at most this many cells.")] = None,
    entities: Annotated[int | None, typer.Option(help="Use at most this many entities of each dataset.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.")] = None,
    detectors: Annotated[
        list[str] | None,
        typer.Option(help="Variants of the suite or detectors by name, comma-separated, or all; may be repeated."),
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Datasets of the suite, comma-separated; may be repeated.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Folder of pretrained weights that never saw the family that is judged."),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            help="Bound on training for detectors without one, 0 for none; without a GPU, the suite's own by default."
        ),
    ] = None,
) -> None:
    """Run a suite.

    Runs only the cells that the file of records lacks: interrupt it at any time, the same command resumes it.
    """
    from patchad.bench.cells import RunOptions
    from patchad.bench.runner import run_suite
    from patchad.bench.suites import find_suite

    options = RunOptions(
        data=data,
        workers=workers,
        limit=limit,
        entities=entities,
        seeds=seeds,
        detectors=_split_variants(detectors, find_suite(suite)),
        datasets=_split(datasets),
        weights=weights,
        max_steps=max_steps,
    )
    with stoppable(f"the records so far are in {output}; the same command resumes the run"):
        summary = run_suite(find_suite(suite), output, options, notify)
    if summary.missing:
        notify(f"not run, because the data are missing: {', '.join(summary.missing)}")
    if summary.failed:
        raise PatchADError(
            f"{len(summary.failed)} of {summary.cells} cells failed, the first with {summary.failed[0]}; all other "
            f"records are in {output}; run the same command to retry the failed cells"
        )
    notify(f"{summary.cells} records in {output}; print them with `patchad bench table {output}`")


@app.command()
def table(
    records: Annotated[list[Path], typer.Argument(help="Files written by `patchad bench run`.")],
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.MARKDOWN,  # noqa: A002
    against: Annotated[
        str | None, typer.Option(help="A row: print what it has more than each other one, with intervals, instead.")
    ] = None,
) -> None:
    """Print result tables.

    The paper's published values stand beside ours.
    """
    from patchad.bench.differences import render_differences
    from patchad.bench.tables import render

    found = _read_all(records)
    print(render(found, format.value) if against is None else render_differences(found, against), end="")


@app.command()
def checklist(
    records: Annotated[list[Path], typer.Argument(help="Files of records, or folders of such files.")],
    drawn: Annotated[
        Path | None,
        typer.Option("--figures", help="Folder with the CSV files of figures; `figures` beside the records if none."),
    ] = None,
) -> None:
    """Print the checklist of the paper.

    Every table, figure, equation, setting and claim beside what these records measured.
    """
    from patchad.bench.checklist import render_checklist

    print(render_checklist(_read_all(records), drawn or records[0].resolve().parent / "figures"), end="")


@app.command("list")
def list_suites() -> None:
    """List the suites."""
    from patchad.bench.suites import SUITES

    for suite in SUITES.values():
        size = f"{len(suite.datasets)} datasets, {len(suite.variants)} detectors, {len(suite.seeds)} seeds"
        print(f"{suite.name:<18} protocol {' and '.join(suite.protocols):<15} {size:<39} {suite.about}")


@app.command()
def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Figures that --list names; all if none is given.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("figures"),
    data: Annotated[Path, typer.Option(help="Folder with the datasets, for cases and tsne.")] = Path("data"),
    records: Annotated[
        list[Path] | None, typer.Option(help="File of records, or a folder of such files; may be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Train for a few steps only, to check that everything works; the results mean nothing.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the figures and exit.")] = False,
) -> None:
    """Reproduce the paper's figures.

    Writes NAME.png, NAME.svg and, with the data, NAME.csv.
    """
    from patchad.bench.figures import FIGURES, make_figures
    from patchad.bench.figures.base import FigureOptions

    if show:
        for name, figure in FIGURES.items():
            print(f"{name:<18} {figure.about}")
        return
    options = FigureOptions(data=data, records=tuple(_read_all(records or [])), quick=quick)
    made = make_figures(names or [], output, options, notify)
    notify(f"{len(made)} figures in {output}")


def _read_all(paths: list[Path]) -> list[Record]:
    """Read files of records and folders of such files, each record once."""
    from patchad.bench.records import identity, read_records

    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    return list({identity(record): record for file in files for record in read_records(file)}.values())


def _split_variants(texts: list[str] | None, suite: Suite) -> tuple[str, ...]:
    """Split at commas, except for variants that have commas in their names."""
    variants = [variant.name for variant in suite.variants]
    return tuple(name for text in texts or [] for name in ((text,) if text in variants else _split([text])))


def _split(names: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in names or [] for name in text.split(",") if name.strip())

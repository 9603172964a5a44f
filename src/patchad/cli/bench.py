"""`patchad bench`: run suites, print tables, draw figures. Parses, calls, prints."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchad.errors import PatchADError

if TYPE_CHECKING:
    from patchad.bench.records import Record
    from patchad.bench.suites import Suite

app = typer.Typer(
    help="Experiments: run a suite into a file of records, make tables and figures of the records.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


class Format(StrEnum):
    """What `bench table` can write."""

    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


Names = Annotated[
    list[str] | None,
    typer.Option(help="rows of the suite or detectors by name, commas between several; or all; may be given again"),
]


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="a name that `patchad bench list` shows")],
    data: Annotated[Path, typer.Option(help="folder that holds the datasets")] = Path("data"),
    output: Annotated[Path, typer.Option("--output", "-o", help="file of records; what is there is kept")] = Path(
        "records.jsonl"
    ),
    workers: Annotated[int, typer.Option(help="processes, with a thread each")] = 2,
    limit: Annotated[int | None, typer.Option(help="cells at most, the first ones")] = None,
    entities: Annotated[int | None, typer.Option(help="entities at most of each dataset")] = None,
    seeds: Annotated[int | None, typer.Option(help="how many seeds")] = None,
    detectors: Names = None,
    datasets: Annotated[list[str] | None, typer.Option(help="datasets of the suite; commas between several")] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="bound on training for detectors that have none; the suite's own on a CPU")
    ] = None,
) -> None:
    """Run what the file of records does not hold yet of a suite. Stop it at any time; the same command goes on."""
    from patchad.bench.runner import Options, run_suite
    from patchad.bench.suites import find_suite

    options = Options(
        data=data,
        workers=workers,
        limit=limit,
        entities=entities,
        seeds=seeds,
        detectors=_named(detectors, find_suite(suite)),
        datasets=_split(datasets),
        max_steps=max_steps,
    )
    try:
        outcome = run_suite(find_suite(suite), output, options, _say)
    except KeyboardInterrupt:
        _say(f"stopped; the records so far are in {output}; the same command goes on from there")
        raise typer.Exit(130) from None
    if outcome.missing:
        _say(f"not there, and so not run: {', '.join(outcome.missing)}")
    if outcome.failed:
        raise PatchADError(
            f"{len(outcome.failed)} of {outcome.cells} cells failed, the first with {outcome.failed[0]}; all other "
            f"records are in {output}; run the same command to try these again"
        )
    _say(f"{outcome.cells} records in {output}; `patchad bench table {output}` shows them")


@app.command()
def table(
    records: Annotated[list[Path], typer.Argument(help="files that `patchad bench run` wrote")],
    format: Annotated[Format, typer.Option(help="how to write the tables")] = Format.MARKDOWN,  # noqa: A002
) -> None:
    """Print the tables of records, with the paper's figures beside ours."""
    from patchad.bench.tables import render

    print(render(_all_records(records), format.value), end="")


@app.command("list")
def list_suites() -> None:
    """Print the suites."""
    from patchad.bench.suites import SUITES

    for suite in SUITES.values():
        size = f"{len(suite.datasets)} datasets, {len(suite.variants)} detectors, {len(suite.seeds)} seeds"
        print(f"{suite.name:<18} protocol {' and '.join(suite.protocols):<15} {size:<39} {suite.about}")


@app.command()
def figures(
    names: Annotated[list[str] | None, typer.Argument(help="figures that --list shows; all if none is named")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder to write to")] = Path("figures"),
    data: Annotated[Path, typer.Option(help="folder that holds the datasets, for cases and tsne")] = Path("data"),
    records: Annotated[
        list[Path] | None, typer.Option(help="file of records, or a folder of them; may be given several times")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="train next to nothing: to see that it works, not what comes out")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="print the names of the figures, and no more")] = False,
) -> None:
    """Draw the paper's figures again: NAME.png, NAME.svg and, with what is drawn, NAME.csv."""
    from patchad.bench.figures import FIGURES, make_figures
    from patchad.bench.figures.plan import Options

    if show:
        for name, figure in FIGURES.items():
            print(f"{name:<18} {figure.about}")
        return
    options = Options(data=data, records=tuple(_all_records(records or [])), quick=quick)
    made = make_figures(names or [], output, options, _say)
    _say(f"{len(made)} figures in {output}")


def _all_records(paths: list[Path]) -> list[Record]:
    """Read files of records, and all that are in a folder."""
    from patchad.bench.records import identity, read_records

    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    return list({identity(record): record for file in files for record in read_records(file)}.values())


def _named(texts: list[str] | None, suite: Suite) -> tuple[str, ...]:
    """Split names at their commas, but for rows whose own names have some."""
    rows = [variant.name for variant in suite.variants]
    return tuple(name for text in texts or [] for name in ((text,) if text in rows else _split([text])))


def _split(names: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in names or [] for name in text.split(",") if name.strip())


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)

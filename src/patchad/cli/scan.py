"""`patchad scan`: the strangest events of data of which nothing is known to be normal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchad.cli.console import notify
from patchad.cli.output import deliver, refusal, result_files, results_of
from patchad.cli.reading import Data, reading_options
from patchad.data.reading import Reading
from patchad.errors import InputError

if TYPE_CHECKING:
    from patchad.data.table import Table
    from patchad.results.detection import Detection


@reading_options(member="test", labels=True)
def scan(
    data: Data,
    reading: Reading,
    severity: Annotated[float, typer.Option(help="Least severity of an event, 0 to 100.")] = 50.0,
    folds: Annotated[int, typer.Option(help="Parts that are judged by what was learned from the others.")] = 3,
    past_only: Annotated[
        bool, typer.Option("--past-only", help="Judge every row by rows before it only, as if they came one by one.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Parameter of PatchAD, e.g. window=60; may be repeated."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the scores to this csv file.")] = None,
    events: Annotated[Path | None, typer.Option(help="Write the events to this json file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
) -> None:
    """Find the strangest events of data.

    Nothing of it has to be known as normal: each part is judged by what was learned from the others. Every series is
    judged by itself. Prints the events; writes scores, events or a report if asked to.
    """
    from patchad.data.files import check_outputs
    from patchad.data.inputs import find_files, read_all
    from patchad.data.parameters import parse_assignments
    from patchad.detectors.patchad import PatchAD
    from patchad.detectors.scan import scan as scan_series

    if not 0 <= severity <= 100:
        raise InputError(f"--severity {severity:g} is out of range; it lies between 0 and 100")
    check_outputs({"-o": output, "--events": events, "--report": report}, [path for _, path in find_files(data)[0]])
    detector = PatchAD(**({"verbose": True} | parse_assignments(settings or [], PatchAD)))
    tables, refused = read_all(data, reading)
    if not tables:
        raise refusal(refused)
    hidden = 0

    def severe(table: Table) -> Detection:
        nonlocal hidden
        everything: Detection = scan_series(table, detector, folds=folds, past_only=past_only)
        kept = everything.severe(severity)
        hidden += len(everything.events) - len(kept.events)
        return kept

    found, truths = results_of(tables, reading.labels, refused, severe)
    deliver(found, result_files(found, truths, scores=output, events=events, report=report))
    total, rows = (sum(len(getattr(one.detection, part)) for one in found) for part in ("events", "scores"))
    also = f"; {hidden} less severe, which --severity 0 lists" if hidden else ""
    notify(f"{total} event{'' if total == 1 else 's'} of severity {severity:g} and more in {rows:,} rows{also}")
    if refused:
        raise refusal(refused, len(found))

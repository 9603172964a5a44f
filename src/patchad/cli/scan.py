"""`patchad scan`: the strangest events of data of which nothing is known to be normal."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from patchad.cli.output import events_json, print_events, scores_csv
from patchad.cli.reading import Data, reading_options
from patchad.data.reading import Reading
from patchad.errors import InputError

_notify = partial(typer.echo, err=True)


@reading_options(member="test", labels=True)
def scan(
    data: Data,
    reading: Reading,
    severity: Annotated[float, typer.Option(help="Least severity of an event, 0 to 100.")] = 50.0,
    folds: Annotated[int, typer.Option(help="Parts that are judged by what was learned from the others.")] = 3,
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
    from patchad.data.files import write_whole
    from patchad.data.inputs import read_all
    from patchad.data.parameters import parse_assignments
    from patchad.detectors.patchad import PatchAD
    from patchad.detectors.scan import scan as scan_series
    from patchad.report.page import Chapter, render_page

    if not 0 <= severity <= 100:
        raise InputError(f"--severity {severity:g} is out of range; it lies between 0 and 100")
    detector = PatchAD(**({"verbose": True} | parse_assignments(settings or [], PatchAD)))
    found: list[Chapter] = []
    hidden = 0
    tables, refused = read_all(data, reading)
    if refused:
        raise refused[0][1]
    for name, table in tables:
        channels, truth = (table, None) if reading.labels is None else table.without(reading.labels)
        try:
            everything = scan_series(channels, detector, folds=folds)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        severe = everything.severe(severity)
        hidden += len(everything.events) - len(severe.events)
        found.append(Chapter.of(name, severe, truth))
    write_whole(
        {
            path: written(found)
            for path, written in ((output, scores_csv), (events, events_json), (report, render_page))
            if path is not None
        }
    )
    print_events(found)
    for one in found:
        for note in one.detection.notes:
            _notify(f"note: {one.name}: {note}")
        if one.comparison is not None:
            _notify(f"{one.name}: {one.comparison.summary}")
    total, rows = (sum(len(getattr(one.detection, part)) for one in found) for part in ("events", "scores"))
    also = f"; {hidden} less severe, which --severity 0 lists" if hidden else ""
    _notify(f"{total} event{'' if total == 1 else 's'} of severity {severity:g} and more in {rows:,} rows{also}")

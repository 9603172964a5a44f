"""`patchad accept`: rows that were normal after all, told to a model without another fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchad.cli.console import notify
from patchad.cli.reading import reading_options
from patchad.data.reading import Reading
from patchad.errors import InputError

if TYPE_CHECKING:
    from patchad.data.table import Table
    from patchad.detectors.base import Detector


@reading_options(member="test")
def accept(
    model: Annotated[Path, typer.Argument(help="Model file written by `patchad fit`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    reading: Reading,
    data: Annotated[
        Path | None, typer.Argument(help="File or folder that `detect` reads; left out only to undo.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="T", help="First time to accept, or row number where there is none.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="T", help="Last time to accept, or the row number after the last.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back the newest acceptance, or that of these rows.")
    ] = False,
) -> None:
    """Accept rows as normal from now on.

    No refit: what was found in these rows, and what is like it, raises no event any more. `inspect` lists it.
    """
    from patchad.data.files import check_outputs
    from patchad.data.inputs import find_files, read_all
    from patchad.detectors.registry import load

    files = [] if data is None else find_files([data])[0]
    check_outputs({"-o": output}, [model, *(path for _, path in files)])
    if data is None and (not undo or since is not None or until is not None):
        raise InputError("no DATA to take rows from; name a file, or give --undo alone to take back the newest")
    detector = load(model)
    if data is None:
        told = _undo(detector, None, 0, None)
    else:
        tables, refused = read_all([data], reading, only=detector.columns_)
        if refused:
            raise refused[0][1]
        if len(tables) > 1:
            raise InputError(f"{str(data)!r} holds {len(tables)} series; accept the rows of one at a time")
        table = tables[0][1]
        start, stop = _rows(table, since, until)
        told = _undo(detector, table, start, stop) if undo else _accept(detector, table, start, stop)
    detector.save(output)
    notify(f"{told}; wrote {output}")


def _accept(detector: Detector, table: Table, start: int, stop: int) -> str:
    before = len(_overlapping(detector, table, start, stop))
    detector.accept(table, start=start, stop=stop)
    after = len(_overlapping(detector, table, start, stop))
    return f"{detector.feedback_[-1]}: {before} event{'' if before == 1 else 's'} there before, {after} now"


def _overlapping(detector: Detector, table: Table, start: int, stop: int) -> list[Any]:
    return [event for event in detector.detect(table).events if event.start < stop and event.stop > start]


def _undo(detector: Detector, table: Table | None, start: int, stop: int | None) -> str:
    """Take back the newest acceptance, or what was said of these rows."""
    before = detector.feedback_
    accepted = [one for one in before if one.accepted]
    if table is None and accepted:
        detector.feedback_ = tuple(one for one in before if one is not accepted[-1])
    else:
        detector.retract(table, start=start, stop=stop)
    (gone,) = (one for one in before if one not in detector.feedback_)
    return f"took back: {gone}"


def _rows(table: Table, since: str | None, until: str | None) -> tuple[int, int]:
    """Find the rows from one time to another, or from one row number to another."""
    from patchad.data.periods import Period, mark_periods

    length = len(table.values)
    period = Period(since, until, origin="--from, --to")
    (rows,) = mark_periods([period], ("",), table.index, range(length), zone=table.zone)[:, 0].nonzero()
    if not len(rows):
        span = f"rows 0 to {length}" if table.index is None else f"{_shown(table, 0)} to {_shown(table, -1)}"
        raise InputError(f"there is no row from {since or 'the start'} to {until or 'the end'}; the data has {span}")
    return int(rows[0]), int(rows[-1]) + 1


def _shown(table: Table, row: int) -> str:
    """Return the time of a row as it is in the data."""
    from patchad.results.detection import time_text

    return str(time_text(table.times[row]))

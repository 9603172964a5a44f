"""Options that several commands have, besides those of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Parameter of PatchAD, e.g. window=60; may be repeated."),
]
ExcludedPeriods = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Leave out known incidents: a csv file with from,to[,channel]."),
]

Rate = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="Expected false events per 10,000 normal rows, or in a time, as 2/week."),
]
MergeGap = Annotated[int | None, typer.Option(min=0, help="Longest pause inside an event, in rows.")]
MinDuration = Annotated[int | None, typer.Option(min=1, help="Shortest event, in rows.")]
Quiet = Annotated[
    Path | None, typer.Option(metavar="FILE", help="No events in these periods: a csv file with from,to[,channel].")
]
FailOnEvent = Annotated[bool, typer.Option("--fail-on-event", help="Exit with 1 if there is an event.")]

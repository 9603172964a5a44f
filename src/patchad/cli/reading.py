"""The reading options, declared once for all commands that take DATA."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from patchad.data.reading import Dedupe, Grid, Reading, parse_long, parse_names

Data = Annotated[
    list[Path],
    typer.Argument(
        help="Data files (csv, xlsx, parquet, feather, jsonl, npy, npz), folders of them, or patterns in quotes."
    ),
]

OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "time": (
        Annotated[str | None, typer.Option(metavar="COL", help="Time column; by default found by name or content.")],
        None,
    ),
    "time_format": (
        Annotated[str | None, typer.Option(metavar="F", help="How times are written, e.g. '%d/%m/%Y %H:%M'.")],
        None,
    ),
    "columns": (
        Annotated[list[str] | None, typer.Option(metavar="A,B", help="Channels to read; by default all columns.")],
        None,
    ),
    "exclude": (Annotated[list[str] | None, typer.Option(metavar="C", help="Columns to leave out.")], None),
    "every": (
        Annotated[
            str | None,
            typer.Option(
                metavar="INTERVAL",
                help="Bring rows to regular times, e.g. 1min: the last value of each interval, or 1min:mean, 1min:max.",
            ),
        ],
        None,
    ),
    "long": (
        Annotated[
            str | None,
            typer.Option(metavar="TIME,NAME,VALUE", help="Columns of a file that holds one value in a row."),
        ],
        None,
    ),
    "sort": (Annotated[bool, typer.Option("--sort", help="Sort rows by time.")], False),
    "dedupe": (Annotated[Dedupe | None, typer.Option(help="What stands for rows of the same time.")], None),
    "join": (Annotated[bool, typer.Option(help="Take files that follow each other in time as one series.")], True),
}
"""Type and default of every option."""

LABELS = (
    Annotated[str | None, typer.Option(metavar="COL", help="Label column (1 = anomalous), used only for evaluation.")],
    None,
)


def reading_options(
    *, member: str = "train", labels: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace a command's parameter `reading` by the reading options; the command gets them as one `Reading`.

    Parameters
    ----------
    member
        What the command takes from files that hold several tables.
    labels
        Whether the command can use labels, and so has `--labels`.
    """
    options = {**OPTIONS, "labels": LABELS} if labels else OPTIONS
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in options.items()
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.name != "reading"]

        @wraps(command)
        def wrapper(**given: Any) -> Any:
            chosen = {name: given.pop(name) for name in options}
            return command(**given, reading=_reading(chosen, member))

        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        wrapper.__signature__ = signature.replace(parameters=[*keywords, *added])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {one.name: one.annotation for one in [*own, *added]}
        return wrapper

    return decorate


def _reading(chosen: dict[str, Any], member: str) -> Reading:
    """Build the options of a call; what is written wrongly is refused before a file is opened."""
    every, long = chosen["every"], chosen["long"]
    parsed = {
        "columns": parse_names(chosen["columns"] or [], "--columns"),
        "exclude": parse_names(chosen["exclude"] or [], "--exclude"),
        "every": None if every is None else Grid.parse(every),
        "long": None if long is None else parse_long(long),
    }
    return Reading(**(chosen | parsed), member=member)

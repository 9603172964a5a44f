"""`patchad watch`: rows in, verdicts and events out."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchad.cli.console import notify
from patchad.data.names import visible
from patchad.errors import InputError

if TYPE_CHECKING:
    from patchad.live.config import Configuration


class LogLevel(StrEnum):
    """How much is said on stderr."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class Stop:
    """Whether Ctrl-C or SIGTERM came, whose second ends the process at once; and, if wanted, whether SIGHUP came."""

    def __init__(self, *, reloads: bool = False) -> None:
        self.asked = False
        self._reloads, self._reload = reloads, False

    def __call__(self) -> bool:
        """Return whether it is time to stop."""
        return self.asked

    def reloading(self) -> bool:
        """Return whether SIGHUP came since this was asked last."""
        asked, self._reload = self._reload, False
        return asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the signals."""
        numbers = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if self._reloads else []))
        before = {number: signal.signal(number, self._hear) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, *_: Any) -> None:
        if number == signal.SIGHUP:
            self._reload = True
            return
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


ModelArgument = Annotated[Path | None, typer.Argument(help="Model file written by `patchad fit`.")]
SourcesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="SOURCE",
        help="-, file:PATH, mqtt://, kafka://, prometheus+http://, influx:- ... (docs/live.md); may be repeated.",
    ),
]
SinksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="SINK",
        help="- (stdout), file:PATH, http(s)://... (webhook), alertmanager+http://HOST:PORT or apprise:URL; may be "
        "repeated.",
    ),
]
StateOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep the state in this file, and go on from it.")
]


def configured(
    config: Path | None,
    *,
    model: Path | None,
    sources: list[str] | None,
    sinks: list[str] | None,
    state: Path | None,
    log_level: LogLevel | None,
    cold: bool = False,
) -> Configuration:
    """Read the settings; options of the command line win."""
    from patchad.live.config import Configuration, read_configuration

    given: dict[str, Any] = {
        "model": None if model is None else str(model),
        "cold": cold,
        "sources": tuple(sources or ()),
        "sinks": tuple(sinks or ()),
        "state": None if state is None else str(state),
        "log_level": None if log_level is None else log_level.value,
    }
    found = Configuration() if config is None else read_configuration(config)
    return replace(found, **{name: value for name, value in given.items() if value})


def watch(
    model: ModelArgument = None,
    sources: SourcesOption = None,
    sinks: SinksOption = None,
    state: StateOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, as patchad.toml; other options win. SIGHUP: again.")
    ] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="Where MODEL is not there yet: learn it from the first rows, then judge.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Try everything that is named, and end.")] = False,
    log_level: Annotated[LogLevel | None, typer.Option(help="How much is said on stderr.")] = None,
) -> None:
    """Judge rows as they come.

    Rows are JSON objects or csv, a line each; a verdict for each row and a line for each change of an event come out as
    JSON objects. Ends with its input; then every row has its verdict.
    """
    from patchad.live.session import Session
    from patchad.live.session import check as try_out
    from patchad.live.warming import StoppedError

    read = partial(
        configured, config, model=model, sources=sources, sinks=sinks, state=state, log_level=log_level, cold=cold
    )
    settings = read()
    logging.getLogger().setLevel((settings.log_level or "warning").upper())
    if check:
        wells = []
        for well, line in try_out(settings):
            wells.append(well)
            print(visible(line))
        raise typer.Exit(0 if all(wells) else 2)
    stop = Stop(reloads=True)
    with stop.listening():
        try:
            session = Session(read, stop)
        except StoppedError:
            notify("stopped while warming up; no row was judged")
            return
        try:
            session.run(stop, stop.reloading)
        except BrokenPipeError:
            getattr(sys.stdout, "mute", lambda: None)()
    counts = session.counts
    _summarize(counts, settings.state)
    if counts.refused and not counts.rows and not counts.redelivered and not stop():
        raise InputError(f"none of the {counts.refused:,} rows can be used; the notes before this say why")
    if not counts.rows and settings.state is None and not stop():
        raise InputError("the input ended without a row; pass rows as JSON objects, or as csv under a header")


def refit(
    model: Annotated[Path, typer.Argument(help="Model file whose parameters are used again.")],
    state: Annotated[Path, typer.Option(metavar="FILE", help="State of `patchad watch` or `patchad serve`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
) -> None:
    """Fit a new model to stored rows without events.

    What was accepted or confirmed stays. `kill -HUP` lets a running `watch` go on with the new file.
    """
    from patchad.data.files import check_outputs
    from patchad.detectors.registry import load
    from patchad.live.records import Records
    from patchad.live.refit import refit as fit_again

    check_outputs({"-o": output}, [model, state])
    detector = load(model)
    with Records(state) as records:
        made = fit_again(detector, records)
    for note in made.detector.fit_notes_:
        notify(f"note: {note}")
    made.detector.save(output)
    notify(
        f"fitted {made.rows:,} rows of {made.streams} stream{'s' * (made.streams != 1)} in {made.pieces} "
        f"piece{'s' * (made.pieces != 1)}, {made.left_out:,} in and around events left out; wrote {output}"
    )


def _summarize(counts: Any, state: str | None) -> None:
    again = f"; {counts.redelivered:,} came again and were left out" if counts.redelivered else ""
    kept = "" if state is None else f", which {state}.dead has"
    refused = f"; {counts.refused:,} refused{kept}" if counts.refused else ""
    notify(f"{counts.rows:,} rows, {counts.verdicts:,} verdicts{refused}{again}")

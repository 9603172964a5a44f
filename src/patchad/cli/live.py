"""`patchad watch`: rows in, verdicts and events out."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from patchad.cli.console import notify
from patchad.errors import InputError


class LogLevel(StrEnum):
    """How much is said on stderr."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class Stop:
    """Whether Ctrl-C or SIGTERM came; the second ends the process at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Return whether it is time to stop."""
        return self.asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the signals."""
        before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def watch(
    model: Annotated[Path, typer.Argument(help="Model file written by `patchad fit`.")],
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="-, file:PATH[?follow=0] mqtt://HOST:PORT/TOPIC or kafka://HOST:PORT/TOPIC; may be repeated.",
        ),
    ] = None,
    sinks: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="SINK",
            help="- (stdout), file:PATH, http(s)://... (webhook), alertmanager+http://HOST:PORT or apprise:URL; may be "
            "repeated.",
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the state in this file, and go on from it.")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much is said on stderr.")] = LogLevel.warning,
) -> None:
    """Judge rows as they come.

    Rows are JSON objects or csv, a line each; a verdict for each row and a line for each change of an event come out as
    JSON objects. Ends with its input; then every row has its verdict.
    """
    from patchad.data.files import check_outputs
    from patchad.detectors.registry import load
    from patchad.live.outlet import dead_letters
    from patchad.live.sinks.registry import make_sink
    from patchad.live.sources.registry import make_source
    from patchad.live.store import Store
    from patchad.live.watch import Watch

    logging.getLogger().setLevel(log_level.upper())
    stop = Stop()
    with stop.listening():
        inputs = [make_source(text) for text in sources or ["-"]]
        outputs = [make_sink(text) for text in sinks or ["-"]]
        _check_single([one.name for one in inputs], "--from")
        _check_single([one.name for one in outputs], "--to")
        dead = None if state is None else Path(dead_letters(state).place)
        files = {f"--to {one.name}": one.path for one in outputs} | {"--state": state, "the file of refused rows": dead}
        check_outputs(files, [model, *(one.path for one in inputs if one.path is not None)])
        detector = load(model)
        store = Store(state)
        running = Watch(detector, inputs, outputs, store)
        try:
            running.run(stop)
        except BrokenPipeError:
            getattr(sys.stdout, "mute", lambda: None)()
        finally:
            store.close()
    _summarize(running.counts, dead)


def _check_single(names: Sequence[str], option: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option} {twice} is given twice; name each once")


def _summarize(counts: Any, dead: Path | None) -> None:
    again = f"; {counts.redelivered:,} came again and were left out" if counts.redelivered else ""
    kept = "" if dead is None else f", which {dead} has"
    refused = f"; {counts.refused:,} refused{kept}" if counts.refused else ""
    notify(f"{counts.rows:,} rows, {counts.verdicts:,} verdicts{refused}{again}")

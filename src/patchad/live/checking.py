"""Checking: whether everything that `patchad watch` needs is there, without judging a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from patchad.errors import PatchADError, reason_of
from patchad.live.sinks.base import DeliveryError, RemoteSink, Sink
from patchad.live.sources.base import Source


def check_all(parts: Sequence[tuple[str, Callable[[], str]]]) -> Iterator[tuple[bool, str]]:
    """Try parts one after the other; return for each whether it is well, and a line that says so.

    Examples
    --------
    >>> list(check_all([("model pump", lambda: "3 channels"), ("sum", lambda: str(1 / 0))]))
    [(True, 'ok: model pump: 3 channels'), (False, 'failed: sum: division by zero')]
    """
    for name, attempt in parts:
        try:
            yield True, f"ok: {name}: {attempt()}"
        except (PatchADError, DeliveryError, OSError, ArithmeticError) as error:
            yield False, f"failed: {name}: {reason_of(error)}"


def check_source(source: Source) -> str:
    """Reach a source, and leave it."""
    source.open(None)
    try:
        source.connect(None)
    finally:
        source.close()
    return "can be read"


def check_sink(sink: Sink | RemoteSink) -> str:
    """Reach a sink, and leave it as it was."""
    if isinstance(sink, RemoteSink):
        try:
            return sink.check()
        finally:
            sink.close()
    new = sink.path is not None and not sink.path.exists()
    sink.open(None)
    sink.close()
    if new and sink.path is not None:
        sink.path.unlink()
    return "can be written to"

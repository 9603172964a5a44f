"""The sinks by their schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchad.live.address import Address, pick
from patchad.live.sinks.base import Sink
from patchad.live.sinks.file import FileSink
from patchad.live.sinks.stdout import StdoutSink

SINKS: Mapping[str, tuple[str, Callable[[Address], Sink]]] = {
    "-": ("-", StdoutSink),
    "file": ("file:PATH", FileSink),
}
"""By scheme: how an address is written, and what makes the sink of it."""


def make_sink(text: str) -> Sink:
    """Make the sink that an address names; nothing is opened yet."""
    address = Address.parse(text)
    return pick(address, SINKS, "sink")(address)

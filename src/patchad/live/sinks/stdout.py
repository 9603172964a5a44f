"""Lines to standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from patchad.live.address import Address
from patchad.live.sinks.base import EVERYTHING
from patchad.live.store import LineKind


class StdoutSink:
    """Standard output. What was written cannot be taken back: a kill between a write and its mark repeats its lines."""

    name = "-"
    path: Path | None = None
    kinds: Sequence[LineKind] = EVERYTHING

    def __init__(self, address: Address) -> None:
        address.check_options()

    def open(self, mark: int | None) -> int:
        """Go on."""
        return mark or 0

    def write(self, lines: Sequence[str]) -> int:
        """Write lines at once; raises `BrokenPipeError` where the reader has gone."""
        out = sys.stdout.buffer
        out.write("".join(f"{line}\n" for line in lines).encode())
        out.flush()
        return 0

    def close(self) -> None:
        """Leave the stream to the process."""

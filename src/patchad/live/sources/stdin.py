"""Lines from standard input."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.lines import Splitter
from patchad.live.rows import Columns, RowReader
from patchad.live.sources.base import Position

CHUNK = 2**15
"""Bytes that are read at once: a transaction's worth of rows."""


class StdinSource:
    """Standard input. It has no position: after a restart rows that are sent again are known by their times.

    One that is opened once more by the same process goes on where it was.
    """

    name = "-"
    path: Path | None = None

    def __init__(self, address: Address) -> None:
        address.check_options()
        self._splitter = Splitter()
        self.ended = self.resumed = False
        self._file: int | None = None

    def open(self, position: Position | None) -> None:  # noqa: ARG002
        """Find the stream."""
        if sys.stdin is None:
            raise InputError("standard input is closed; pipe rows into it, or name a source with --from")
        self.resumed = self._file is not None
        self._file = sys.stdin.fileno()

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> RowReader:
        """Return what reads JSON or csv, as the first line says."""
        return RowReader(columns) if state is None or not self.resumed else RowReader.restore(columns, state)

    def connect(self, owner: str | None) -> None:
        """Nothing is to be reached."""

    def poll(self) -> list[bytes]:
        """Return the lines that are there now; at the end also one without a line break."""
        if self.ended or self._file is None or not select.select([self._file], [], [], 0)[0]:
            return []
        data = os.read(self._file, CHUNK)
        if data:
            return self._splitter.push(data)
        self.ended = True
        return self._splitter.flush()

    @property
    def position(self) -> Position:
        """Nothing: a pipe cannot be read again."""
        return {}

    def acknowledge(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """Leave the stream to the process."""

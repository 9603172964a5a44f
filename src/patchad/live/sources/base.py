"""What a source has to have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from patchad.live.rows import Columns, Row

Position = Mapping[str, Any]
"""How far a source was read, as JSON knows it."""
PATIENCE = 10.0
"""Seconds that a broker or a server has to answer at the start."""


class Reader(Protocol):
    """Reads rows from the lines of a source."""

    @property
    def state(self) -> Mapping[str, Any]:
        """What has to be known to go on in the middle of a source, as JSON knows it."""

    def read(self, line: bytes) -> Row | None:
        """Read a line; None for one that holds no row. `InputError` says what is wrong with it."""


class Source(Protocol):
    """Lines that come one after the other, without an end or with one.

    A source is polled: it never waits, so that several take turns and a signal is heard at once.
    """

    name: str
    """The same at each start, whatever the address looks like; the position is stored under it."""
    resumed: bool
    """Whether it goes on exactly where it was; else rows may come again."""

    @property
    def path(self) -> Path | None:
        """The file that is read, if there is one: no output may be written there."""

    def open(self, position: Position | None) -> None:
        """Prepare to begin, or to go on at a position."""

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> Reader:
        """Return what reads its lines, which goes on from the state that was stored with the position."""

    def connect(self, owner: str | None) -> None:
        """Reach what the rows come from, or raise `InputError` after `PATIENCE`.

        `owner` names the state that rows are stored in, the same at each start: what comes while no process runs may be
        kept for it. None: nothing is stored.
        """

    def poll(self) -> Sequence[bytes]:
        """Return the lines that are there now, often none."""

    @property
    def ended(self) -> bool:
        """Whether no line will follow."""

    @property
    def position(self) -> Position:
        """How far it was read: right after the last line that was returned."""

    def acknowledge(self) -> None:
        """Say to where the rows came from that all lines that were returned are stored."""

    def close(self) -> None:
        """Let go of what is open."""

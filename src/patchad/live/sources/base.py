"""What a source has to have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

Position = Mapping[str, Any]
"""How far a source was read, as JSON knows it."""


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
        """Begin, or go on at a position."""

    def poll(self) -> list[bytes]:
        """Return the lines that are there now, often none."""

    @property
    def ended(self) -> bool:
        """Whether no line will follow."""

    @property
    def position(self) -> Position:
        """How far it was read: right after the last line that was returned."""

    def close(self) -> None:
        """Let go of what is open."""

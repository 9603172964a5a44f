"""What a sink has to have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from patchad.live.store import LineKind

EVERYTHING: tuple[LineKind, ...] = ("event", "verdict")


class Sink(Protocol):
    """Takes lines in their order; how far it got is stored after each call."""

    name: str
    """The same at each start, whatever the address looks like; the mark is stored under it."""
    kinds: Sequence[LineKind]
    """The lines that it wants."""

    @property
    def path(self) -> Path | None:
        """The file that is written, if there is one."""

    def open(self, mark: int | None) -> int:
        """Begin, or go on at a mark, and take back what was written after it where that is possible.

        Returns
        -------
        The mark to begin with.
        """

    def write(self, lines: Sequence[str]) -> int:
        """Write lines, so that they can be read at once; return the mark after them."""

    def close(self) -> None:
        """Let go of what is open."""

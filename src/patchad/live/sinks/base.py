"""What a sink has to have: one that is written to at once, or one far away, which a thread of its own delivers to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.store import LineKind, StoredLine

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


class DeliveryError(Exception):
    """A line was not taken.

    Parameters
    ----------
    reason
        Why.
    final
        Whether to try again would be in vain.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class RemoteSink(ABC):
    """A place that may be away for a while: lines are sent one by one, in their order, until each is taken.

    A `live.delivery.Delivery` calls it, from one thread. What it has to know after a restart is in `state`.
    """

    path: Path | None = None
    kinds: Sequence[LineKind] = ("event",)
    most = 1
    """Lines that are sent together, and given up together."""

    def __init__(self, name: str, tries: int) -> None:
        self.name = name
        self.tries = tries
        """How often a line is tried before it is given up."""
        self.state: dict[str, Any] = {}
        """As JSON knows it; stored with each line that was taken."""

    @abstractmethod
    def check(self) -> str:
        """Find out whether it can be reached, without telling it of anything; say how it answered.

        Raises `DeliveryError` where it cannot.
        """

    @abstractmethod
    def send(self, line: StoredLine, store: str) -> None:
        """Send a line; `DeliveryError` says why it was not taken. `store` is the id of the state it comes from."""

    def send_all(self, lines: Sequence[StoredLine], store: str) -> None:
        """Send lines together, at most `most`; `DeliveryError` says why one was not taken, and then all come again."""
        for line in lines:
            self.send(line, store)

    def refresh(self) -> float | None:
        """Say again what is forgotten otherwise; return the seconds until that is due again, None for never."""
        return None

    def close(self) -> None:  # noqa: B027 - not every sink has something open
        """Let go of what is open."""


def whole_number(address: Address, options: Mapping[str, str], name: str, default: int) -> int:
    """Read an option that is a number over 0."""
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) == 0:
        raise InputError(f"{address.text!r} has {name}={text}; a whole number over 0 is needed")
    return int(text)

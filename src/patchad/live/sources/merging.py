"""Merge: messages of several partitions in the order of their rows' times.

A partition is in order, but several are read one after the other, and rows of one stream may be in all of them. So a
message is taken when each other partition has a later one, or is at its end, and then for a moment has had nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from patchad.errors import InputError
from patchad.live.messages import Message, MessageReader
from patchad.live.rows import comparable

LINGER = 0.25
"""Seconds to wait for what others have sent to a partition that was at its end."""
STALLED = 5.0
"""Seconds after which a partition that neither has anything nor is at its end is no longer waited for."""
MOST = 20_000
"""Messages that wait in all partitions."""


@dataclass(slots=True)
class Part:
    """A message of a partition."""

    partition: int
    offset: int
    written: int
    """When, in milliseconds."""
    lines: list[Message]
    came: float = field(default_factory=time.monotonic)


class Merge:
    """Messages of partitions that come out in order.

    Parameters
    ----------
    partitions
        All of them.
    reader
        Reads the time of a row.
    """

    def __init__(self, partitions: Sequence[int], reader: MessageReader) -> None:
        self._waiting: dict[int, deque[tuple[Any, Part]]] = {partition: deque() for partition in partitions}
        self._heard = dict.fromkeys(partitions, time.monotonic())
        self._ended: set[int] = set()
        self._reader = reader
        self._last: dict[int, Any] = {}

    @property
    def full(self) -> bool:
        """Whether as much waits as may."""
        return sum(map(len, self._waiting.values())) >= MOST

    def push(self, part: Part) -> None:
        """Add the next message of a partition."""
        self._ended.discard(part.partition)
        self._heard[part.partition] = part.came
        moment = self._moment(part) if len(self._waiting) > 1 else None
        self._waiting[part.partition].append((moment, part))

    def reach_end(self, partition: int) -> None:
        """Say that a partition has nothing more now."""
        self._ended.add(partition)

    def take(self, most: int) -> list[Part]:
        """Return the messages whose turn it is."""
        taken: list[Part] = []
        now = time.monotonic()
        while len(taken) < most:
            first = min((own[0] for own in self._waiting.values() if own), key=lambda one: _order(*one), default=None)
            if first is None or not self._is_due(first[1], now):
                break
            taken.append(self._waiting[first[1].partition].popleft()[1])
        return taken

    def _is_due(self, part: Part, now: float) -> bool:
        empty = [partition for partition, own in self._waiting.items() if not own]
        unclear = [one for one in empty if one not in self._ended and now - self._heard[one] < STALLED]
        return not unclear and (not empty or len(self._waiting) == 1 or now - part.came >= LINGER)

    def _moment(self, part: Part) -> Any:
        """Return the time of the first row of a message; of one that has none, that of the message before it."""
        for line in part.lines:
            try:
                row = self._reader.read(line)
            except InputError:
                continue
            if row is not None and row.moment is not None:
                self._last[part.partition] = comparable(row.moment)
                break
        return self._last.get(part.partition)


def _order(moment: Any, part: Part) -> tuple[Any, ...]:
    """Rank by the kind of time, so that only like ones are compared: none, a count, a date."""
    kind = 0 if moment is None else 1 if isinstance(moment, float) else 2
    return kind, part.written if moment is None else moment, part.written, part.partition

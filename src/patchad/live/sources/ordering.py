"""Order: messages of a broker that sends some of them late after a connection was lost, in the order of their rows.

A broker numbers the packets of a session one after the other. If the first ones of a connection do not follow the
last one that was stored, others were on their way when the connection was lost. Some brokers send those again at once
and in order (Mosquitto), some in another order or much later than newer ones (NATS). So what comes is held back until
the numbers that are missing are there, or for a time where that cannot be told.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PACKETS = 2**16 - 1
"""Numbers of packets are 1 to this, and then 1 again."""


@dataclass(slots=True)
class Received:
    """A message as it came."""

    connection: int
    packet: int
    """Its number in the session of the broker."""
    qos: int
    repeated: bool
    """Whether the broker says that it sends it again."""
    again: bool
    """Whether it may have come before."""
    topic: str
    payload: bytes


class Sequence:
    """Put messages into order.

    Parameters
    ----------
    following
        Number of the packet after the last one that was stored; 0: it is not known.
    patience
        Seconds to wait for messages that are missing.
    moment
        Returns the time of a message's first row, comparable with others; None where it has none.

    Examples
    --------
    >>> order = Sequence(8, 35.0, lambda message: None)
    >>> for packet, repeated in ((10, False), (8, True), (9, True), (11, False)):
    ...     order.push(Received(1, packet, 1, repeated, repeated, "plant", b""))
    >>> [message.packet for message in order.take(500)], order.following
    ([8, 9, 10, 11], 12)
    """

    def __init__(self, following: int, patience: float, moment: Callable[[Received], Any]) -> None:
        self.following = following
        self._patience, self._moment = patience, moment
        self.fresh = False
        """Whether the broker has just begun to count, so that nothing can be missing, whatever it begins with."""
        self._connection = -1
        """The connection whose first new message has been looked at."""
        self._ready: deque[Received] = deque()
        self._next = following
        """Number of the packet after the last one that is ready; 0: it is not known."""
        self._newest = 0
        """Number of the newest message among all that came; 0: none was new."""
        self._by_number = True
        """Whether numbers tell the order of what is ready."""
        self._held: dict[tuple[int, int], Received] = {}
        """By connection and number."""
        self._missing: set[int] = set()
        """Numbers that are waited for, where they are known."""
        self._until: float | None = None
        """When held messages are taken at last; None: nothing is held."""

    def push(self, message: Received) -> None:
        """Add a message that came."""
        if not message.qos:
            self._ready.append(message)
            return
        if message.connection != self._connection:
            self._look(message)
        if not message.repeated:
            self._connection, self._newest, self.fresh = message.connection, message.packet, False
        if self._until is None:
            self._append(message)
            return
        self._held.setdefault((message.connection, message.packet), message)
        if self._by_number:
            self._missing.discard(message.packet)
            if not self._missing:
                self._release()

    def take(self, most: int) -> list[Received]:
        """Return the messages whose turn it is, those of one connection only; `following` is then after them."""
        if self._until is not None and time.monotonic() >= self._until:
            self._release()
        taken: list[Received] = []
        while self._ready and len(taken) < most and (not taken or self._ready[0].connection == taken[0].connection):
            taken.append(self._ready.popleft())
            if self._by_number:
                self.following = _following(self.following, taken[-1])
        if not self._by_number and self._until is None:
            self._by_number = not self._ready
            self.following = 0 if self._ready else self._next
        return taken

    def _look(self, message: Received) -> None:
        """Hold back, if messages before this one of a new connection are missing, or may be.

        Up to the first new message of a connection, those that the broker sends again are looked at too: it may begin
        with later ones.
        """
        if self.fresh:
            return
        ahead = (message.packet - self._next) % PACKETS
        before = ahead >= PACKETS // 2
        if not self._next or (before and not message.repeated):
            self._hold(by_number=False)
        elif ahead and not before:
            self._hold(by_number=True)
            known = {packet for _, packet in self._held}
            self._missing |= {(self._next + step - 1) % PACKETS + 1 for step in range(ahead)} - known

    def _hold(self, *, by_number: bool) -> None:
        if self._until is None:
            self._until, self._by_number = time.monotonic() + self._patience, by_number
        self._by_number = self._by_number and by_number

    def _release(self) -> None:
        """Put the messages that were held back into order: of their numbers, or else of their times."""
        held, self._held, self._missing, self._until = list(self._held.values()), {}, set(), None
        if self._by_number:
            held.sort(key=lambda one: (one.packet - self._next) % PACKETS)
            for one in held:
                self._append(one)
        else:
            held = _by_time(held, self._moment)
            self._ready += held
            self._next = _after(self._newest or held[-1].packet)

    def _append(self, message: Received) -> None:
        self._ready.append(message)
        self._next = _following(self._next, message)


def _following(due: int, message: Received) -> int:
    """Return the number that follows a message, if it is new or the one that is due; else the one that is due."""
    return _after(message.packet) if message.qos and (not message.repeated or message.packet == due) else due


def _after(packet: int) -> int:
    return packet % PACKETS + 1


def _by_time(messages: list[Received], moment: Callable[[Received], Any]) -> list[Received]:
    """Sort messages by their times, each of them once; those without a time stay behind the one before them."""
    keyed: dict[tuple[Any, ...], tuple[Any, Received]] = {}
    last: Any = None
    for number, one in enumerate(messages):
        when = moment(one)
        last = when if when is not None else last
        keyed.setdefault((one.topic, one.payload) if when is not None else (number,), (last, one))
    timed = [(when, one) for when, one in keyed.values() if when is not None]
    untimed = [one for when, one in keyed.values() if when is None]
    if len({type(when) for when, _ in timed}) == 1:
        timed.sort(key=lambda pair: pair[0])
    return [*untimed, *(one for _, one in timed)]

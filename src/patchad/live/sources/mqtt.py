"""Rows from topics of an MQTT broker."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.messages import Message, MessageReader, lines_of
from patchad.live.mqtt import Connection, Topic
from patchad.live.rows import Columns, comparable
from patchad.live.sources.base import Position
from patchad.live.sources.ordering import Received, Sequence

BATCH = 500
"""Messages that are taken at once: a transaction's worth."""
MOST = 100_000
"""Messages that wait to be taken; then the broker has to wait."""
SETTLE = 35.0
"""Seconds to wait for messages that were on their way when a connection was lost; NATS sends them after 30."""
DOUBT = 60.0
"""Seconds after a connection was made in which messages may have come before, even if the broker does not say so: it
may have lost acknowledgements, and others send again what they do not know to have arrived."""
AGAIN = 5.0
"""Seconds until a subscription that the broker refused after a connection was lost is asked for again."""
REMEMBERED = 1000
"""Messages without a time that are known again when the broker sends them once more."""


class MqttSource:
    """Topics of an MQTT broker, at quality of service 1: a message is acknowledged when its rows are stored.

    With a state, the session stays at the broker while no process runs. What a topic has at the places of wildcards is
    the key of rows that have none.
    """

    path: Path | None = None
    resumed, ended = False, False

    def __init__(self, address: Address) -> None:
        self._topic = Topic.of(address, ["settle"])
        self._patience = _seconds(address)
        self.name = self._topic.name
        self._reader = MessageReader(Columns(()))
        self._waiting: deque[Received] = deque()
        self._taken: list[tuple[Received, list[Message]]] = []
        self._closing = False
        self._refused: float | None = None
        """When the broker refused the topic; None: it has not."""

    def open(self, position: Position | None) -> None:
        """Remember how far the numbers of packets were, and the last messages that may come again."""
        self._new = position is None
        self._following = 1 if position is None else position["following"]
        self._remembered = deque[str]([] if position is None else position["remembered"], maxlen=REMEMBERED)

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> MessageReader:
        """Return what reads JSON, and csv under the header of its topic."""
        self._reader = MessageReader(columns, state)
        return self._reader

    def connect(self, owner: str | None) -> None:
        """Connect and subscribe."""
        self._order = Sequence(self._following, 0.0 if owner is None else self._patience, self._moment)
        name = hashlib.sha256(f"{owner}\0{self.name}".encode()).hexdigest()[:15]
        self._connection = Connection(self._topic, None if owner is None else f"patchad-{name}", self._subscribe)
        client = self._connection.client
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        self._connection.connect()

    def poll(self) -> list[bytes]:
        """Return the lines of the messages whose turn it is."""
        if self._refused is not None and time.monotonic() >= self._refused + AGAIN:
            self._subscribe()
        for _ in range(len(self._waiting)):
            self._order.push(self._waiting.popleft())
        self._taken = [(one, self._messages(one)) for one in self._order.take(BATCH)]
        lines: list[bytes] = [line for _, own in self._taken for line in own]
        if not lines:
            self.acknowledge()  # there is nothing to store
        return lines

    @property
    def position(self) -> Position:
        """The broker knows how far it is; here is what is needed to know messages again, and their order."""
        return {"following": self._order.following, "remembered": [*self._remembered, *self._unclear()][-REMEMBERED:]}

    def acknowledge(self) -> None:
        """Acknowledge the messages that were taken; a lost connection's are sent again by the broker."""
        self._remembered += self._unclear()
        for one, _ in self._taken:
            if one.qos and one.connection == self._connection.number:
                self._connection.client.ack(one.packet, one.qos)
        self._taken = []

    def close(self) -> None:
        """End the connection; the broker keeps the session where there is a state."""
        self._closing = True
        if hasattr(self, "_connection"):
            self._connection.close()

    # -- inside; the callbacks run in the thread of the connection -----------------------------------------------------

    def _unclear(self) -> list[str]:
        """Return the messages that were taken, of those that no time tells from others."""
        return [
            _fingerprint(one) for one, lines in self._taken if one.qos and lines and not all(m.timed for m in lines)
        ]

    def _moment(self, received: Received) -> Any:
        """Return the time of the first row of a message."""
        for line in self._messages(received):
            try:
                row = self._reader.read(line)
                if row is not None:
                    return None if row.moment is None else comparable(row.moment)
            except InputError:
                return None
        return None

    def _messages(self, received: Received) -> list[Message]:
        if received.again and _fingerprint(received) in self._remembered:
            return []
        lines = [Message(line) for line in lines_of(received.payload)]
        for line in lines:
            line.key = matched(self._topic.endpoint.path, received.topic)
            line.origin, line.again = received.topic, received.again
        return lines

    def _subscribe(self) -> None:
        self._doubt, self._refused = time.monotonic() + DOUBT, None
        self._order.fresh = self._new and not self._connection.present
        self._new = False
        self._connection.client.subscribe(self._topic.endpoint.path, qos=1)

    def _on_subscribe(self, client: Any, data: Any, packet: int, reasons: Any, properties: Any) -> None:  # noqa: ARG002
        refused = [str(reason) for reason in reasons if reason.is_failure]
        self._refused = time.monotonic() if refused else None
        self._connection.settle(f"the broker refused the topic: {refused[0]}" if refused else "")

    def _on_message(self, client: Any, data: Any, message: Any) -> None:  # noqa: ARG002
        while len(self._waiting) >= MOST and not self._closing:
            time.sleep(0.05)
        again = message.dup or time.monotonic() < self._doubt
        about = (self._connection.number, message.mid, message.qos, message.dup, again)
        self._waiting.append(Received(*about, message.topic, bytes(message.payload)))


def _fingerprint(message: Received) -> str:
    """Return what is the same when a broker sends a message again: it keeps the number of the packet."""
    parts = f"{message.packet}\0{message.topic}\0".encode() + message.payload
    return hashlib.blake2b(parts, digest_size=8).hexdigest()


def _seconds(address: Address) -> float:
    text = address.options.get("settle", str(SETTLE))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise InputError(f"settle={text} is no time to wait; write seconds, 0 to 3600")
    return seconds


def matched(pattern: str, topic: str) -> str | None:
    """Return what a topic has at the places of the wildcards of a pattern; None where there are none.

    Examples
    --------
    >>> matched("plant/+/rows", "plant/pump 1/rows"), matched("plant/+/#", "plant/a/b/c"), matched("plant", "plant")
    ('pump 1', 'a/b/c', None)
    """
    if pattern.startswith("$share/"):
        pattern = pattern.split("/", 2)[-1]
    wanted, found = pattern.split("/"), topic.split("/")
    if "#" in wanted:
        wanted[-1:] = ["+"] * (len(found) - len(wanted) + 1)
    places = [part for part, want in zip(found, wanted, strict=False) if want == "+"]
    return "/".join(places) if "+" in wanted else None

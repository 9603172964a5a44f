"""Lines to a topic of an MQTT broker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.mqtt import USAGE, Connection, Topic
from patchad.live.sinks.base import EVERYTHING, DeliveryError, RemoteSink, whole_number
from patchad.live.store import StoredLine

TRIES = 100
"""Over an hour and a half."""
PATIENCE = 10.0
"""Seconds that a broker has to acknowledge lines, before one looks again."""


class MqttSink(RemoteSink):
    """A message for each line, at quality of service 1.

    A kill before the broker's acknowledgement is stored repeats the last lines: those that are the same.
    """

    kinds = EVERYTHING
    most = 100

    def __init__(self, address: Address) -> None:
        self._topic = Topic.of(address, ["tries"])
        if "+" in self._topic.endpoint.path or "#" in self._topic.endpoint.path:
            raise InputError(f"{self._topic.name} has a wildcard; lines go to one topic: {USAGE}")
        super().__init__(self._topic.name, whole_number(address, address.options, "tries", TRIES))
        self._connection: Connection | None = None
        self._sent: dict[int, Any] = {}
        """By the number of a line: what the broker has not acknowledged; the connection repeats it by itself."""

    def check(self) -> str:
        """Connect."""
        self._connect()
        return "answers"

    def send(self, line: StoredLine, store: str) -> None:
        """Send a line."""
        self.send_all([line], store)

    def send_all(self, lines: Sequence[StoredLine], store: str) -> None:  # noqa: ARG002
        """Publish lines, and wait until the broker has them."""
        connection = self._connect()
        for line in lines:
            if line.number not in self._sent:
                self._sent[line.number] = connection.client.publish(self._topic.endpoint.path, line.text, qos=1)
        end = time.monotonic() + PATIENCE
        while not all(self._sent[line.number].is_published() for line in lines):
            if time.monotonic() > end:
                raise DeliveryError(f"the broker did not acknowledge lines within {PATIENCE:g} s")
            time.sleep(0.005)
        self._sent.clear()

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None:
            connection = Connection(self._topic, None)
            try:
                connection.connect()
            except InputError as error:
                raise DeliveryError(str(error)) from None
            self._connection = connection
        return self._connection

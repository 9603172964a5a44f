"""Lines to a topic of Kafka, each once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from patchad.live.address import Address
from patchad.live.kafka import KafkaTopic, require_kafka
from patchad.live.sinks.base import EVERYTHING, DeliveryError, RemoteSink, whole_number
from patchad.live.store import StoredLine

TRIES = 100
"""Over an hour and a half."""
PATIENCE = 10.0
"""Seconds that a cluster has to take lines, before one looks again."""
LOOKED_AT = 1000
"""Messages at the end of each partition that are looked at for lines that a kill left unconfirmed."""
STORE, LINE = "patchad-store", "patchad-line"
"""Headers of a message: the state that the line is from, and its number there."""


class KafkaSink(RemoteSink):
    """A message for each line, with the key of its stream, from an idempotent producer.

    Each has the number of its line in its headers. After a start those at the end of the topic tell which lines are
    there already: they are not sent again.
    """

    kinds = EVERYTHING
    most = 100

    def __init__(self, address: Address) -> None:
        self._topic = KafkaTopic.of(address, ["tries"])
        super().__init__(self._topic.name, whole_number(address, address.options, "tries", TRIES))
        self._producer: Any = None
        self._there: set[int] | None = None
        """Lines that were there at the start."""
        self._sent: dict[int, str | None] = {}
        """By the number of a line that was handed to the library: what is wrong with it; None: nothing so far."""
        self._taken: set[int] = set()

    def check(self) -> str:
        """Ask the cluster who it is."""
        library, producer = require_kafka(), self._made()
        try:
            brokers = len(producer.list_topics(timeout=PATIENCE).brokers)
        except library.KafkaException as error:
            raise DeliveryError(str(self._topic.cannot(error.args[0].str()))) from None
        return f"answers, {brokers} broker{'s' * (brokers > 1)}"

    def send(self, line: StoredLine, store: str) -> None:
        """Send a line."""
        self.send_all([line], store)

    def send_all(self, lines: Sequence[StoredLine], store: str) -> None:
        """Produce lines, and wait until the cluster has them."""
        producer = self._made()
        if self._there is None:
            self._there = self._recalled(store)
        for line in lines:
            if line.number not in self._there and line.number not in self._taken and line.number not in self._sent:
                self._produce(producer, line, store)
        end = time.monotonic() + PATIENCE
        while any(reason is None for reason in self._sent.values()) and time.monotonic() < end:
            producer.poll(0.1)
        wrong = {number: reason for number, reason in self._sent.items() if reason is not None}
        for number in wrong:
            del self._sent[number]  # the library has given it up: it may be produced again
        if self._sent or wrong:
            raise DeliveryError(next(iter(wrong.values()), None) or f"lines were not taken within {PATIENCE:g} s")
        self._taken.clear()

    def close(self) -> None:
        """Let the library end what it has begun."""
        if self._producer is not None:
            self._producer.flush(1.0)
            self._producer = None

    def _made(self) -> Any:
        if self._producer is None:
            library = require_kafka()
            try:
                self._producer = library.Producer(self._topic.settings() | {"enable.idempotence": True})
            except (library.KafkaException, ValueError, TypeError) as error:
                raise self._topic.cannot(error) from None
        return self._producer

    def _produce(self, producer: Any, line: StoredLine, store: str) -> None:
        key = json.loads(line.text).get("key")
        headers = [(STORE, store.encode()), (LINE, str(line.number).encode())]
        name = None if key is None else str(key).encode()
        self._sent[line.number] = None
        producer.produce(
            self._topic.topic, line.text.encode(), name, headers=headers, on_delivery=self._heard(line.number)
        )

    def _heard(self, number: int) -> Callable[[Any, Any], None]:
        def hear(error: Any, message: Any) -> None:  # noqa: ARG001
            if error is None:
                self._taken.add(number)
                del self._sent[number]
            else:
                self._sent[number] = error.str()

        return hear

    def _recalled(self, store: str) -> set[int]:
        """Return the lines of this state that are at the end of the topic."""
        library = require_kafka()
        settings = self._topic.settings() | {"group.id": "patchad-sink", "enable.auto.commit": False}
        consumer = library.Consumer(settings | {"enable.partition.eof": True})
        made, topic, found = library.TopicPartition, self._topic.topic, set[int]()
        try:
            partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
            places = []
            for one in partitions:
                low, high = consumer.get_watermark_offsets(made(topic, one), timeout=PATIENCE)
                if high > low:
                    places.append(made(topic, one, max(low, high - LOOKED_AT)))
            consumer.assign(places)
            left, end = {one.partition for one in places}, time.monotonic() + PATIENCE
            while left and time.monotonic() < end:
                for message in consumer.consume(LOOKED_AT, timeout=0.2):
                    if message.error() is not None:
                        left.discard(message.partition())
                    elif (headers := dict(message.headers() or [])).get(STORE) == store.encode():
                        found.add(int(headers[LINE]))
        except library.KafkaException as error:
            raise DeliveryError(f"it did not answer ({error.args[0].str()})") from None
        finally:
            consumer.close()
        return found

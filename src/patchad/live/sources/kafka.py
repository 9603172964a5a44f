"""Rows from a topic of Kafka, each exactly once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.kafka import KafkaTopic, require_kafka
from patchad.live.messages import Message, MessageReader, lines_of
from patchad.live.rows import Columns
from patchad.live.sources.base import PATIENCE, Position
from patchad.live.sources.merging import Merge, Part

logger = logging.getLogger(__name__)

BATCH = 500
"""Messages that are taken at once: a transaction's worth."""


class KafkaSource:
    """All partitions of a topic, from the offsets that are stored with the state; else from those of the group.

    Partitions are assigned, not shared with other members of the group: offsets are stored with the verdicts, in one
    transaction, and committed to the group after that, for others to see. The key of a message is the key of rows that
    have none.
    """

    path: Path | None = None
    ended = False

    def __init__(self, address: Address) -> None:
        self._topic = KafkaTopic.of(address, ["group", "start"])
        self._group = address.options.get("group", "patchad")
        self._start = address.options.get("start", "earliest")
        if self._start not in ("earliest", "latest"):
            raise InputError(f"{self._topic.name} has start={self._start}; use start=earliest or start=latest")
        self.name = self._topic.name
        self.resumed = False
        self._reader = MessageReader(Columns(()))
        self._offsets: dict[int, int] = {}
        """By partition: the next message."""

    def open(self, position: Position | None) -> None:
        """Go on at the offsets that were stored."""
        if position is not None:
            self.resumed = True
            self._offsets = {int(partition): offset for partition, offset in position["offsets"].items()}

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> MessageReader:
        """Return what reads JSON, and csv under a header."""
        self._reader = MessageReader(columns, state)
        return self._reader

    def connect(self, owner: str | None) -> None:  # noqa: ARG002
        """Find the partitions, and begin where each was."""
        self._library = require_kafka()
        settings = {"group.id": self._group, "auto.offset.reset": self._start, "enable.partition.eof": True}
        settings |= self._topic.settings() | {"enable.auto.commit": False}
        try:
            self._consumer = self._library.Consumer(settings)
        except (self._library.KafkaException, ValueError, TypeError) as error:
            raise self._topic.cannot(error) from None
        partitions = self._topic.check(self._consumer)
        self._merge = Merge(partitions, self._reader)
        self._consumer.assign(
            [self._library.TopicPartition(self._topic.topic, *one) for one in self._begin(partitions)]
        )
        logger.info("%s: ready, %d partitions", self.name, len(partitions))

    def poll(self) -> list[bytes]:
        """Return the lines of the messages whose turn it is."""
        self._fetch()
        lines: list[bytes] = []
        self._taken: dict[int, int] = {}
        for part in self._merge.take(BATCH):
            lines += part.lines
            self._taken[part.partition] = part.offset + 1
        self._offsets |= self._taken
        return lines

    @property
    def position(self) -> Position:
        """The offsets of the messages that follow."""
        return {"offsets": {str(partition): offset for partition, offset in self._offsets.items()}}

    def acknowledge(self) -> None:
        """Commit the offsets to the group: others see how far it is; what counts is the state."""
        made = self._library.TopicPartition
        self._consumer.commit(offsets=[made(self._topic.topic, *one) for one in self._taken.items()], asynchronous=True)

    def close(self) -> None:
        """Leave the cluster."""
        if hasattr(self, "_consumer"):
            self._consumer.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _begin(self, partitions: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return where to begin in each partition."""
        topic, made = self._topic.topic, self._library.TopicPartition
        new = [made(topic, partition) for partition in partitions if partition not in self._offsets]
        try:
            committed = self._consumer.committed(new, timeout=PATIENCE) if new else []
            for partition, offset in self._offsets.items():
                low, _ = self._consumer.get_watermark_offsets(made(topic, partition), timeout=PATIENCE)
                if low > offset:
                    logger.warning(
                        "%s: messages %d to %d of partition %d are no longer there",
                        self.name,
                        offset,
                        low - 1,
                        partition,
                    )
        except self._library.KafkaException as error:
            raise self._topic.cannot(error.args[0].str()) from None
        found = {one.partition: one.offset for one in committed}  # below 0: none, and the setting decides
        return list((found | self._offsets).items())

    def _fetch(self) -> None:
        if self._merge.full:
            return
        for message in self._consumer.consume(BATCH, timeout=0):
            error = message.error()
            if error is None:
                self._merge.push(Part(message.partition(), message.offset(), message.timestamp()[1], _lines(message)))
            elif error.code() == self._library.KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._merge.reach_end(message.partition())
            else:
                logger.warning("%s: %s; trying again", self.name, error.str())


def _lines(message: Any) -> list[Message]:
    key, value = message.key(), message.value()
    lines = [Message(line) for line in lines_of(value)] if value else []
    for line in lines:
        line.key = None if key is None else key.decode(errors="backslashreplace")
    return lines

"""A Kafka cluster inside a process of its own: librdkafka's mock, which keeps messages in RAM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Producer

SCRIPT = """
import sys
from confluent_kafka import Producer
cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
(broker,) = cluster.list_topics("rows", timeout=60).brokers.values()
print(f"127.0.0.1:{broker.port}", flush=True)
sys.stdin.read()
"""


def send(producer: Producer, value: str | None, *, topic: str = "rows", key: str | None = None, partition=-1) -> None:
    """Produce a message; partition -1: any."""
    producer.produce(topic, value, key, **({} if partition < 0 else {"partition": partition}))


class Cluster:
    """Where it listens, and its process."""

    def __init__(self, place: str, process: subprocess.Popen[str]) -> None:
        self.place, self.process = place, process
        self._producer: Producer | None = None

    def send(self, values: Sequence[str], *, topic: str = "rows", key: str | None = None, partition: int = -1) -> None:
        """Produce messages, and wait until the cluster has them."""
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self.place, "linger.ms": 1, "log_level": 0})
        for value in values:
            send(self._producer, value, topic=topic, key=key, partition=partition)
        assert self._producer.flush(120) == 0


def inside() -> tuple[Producer, str]:
    """Return a cluster inside this process: it lasts as long as the producer does. And where it listens."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics("rows", timeout=60).brokers.values()
    return producer, f"127.0.0.1:{broker.port}"


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a cluster, and end it afterwards. A topic is made when it is asked for, with four partitions."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=pipe, stdout=pipe, text=True)
    try:
        yield Cluster(process.stdout.readline().strip(), process)
    finally:
        process.communicate("")

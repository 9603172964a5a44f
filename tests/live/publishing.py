"""Rows to a broker, at a pace, from a thread: each is sent until the broker says that it has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion
from tests.live.servers import wait_for


@contextmanager
def publishing(port: int, topic: str, payloads: Sequence[str | bytes], seconds: float = 0.0) -> Iterator[None]:
    """Publish while something else happens; afterwards the broker has everything."""
    client = Client(CallbackAPIVersion.VERSION2, f"publisher-{port}", clean_session=False)
    client.max_queued_messages_set(0)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    sent: list[MQTTMessageInfo] = []

    def publish() -> None:
        begin = time.monotonic()
        for number, payload in enumerate(payloads):
            time.sleep(max(0.0, begin + seconds * number / len(payloads) - time.monotonic()))
            sent.append(client.publish(topic, payload, qos=1))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
        thread.join()
        wait_for(lambda: all(one.is_published() for one in sent[-100:]), what="the broker's acknowledgement")
    finally:
        thread.join()
        client.disconnect()
        client.loop_stop()

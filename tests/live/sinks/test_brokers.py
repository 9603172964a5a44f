"""Lines go to topics of brokers, in order; what was taken is not sent again."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer
from tests.live.minibroker import MiniBroker
from tests.live.mockcluster import inside
from tests.live.servers import free_port

from patchad.errors import InputError
from patchad.live import mqtt as mqtt_client
from patchad.live.sinks import kafka, mqtt
from patchad.live.sinks.base import DeliveryError
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Store, StoredLine
from patchad.live.watch import Watch


def lines(*numbers: int) -> list[StoredLine]:
    return [StoredLine(number, "event", json.dumps({"key": "pump", "id": number})) for number in numbers]


@pytest.fixture
def broker():
    broker = MiniBroker()
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def cluster():
    producer, place = inside()
    yield place
    producer.flush(1)


def messages(place: str, topic: str, count: int) -> list[dict]:
    """Read a topic from its beginning, until that many messages are there."""
    consumer = Consumer(
        {"bootstrap.servers": place, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    found = []
    for _ in range(1000):
        found += [message for message in consumer.consume(100, 0.2) if message.error() is None]
        if len(found) >= count:
            break
    consumer.close()
    assert all(message.key() == b"pump" for message in found)
    return [json.loads(message.value()) for message in found]


def test_a_run_tells_a_broker(watched_model, broker, tmp_path, watched_json):
    (tmp_path / "rows").write_text(watched_json)
    sinks = [make_sink(f"mqtt://127.0.0.1:{broker.port}/told"), make_sink(f"file:{tmp_path / 'out'}")]
    Watch(watched_model, [make_source(f"file:{tmp_path / 'rows'}?follow=0")], sinks, Store()).run()
    assert {topic for topic, _ in broker.published} == {"told"}
    assert [payload.decode() for _, payload in broker.published] == (tmp_path / "out").read_text().splitlines()


def test_lines_that_a_broker_does_not_acknowledge_are_not_published_twice(broker, monkeypatch):
    monkeypatch.setattr(mqtt, "PATIENCE", 0.2)
    sink = make_sink(f"mqtt://127.0.0.1:{broker.port}/told")
    assert sink.check() == "answers"
    broker.acknowledging = False
    for _ in range(2):
        with pytest.raises(DeliveryError, match="did not acknowledge"):
            sink.send(lines(1)[0], "state")
    assert len(broker.published) == 1
    sink.close()
    sink.close()


def test_a_broker_that_is_away(monkeypatch):
    monkeypatch.setattr(mqtt_client, "PATIENCE", 0.2)
    sink = make_sink(f"mqtt://127.0.0.1:{free_port()}/told?tries=3")
    assert sink.tries == 3
    with pytest.raises(DeliveryError, match="did not answer"):
        sink.check()


def test_a_topic_for_lines_has_no_wildcards():
    with pytest.raises(InputError, match="wildcard"):
        make_sink("mqtt://localhost/told/+")


def test_lines_that_are_there_are_not_sent_again(cluster):
    """As after a kill: the lines were taken, and that was not stored."""
    sink = make_sink(f"kafka://{cluster}/told")
    assert sink.check() == "answers, 1 broker"
    sink.send_all(lines(1, 2, 3), "state")
    sink.send(lines(4)[0], "other")
    sink.close()
    sink.close()
    sink = make_sink(f"kafka://{cluster}/told")
    sink.send_all(lines(2, 3, 4, 5), "state")
    sink.close()
    assert sorted(one["id"] for one in messages(cluster, "told", 6)) == [1, 2, 3, 4, 4, 5]


def test_a_run_tells_a_cluster(watched_model, cluster, tmp_path, watched_json):
    (tmp_path / "rows").write_text(watched_json)
    sinks = [make_sink(f"kafka://{cluster}/run"), make_sink(f"file:{tmp_path / 'out'}")]
    Watch(watched_model, [make_source(f"file:{tmp_path / 'rows'}?follow=0")], sinks, Store()).run()
    told = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    found = messages(cluster, "run", len(told))
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, told))


def test_a_cluster_that_is_away(monkeypatch):
    monkeypatch.setattr(kafka, "PATIENCE", 0.3)
    sink = make_sink(f"kafka://127.0.0.1:{free_port()}/told")
    with pytest.raises(DeliveryError, match="cannot be used"):
        sink.check()
    with pytest.raises(DeliveryError, match="did not answer"):
        sink.send(lines(1)[0], "state")
    sink._there = set()
    with pytest.raises(DeliveryError, match="not taken within"):
        sink.send(lines(1)[0], "state")
    sink._heard(1)(FakeError(), None)
    with pytest.raises(DeliveryError, match="too old"):
        sink.send_all([], "state")
    assert sink._sent == {}


class FakeError:
    def str(self) -> str:
        return "too old"


def test_settings_that_the_library_does_not_know(tmp_path):
    (tmp_path / "more").write_text("no.such.setting=1\n")
    with pytest.raises(InputError, match=r"no.such.setting"):
        make_sink(f"kafka://localhost/told?config={tmp_path / 'more'}").check()

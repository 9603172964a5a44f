"""Messages of a broker are rows, acknowledged when they are stored, and each is counted once."""

from __future__ import annotations

import builtins
import json
import threading
from types import SimpleNamespace

import pytest
from tests.live.minibroker import MiniBroker
from tests.live.servers import free_port, wait_for
from tests.live.telling import assert_equals_batch, read

from patchad.errors import InputError, MissingExtraError
from patchad.live import mqtt
from patchad.live.sinks.registry import make_sink
from patchad.live.sources import mqtt as mqtt_source
from patchad.live.sources import ordering
from patchad.live.sources.mqtt import matched
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Watch


@pytest.fixture
def broker():
    broker = MiniBroker()
    yield broker
    broker.close()


class Run:
    """A run that reads from a broker until it has done what it is told."""

    def __init__(self, model, broker, folder, topic="rows", options="settle=3600", state=True):
        address = f"mqtt://127.0.0.1:{broker.port}/{topic}?{options}"
        self.out = folder / "out"
        self._store = Store(folder / "state" if state else None)
        self.source = make_source(address)
        self._watch = Watch(model, [self.source], [make_sink(f"file:{self.out}")], self._store)
        self._broker, self._begun = broker, len(broker.topics)

    def until(self, count: int, steps) -> Watch:
        """Run until so many rows, refusals and repetitions came; meanwhile take steps, one as the other is done."""
        waiting = iter(steps)

        def stopping() -> bool:
            counts = self._watch.counts
            next(waiting, None)
            return counts.rows + counts.refused + counts.redelivered >= count

        try:
            self._watch.run(stopping)
        finally:
            self._store.close()
        return self._watch


def test_rows_equal_batch_and_are_acknowledged_when_stored(
    watched_model, broker, tmp_path, watched_json, watched_batch
):
    lines = watched_json.splitlines()

    def steps():
        for number, line in enumerate(lines, 1):
            broker.send(line, number)
        yield

    run = Run(watched_model, broker, tmp_path)
    run.until(300, steps())
    wait_for(lambda: len(broker.acknowledged) == 300)
    assert broker.acknowledged == list(range(1, 301))
    run = Run(watched_model, broker, tmp_path)
    run.until(5, (broker.send(lines[298], number, again=True) for number in range(296, 301)))  # none is new
    verdicts, _ = read(run.out.read_text())
    whole = len(verdicts)
    assert [one["index"] for one in verdicts] == list(range(whole))
    assert [one["alarm"] for one in verdicts] == watched_batch.alarms[:whole].tolist()
    assert broker.clients[0] == broker.clients[1]  # the same session


def test_what_is_not_stored_is_flushed_in_order(watched_model, broker, tmp_path, watched_json, watched_batch):
    lines = watched_json.splitlines()
    steps = (broker.send(line, number) for number, line in enumerate(lines, 1))
    run = Run(watched_model, broker, tmp_path, state=False)
    run.until(300, steps)
    assert_equals_batch(run.out.read_text(), watched_batch, "pump")


def test_messages_that_come_late_are_put_in_order(watched_model, broker, tmp_path):
    """As NATS does after a kill: newer messages first, and then those that were on their way."""
    rows = [json.dumps({"time": f"2026-01-01T00:00:{second:02}", "flow": 1.0}) for second in range(12)]

    def first():
        for number in range(4):
            broker.send(rows[number], number + 1)
        yield

    run = Run(watched_model, broker, tmp_path)
    run.until(4, first())
    broker.present = True

    def second():
        for number in (8, 9, 4, 5, 6, 7, 10, 11, 3):
            broker.send(rows[number], number + 1, again=number < 8)
        yield

    run = Run(watched_model, broker, tmp_path)
    counts = run.until(9, second()).counts
    assert (counts.rows, counts.redelivered, counts.refused) == (8, 1, 0)


def test_a_row_that_is_late_is_not_one_that_is_sent_again(watched_model, broker, tmp_path):
    """Right after a connection was made any message may have come before, so that times have to tell."""
    row = '{{"time": "2026-01-01T00:00:{:02}", "flow": 1.0}}'
    told = [(10, False), (20, False), (30, False), (20, False), (15, False), (5, False), (20, True), (25, True)]

    def steps():
        for packet, (second, again) in enumerate(told, 1):
            broker.send(row.format(second), packet, again=again)
            for _ in range(10):
                yield

    counts = Run(watched_model, broker, tmp_path).until(8, steps()).counts
    assert (counts.rows, counts.redelivered, counts.refused) == (3, 2, 3)


def test_a_broker_that_has_lost_count_is_waited_for(watched_model, broker, tmp_path, caplog, monkeypatch):
    """It is killed: others send again what it does not know, in any order, and numbers begin anew."""
    waited = [0.0]
    monkeypatch.setattr(ordering, "time", SimpleNamespace(monotonic=lambda: waited[0]))
    rows = [json.dumps({"time": f"2026-01-01T00:00:{second:02}", "flow": 1.0}) for second in range(9)]

    def steps():
        broker.wait_for_subscription()
        for number in range(5):
            broker.send(rows[number], number + 1)
        for _ in range(10):
            yield
        broker.drop()
        broker.wait_for_subscription(2)
        for packet, number in enumerate((8, 3, 4, 5, 7, 6, 5), 1):
            broker.send(rows[number], packet)
        while len(run.source._order._held) < 7:
            yield
        waited[0] = 3600.0

    run = Run(watched_model, broker, tmp_path)
    counts = run.until(11, steps()).counts
    assert (counts.rows, counts.redelivered, counts.refused) == (9, 2, 0)
    assert "connection is lost" in caplog.text
    assert "forgotten" in caplog.text


def test_a_new_session_may_count_from_any_number(watched_model, broker, tmp_path):
    run = Run(watched_model, broker, tmp_path)
    assert run.until(3, (broker.send('{"flow": 1}', number) for number in (700, 701, 702))).counts.rows == 3


def test_rows_without_times_are_known_by_their_packets(watched_model, broker, tmp_path):
    run = Run(watched_model, broker, tmp_path)
    run.until(3, (broker.send('{"flow": 1}', number) for number in (1, 2, 3)))
    broker.present = True
    run = Run(watched_model, broker, tmp_path)

    def steps():
        for number in (2, 3, 4):
            broker.send('{"flow": 1}', number, again=number < 4)
        yield

    assert run.until(1, steps()).counts.rows == 1
    wait_for(lambda: set(broker.acknowledged) == {1, 2, 3, 4})


def test_the_topic_is_the_key_and_csv_has_a_header_for_each(watched_model, broker, tmp_path):
    def steps():
        broker.send("flow,heat\n1,2\n3,4", 1, topic="plant/a/rows")
        broker.send("heat,flow\n1,2", 2, topic="plant/b/rows")
        broker.send("5,6", 3, topic="plant/a/rows", qos=0)
        broker.send('{"key": 7, "flow": 1}', 4, topic="plant/a/rows")
        broker.send("no header", 5, topic="plant/c/rows")
        broker.send("", 6, topic="plant/a/rows")
        yield

    run = Run(watched_model, broker, tmp_path, topic="plant/+/rows")
    counts = run.until(6, steps()).counts
    assert broker.topics == ["plant/+/rows"]
    assert (counts.rows, counts.refused) == (5, 1)
    (dead,) = map(json.loads, (tmp_path / "state.dead").read_text().splitlines())
    assert dead["row"] == "no header"
    assert "neither JSON nor a csv header" in dead["error"]
    store = Store(tmp_path / "state")
    assert {one.key for one in store.streams()} == {"a", "b", 7}
    position = store.position(f"mqtt://127.0.0.1:{broker.port}/plant/+/rows")
    store.close()
    assert set(position["reader"]["tables"]) == {"plant/a/rows", "plant/b/rows"}


@pytest.mark.parametrize(
    ("refusal", "granted", "message"), [(5, 1, "refused: Not auth"), (0, 128, "refused the topic")]
)
def test_a_refusal_ends_the_start(watched_model, broker, tmp_path, refusal, granted, message):
    broker.refusal, broker.granted = refusal, granted
    with pytest.raises(InputError, match=message):
        Run(watched_model, broker, tmp_path).until(1, ())


def test_a_topic_that_is_refused_later_is_asked_for_again(watched_model, broker, tmp_path, monkeypatch, caplog):
    """A broker that has just come back may not be ready for it."""
    monkeypatch.setattr(mqtt_source, "AGAIN", 0.1)

    def steps():
        broker.wait_for_subscription()
        broker.granted = 128
        broker.drop()
        broker.wait_for_subscription(3)
        broker.granted = 1
        broker.wait_for_subscription(broker.topics.count("rows") + 1)
        broker.send('{"flow": 1}', 1)
        yield

    run = Run(watched_model, broker, tmp_path, state=False)
    threading.Thread(target=lambda: list(steps()), daemon=True).start()
    assert run.until(1, ()).counts.rows == 1
    assert "refused the topic" in caplog.text


def test_a_broker_that_does_not_answer(watched_model, broker, tmp_path, monkeypatch):
    monkeypatch.setattr(mqtt, "PATIENCE", 0.2)
    broker.port = free_port()
    with pytest.raises(InputError, match=r"did not answer within 0.2 s.*check the address"):
        Run(watched_model, broker, tmp_path).until(1, ())


def test_user_and_password_are_sent_and_not_shown(watched_model, broker, tmp_path, monkeypatch):
    source = make_source(f"mqtt://me:p%40ss@127.0.0.1:{broker.port}/rows")
    assert source.name == f"mqtt://127.0.0.1:{broker.port}/rows"
    source.open(None)
    source.connect(None)
    source.close()
    assert broker.clients[0].endswith(b"\0\x02me\0\x04p@ss")
    monkeypatch.setenv("PATCHAD_MQTT_USER", "you")
    monkeypatch.setenv("PATCHAD_MQTT_PASSWORD", "secret")
    source = make_source(f"mqtt://127.0.0.1:{broker.port}/rows")
    source.open(None)
    source.connect(None)
    source.close()
    assert broker.clients[1].endswith(b"\0\x03you\0\x06secret")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mqtt://me:secret@host:1883", "names no topic"),
        ("mqtt:rows", "no address of this kind"),
        ("mqtt://host:1883x/rows", "no address of this kind"),
        ("mqtt://:1883/rows", "no address of this kind"),
        ("mqtt://host/rows?qos=2", "option 'qos'"),
        ("mqtt://host/rows?settle=long", "settle=long"),
    ],
)
def test_wrong_addresses(address, message):
    with pytest.raises(InputError, match=message) as raised:
        make_source(address)
    assert "secret" not in str(raised.value)


def test_certificates(tmp_path):
    source = make_source(f"mqtts://localhost/rows?ca={tmp_path / 'none.pem'}")
    assert source.name == "mqtts://localhost:8883/rows"
    source.open(None)
    with pytest.raises(InputError, match="name a file of certificates"):
        source.connect(None)
    source.close()


def test_without_the_library(monkeypatch):
    original = builtins.__import__

    def absent(name, *rest):
        if name.startswith("paho"):
            raise ImportError
        return original(name, *rest)

    source = make_source("mqtt://localhost/rows")
    source.open(None)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'patchad\[live\]'"):
        source.connect(None)


@pytest.mark.parametrize(
    ("pattern", "topic", "key"),
    [("#", "a/b", "a/b"), ("a/#", "a", None), ("$share/group/a/+", "a/b", "b"), ("a/b", "a/b", None)],
)
def test_what_wildcards_match(pattern, topic, key):
    assert matched(pattern, topic) == key

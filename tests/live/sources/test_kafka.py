"""Messages of a Kafka topic are rows, each exactly once, whatever partition they are in."""

from __future__ import annotations

import builtins
import json

import pytest
from tests.live.mockcluster import inside, send
from tests.live.servers import free_port
from tests.live.telling import assert_equals_batch

from patchad.errors import InputError, MissingExtraError
from patchad.live import kafka
from patchad.live.messages import Message, MessageReader
from patchad.live.rows import Columns
from patchad.live.sinks.registry import make_sink
from patchad.live.sources import merging
from patchad.live.sources.merging import Merge, Part
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Counts, Watch


@pytest.fixture(scope="module")
def cluster():
    producer, place = inside()
    yield producer, place
    producer.flush(10)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(merging, "STALLED", 300.0)  # a busy machine may take longer than that to begin


@pytest.fixture
def topic(request):
    return f"topic-{abs(hash(request.node.name))}"


def run(model, place, topic, folder, count: int, *, state=True, options="") -> Counts:
    """Run until so many rows and refusals came."""
    store = Store(folder / "state" if state else None)
    watch = Watch(
        model, [make_source(f"kafka://{place}/{topic}{options}")], [make_sink(f"file:{folder / 'out'}")], store
    )
    try:
        return watch.run(lambda: watch.counts.rows + watch.counts.refused >= count)
    finally:
        store.close()


def test_rows_in_any_partition_equal_batch(watched_model, cluster, topic, tmp_path, watched_json, watched_batch):
    producer, place = cluster
    for line in watched_json.splitlines():
        send(producer, line, topic=topic)
    producer.flush(10)
    run(watched_model, place, topic, tmp_path, 300, state=False)
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch, "pump")


def test_a_restart_goes_on_at_the_stored_offsets(watched_model, cluster, topic, tmp_path):
    """Not at those of the group: rows without times would come twice, or never."""
    producer, place = cluster
    for number in range(10):
        send(producer, json.dumps({"flow": number}), topic=topic, key="pump", partition=number % 2)
    send(producer, None, topic=topic, partition=0)
    send(producer, "nothing", topic=topic, partition=2)
    producer.flush(10)
    counts = run(watched_model, place, topic, tmp_path, 11)
    assert (counts.rows, counts.refused) == (10, 1)
    send(producer, '{"flow": 10}', topic=topic, key="pump", partition=1)
    producer.flush(10)
    counts = run(watched_model, place, topic, tmp_path, 1)
    assert (counts.rows, counts.redelivered) == (1, 0)
    store = Store(tmp_path / "state")
    position = store.position(f"kafka://{place}/{topic}")["source"]
    (stream,) = store.streams()
    store.close()
    assert stream.key == "pump"
    assert {name: position["offsets"][name] for name in "12"} == {"1": 6, "2": 1}


def test_without_a_state_the_group_says_where_to_begin(watched_model, cluster, topic, tmp_path):
    producer, place = cluster
    send(producer, '{"flow": 1}', topic=topic, partition=0)
    producer.flush(10)
    run(watched_model, place, topic, tmp_path, 1, state=False, options="?group=mine")
    send(producer, '{"flow": 2}', topic=topic, partition=0)
    producer.flush(10)
    counts = run(watched_model, place, topic, tmp_path, 1, state=False, options="?group=mine")
    assert counts.rows == 1


def test_messages_that_are_gone_are_named(watched_model, cluster, topic, tmp_path, caplog, monkeypatch):
    producer, place = cluster
    send(producer, '{"flow": 1}', topic=topic, partition=0)
    producer.flush(10)
    source = make_source(f"kafka://{place}/{topic}")
    source.open({"offsets": {"0": -1}})
    source.reader(Columns(("flow",)), None)
    source.connect(None)
    source.close()
    assert "messages -1 to -1 of partition 0 are no longer there" in caplog.text


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("kafka://me:secret@host:9092", "names no topic"),
        ("kafka://host/a/b", "names no topic"),
        ("kafka:rows", "no address of this kind"),
        ("kafka://host,other:x/rows", "no address of this kind"),
        ("kafka://host/rows?start=now", "start=now"),
        ("kafka://host/rows?offset=1", "option 'offset'"),
        ("kafka://host/rows?config=/nowhere/at/all", "cannot be read"),
    ],
)
def test_wrong_addresses(address, message):
    with pytest.raises(InputError, match=message) as raised:
        make_source(address)
    assert "secret" not in str(raised.value)


def test_a_cluster_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(kafka, "PATIENCE", 0.3)
    source = make_source(f"kafka://127.0.0.1:{free_port()}/rows")
    source.open(None)
    source.reader(Columns(("flow",)), None)
    with pytest.raises(InputError, match=r"did not answer within 0.3 s.*check the address"):
        source.connect(None)
    source.close()


def test_a_topic_that_nobody_makes(cluster, topic, monkeypatch):
    monkeypatch.setattr(kafka, "PATIENCE", 0.3)
    source = make_source(f"kafka://{cluster[1]}/{topic}")
    source.open(None)
    source.reader(Columns(("flow",)), None)
    with pytest.raises(InputError, match="Unknown topic"):
        source.connect(None)
    source.close()


def test_settings(tmp_path, monkeypatch):
    (tmp_path / "more").write_text("# ours\nssl.ca.location = ca.pem\n\nsasl.mechanisms=SCRAM-SHA-256\n")
    source = make_source(f"kafkas://me:p%40ss@one,two:9093/rows?config={tmp_path / 'more'}")
    assert source.name == "kafkas://one:9092,two:9093/rows"
    found = source._topic.settings()
    assert found["bootstrap.servers"] == "one:9092,two:9093"
    assert (found["security.protocol"], found["sasl.username"], found["sasl.password"]) == ("SASL_SSL", "me", "p@ss")
    assert (found["ssl.ca.location"], found["sasl.mechanisms"]) == ("ca.pem", "SCRAM-SHA-256")
    monkeypatch.setenv("PATCHAD_KAFKA_USER", "you")
    monkeypatch.setenv("PATCHAD_KAFKA_PASSWORD", "word")
    found = make_source("kafka://one/rows")._topic.settings()
    assert (found["security.protocol"], found["sasl.password"]) == ("SASL_PLAINTEXT", "word")
    (tmp_path / "more").write_text("hello\n")
    with pytest.raises(InputError, match="write name=value"):
        make_source(f"kafka://one/rows?config={tmp_path / 'more'}")
    (tmp_path / "more").write_text("no.such.setting=1\n")
    source = make_source(f"kafka://one/rows?config={tmp_path / 'more'}")
    source.open(None)
    with pytest.raises(InputError, match=r"no.such.setting"):
        source.connect(None)


def test_without_the_library(monkeypatch):
    original = builtins.__import__

    def absent(name, *rest):
        if name.startswith("confluent"):
            raise ImportError
        return original(name, *rest)

    source = make_source("kafka://localhost/rows")
    source.open(None)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'patchad\[live\]'"):
        source.connect(None)


def part(partition: int, offset: int, *texts: str) -> Part:
    return Part(partition, offset, offset, [Message(text.encode()) for text in texts])


def test_a_partition_that_says_nothing_holds_others_up_for_a_time(monkeypatch):
    monkeypatch.setattr(merging, "LINGER", 300.0)
    merge = Merge((0, 1), MessageReader(Columns(("flow",))))
    merge.push(part(0, 0, '{"time": 5, "flow": 1}'))
    assert merge.take(9) == []
    monkeypatch.setattr(merging, "STALLED", 0.0)
    assert merge.take(9) == []
    monkeypatch.setattr(merging, "LINGER", 0.0)
    assert [one.offset for one in merge.take(9)] == [0]


def test_rows_without_times_follow_those_before_them(monkeypatch):
    monkeypatch.setattr(merging, "LINGER", 0.0)
    monkeypatch.setattr(merging, "MOST", 4)
    merge = Merge((0, 1), MessageReader(Columns(("flow",))))
    merge.push(part(0, 0, '{"time": 5, "flow": 1}'))
    merge.push(part(0, 1, "broken"))
    merge.push(part(1, 0, '{"flow": 1}'))
    assert not merge.full
    merge.push(part(1, 1, '{"time": 4, "flow": 1}'))
    assert merge.full
    merge.reach_end(0)
    merge.reach_end(1)
    assert [(one.partition, one.offset) for one in merge.take(9)] == [(1, 0), (1, 1), (0, 0), (0, 1)]

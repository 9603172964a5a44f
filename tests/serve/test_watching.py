"""Sources and sinks of a service: one state with the rows that come over HTTP, and each line once, as with `watch`."""

from __future__ import annotations

import json
import random
import threading

import pytest
from tests.live.killing import KilledError, faulty_lines, make_deadly, undisturbed
from tests.live.receiver import receiving
from tests.live.servers import wait_for
from tests.live.telling import assert_equals_batch, read
from tests.serve.conftest import push, service

from patchad.errors import InputError
from patchad.live.config import Alarms, Configuration
from patchad.live.records import StoreFullError
from patchad.live.session import make_ends
from patchad.live.sinks.file import FileSink
from patchad.live.sources import file as file_source
from patchad.live.store import Store
from patchad.live.watch import Settings
from patchad.serve.measures import Measures
from patchad.serve.models import open_station
from patchad.serve.settings import Limits


def ends(folder, *sinks: str, **settings) -> Configuration:
    """Return the settings of a service that follows `rows` and writes to `out`."""
    return Configuration(sources=(f"file:{folder / 'rows'}",), sinks=(f"file:{folder / 'out'}", *sinks), **settings)


def has(client, key, count: int) -> None:
    """Wait until a stream has that many rows."""
    station = client.station
    wait_for(lambda: station.failure is not None or len(station.store.rows(key)) == count, what="rows")
    assert station.failure is None


def test_rows_of_sources_and_of_http_are_in_one_state_and_told_to_sinks(
    watched_model, watched_json, watched_rows, watched_batch, tmp_path
):
    rows, times = watched_rows
    (tmp_path / "rows").write_text(watched_json + "no row\n")
    with receiving() as receiver, service(watched_model, tmp_path / "state", None, ends(tmp_path, receiver.url)) as own:
        push(own, "sent", rows, times)
        has(own, "pump", 300)
        streams = {one["key"]: one for one in own.get("/v1/streams").json()["streams"]}
        assert set(streams) == {"pump", "sent"}
        assert streams["pump"]["verdicts"] == streams["sent"]["verdicts"] > 200
        told = {key: own.get(f"/v1/streams/{key}/events").json()["events"] for key in streams}
        assert [one["start"] for one in told["pump"]] == [one["start"] for one in told["sent"]]
        decided = [one for one in told["pump"] if one["state"] != "suspected"]  # more rows tell whether it is a repeat
        assert len(decided) == len(watched_batch.events)
        metrics = own.get("/metrics").text
        assert "patchad_rows_total 600.0" in metrics
        assert "patchad_rows_refused_total 1.0" in metrics
        own.post(f"/v1/events/{told['pump'][0]['id']}/acknowledge?key=pump")
    verdicts, events = read((tmp_path / "out").read_text())
    for key in streams:
        own_verdicts = [one for one in verdicts if one["key"] == key]
        assert [one["index"] for one in own_verdicts] == list(range(streams[key]["verdicts"]))
    assert [request.json for request in receiver.taken] == events
    assert {one["key"] for one in events} == {"pump", "sent"}
    (dead,) = map(json.loads, (tmp_path / "state.dead").read_text().splitlines())
    assert dead["row"] == "no row"
    with service(watched_model, tmp_path / "state", None, ends(tmp_path)) as again:
        has(again, "pump", 300)
        assert again.get("/v1/streams/pump/events").json()["events"][0]["acknowledged"]
    assert read((tmp_path / "out").read_text()) == (verdicts, events)


def test_what_is_not_stored_is_flushed_to_sinks(watched_model, watched_csv, watched_batch, tmp_path):
    (tmp_path / "rows").write_text(watched_csv)
    with service(watched_model, None, None, ends(tmp_path)) as client:
        has(client, None, 300)
        assert client.get("/v1/streams/-/events").status_code == 200
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch)


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_at_any_moment_loses_and_repeats_nothing(watched_model, tmp_path, monkeypatch, seed):
    monkeypatch.setattr(file_source, "CHUNK", 1_000)
    lines = faulty_lines(400)
    whole = undisturbed(watched_model, lines, tmp_path)
    rng = random.Random(seed)
    left = make_deadly(monkeypatch, rng)
    kills, rows = 0, 0
    while rows < len(lines):
        left[0] = rng.randint(4, 30)
        try:
            with Store(tmp_path / "state") as store:
                station = open_station(watched_model, store, Limits(), Measures())
                station.attach(*make_ends(ends(tmp_path)))
                station.start()
                wait_for(lambda own=station: own.failure is not None or own.streams.count("pump") == len(lines))
                station.stop()
                rows = len(store.rows("pump"))
                if station.failure is not None:
                    raise station.failure
        except KilledError:
            kills, rows = kills + 1, 0
    assert kills >= 1
    assert read((tmp_path / "out").read_text()) == whole


def test_a_full_disk_turns_requests_down_until_there_is_room(watched_model, watched_json, tmp_path, monkeypatch):
    monkeypatch.setattr("patchad.live.outlet.ROOM", 0.05)
    (tmp_path / "rows").write_text(watched_json)
    with service(watched_model, tmp_path / "state", None, ends(tmp_path)) as client:
        has(client, "pump", 300)
        whole, full = client.station.store.commit, threading.Event()
        full.set()

        def commit(step):
            if full.is_set():
                raise StoreFullError("there is no room for the state")
            whole(step)

        monkeypatch.setattr(client.station.store, "commit", commit)
        with (tmp_path / "rows").open("a") as file:
            file.write('{"key": "late", "values": {"flow": 1, "heat": 1, "load": 1}}\n')
        wait_for(lambda: "late" in client.station.streams, what="the row")
        assert "no room" in push(client, "sent", [{"flow": 1.0}], code=507)["detail"]
        full.clear()
        push(client, "sent", [{"flow": 1.0}])
        assert len(client.station.store.rows("late")) == 1


def test_streams_and_alarms_as_the_configuration_says(watched_model, watched_json, tmp_path):
    (tmp_path / "rows").write_text(watched_json)
    (tmp_path / "quiet").write_text("from,to\n2025-01-01,2030-01-01\n")
    settings = ends(tmp_path, streams=Settings(keys=("pump", 7)), alarms=Alarms(quiet=str(tmp_path / "quiet")))
    with service(watched_model, None, None, settings) as client:
        has(client, "pump", 300)
        assert client.get("/v1/streams/pump/events").json()["events"] == []
        assert "names" in push(client, "other", [{"flow": 1.0}], code=422)["detail"]
        push(client, "7", [{"flow": 1.0}], ["2026-01-01T00:00:00"])
        assert set(client.station.streams) == {"pump", 7}
    content = watched_model.save(tmp_path / "model").read_bytes()
    with service(watched_model, None, None, Configuration(alarms=Alarms(false_alarms=5.0))) as client:
        octets = {"Content-Type": "application/octet-stream"}
        assert client.post("/v1/models", content=content, headers=octets).status_code == 200
        assert client.get("/v1/model").json()["false_alarms"] == 5.0


def test_a_source_or_sink_that_fails_ends_the_service(watched_model, watched_csv, tmp_path, monkeypatch):
    (tmp_path / "rows").write_text("")
    with service(watched_model, None, None, ends(tmp_path)) as client:
        (tmp_path / "rows").write_text("a,b,c\n1,2,3\n")
        wait_for(lambda: not client.station.alive, what="an end")
        assert "header" in str(client.station.failure)
        assert client.get("/healthz").status_code == 503
        assert client.post("/v1/streams/a/rows", json={"rows": [{"flow": 1.0}]}).status_code == 503
    (tmp_path / "rows").write_text(watched_csv)

    def fail(*_):
        raise OSError(5, "Input/output error", "out")

    monkeypatch.setattr(FileSink, "write", fail)
    with service(watched_model, None, None, ends(tmp_path)) as client:
        wait_for(lambda: client.station.failure is not None, what="a failure")
        assert isinstance(client.station.failure, OSError)


def test_what_cannot_be_opened_is_said_at_the_start(watched_model, tmp_path, monkeypatch):
    monkeypatch.setattr("patchad.live.mqtt.PATIENCE", 0.1)
    (tmp_path / "rows").write_text("")
    settings = Configuration(sources=(f"file:{tmp_path / 'rows'}", "mqtt://127.0.0.1:1/rows"))
    with (
        pytest.raises(InputError, match="mqtt"),
        service(watched_model, tmp_path / "state", None, settings),
    ):
        pass

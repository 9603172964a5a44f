"""A full disk stops nothing for good, and a stream that falls silent is told of."""

from __future__ import annotations

import json
import sqlite3

import pandas as pd
import pytest
from tests.live.telling import assert_equals_batch, read

from patchad.errors import InputError
from patchad.live import outlet, watch
from patchad.live.history import Rows
from patchad.live.records import StoreFullError
from patchad.live.rows import Row
from patchad.live.sinks.file import FileSink
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.streams import Batch, LiveStreams
from patchad.live.watch import Settings, Watch


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(outlet, "ROOM", 0.01)


def test_a_full_disk_stops_acknowledging_until_there_is_room(
    watched_model, watched_csv, watched_batch, tmp_path, monkeypatch, caplog
):
    (tmp_path / "rows").write_text(watched_csv)
    source, out = make_source(f"file:{tmp_path / 'rows'}?follow=0"), tmp_path / "out"
    with Store(tmp_path / "state") as store:
        whole, fails = store._kept.add, [1, 1, 1]

        def add(*values):
            if fails:
                fails.pop()
                error = sqlite3.OperationalError("database or disk is full")
                with store._explained():
                    raise error
            whole(*values)

        monkeypatch.setattr(store._kept, "add", add)
        counts = Watch(watched_model, [source], [make_sink(f"file:{out}")], store).run()
        assert counts.verdicts == 300
        assert len(store.verdicts(None)) == len(store.rows(None)) == 300
    assert_equals_batch(out.read_text(), watched_batch)
    assert "nothing is acknowledged until there is room" in caplog.text
    assert "there is room again for the state" in caplog.text


def test_a_disk_that_stays_full_can_be_left(watched_model, watched_csv, tmp_path, monkeypatch):
    (tmp_path / "rows").write_text(watched_csv)
    stops = iter([False, False, True])
    with Store(tmp_path / "state") as store:

        def commit(step):
            raise StoreFullError("there is no room")

        monkeypatch.setattr(store, "commit", commit)
        running = Watch(watched_model, [make_source(f"file:{tmp_path / 'rows'}")], [], store)
        with pytest.raises(InputError, match="no room"):
            running.run(lambda: next(stops))


def test_lines_wait_for_a_file_that_has_no_room(
    watched_model, watched_csv, watched_batch, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("patchad.live.sources.file.CHUNK", 2000)
    (tmp_path / "rows").write_text(watched_csv)
    whole, fails = FileSink.write, [1, 1]

    def write(self, lines):
        if self.path.name == "out" and fails:
            fails.pop()
            whole(self, [line[:-5] for line in lines[:1]])  # a part of it was written
            raise OSError(28, "No space left on device", "out")
        return whole(self, lines)

    monkeypatch.setattr(FileSink, "write", write)
    with Store(tmp_path / "state") as store:
        source = make_source(f"file:{tmp_path / 'rows'}?follow=0")
        Watch(watched_model, [source], [make_sink(f"file:{tmp_path / 'out'}")], store).run()
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch)
    assert "its lines wait in the state" in caplog.text
    assert "there is room for" in caplog.text


def test_a_stream_that_falls_silent_is_an_event_until_a_row_comes(watched_model, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("patchad.live.silence.clock.monotonic", lambda: now[0])
    streams = LiveStreams(watched_model, silence=10)

    def push(minute: int, batch: Batch) -> None:
        time = f"2026-01-01T00:{minute:02}:00"
        streams.push({"pump": [Row("pump", time, time, {"flow": 1.0, "heat": 1.0, "load": 1.0})]}, batch)

    for minute in range(20):
        now[0] = 60.0 * minute
        push(minute, Batch())
    now[0] += 500
    quiet = Batch()
    streams.listen(quiet)
    assert quiet.events == []
    now[0] += 120
    streams.listen(quiet)
    streams.listen(quiet)
    (event,) = quiet.events
    assert (event["kind"], event["state"], event["start"], event["stop"]) == ("missing", "open", 19, 20)
    assert event["start_time"] == "2026-01-01T00:19:00"
    again = LiveStreams(watched_model)
    again.restore([streams.stored("pump")])
    later = Batch()
    time = pd.Timestamp("2026-01-01T00:40:00")
    again.push({"pump": [Row("pump", "x", time, {"flow": 1.0})]}, later)
    over = later.events[0]
    assert (over["id"], over["state"], over["stop_time"]) == (event["id"], "closed", "2026-01-01T00:40:00")


def test_watch_listens(watched_model, watched_csv, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LISTEN", 0.0)
    monkeypatch.setattr("patchad.live.silence.SHORTEST", 0.0)
    monkeypatch.setattr("patchad.live.silence.PATIENCE", 0.0)
    (tmp_path / "rows").write_text(watched_csv)
    polls = iter([False] * 20 + [True])
    settings = Settings(silence=1e-9)
    with Store(tmp_path / "state") as store:
        source = make_source(f"file:{tmp_path / 'rows'}")
        running = Watch(watched_model, [source], [make_sink(f"file:{tmp_path / 'out'}")], store, settings)
        running.run(lambda: next(polls))
        assert [event["kind"] for event in store.living()][-1:] == ["missing"]
    assert [event["kind"] for event in read((tmp_path / "out").read_text())[1] if event["kind"] == "missing"] == [
        "missing"
    ]


def test_keys_that_the_settings_do_not_name(watched_model, watched_json, tmp_path):
    (tmp_path / "rows").write_text(watched_json + '{"key": "valve", "values": {"flow": 1}}\n')
    with Store(tmp_path / "state") as store:
        source = make_source(f"file:{tmp_path / 'rows'}?follow=0")
        counts = Watch(watched_model, [source], [], store, Settings(keys=("pump",))).run()
        assert (counts.rows, counts.refused) == (300, 1)
        assert store.keys() == ["pump"]
        assert isinstance(store.rows("pump"), Rows)
    assert "names 'pump' only" in json.loads((tmp_path / "state.dead").read_text())["error"]

"""What is stored is there for whoever asks; a state that is not ours, or in use, is refused."""

from __future__ import annotations

import random
import resource
import sqlite3
import threading
import time

import pandas as pd
import pytest

from patchad.errors import InputError
from patchad.live import store as store_module
from patchad.live.history import Rows
from patchad.live.migrations import MIGRATIONS
from patchad.live.records import APPLICATION, Records, StoreFullError
from patchad.live.store import Line, Step, Store


def test_a_state_is_used_by_one_process(tmp_path):
    store = Store(tmp_path / "state")
    with pytest.raises(InputError, match="another process"):
        Store(tmp_path / "state")
    store.close()
    Store(tmp_path / "state").close()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE a (b)"], "something else"),
        ([f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 99"], "has format 99"),
    ],
)
def test_other_databases(tmp_path, statements, message):
    database = sqlite3.connect(tmp_path / "state")
    for statement in statements:
        database.execute(statement)
    database.close()
    with pytest.raises(InputError, match=message):
        Store(tmp_path / "state")


def test_no_database(tmp_path):
    (tmp_path / "state").write_text("flow,heat\n" * 200)
    with pytest.raises(InputError, match="not a database"):
        Store(tmp_path / "state")


BOTH = ("event", "verdict")


def event(name: str = "e1", state: str = "open", **fields) -> dict:
    return {"type": "event", "key": "pump", "id": name, "state": state, "start": 3, "stop": 5} | fields


def test_a_step_is_stored_as_a_whole_or_not_at_all(tmp_path):
    store = Store(tmp_path / "state")
    store.register({"-": (0, BOTH), "dead": (0, ["dead"])})
    with pytest.raises(InputError, match="cannot be used"):
        store.commit(Step(positions={"a": 1}, lines=[Line("event", "line"), Line("event", None)]))  # type: ignore
    assert store.position("a") is None
    assert store.undelivered("-") == []
    store.commit(Step(positions={"a": 1}, lines=[Line("event", "line"), Line("dead", "bad")]))
    assert store.position("a") == 1
    assert store.undelivered("-") == [(1, "event", "line")]
    assert store.undelivered("dead") == [(2, "dead", "bad")]
    store.confirm({"-": (1, 5), "dead": (2, 4)})
    assert store.undelivered("-") == store.undelivered("dead") == []
    store.register({"other": (0, BOTH)})
    assert store.mark("-") is None
    store.confirm({})
    store.close()


def test_a_sink_gets_the_lines_that_it_wants_and_holds_up_no_others():
    with Store() as store:
        store.register({"all": (0, BOTH), "events": (0, ["event"])})
        store.commit(Step(lines=[Line("verdict", "v1"), Line("event", "e1"), Line("verdict", "v2")]))
        assert [line.text for line in store.undelivered("events")] == ["e1"]
        assert [line.text for line in store.undelivered("all", most=2)] == ["v1", "e1"]
        store.confirm({"all": (3, 0)})
        assert store._run("SELECT line FROM lines") == [("e1",)]
        store.give_up("events", 2, "letter")
        assert store.undelivered("events") == []
        assert store._run("SELECT line FROM lines WHERE kind = 'event'") == []


def test_rows_verdicts_and_events_by_stream_and_time(tmp_path):
    times = [f"2026-01-01T00:{minute:02}:00" for minute in range(10)]
    rows = Rows.of(0, times, [{"flow": float(i), "mode": "on"} for i in range(10)], ("flow", "mode"))
    said = [{"score": 1.0 * i, "level": 5.0, "alarm": float(i > 5)} for i in range(10)]
    verdicts = Rows.of(0, times, said, ("score", "level", "alarm"))
    with Store(tmp_path / "state") as store:
        store.commit(Step(rows={"pump": rows}, verdicts={"pump": verdicts, 7: verdicts}))
        store.commit(Step(events=[event(start_time=times[3], stop_time=times[4]), event("e2", key=7, stop=9)]))
        store.commit(Step(events=[event(state="closed", start_time=times[2], stop_time=times[6])]))
        store.remark("pump", "e1", "comment", author="Ann", text="seen")
        store.note(model="abc")
        with Records(tmp_path / "state") as other:  # another connection, while the store is open
            found = other.rows("pump", since=times[4], until=pd.Timestamp(times[6], tz="UTC"))
            assert [(row["flow"], row["mode"]) for row in found] == [(4.0, "on"), (5.0, "on"), (6.0, "on")]
            assert (found.index.tolist(), found.times[0]) == ([4, 5, 6], times[4])
            assert other.verdicts(7, last=2).numbers["score"].tolist() == [8.0, 9.0]
            assert len(other.rows("nobody")) == 0
            assert other.keys() == ["pump", 7]
            assert [one["state"] for one in other.events("pump")] == ["closed"]
            assert [one["id"] for one in other.events()] == ["e1", "e2"]
            assert other.events(until=times[1]) == []
            assert [one["id"] for one in other.events("pump", since=times[6])] == ["e1"]
            assert [one["id"] for one in other.living()] == ["e2"]
            assert other.event("e1")[0]["state"] == "closed"
            (remark,) = other.remarks("e1")
            assert (remark.key, remark.kind, remark.author, remark.text) == ("pump", "comment", "Ann", "seen")
            assert other.remarks() == [remark]
            assert (other.meta("model"), other.meta("nothing")) == ("abc", None)
            assert other.meta("id") == store.id
        with pytest.raises(InputError, match="no time"):
            store.rows("pump", since="yesterday?")


def test_an_event_of_a_stream_without_times_goes_by_the_clock():
    with Store() as store:
        before = time.time()
        store.commit(Step(events=[event()]))
        store.commit(Step(events=[event(state="closed")]))
        assert [one["state"] for one in store.events(since=before)] == ["closed"]
        assert store.events(until=before - 1) == []


def test_what_was_suspected_becomes_the_event_that_it_is(tmp_path):
    with Store() as store:
        store.commit(Step(events=[event("s1", "suspected")]))
        store.remark("pump", "s1", "comment", text="seen")
        store.commit(Step(events=[event("e1", "open", suspected_id="s1")]))
        assert [one["id"] for one in store.events()] == ["e1"]
        assert [one.text for one in store.remarks("e1")] == ["seen"]
        store.commit(Step(events=[event("e1", "closed", suspected_id="s1")]))
        assert [one["state"] for one in store.events()] == ["closed"]


def test_a_state_of_the_first_format_is_brought_up_to_date(tmp_path):
    database = sqlite3.connect(tmp_path / "state", isolation_level=None)
    MIGRATIONS[0](lambda statement, *values: database.execute(statement, values).fetchall())
    database.execute("INSERT INTO streams VALUES ('\"pump\"', x'00', '[\"2026-01-01T00:00:00\"]', 'null')")
    lines = [(0, '{"type": "event", "key": 1}'), (0, '{"type": "verdict"}'), (1, "bad")]
    database.executemany("INSERT INTO lines (dead, line) VALUES (?, ?)", lines)
    database.execute("INSERT INTO sinks VALUES ('-', 0, 5)")
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute("PRAGMA user_version = 1")
    database.close()
    with pytest.raises(InputError, match="has format 1"):
        Records(tmp_path / "state")
    with Store(tmp_path / "state") as store:
        assert [line.kind for line in store.undelivered("-")] == ["event", "verdict", "dead"]
        (stream,) = store.streams()
        assert stream.waiting == [["2026-01-01T00:00:00", 1767225600.0]]
        assert store.mark("-") == 5
        assert len(store.id) == 16
    Records(tmp_path / "state").close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    Store(tmp_path / "state").close()

    def broken(run):
        run("CREATE TABLE another (a)")
        run("nonsense")

    monkeypatch.setattr(store_module, "MIGRATIONS", (*MIGRATIONS, broken))
    monkeypatch.setattr(store_module, "FORMAT", len(MIGRATIONS) + 1)
    with pytest.raises(InputError, match="cannot be used"):
        Store(tmp_path / "state")
    monkeypatch.undo()
    with Store(tmp_path / "state") as store:
        assert store._run("SELECT name FROM sqlite_master WHERE name = 'another'") == []


def test_records_of_no_state(tmp_path):
    with pytest.raises(InputError, match="there is no state"):
        Records(tmp_path / "state")
    sqlite3.connect(tmp_path / "state").close()
    (tmp_path / "state").touch()
    with pytest.raises(InputError, match="something else"):
        Records(tmp_path / "state")


def test_many_threads_read_while_one_writes(tmp_path):
    failed: list[BaseException] = []

    def read() -> None:
        try:
            with Records(tmp_path / "state") as records:
                for _ in range(20):
                    found = records.rows("pump")
                    assert found.index.tolist() == list(range(len(found)))
        except (AssertionError, InputError) as error:
            failed.append(error)

    with Store(tmp_path / "state") as store:
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(100):
            store.commit(Step(rows={"pump": Rows.of(number, [number], [{"a": 1.0}], ("a",))}))
        for thread in threads:
            thread.join()
    assert not failed


def test_no_room_is_an_error_of_its_own(tmp_path):
    with Store(tmp_path / "state") as store:
        store._run("PRAGMA max_page_count = 30")
        wide = [{f"c{i}": random.random() for i in range(200)} for _ in range(200)]
        with pytest.raises(StoreFullError, match="no room"):
            store.commit(Step(positions={"a": 1}, rows={"pump": Rows.of(0, list(range(200)), wide, list(wide[0]))}))
        assert store.position("a") is None
        store._run("PRAGMA max_page_count = 100000")
        store.commit(Step(positions={"a": 1}))
        assert store.position("a") == 1


def test_a_limit_of_the_system_undoes_a_step_and_nothing_else(tmp_path):
    def step(number: int) -> Step:
        wide = [{f"c{i}": random.random() for i in range(50)} for _ in range(50)]
        rows = Rows.of(50 * number, list(range(50)), wide, list(wide[0]))
        return Step(positions={"a": number}, rows={"pump": rows})

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store(tmp_path / "state") as store:
        done = 0

        def fill() -> None:
            nonlocal done
            while done < 100:
                store.commit(step(done))
                done += 1

        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))
        try:
            with pytest.raises(StoreFullError):
                fill()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert store.position("a") == done - 1
        store.commit(step(done))
        assert len(store.rows("pump")) == 50 * (done + 1)


def test_a_folder_that_is_not_there_or_a_folder(tmp_path):
    with pytest.raises(InputError, match="folder"):
        Store(tmp_path)
    (tmp_path / "state").symlink_to(tmp_path / "nowhere" / "state")
    with pytest.raises(InputError, match="unable to open"):
        Store(tmp_path / "state")

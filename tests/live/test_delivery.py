"""Lines reach a place that is away for a while, once each and in order, and hold up nothing meanwhile."""

from __future__ import annotations

import json
import random
import threading
import time

import pytest
from tests.live.receiver import receiving
from tests.live.telling import read

from patchad.live import delivery, outlet
from patchad.live.delivery import Delivery
from patchad.live.records import StoreFullError
from patchad.live.sinks.base import DeliveryError, RemoteSink
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Line, Step, Store
from patchad.live.watch import Watch


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(delivery, "FIRST_DELAY", 0.002)
    monkeypatch.setattr(delivery, "LONGEST_DELAY", 0.01)
    monkeypatch.setattr(delivery, "IDLE", 0.01)


class Place(RemoteSink):
    """Takes lines, and fails as it is told."""

    def __init__(self, tries: int = 3) -> None:
        super().__init__("place", tries)
        self.got: list[str] = []
        self.fails: list[DeliveryError] = []

    def check(self) -> str:
        return "here"

    def send(self, line, store) -> None:
        if self.fails:
            raise self.fails.pop()
        self.got.append(line.text)
        self.state = {"got": len(self.got)}


def filled(store: Store, *lines: str) -> None:
    store.register({"place": (0, ["event"])})
    store.commit(Step(lines=[Line("event", line) for line in lines]))


def test_lines_are_tried_again_and_keep_their_order(caplog):
    with Store() as store:
        filled(store, "a", "b")
        place = Place()
        place.fails = [DeliveryError("away"), DeliveryError("away")]
        one = Delivery(place, store)
        one.start()
        assert one.finish(None)
        assert place.got == ["a", "b"]
        assert "delivered after 3 tries" in caplog.text
        assert store.meta("sink place") == '{"got": 2}'
        again = Place()
        other = Delivery(again, store)
        other.start()
        assert again.state == {"got": 2}
        assert other.finish(None)


def test_a_line_that_is_not_taken_is_given_up(caplog):
    with Store() as store:
        filled(store, "a", "b", "c")
        store.register({"place": (0, ["event"]), "dead": (0, ["dead"])})
        place = Place(tries=2)
        place.fails = [DeliveryError("too long", final=True), DeliveryError("away"), DeliveryError("away")]
        one = Delivery(place, store)
        one.start()
        assert one.finish(None)
        assert place.got == ["c"]
        letters = [json.loads(line.text) for line in store.undelivered("dead")]
        assert [(letter["line"], letter["error"]) for letter in letters] == [("a", "away"), ("b", "too long")]
        assert "given up after 2 tries" in caplog.text


def test_what_is_left_is_kept(monkeypatch):
    with Store() as store:
        filled(store, "a")
        place = Place(tries=10**6)
        place.fails = [DeliveryError("away")] * 10**5
        one = Delivery(place, store, delay=lambda tried: 60.0)
        one.start()
        assert not one.finish(0.05)
        other = Delivery(place, store, delay=lambda tried: 60.0)
        other.start()
        stops = iter([False, True])
        assert not other.finish(None, lambda: next(stops))
        assert len(store.undelivered("place")) == 1


def test_a_full_disk_repeats_the_mark_and_not_the_line(monkeypatch):
    with Store() as store:
        filled(store, "a")
        whole, fails = store.confirm, [1, 1]

        def confirm(*values):
            if fails:
                fails.pop()
                raise StoreFullError("no room")
            whole(*values)

        monkeypatch.setattr(store, "confirm", confirm)
        place = Place()
        one = Delivery(place, store)
        one.start()
        assert one.finish(None)
        assert place.got == ["a"]


def test_what_breaks_the_thread_is_known(watched_model, tmp_path):
    class Broken(Place):
        def send(self, line, store) -> None:
            raise RuntimeError("a bug")

    class Tired(Place):
        def refresh(self) -> float | None:
            self.state["refreshed"] = True
            raise DeliveryError("away")

    with Store() as store:
        filled(store, "a")
        one = Delivery(Broken(), store)
        one.start()
        one.finish(None)
        assert str(one.failure) == "a bug"
        tired = Tired()
        other = Delivery(tired, store)
        other.start()
        other.wake()
        assert other.finish(None)
        (tmp_path / "rows").write_text('{"flow": 1}\n')
    with Store() as store:
        run = Watch(watched_model, [make_source(f"file:{tmp_path / 'rows'}")], [Broken()], store)
        filled_later = threading.Timer(0.2, lambda: store.commit(Step(lines=[Line("event", "x")])))
        filled_later.start()
        with pytest.raises(RuntimeError, match="a bug"):
            run.run()
        filled_later.join()


def test_a_receiver_that_fails_half_of_the_time_gets_every_event_once_by_key(
    watched_model, watched_json, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATCHAD_WEBHOOK_SECRET", "secret")
    rng = random.Random(1)
    (tmp_path / "rows").write_text(watched_json + watched_json.replace('"pump"', '"valve"'))
    out = tmp_path / "out"
    with receiving() as receiver, Store(tmp_path / "state") as store:
        receiver.answer = lambda request: rng.choice([200, 200, 503, 0])
        sinks = [make_sink(f"file:{out}"), make_sink(f"{receiver.url}/hook?verdicts=0&room=7")]
        Watch(watched_model, [make_source(f"file:{tmp_path / 'rows'}?follow=0")], sinks, store).run()
    _, told = read(out.read_text())
    by_key = {request.headers["Idempotency-Key"]: request.json for request in receiver.taken}
    assert list(by_key.values()) == told  # dicts keep the order of what came first
    assert len(told) >= 4
    assert len(receiver.came) > len(told)
    assert {request.path for request in receiver.came} == {"/hook?room=7"}


def test_a_receiver_that_is_away_holds_up_no_row(watched_model, watched_json, tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "LONGEST_DELAY", 3600.0)
    monkeypatch.setattr(delivery, "FIRST_DELAY", 3600.0)
    monkeypatch.setattr(outlet, "LAST", 0.1)
    (tmp_path / "rows").write_text(watched_json)
    out = tmp_path / "out"
    with receiving() as receiver:
        receiver.answer = lambda request: 500
        source = f"file:{tmp_path / 'rows'}?follow=0"
        began = time.monotonic()
        with Store(tmp_path / "state") as store:
            counts = Watch(
                watched_model, [make_source(source)], [make_sink(f"file:{out}"), make_sink(receiver.url)], store
            ).run()
        assert counts.verdicts == 300
        assert time.monotonic() - began < 1800
        receiver.answer = lambda request: 200
        monkeypatch.setattr(outlet, "LAST", 600.0)
        with Store(tmp_path / "state") as store:  # the next start delivers what was left
            Watch(watched_model, [make_source(source)], [make_sink(receiver.url)], store).run()
    assert [request.json for request in receiver.taken] == read(out.read_text())[1]


def test_what_no_receiver_takes_is_in_the_file_of_dead_letters(watched_model, watched_json, tmp_path):
    (tmp_path / "rows").write_text(watched_json)
    with receiving() as receiver, Store(tmp_path / "state") as store:
        receiver.answer = lambda request: 422
        source = make_source(f"file:{tmp_path / 'rows'}?follow=0")
        Watch(watched_model, [source], [make_sink(receiver.url)], store).run()
    letters = [json.loads(line) for line in (tmp_path / "state.dead").read_text().splitlines()]
    assert [json.loads(letter["line"])["type"] for letter in letters] == ["event"] * len(receiver.came)
    assert letters[0]["error"] == "answered 422 (no)"

"""Points on standard input and over HTTP are rows; who sent them hears when they are stored."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import urllib.error
import urllib.request

import pytest
from tests.live.servers import free_port
from tests.live.telling import read

from patchad.errors import InputError
from patchad.live.sinks.registry import make_sink
from patchad.live.sources import influx, influx_http
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Watch


@pytest.fixture
def piped(monkeypatch):
    """Standard input as a pipe; returns its other end."""
    end, begin = os.pipe()
    with os.fdopen(end) as stdin, os.fdopen(begin, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", stdin)
        yield pipe


def test_points_on_standard_input(watched_model, piped, tmp_path, monkeypatch):
    monkeypatch.setattr(influx, "HELD", 0.05)
    times = [f"{1_767_225_600 + second}" for second in range(40)]
    lines = [f"plant,pump={pump} flow={number},heat=2i {time}" for number, time in enumerate(times) for pump in "ab"]
    piped.write("\n".join([*lines, "broken", "caf\udce9 flow=1 5"]).encode(errors="surrogateescape") + b"\n")
    watch = Watch(
        watched_model, [make_source("influx:-?precision=s")], [make_sink(f"file:{tmp_path / 'out'}")], Store()
    )
    steps = iter(range(1000))

    def stopping() -> bool:
        if watch.counts.rows == 80:  # also the last ones, which nothing follows
            piped.close() if not piped.closed else None
        return next(steps) > 900

    watch.run(stopping)
    verdicts, _ = read((tmp_path / "out").read_text())
    assert (watch.counts.rows, watch.counts.refused) == (80, 2)
    assert {one["key"] for one in verdicts} == {"a", "b"}
    assert verdicts[0]["time"] == "2026-01-01T00:00:00Z"


class Service:
    """A run that listens on a port, in a thread."""

    def __init__(self, model, folder, options="") -> None:
        self.port = free_port()
        self._store = Store(folder / "state")
        source = make_source(f"influx+http://127.0.0.1:{self.port}{options}")
        self.watch = Watch(model, [source], [make_sink(f"file:{folder / 'out'}")], self._store)
        self._stop = False
        self._thread = threading.Thread(target=self.watch.run, args=(lambda: self._stop,))
        self._thread.start()

    def send(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, names)
        for _ in range(1000):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()
            except urllib.error.URLError:
                threading.Event().wait(0.1)
        raise AssertionError("nobody listens")

    def close(self) -> None:
        self._stop = True
        self._thread.join()
        self._store.close()


@pytest.fixture
def service(watched_model, tmp_path):
    service = Service(watched_model, tmp_path, "?key=host")
    yield service
    service.close()


def test_what_telegraf_sends(service, tmp_path):
    """Version 1 and 2, packed or not, in any precision."""
    assert service.send("/ping")[0] == 204
    assert json.loads(service.send("/health")[1])["status"] == "pass"
    assert service.send("/query?q=CREATE+DATABASE+x", b"")[0] == 200
    lines = b"plant,host=a flow=1 1767225600\nplant,host=a heat=2 1767225600\nplant,host=b flow=3 1767225600\nbroken\n"
    assert service.send("/write?db=x&precision=s", lines)[0] == 204
    assert (service.watch.counts.rows, service.watch.counts.refused) == (2, 1)
    more = gzip.compress(b"plant,host=a flow=1,heat=2 1767225601000\n")
    path = "/api/v2/write?org=o&bucket=b&precision=ms"
    assert service.send(path, more, Content_Encoding="gzip", Authorization="Token anything")[0] == 204
    assert service.watch.counts.rows == 3
    assert service.send(path, more, Content_Encoding="gzip")[0] == 204  # sent again
    assert (service.watch.counts.rows, service.watch.counts.redelivered) == (3, 1)
    assert service.send("/write", b"# nothing\n")[0] == 204
    (dead,) = map(json.loads, (tmp_path / "state.dead").read_text().splitlines())
    assert (dead["row"], "no point" in dead["error"]) == ("broken", True)


def test_requests_that_cannot_be_used(service, monkeypatch):
    monkeypatch.setattr(influx_http, "LARGEST", 1000)
    assert service.send("/other")[0] == 404
    assert service.send("/other", b"")[0] == 404
    assert b"precision=x is unknown" in service.send("/write?precision=x", b"a b=1")[1]
    assert service.send("/write", b"x" * 2000)[0] == 413
    assert service.send("/write", gzip.compress(b"x" * 2000), Content_Encoding="gzip")[0] == 413
    assert b"damaged" in service.send("/write", b"hello", Content_Encoding="gzip")[1]
    assert b"too early" in service.send("/write", gzip.compress(b"a b=1")[:-9], Content_Encoding="gzip")[1]
    assert b"unknown" in service.send("/write", b"hello", Content_Encoding="br")[1]
    assert b"Content-Length" in service.send("/write", io.BytesIO(b"a b=1"), Transfer_Encoding="chunked")[1]
    assert service.watch.counts.rows == 0


def test_a_token_is_asked_for_where_it_is_set(watched_model, tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHAD_INFLUX_TOKEN", "secret")
    service = Service(watched_model, tmp_path)
    try:
        assert service.send("/write", b"a flow=1 5")[0] == 401
        assert service.send("/write", b"a flow=1 5", Authorization="Token secret")[0] == 204
    finally:
        service.close()


def test_rows_that_are_not_stored_in_time_are_asked_for_again(monkeypatch):
    monkeypatch.setattr(influx_http, "ANSWER", 0.05)
    source = make_source(f"influx+http://127.0.0.1:{free_port()}")
    source._doubt = 0.0
    assert source.take(b"a flow=1 5", None) is False
    assert [request.again for request in source._waiting] == [False]
    assert source.take(b"a flow=1 5", None) is False
    assert [request.again for request in source._waiting] == [False, True]
    source.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("influx:file", "write influx:-"),
        ("influx:-?precision=week", "precision=week is unknown"),
        ("influx:-?db=x", "option 'db'"),
        ("influx+http://0.0.0.0:8086", "PATCHAD_INFLUX_TOKEN"),
        ("influx+http:8086", "no address of this kind"),
    ],
)
def test_wrong_addresses(address, message):
    with pytest.raises(InputError, match=message):
        make_source(address)


def test_a_port_that_is_taken(service):
    source = make_source(f"influx+http://127.0.0.1:{service.port}")
    service.send("/ping")
    with pytest.raises(InputError, match="choose another port"):
        source.connect(None)

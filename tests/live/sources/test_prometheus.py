"""Range queries give a row for each step, none twice and none left out, over restarts and failures."""

from __future__ import annotations

import builtins
import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote

import pytest
from tests.live.servers import free_port

from patchad.errors import InputError, MissingExtraError
from patchad.live.rows import Columns
from patchad.live.sources import prometheus
from patchad.live.sources.registry import make_source

COLUMNS = Columns(("flow", "heat", "speed"))


class Api:
    """Answers range queries from a function: labels and value by query and time."""

    def __init__(self) -> None:
        self.answer = lambda query, at: [({"__name__": query}, at)]
        self.failures = 0
        self.raw: bytes | None = None
        self.asked: list[dict] = []
        self.heads: list[str | None] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                about = {name: values[0] for name, values in form.items()}
                api.asked.append(about | {"path": self.path})
                api.heads.append(self.headers["Authorization"])
                status, body = api._answered(about)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *values):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def _answered(self, about: dict) -> tuple[int, bytes]:
        if self.failures:
            self.failures -= 1
            return 503, b"busy"
        if self.raw is not None:
            return 400, self.raw
        start, end, step = (float(about[name]) for name in ("start", "end", "step"))
        series: dict[str, dict] = {}
        for number in range(round((end - start) / step) + 1):
            at = start + number * step
            for labels, value in self.answer(about["query"], at):
                own = series.setdefault(json.dumps(labels), {"metric": labels, "values": []})
                own["values"].append([at, str(value)])
        return 200, json.dumps({"status": "success", "data": {"result": list(series.values())}}).encode()


@pytest.fixture
def api():
    api = Api()
    yield api
    api.server.shutdown()
    api.server.server_close()


@pytest.fixture
def made():
    opened = []

    def make(address, position=None, columns=COLUMNS):
        source = make_source(address)
        source.open(position)
        source.reader(columns, None)
        opened.append(source)
        return source

    yield make
    for source in opened:
        source.close()


def rows_of(source, count: int) -> list[dict]:
    """Poll until so many rows came."""
    found = []
    end = time.monotonic() + 300
    while len(found) < count:
        assert time.monotonic() < end
        found += [json.loads(line) for line in source.poll()]
        time.sleep(0.005)
    return found


def moments(rows: list[dict]) -> list[float]:
    return [float(json.dumps(row["values"]["flow"])) for row in rows]


def test_each_step_is_there_once_over_restarts(api, made):
    address = f"prometheus+http://{api.place}?query=flow&query=heat&step=100ms&delay=0"
    source = made(address)
    source.connect(None)
    rows = rows_of(source, 4)
    assert set(rows[0]["values"]) == {"flow", "heat"}
    assert rows[0]["key"] is None
    position = json.loads(json.dumps(source.position))
    again = made(address, position)
    assert (source.resumed, again.resumed, again.name) == (False, True, source.name)
    time.sleep(0.3)
    again.connect(None)
    rows += rows_of(again, 4)
    times = [round(at * 10) for at in moments(rows)]
    assert times == list(range(times[0], times[0] + len(times)))
    assert all(row["time"].endswith("Z") for row in rows)


def test_a_server_that_is_away_for_a_while_costs_nothing(api, made, caplog, monkeypatch):
    monkeypatch.setattr(prometheus, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(prometheus, "SPAN", 3)
    source = made(f"prometheus+http://{api.place}/prom?query=flow&step=50ms&delay=0&since=1s")
    source.connect(None)
    api.failures = 3
    rows = rows_of(source, 22)
    times = [round(at * 20) for at in moments(rows)]
    assert times == list(range(times[0], times[0] + len(times)))
    assert "trying again" in caplog.text
    assert "answers again" in caplog.text
    assert api.asked[0]["path"] == "/prom/api/v1/query_range"


def test_labels_are_keys_and_channels(api, made):
    api.answer = lambda query, at: [
        ({"__name__": "sensor", "pump": pump, "what": what, "job": "plant", "instance": "x"}, at)
        for pump in "ab"
        for what in ("flow", "heat")
    ]
    for more in ("&channel=what", ""):
        source = made(f"prometheus+http://{api.place}?query=sensor&step=100ms&key=pump{more}")
        source.connect(None)
        rows = rows_of(source, 2)
        assert [row["key"] for row in rows[:2]] == ["a", "b"]
        assert set(rows[0]["values"]) == {"flow", "heat"}


def test_missing_values(api, made):
    """NaN and infinite ones; where a stream has nothing at all there is no row."""
    values = {0: "NaN", 1: "+Inf", 2: "5"}

    def answer(query, at):
        number = round(at * 10) % 4
        return [({"__name__": "flow"}, values[number])] if number in values else []

    api.answer = answer
    source = made(f"prometheus+http://{api.place}?query=flow&step=100ms&since=1s")
    source.connect(None)
    rows = rows_of(source, 8)
    assert {row["values"]["flow"] for row in rows} == {None, 5.0}
    gaps = [
        round(float(b["time"][17:-1]) * 10) - round(float(a["time"][17:-1]) * 10) for a, b in itertools.pairwise(rows)
    ]
    assert 2 in [gap % 600 for gap in gaps]


@pytest.mark.parametrize(
    ("labels", "query", "channel"),
    [
        ({"__name__": "flow", "job": "x"}, "{job='x'}", "flow"),
        ({}, "sum(rate(flow[1m]))", "flow"),
        ({}, "flow + heat", "flow + heat"),
        ({"__name__": "other", "a": "b"}, "other", 'other{a="b"}'),
        ({"__name__": "other", "a": "heat"}, "other", "heat"),
    ],
)
def test_names_of_channels(made, labels, query, channel):
    assert made("prometheus+http://localhost?query=x&step=1")._named(labels, query) == channel


def test_series_that_cannot_be_told_apart(api, made):
    api.answer = lambda query, at: [({"__name__": "flow", "instance": one}, 1) for one in "ab"]
    source = made(f"prometheus+http://{api.place}?query=flow&step=100ms")
    with pytest.raises(InputError, match=r"several series are channel 'flow'.*key=LABEL"):
        source.connect(None)
    found = source._rows(0, 0)
    assert "several series" in found[0].error


def test_series_that_the_model_does_not_know(api, made):
    source = made(f"prometheus+http://{api.place}?query=other&step=100ms")
    with pytest.raises(InputError, match=r"no series is a channel of the model.*'other'.*channel=LABEL"):
        source.connect(None)


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b'{"status": "error", "error": "parse error"}', "400: parse error"), (b"<html>", "not as Prometheus does")],
)
def test_a_query_that_is_refused(api, made, raw, message):
    api.raw = raw
    with pytest.raises(InputError, match=message):
        made(f"prometheus+http://{api.place}?query=x&step=1").connect(None)


def test_a_server_that_does_not_answer(made, monkeypatch):
    monkeypatch.setattr(prometheus, "PATIENCE", 0.3)
    with pytest.raises(InputError, match="no answer"):
        made(f"prometheus+http://127.0.0.1:{free_port()}?query=x&step=1").connect(None)


def test_users_and_tokens(api, made, monkeypatch):
    monkeypatch.setenv("PATCHAD_PROMETHEUS_TOKEN", "secret")
    made(f"prometheus+http://{api.place}?query=flow&step=1").connect(None)
    source = made(f"prometheus+http://me:word@{api.place}?query=flow&step=1")
    source.connect(None)
    assert api.heads[0] == "Bearer secret"
    assert api.heads[1].startswith("Basic ")
    assert "word" not in source.name


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("prometheus+http://host?step=1", "needs a query and a step"),
        ("prometheus+http://host?query=x", "needs a query and a step"),
        ("prometheus+http://host?query=x&step=soon", "step=soon is no time"),
        ("prometheus+http://host?query=x&step=5w", "step=5w is no time"),
        ("prometheus+http://host?query=x&step=0", "no step"),
        ("prometheus+http://host?query=x&step=1&start=2", "option 'start'"),
        ("prometheus+http:host?query=x&step=1", "no address of this kind"),
    ],
)
def test_wrong_addresses(address, message):
    with pytest.raises(InputError, match=message):
        make_source(address)


def test_queries_are_written_as_in_a_url():
    query = 'sum(rate(flow{pump=~"a|b"}[1m])) + 1'
    source = make_source(f"prometheus+https://host/select?query={quote(query)}&step=15s")
    assert source._queries == (query,)
    assert source._root == "https://host:443/select"


def test_without_the_library(made, monkeypatch):
    original = builtins.__import__

    def absent(name, *rest):
        if name == "httpx":
            raise ImportError
        return original(name, *rest)

    source = made("prometheus+http://localhost?query=x&step=1")
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'patchad\[live\]'"):
        source.connect(None)

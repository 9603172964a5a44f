"""Errors are problem details, whatever is sent; limits hold; only who may is let in."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path

import pytest
from tests.serve.conftest import push, service

from patchad.errors import InputError
from patchad.live.records import StoreFullError
from patchad.serve import bodies
from patchad.serve.problems import problem_of
from patchad.serve.security import FREE, METRICS, Guard, is_loopback, read_tokens
from patchad.serve.settings import Limits

ROWS = {"rows": [{"flow": 1.0}]}


def assert_problem(answer, status: int, part: str = "") -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["title"]
    assert found["type"] == "about:blank"
    assert part in found["detail"], found["detail"]
    return found


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "no 'rows'"),
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[1]", "an object is needed"),
        (b"{}", "no 'rows'"),
        (b'{"rows": 1}', "a list is needed"),
        (b'{"rows": [1]}', "an object is needed"),
        (b'{"rows": [{"flow": NaN}]}', "no JSON"),
        (b'{"rows": [{"flow": -Infinity}]}', "no JSON"),
        (b'{"rows": [{"flow": 1e999}]}', "infinite"),
        (b'{"rows": [{"flow": 1' + b"0" * 400 + b"}]}", "too large"),
        (b'{"rows": [{"flow": "high"}]}', "a number is needed"),
        (b'{"rows": [{"flow": [1]}]}', "a number is needed"),
        (b'{"rows": [[1, 2]]}', "3 are needed"),
        (b'{"rows": [{"other": 1}]}', "'other'"),
        (b'{"rows": [{"other": {"deep": []}}]}', "'other'"),
        (b'{"rows": [{"flow": 1}], "times": 5}', "a list of 1"),
        (b'{"rows": [{"flow": 1}], "times": []}', "a list of 1"),
        (b'{"rows": [{"flow": 1}], "times": [null]}', "ISO 8601"),
        (b'{"rows": [{"flow": 1}], "times": [true]}', "ISO 8601"),
        (b'{"rows": [{"flow": 1}], "times": ["yesterday"]}', ""),
        (b'{"rows": [{"flow": 1}], "times": ["\\ud800"]}', "surrogate"),
        (b'{"rows": [{"flow": 1}, {"flow": 1}], "times": ["2026-01-01", 5]}', "one kind"),
        (b'{"rows": [{"flow": 1}], "times": [1e999]}', "infinite"),
        (b'{"rows": [{"flow": 1}], "times": [1' + b"0" * 400 + b"]}", "too large"),
        (b'{"rows": [{"flow": 1}], "time": ["2026-01-01"]}', "unknown"),
    ],
)
def test_bodies_that_cannot_be_used(client, body, part):
    for path in ("/v1/detect", "/v1/streams/pump/rows"):
        answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert_problem(answer, 422, part)
    assert client.get("/v1/streams").json()["streams"] == []


def test_more_bodies_that_cannot_be_used(client):
    assert_problem(client.post("/v1/detect", json={"rows": []}), 422, "no rows")
    assert_problem(client.post("/v1/detect", json={"rows": [{}]}), 422, "no row has a value")
    for first in (-1, 1.5, True, "0", 2**80):
        assert_problem(client.post("/v1/streams/a/rows", json=ROWS | {"first_index": first}), 422, "first_index")
    again = {"rows": [{"flow": 1.0}], "first_index": 0}
    assert client.post("/v1/streams/b/rows", json=again).status_code == 200
    assert_problem(client.post("/v1/streams/b/rows", json=again | {"times": [{}]}), 422, "time 0 is {}")
    for kind in ("text/csv", bodies.PARQUET):
        found = assert_problem(client.post("/v1/detect", content=b"\x00\x01", headers={"Content-Type": kind}), 422)
        assert "/tmp" not in found["detail"]
    assert_problem(client.post("/v1/detect", content=b"x", headers={"Content-Type": "text/xml"}), 415, "text/csv")
    assert_problem(client.post("/v1/streams/a/rows", content=b"x", headers={"Content-Type": "text/csv"}), 415)
    answer = assert_problem(client.get("/v1/detect"), 405)
    assert "/openapi.json" in answer["detail"]
    assert client.get("/v1/detect").headers["allow"] == "POST"
    for path in ("/v1/nothing", "/static/../app.py", "/static/%2e%2e/app.py", "/static/live.html"):
        assert_problem(client.get(path), 404)
    assert_problem(client.get("/v1/streams/nobody/events"), 404, "nobody")
    assert_problem(client.get("/v1/streams/nobody/history"), 404, "nobody")
    assert_problem(client.get("/v1/streams/a/history?points=x"), 422, "points")
    assert_problem(client.post("/v1/events/none/acknowledge"), 404, "none")
    assert_problem(client.post("/v1/events/none/praise"), 422, "verb")
    assert_problem(client.post("/v1/events/none/comment", json={"text": 5}), 422, "text")
    assert_problem(client.post("/v1/events/none/comment", json={}), 422, "text")


def test_limits_of_bodies_rows_columns_and_streams(watched_model):
    with service(watched_model, body=1000, rows=5, channels=4, streams=1) as client:
        big = b'{"rows": [' + b" " * 2000 + b"]}"
        for path in ("/v1/detect", "/v1/streams/a/rows", "/v1/models"):
            kind = "application/octet-stream" if path == "/v1/models" else "application/json"
            headers = {"Content-Type": kind}
            assert_problem(client.post(path, content=big, headers=headers), 413, "1,000")
            assert_problem(client.post(path, content=iter([big[:700], big[700:]]), headers=headers), 413)
            assert_problem(client.post(path, content=iter([big] * 3), headers=headers), 413)
            assert_problem(client.post(path, content=b" " * 10_000, headers=headers), 413)
        assert_problem(client.post("/v1/detect", json={"rows": [{"flow": 1}] * 6}), 413, "6 rows")
        assert_problem(client.post("/v1/detect", json={"rows": [dict.fromkeys("abcde", 1)]}), 413, "5 values")
        csv = "flow,heat,load\n" + "1,2,3\n" * 6
        assert_problem(client.post("/v1/detect", content=csv, headers={"Content-Type": "text/csv"}), 413, "6 rows")
        push(client, "a", [{"flow": 1}])
        assert push(client, "b", [{"flow": 1}], code=409)["detail"].startswith("there are 1 streams")
    with pytest.raises(InputError, match="limit rows=0"):
        Limits(rows=0)


def test_a_large_parquet_file_is_refused_before_it_is_read(client, tmp_path, monkeypatch):
    import pandas as pd

    monkeypatch.setattr(bodies, "read_table", None)
    pd.DataFrame({"flow": [1.0] * 100_001}).to_parquet(tmp_path / "x.parquet")
    content = (tmp_path / "x.parquet").read_bytes()
    answer = client.post("/v1/detect", content=content, headers={"Content-Type": bodies.PARQUET})
    assert_problem(answer, 413, "100,001 rows")


def test_work_that_is_slow(watched_model, monkeypatch):
    with service(watched_model, seconds=0.2) as client:
        answered = threading.Event()
        monkeypatch.setattr(client.station.streams, "push", lambda *_: (answered.wait(300), ({}, {}))[1])
        problem = assert_problem(client.post("/v1/streams/a/rows", json=ROWS), 503, "first_index")
        answered.set()
        assert problem["title"] == "Service Unavailable"


def test_overload_is_429(watched_model, monkeypatch):
    with service(watched_model, queue=2, detections=1) as client:
        going, busy = threading.Event(), threading.Event()

        before = client.station.streams.push

        def wait(*rows):
            busy.set()
            going.wait(300)
            return before(*rows)

        monkeypatch.setattr(client.station.streams, "push", wait)
        threads = [threading.Thread(target=client.post, args=("/v1/streams/a/rows",), kwargs={"json": ROWS})]
        threads[0].start()
        assert busy.wait(300)
        for _ in range(2):
            threads.append(threading.Thread(target=client.post, args=("/v1/streams/a/rows",), kwargs={"json": ROWS}))
            threads[-1].start()
        until = time.monotonic() + 300
        while client.station.queued < 2 and time.monotonic() < until:
            time.sleep(0.01)
        answer = client.post("/v1/streams/a/rows", json=ROWS)
        assert_problem(answer, 429, "2 requests")
        assert answer.headers["retry-after"] == "1"
        assert client.get("/readyz").status_code == 503
        monkeypatch.setattr(client.station.streams, "push", before)
        going.set()
        for thread in threads:
            thread.join()
        service_ = client.app.state.service
        service_._detections = 1
        assert_problem(client.post("/v1/detect", json=ROWS), 429, "1 detections")
        assert "patchad_requests_turned_away_total 2.0" in client.get("/metrics").text


def test_errors_of_the_service_itself(client, watched_rows, monkeypatch, caplog):
    rows, times = watched_rows
    push(client, "pump", rows[:50], times[:50])

    def fail(*_, **__):
        raise StoreFullError("there is no room for the state")

    monkeypatch.setattr(client.station.store, "commit", fail)
    problem = push(client, "pump", rows[50:60], times[50:60], code=507)
    assert "nothing of this request was stored" in problem["detail"]
    monkeypatch.undo()
    assert client.get("/v1/streams").json()["streams"][0]["rows"] == 50
    monkeypatch.setattr(client.station.store, "commit", lambda *_: 1 / 0)
    problem = push(client, "pump", rows[50:60], times[50:60], code=500)
    assert "division" not in problem["detail"]
    assert "rows could not be taken" in caplog.text
    monkeypatch.undo()
    assert len(push(client, "pump", rows[50:], times[50:], 50)) > 0
    monkeypatch.setattr(client.station.measures, "count", lambda *_: 1 / 0)
    push(client, "pump", [rows[-1]], ["2026-02-01"], 300)  # stored, so it is answered
    assert "could not be told" in caplog.text
    monkeypatch.setattr(client.station.measures, "text", lambda: 1 / 0)
    assert_problem(client.get("/metrics"), 500)
    assert problem_of(KeyError("x")).status == 500


# -- who may ask -------------------------------------------------------------------------------------------------------

WRITE, READ = "w" * 20, "r" * 20


@pytest.fixture
def guarded(watched_model, tmp_path):
    digest = hashlib.sha256(READ.encode()).hexdigest()
    (tmp_path / "tokens").write_text(f"# people\n\n{WRITE}\nread:sha256:{digest}\n")
    with service(watched_model, guard=Guard(read_tokens(tmp_path / "tokens"))) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_nothing_but_signs_and_static_files_answers_without_a_token(guarded):
    paths = list(guarded.get("/openapi.json", headers=bearer(READ)).json()["paths"])
    for path in [*paths, "/openapi.json", "/", "/nothing", "/v1/streams/../../healthz/x"]:
        for wrong in ({}, bearer("x" * 20), {"Authorization": WRITE}, {"Authorization": f"Basic {WRITE}"}):
            for method in ("GET", "POST"):
                answer = guarded.request(method, path, headers=wrong)
                if path in ("/healthz", "/readyz"):
                    assert answer.status_code == (200 if method == "GET" else 405)
                else:
                    assert answer.status_code == 401, path
                    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded.get("/static/live.js").status_code == 200
    assert guarded.get("/").headers["content-type"].startswith("text/html")
    assert_problem(guarded.get("/v1/streams"), 401, "Authorization: Bearer")


def test_metrics_without_a_token_if_told_so(watched_model, tmp_path):
    (tmp_path / "tokens").write_text(WRITE)
    with service(watched_model, guard=Guard(read_tokens(tmp_path / "tokens"), (*FREE, METRICS))) as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/v1/streams").status_code == 401


def test_a_token_that_may_only_read(guarded):
    for path in ("/v1/streams", "/v1/model", "/metrics", "/"):
        assert guarded.get(path, headers=bearer(READ)).status_code == 200
    assert guarded.post("/v1/detect", json=ROWS, headers=bearer(READ)).status_code == 200
    for path in ("/v1/streams/a/rows", "/v1/events/x/acknowledge", "/v1/models"):
        assert_problem(guarded.post(path, json=ROWS, headers=bearer(READ)), 403, "only read")
    assert guarded.post("/v1/streams/a/rows", json=ROWS, headers=bearer(WRITE)).status_code == 200


def test_pages_of_other_sites_are_refused(client, guarded):
    answer = client.post("/v1/events/x/acknowledge", headers={"Origin": "https://evil.example"})
    assert_problem(answer, 403, "another site")
    assert client.post("/v1/detect", json=ROWS, headers={"Origin": "http://127.0.0.1"}).status_code == 200
    for host in ("evil.example", "evil.example:8000", "[", ""):
        assert_problem(client.get("/v1/streams", headers={"Host": host}), 421)
    for host in ("localhost:8000", "[::1]:8000"):
        assert client.get("/v1/streams", headers={"Host": host}).status_code == 200
    assert guarded.get("/v1/streams", headers=bearer(READ) | {"Host": "plant.example"}).status_code == 200
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self';" in policy


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "has no token"),
        ("# only talk\n", "has no token"),
        ("short", "at least 16"),
        ("two words here and more", "a space"),
        ("sha256:xyz", "64 hexadecimal"),
        (b"\xff", "no text"),
        (None, "cannot be read"),
    ],
)
def test_files_of_tokens_that_cannot_be_used(tmp_path, text, part):
    path = tmp_path / "tokens"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=part):
        read_tokens(Path(path))


def test_addresses_of_this_machine():
    assert [is_loopback(host) for host in ("127.9.9.9", "::1", "::", "10.0.0.1", "plant.example")] == [
        *(True, True),
        *(False, False, False),
    ]
    assert json.loads(problem_of(InputError("x " * 5000)).answer().body)["detail"].count(" ... ") == 1

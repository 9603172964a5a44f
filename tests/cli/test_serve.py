"""`patchad serve` as a command: wrong calls, and a service that is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
import urllib.request

import pytest

from patchad import make
from patchad.cli.main import run
from patchad.data.table import Table
from patchad.datasets.plant import simulate_plant


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{model}", "--host", "0.0.0.0"], "give tokens with --token-file"),
        (["{model}", "--host", "no.such.name.invalid", "--token-file", "{tokens}"], "is no address"),
        (["{model}", "--token-file", "nowhere"], "cannot be read"),
        (["{model}", "--cert", "x"], "go together"),
        (["{model}", "--cert", "x", "--key", "y"], "'x' is no file"),
        (["{model}", "--demo"], "not both"),
        ([], "give a model file, or --demo"),
        (["nowhere.safetensors"], "there is no model file"),
        (["{model}", "--port", "70000"], "65535"),
        (["{model}", "--state", "{model}"], "also an input"),
        (["{model}", "--state", "."], "is a folder"),
        (["{model}", "--from", "file:nowhere"], "there is no file 'nowhere'"),
        (["{model}", "--from", "file:tokens", "--to", "file:tokens"], "also an input"),
        (["{model}", "--config", "nowhere"], "cannot be read"),
    ],
)
def test_wrong_calls(watched_file, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens").write_text("t" * 20)
    filled = [one.format(model=watched_file, tokens="tokens") for one in arguments]
    assert run(["serve", *filled, *([] if "--port" in filled else ["--port", "0"])]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_a_port_that_is_taken(watched_file, capsys):
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert run(["serve", str(watched_file), "--port", str(other.getsockname()[1])]) == 2
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


def test_without_the_extra(watched_file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", str(watched_file)]) == 3
    assert "pip install 'patchad[serve]'" in capsys.readouterr().err


def ask(url: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def serve_and(work, *arguments, capsys) -> str:
    """Run the command, let something be asked of it, and stop it by a signal; give what it said."""
    said: list[str] = []

    def ask_and_stop() -> None:
        try:
            until = time.monotonic() + 300
            while not (found := re.search(r"listening on (http://\S+);", "".join(said))):
                assert time.monotonic() < until
                said.append(capsys.readouterr().err)
                time.sleep(0.02)
            work(found[1])
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=ask_and_stop)
    thread.start()
    assert run(["serve", *map(str, arguments), "--port", "0"]) == 0
    thread.join()
    return "".join(said) + capsys.readouterr().err


def test_what_was_answered_is_there_at_the_next_start(watched_file, watched, watched_batch, tmp_path, capsys):
    rows = json.loads(watched.drop(columns="time").to_json(orient="records"))
    times, verdicts = watched["time"].tolist(), []
    for first, stop in ((0, 140), (140, 300)):

        def work(url: str, first: int = first, stop: int = stop) -> None:
            assert sum(one["rows"] for one in ask(f"{url}/v1/streams")["streams"]) == first
            body = {"rows": rows[first:stop], "times": times[first:stop], "first_index": first}
            verdicts.extend(ask(f"{url}/v1/streams/pump/rows", body)["verdicts"])

        said = serve_and(work, watched_file, "--state", tmp_path / "state", capsys=capsys)
    assert [verdict["index"] for verdict in verdicts] == list(range(len(verdicts)))
    assert [verdict["alarm"] for verdict in verdicts] == watched_batch.alarms[: len(verdicts)].tolist()
    assert "stopped; 1 streams with 300 rows" in said


def test_a_configuration_with_sources_and_sinks(watched_file, watched_json, tmp_path, capsys):
    (tmp_path / "rows").write_text(watched_json)
    (tmp_path / "patchad.toml").write_text(
        f'model = "{watched_file}"\nstate = "{tmp_path / "state"}"\n'
        f'sources = ["file:{tmp_path / "rows"}"]\nsinks = ["file:{tmp_path / "out"}"]\n'
    )

    def work(url: str) -> None:
        until = time.monotonic() + 300
        while sum(one["rows"] for one in ask(f"{url}/v1/streams")["streams"]) < 300:
            assert time.monotonic() < until
            time.sleep(0.05)

    said = serve_and(work, "--config", tmp_path / "patchad.toml", capsys=capsys)
    assert "stopped; 1 streams with 300 rows" in said
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert {one["type"] for one in lines} == {"verdict", "event"}


def test_a_source_that_fails_ends_it(watched_file, tmp_path, capsys):
    (tmp_path / "rows").write_text("a,b,c\n1,2,3\n")
    assert run(["serve", str(watched_file), "--port", "0", "--from", f"file:{tmp_path / 'rows'}"]) == 2
    assert "header" in capsys.readouterr().err.splitlines()[-1]


def test_the_demo_sends_what_lies_behind_the_plants_and_then_row_by_row(monkeypatch, capsys):
    train = simulate_plant(600, seed=0)
    model = make("moving_zscore").fit(Table(train.values, train.channels, train.times))
    monkeypatch.setattr("patchad.serve.demo.demo_model", lambda: model)

    def work(url: str) -> None:
        until = time.monotonic() + 300
        before: dict[str, int] = {}
        while time.monotonic() < until:
            rows = {one["key"]: one["rows"] for one in ask(f"{url}/v1/streams")["streams"]}
            if len(rows) == 3 and before and all(rows[key] > before[key] for key in before):
                break
            before = rows if len(rows) == 3 else {}
            time.sleep(0.6)
        assert all(count > 1000 for count in rows.values()), rows
        assert set(rows) == {"north", "south", "harbour"}

    said = serve_and(work, "--demo", capsys=capsys)
    assert "16 sensors" in said


def test_the_model_of_the_demo_is_fitted_to_the_plant(monkeypatch):
    from patchad.serve import demo

    monkeypatch.setattr(demo, "TRAIN_ROWS", 400)
    monkeypatch.setattr(demo, "PatchAD", lambda **_: make("moving_zscore"))
    assert len(demo.demo_model().channels_) == 16

"""Watching equals batch, whatever the source, and a kill at any moment loses nothing and repeats nothing."""

from __future__ import annotations

import json
import random
import sqlite3

import numpy as np
import pandas as pd
import pytest
from tests.conftest import waves
from tests.live.killing import KilledError, make_deadly
from tests.live.telling import assert_equals_batch, read

from patchad.errors import InputError
from patchad.live.sinks.file import FileSink
from patchad.live.sinks.registry import make_sink
from patchad.live.sources import file as file_source
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Counts, Watch


def run(model, source, out, state=None, stopping=lambda: False) -> Counts:
    store = Store(state)
    try:
        return Watch(model, [make_source(str(source))], [make_sink(f"file:{out}")], store).run(stopping)
    finally:
        store.close()


@pytest.fixture
def feed(tmp_path):
    """Write rows to a file; give the source that ends with it."""

    def write(text: str, mode: str = "w") -> str:
        with (tmp_path / "rows").open(mode) as file:
            file.write(text)
        return f"file:{tmp_path / 'rows'}?follow=0"

    return write


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("layout", ["csv", "json", "semicolons"])
def test_watching_equals_batch(
    watched_model, feed, tmp_path, watched, watched_csv, watched_json, watched_batch, layout, durable
):
    texts = {"csv": watched_csv, "json": watched_json, "semicolons": watched.to_csv(index=False, sep=";", decimal=",")}
    out = tmp_path / "out"
    counts = run(watched_model, feed(texts[layout]), out, tmp_path / "state" if durable else None)
    assert_equals_batch(out.read_text(), watched_batch, "pump" if layout == "json" else None)
    assert (counts.rows, counts.verdicts, counts.refused) == (300, 300, 0)
    verdicts, told = read(out.read_text())
    assert [one["time"] for one in verdicts] == watched["time"].tolist()
    assert watched_batch.events
    assert len({(one["id"], one["state"]) for one in told}) == len(told)
    assert any(one["state"] in ("suspected", "open") for one in told)


def test_a_model_without_names_takes_csv_columns_by_their_place(fitted, feed, tmp_path):
    rows = waves(200, seed=3)
    rows[100:110, 1] += 5.0
    run(fitted, feed(pd.DataFrame(rows, columns=["x", "y", "z"]).to_csv(index=False)), tmp_path / "out")
    assert_equals_batch((tmp_path / "out").read_text(), fitted.detect(rows))


def test_each_key_has_a_stream(watched_model, feed, tmp_path, watched, watched_batch):
    lines = []
    for row in json.loads(watched.drop(columns="time").to_json(orient="records")):
        lines += [json.dumps({"key": key} | row) for key in ("a", 7)]
    run(watched_model, feed("\n".join(lines)), tmp_path / "out")
    verdicts, _ = read((tmp_path / "out").read_text())
    for key in ("a", 7):
        assert [one["alarm"] for one in verdicts if one["key"] == key] == watched_batch.alarms.tolist()
    assert {one["time"] for one in verdicts} == {None}


def test_a_run_that_is_cut_into_several_goes_on_where_it_was(watched_model, feed, tmp_path, watched_csv, watched_batch):
    """The file is followed and the run stopped; then the file has grown."""
    lines = watched_csv.splitlines(keepends=True)
    out, state = tmp_path / "out", tmp_path / "state"
    for a, b in ((0, 90), (90, 91), (91, 91), (91, 200)):
        source = feed("".join(lines[a:b])[: -5 if b == 200 else None], "a").replace("?follow=0", "")
        polls = iter([False] * 12 + [True])
        run(watched_model, source, out, state, lambda polls=polls: next(polls))
    feed("".join(lines[a:b])[-5:], "a")
    run(watched_model, feed("".join(lines[200:]), "a"), out, state)
    assert_equals_batch(out.read_text(), watched_batch)
    before = out.read_text()
    assert run(watched_model, feed("", "a"), out, state).rows == 0
    assert out.read_text() == before


def test_what_is_not_stored_is_flushed_when_stopped(watched_model, feed, tmp_path, watched_csv, watched_batch):
    stops = iter([False, False, True])
    run(watched_model, feed(watched_csv).replace("?follow=0", ""), tmp_path / "out", None, lambda: next(stops))
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch)


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_moment_loses_and_repeats_nothing(
    watched_model, feed, tmp_path, watched_csv, watched_batch, monkeypatch, seed
):
    monkeypatch.setattr(file_source, "CHUNK", 500)
    whole = tmp_path / "whole"
    bad = watched_csv.splitlines(keepends=True)
    bad.insert(50, "not,a,row\n")
    run(watched_model, feed("".join(bad)), whole)
    rng = random.Random(seed)
    left = make_deadly(monkeypatch, rng)
    source, out, state = feed("".join(bad)), tmp_path / "out", tmp_path / "state"
    kills = 0
    while True:
        left[0] = rng.randint(2, 40)
        try:
            run(watched_model, source, out, state)
            break
        except KilledError:
            kills += 1
    assert kills >= 1
    assert_equals_batch(out.read_text(), watched_batch)
    assert out.read_text() == whole.read_text()
    (dead,) = map(json.loads, (tmp_path / "state.dead").read_text().splitlines())
    assert dead["row"] == "not,a,row"
    assert "3 cells" in dead["error"]


def test_malformed_rows_are_named_and_left_out(watched_model, feed, tmp_path, watched_json, watched_batch, caplog):
    lines = watched_json.splitlines()
    bad = [
        "{",
        "[1]",
        '{"values": 3}',
        '{"key": "pump", "time": "2026-01-01T00:00:00", "values": {"flow": 1}}',
        '{"key": "pump", "time": "yesterday", "values": {"flow": 1}}',
        '{"key": "pump", "values": {"flow": 1}}',
        '{"key": "pump", "time": "2027-01-01T00:00:00", "values": {"flow": Infinity}}',
        '{"key": "new", "values": {"unknown": 1}}',
        '{"key": [1], "values": {"flow": 1}}',
        "caf\udce9",
    ]
    text = "\n".join([*lines[:150], *bad, *lines[150:]])
    source = feed("")
    (tmp_path / "rows").write_bytes(text.encode(errors="surrogateescape"))
    counts = run(watched_model, source, tmp_path / "out", tmp_path / "state")
    assert counts.refused == len(bad) == len(caplog.records)
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch, "pump")
    dead = [json.loads(line) for line in (tmp_path / "state.dead").read_text().splitlines()]
    assert sorted(one["row"] for one in dead) == sorted([*bad[:-1], r"caf\xe9"])
    assert {one["key"] for one in read((tmp_path / "out").read_text())[0]} == {"pump"}


def test_rows_that_come_again_after_a_restart_are_left_out(watched_model, feed, tmp_path, watched_json, watched_batch):
    """A source without positions sends everything once more: another file stands for it."""
    lines = watched_json.splitlines(keepends=True)
    out, state = tmp_path / "out", tmp_path / "state"
    stops = iter([False, False, False, True])
    first = feed("".join(lines[:150])).replace("?follow=0", "")
    run(watched_model, first, out, state, lambda: next(stops))
    (tmp_path / "again").write_text(watched_json)
    counts = run(watched_model, f"file:{tmp_path / 'again'}?follow=0", out, state)
    assert (counts.redelivered, counts.rows) == (150, 150)
    assert_equals_batch(out.read_text(), watched_batch, "pump")


def test_times_that_count_something_come_again_too(watched_model, feed, tmp_path):
    rows = [json.dumps({"time": second, "flow": 1.0}) for second in range(20)]
    out, state = tmp_path / "out", tmp_path / "state"
    run(watched_model, feed("\n".join(rows[:10])), out, state)
    (tmp_path / "again").write_text("\n".join(rows))
    assert run(watched_model, f"file:{tmp_path / 'again'}?follow=0", out, state).redelivered == 10
    assert [one["time"] for one in read(out.read_text())[0]] == list(range(20))


def test_a_state_belongs_to_its_model(watched_model, fitted, feed, tmp_path, watched_csv):
    run(watched_model, feed(watched_csv), tmp_path / "out", tmp_path / "state")
    with pytest.raises(InputError, match="another model: its rows have 'flow'"):
        run(fitted, feed(watched_csv), tmp_path / "out", tmp_path / "state")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE streams SET key = 'x'",
        "UPDATE streams SET snapshot = 'null'",
        "UPDATE streams SET waiting = '[1]'",
        "UPDATE streams SET waiting = '[]'",
        "UPDATE streams SET extra = '[]'",
        "UPDATE streams SET newest = '[]'",
        "UPDATE sources SET position = '{}'",
        f"UPDATE sources SET position = '{'[' * 3000}'",
        "UPDATE sinks SET mark = ''",
        "UPDATE history SET data = x'00'; UPDATE meta SET value = 'x' WHERE name IN ('model', 'shape')",
    ],
)
def test_a_damaged_state_is_named(watched_model, feed, tmp_path, watched_csv, damage):
    header, *rows = watched_csv.splitlines(keepends=True)
    source = feed(header + "".join(rows[:40]))
    stops = iter([False, False])
    followed = source.removesuffix("?follow=0")
    run(watched_model, followed, tmp_path / "out", tmp_path / "state", lambda: next(stops, True))
    database = sqlite3.connect(tmp_path / "state")
    database.executescript(damage)
    database.close()
    with pytest.raises(InputError, match=r"the state .*is damaged"):
        run(watched_model, source, tmp_path / "out", tmp_path / "state")


def test_a_new_sink_gets_what_was_not_written(watched_model, feed, tmp_path, watched_csv, watched_batch, monkeypatch):
    def fail(self, lines):
        raise OSError(28, "No space left on device", "out")

    with monkeypatch.context() as full:
        full.setattr(FileSink, "write", fail)
        with pytest.raises(OSError, match="No space"):
            run(watched_model, feed(watched_csv), tmp_path / "out", tmp_path / "state")
    run(watched_model, feed("", "a"), tmp_path / "other", tmp_path / "state")
    assert_equals_batch((tmp_path / "other").read_text(), watched_batch)


def test_a_header_without_channels_is_refused(watched_model, feed, tmp_path):
    with pytest.raises(InputError, match="neither JSON nor a csv header"):
        run(watched_model, feed("1,2,3\n"), tmp_path / "out")


def test_nan_is_null(watched_model, feed, tmp_path):
    run(watched_model, feed('{"values": {}}\n' * 40), tmp_path / "out")
    verdicts, _ = read((tmp_path / "out").read_text())
    assert len(verdicts) == 40
    assert all(one["score"] is None or np.isfinite(one["score"]) for one in verdicts)

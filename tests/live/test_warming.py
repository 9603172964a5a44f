"""Without a model: the first rows are learned from, then rows are judged."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tests.conftest import waves
from tests.live.telling import read
from typer.testing import CliRunner

from patchad import load
from patchad.cli.main import app
from patchad.live import warming
from patchad.live.config import Configuration
from patchad.live.intake import Counts
from patchad.live.session import Session
from patchad.live.session import check as try_out
from patchad.live.sources import file as file_source

FAULT = slice(420, 450)


def rows(count: int = 600, *, fault: slice = FAULT) -> pd.DataFrame:
    values = waves(count)
    values[fault, 1] += 3
    times = pd.date_range("2026-01-01", periods=count, freq="min").strftime("%Y-%m-%dT%H:%M:%SZ")
    return pd.DataFrame(values, columns=["flow", "heat", "load"]).assign(time=times)


def settings(tmp_path, text: str, **more) -> Configuration:
    (tmp_path / "rows").write_text(text)
    source = f"file:{tmp_path / 'rows'}?follow=0"
    return Configuration(cold=True, sources=(source,), sinks=(f"file:{tmp_path / 'out'}",), **more)


def watch(configuration: Configuration):
    session = Session(lambda: configuration)
    session.run(lambda: False, lambda: False)
    return session


@pytest.mark.parametrize("layout", ["csv", "json", "untimed"])
def test_rows_after_the_first_are_judged_and_every_row_has_a_verdict(tmp_path, layout, caplog):
    frame = rows(fault=slice(100, 110) if layout == "untimed" else FAULT)  # the former is not judged: it warms up
    texts = {
        "csv": frame.to_csv(index=False),
        "json": "\n".join(json.dumps({"key": "pump"} | one) for one in frame.to_dict("records")),
        "untimed": frame.drop(columns="time").assign(note="calm").to_csv(index=False),
    }
    watch(settings(tmp_path, texts[layout]))
    verdicts, told = read((tmp_path / "out").read_text())
    assert [one["index"] for one in verdicts] == list(range(600))
    assert not any(one["alarm"] for one in verdicts[:240])
    if layout == "untimed":
        assert not told
    else:
        last = {one["id"]: one for one in told if one["state"] == "closed"}
        assert [(one["start"], one["channels"][0][0]) for one in last.values()] == [(420, "heat")]
    assert caplog.messages[0].startswith("warming up: the first 240 rows")
    assert caplog.messages[1] == "warmed up, with 3 channels: rows are judged from now on"


def test_the_model_is_written_learned_again_as_rows_double_and_gone_on_with(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(file_source, "CHUNK", 6000)
    model, state, calm = tmp_path / "model", tmp_path / "state", rows(800, fault=slice(0, 0))
    cold = settings(tmp_path, calm.iloc[:700].to_csv(index=False), model=str(model), state=str(state))
    assert next(iter(try_out(cold)))[1].endswith("will be made of the first rows")
    watch(cold)
    assert sum(one.startswith("learned again, from ") for one in caplog.messages) == 1
    detector = load(model)
    assert detector.columns_ == ("flow", "heat", "load")
    assert np.isfinite(detector.held_out_scores_).sum() < 240  # of the first 240 rows nothing could be held out
    verdicts, _ = read((tmp_path / "out").read_text())
    assert [one["index"] for one in verdicts] == list(range(700))
    caplog.clear()
    session = watch(settings(tmp_path, calm.to_csv(index=False), model=str(model), state=str(state)))
    assert session.counts.rows == 100
    assert not any("warming" in one for one in caplog.messages)


def test_streams_that_have_rows_by_then_are_learned_from(tmp_path):
    frame = rows(300, fault=slice(0, 0)).drop(columns="time")
    lines = [json.dumps({"key": key} | one) for one in frame.to_dict("records") for key in ("a", "b")]
    session = Session(lambda: settings(tmp_path, "\n".join([*lines, "garbage"])))
    assert session._parts.detector.initial_.shape == (3,)
    session.run(lambda: False, lambda: False)
    assert (session.counts.rows, session.counts.refused) == (600, 1)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("flow\n1\n2\n", {}, "the input ended after 2 rows of a stream, while warming up; 240 are needed"),
        ("name\n" + "on\n" * 300, {}, "the first rows have no numbers"),
        ("flow\n1\n", {"state": "state"}, "name the file that it is written to: MODEL"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tmp_path, text, more, message):
    with pytest.raises(warming.InputError, match=message):
        Session(lambda: settings(tmp_path, text, **more))


def test_a_state_of_another_model_is_refused(tmp_path):
    named = {"model": str(tmp_path / "model"), "state": str(tmp_path / "state")}
    watch(settings(tmp_path, rows(300, fault=slice(0, 0)).to_csv(index=False), **named))
    (tmp_path / "model").unlink()
    with pytest.raises(warming.InputError, match="was begun with a model"):
        watch(settings(tmp_path, "flow\n1\n", **named))


@pytest.mark.parametrize("passed", [None, False])
def test_a_model_that_cannot_be_learned_again_stays(tmp_path, monkeypatch, caplog, passed):
    def fit_again(detector, store):
        if passed is None:
            raise warming.InputError("too few rows")
        return SimpleNamespace(detector=None)

    monkeypatch.setattr(warming, "refit", fit_again)
    monkeypatch.setattr(warming, "try_model", lambda *_: SimpleNamespace(passed=passed))
    monkeypatch.setattr("patchad.detectors.registry.load", lambda path: path)
    counts, asked = Counts(rows=479), [False]
    again = warming.Relearning(tmp_path, None, counts, lambda: asked[0])
    assert not again()
    assert not caplog.messages
    counts.rows = 480
    assert not again()
    assert caplog.messages[-1].startswith("the model stays")
    assert not again()
    assert len(caplog.messages) == 1
    asked[0] = True
    assert again()


def test_rows_out_of_order_are_not_learned_from():
    def row(moment):
        return warming.Row(None, moment, moment, {"flow": 1.0})

    assert warming._follows(row(2.0), row(1.0))
    assert not warming._follows(row(1.0), row(1.0))
    assert not warming._follows(row("never"), row("2026-01-01"))
    assert not warming._follows(row(None), row(1.0))
    assert warming._quiet([[row(None)], [row(1.0)]]) == ()


def test_it_can_be_stopped_while_it_waits(tmp_path):
    with pytest.raises(warming.StoppedError):
        Session(lambda: settings(tmp_path, "flow\n1\n"), lambda: True)


def test_the_command_says_that_it_warms_up(tmp_path):
    (tmp_path / "rows").write_text(rows(300).to_csv(index=False))
    found = CliRunner().invoke(app, ["watch", "--cold", "--from", f"file:{tmp_path / 'rows'}?follow=0"])
    assert found.exit_code == 0
    assert len(read(found.stdout)[0]) == 300
    assert np.isfinite([one["score"] for one in read(found.stdout)[0]]).all()

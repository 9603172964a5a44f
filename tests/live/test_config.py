"""Settings from a file: what is wrong is named, and the command line wins."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.live.receiver import receiving
from tests.live.telling import assert_equals_batch

from patchad.cli.main import run
from patchad.errors import InputError
from patchad.live.config import read_configuration


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        path = tmp_path / "patchad.toml"
        path.write_text(text)
        return path

    return write


WHOLE = """
model = "pump.safetensors"
state = "watch.db"
log_level = "info"
sources = ["file:rows.csv", "-"]
sinks = ["-", "apprise:json://${TEST_CHAT}"]

[alarms]
threshold = "auto"
false_alarms = 2
merge_gap = 5
min_duration = 3
direction = {flow = "up"}
min_change = 0.5
ignore = ["load"]
quiet = "quiet.csv"

[streams]
keys = ["pump", 7]
silence = 0

[retention]
days = 7
megabytes = 100.5
"""


def test_everything_that_can_be_said(written, monkeypatch):
    monkeypatch.setenv("TEST_CHAT", "host/token")
    found = read_configuration(written(WHOLE))
    assert found.sinks == ("-", "apprise:json://host/token")
    assert (found.streams.keys, found.streams.silence) == (("pump", 7), 0)
    assert (found.retention.days, found.retention.megabytes) == (7, 100.5)
    assert (found.alarms.direction, found.alarms.ignore) == ({"flow": "up"}, ("load",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle = 'x'", "modle is no setting; did you mean 'model'"),
        ("false_alarm = 1", "did you mean 'alarms.false_alarms'"),
        ("[alarms]\nmergegap = 1", "alarms.mergegap is no setting; did you mean 'merge_gap'"),
        ("[streams]\nxyz = 1", "there are 'keys', 'silence'"),
        ("alarms = 3", r"\[alarms\]"),
        ("model = 3", "a text is needed"),
        ("sources = '-'", "a list of texts is needed"),
        ("sinks = [1]", "a list of texts is needed"),
        ("[streams]\nkeys = [1.5]", "a list of keys is needed"),
        ("[alarms]\nmerge_gap = true", "a whole number is needed"),
        ("[alarms]\nmerge_gap = -1", "at least 0"),
        ("[alarms]\nmin_duration = 0", "at least 1"),
        ("[streams]\nsilence = -1", "a number of steps is needed"),
        ("[retention]\ndays = 0", "a number over 0"),
        ("log_level = 'loud'", "debug, info"),
        ("sinks = ['https://${NOT_SET_ANYWHERE}']", "has no NOT_SET_ANYWHERE"),
        ("model = ", "no TOML"),
    ],
)
def test_what_is_wrong_is_named(written, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read_configuration(written(text))
    assert "patchad.toml" in str(caught.value)


def test_the_example_of_the_page(written, monkeypatch):
    monkeypatch.setenv("SLACK_TOKEN", "a/b/c")
    page = Path(__file__).parents[2] / "docs" / "watch-configuration.md"
    (text,) = re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    found = read_configuration(written(text))
    assert found.alarms.quiet == "maintenance.csv"
    assert found.sinks[-1] == "apprise:slack://a/b/c/plant"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_configuration(tmp_path / "patchad.toml")


def test_watching_by_a_file_and_the_command_line_wins(
    watched_file, watched_csv, watched_batch, tmp_path, written, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(watched_csv)
    lines = [f'model = "{watched_file}"', 'state = "watch.db"', 'sources = ["file:rows.csv?follow=0"]']
    config = written("\n".join([*lines, 'sinks = ["-", "file:other.jsonl"]']))
    assert run(["watch", "--config", str(config), "--to", "file:out.jsonl"]) == 0
    assert_equals_batch((tmp_path / "out.jsonl").read_text(), watched_batch)
    assert not (tmp_path / "other.jsonl").exists()
    assert capsys.readouterr().out == ""
    assert (tmp_path / "watch.db").exists()


def test_alarm_settings_and_quiet_periods_hold(watched_file, watched_csv, tmp_path, written, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(watched_csv)
    (tmp_path / "quiet.csv").write_text("from,to\n2026-01-01T01:30,2026-01-01T04:30\n")
    base = f'model = "{watched_file}"\nsources = ["file:rows.csv?follow=0"]\n'

    def events(more: str, name: str) -> list[dict]:
        assert run(["watch", "--config", str(written(base + more)), "--to", f"file:{name}"]) == 0
        told = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        return [one for one in told if one["type"] == "event" and one["state"] == "closed"]

    loud = events("", "a")
    assert loud
    assert events('[alarms]\nquiet = "quiet.csv"', "b") == []
    high = events('[alarms]\nthreshold = 1e9\nfalse_alarms = 1\nignore = ["load"]', "c")
    assert {one["kind"] for one in high} <= {"range"}  # impossible values have no level
    up = [one["id"] for one in events('[alarms]\ndirection = "up"', "d")]
    assert up == [one["id"] for one in loud if one["start"] == 120]  # and not where it falls again


@pytest.mark.parametrize(
    ("more", "message"),
    [('[alarms]\nignore = ["nothing"]', "'nothing'"), ("[alarms]\nquiet = 'no.csv'", "no.csv"), ("", "no model")],
)
def test_settings_that_do_not_fit_the_model(watched_file, tmp_path, written, more, message, capsys):
    model = f'model = "{watched_file}"\n' if more else ""
    assert run(["watch", "--config", str(written(model + more))]) == 2
    assert message in capsys.readouterr().err


def test_check_tries_everything_and_changes_nothing(watched_file, tmp_path, written, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("flow\n1\n")
    (tmp_path / "quiet.csv").write_text("from,to\n2026-01-01,2026-01-02\n")
    with receiving() as receiver:
        alertmanager = f'"alertmanager+{receiver.url}"'
        base = f'model = "{watched_file}"\nstate = "watch.db"\nsources = ["file:rows.csv"]\n'
        sinks = f'sinks = ["file:out", "{receiver.url}/hook", {alertmanager}]\n[alarms]\nquiet = "quiet.csv"\n'
        before = sorted(path.name for path in tmp_path.iterdir())
        assert run(["watch", "--config", str(written(base + sinks)), "--check"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 7
    assert all(line.startswith("ok: ") for line in printed)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({*before, "patchad.toml"})
    assert run(["watch", "--config", str(written(base + sinks)), "--check"]) == 2  # nobody answers any more
    printed = capsys.readouterr().out
    assert printed.count("failed: ") == 2
    assert "no answer" in printed
    assert (
        run(["watch", "nothing", "--state", "none/watch.db", "--from", "file:rows.csv", "--to", "ftp:x", "--check"])
        == 2
    )
    assert capsys.readouterr().out.count("failed: ") == 3
    assert run(["watch", "--from", "file:rows.csv", "--check"]) == 2
    assert "no model is named" in capsys.readouterr().out


def test_check_reads_a_state_that_is_there(watched_file, tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("flow,heat,load\n1,2,3\n")
    options = [str(watched_file), "--state", str(tmp_path / "db"), "--from", f"file:{tmp_path / 'rows.csv'}?follow=0"]
    assert run(["watch", *options]) == 0
    capsys.readouterr()
    assert run(["watch", *options, "--check"]) == 0
    assert "has 1 streams" in capsys.readouterr().out

"""`patchad watch` as a process: pipes, signals, kills, wrong calls."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.live.telling import assert_equals_batch

from patchad.cli.live import Stop
from patchad.cli.main import run
from patchad.live.sinks.stdout import StdoutSink

PAGE = Path(__file__).parents[2] / "docs" / "live.md"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(*arguments, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "patchad", "watch", *map(str, arguments)]
    return subprocess.Popen(command, text=True, env=ENVIRONMENT, stderr=subprocess.PIPE, **options)


def wait_for(condition, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_example_of_the_page(watched_file, watched_csv, watched_batch, tmp_path):
    (tmp_path / "pump.safetensors").write_bytes(watched_file.read_bytes())
    (tmp_path / "today.csv").write_text(watched_csv)
    script, *_ = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    script = f'patchad() {{ "{sys.executable}" -m patchad "$@"; }}\n{script}'
    done = subprocess.run(
        ["bash", "-e", "-c", script], check=True, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert_equals_batch(done.stdout, watched_batch)
    assert (tmp_path / "told.jsonl").read_text() == done.stdout
    assert done.stderr == "300 rows, 300 verdicts\n" * 2


def test_verdicts_appear_as_rows_come(watched_file, watched_json, watched_batch):
    lines = watched_json.splitlines(keepends=True)
    process = start(watched_file, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.writelines(lines[:150])
    process.stdin.flush()
    first = process.stdout.readline()  # while the input is open
    assert json.loads(first)["index"] == 0
    process.stdin.writelines(lines[150:])
    process.stdin.close()
    rest, said = process.stdout.read(), process.stderr.read()
    assert (process.wait(), said) == (0, "300 rows, 300 verdicts\n")
    process.stdout.close()
    process.stderr.close()
    assert_equals_batch(first + rest, watched_batch, "pump")


def test_kill_and_stop_lose_nothing(watched_file, watched_csv, watched_batch, tmp_path, capsys):
    lines = watched_csv.splitlines(keepends=True)
    rows, out, state = tmp_path / "rows.csv", tmp_path / "out.jsonl", tmp_path / "state"
    arguments = [watched_file, "--from", f"file:{rows}", "--to", f"file:{out}", "--state", state]
    rows.write_text(lines[0])
    for part, number, code in ((lines[1:140], signal.SIGKILL, -9), (lines[140:250], signal.SIGTERM, 0)):
        process = start(*arguments)
        before = out.stat().st_size if out.exists() else 0
        with rows.open("a") as file:
            for line in part:
                file.write(line)
                file.flush()
        wait_for(lambda before=before: out.exists() and out.stat().st_size > before)
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        assert process.returncode == code, said
    with rows.open("a") as file:
        file.writelines(lines[250:])
    arguments[2] += "?follow=0"
    assert run(["watch", *map(str, arguments)]) == 0
    assert_equals_batch(out.read_text(), watched_batch)
    assert "refused" not in capsys.readouterr().err


def test_an_input_without_any_row_that_can_be_used_is_exit_2(watched_file, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    unusable, empty = "none of the 2 rows can be used", "the input ended without a row"
    for text, told in (('{"other": 1}\n{"other": 2}\n', unusable), ("", empty)):
        rows.write_text(text)
        assert run(["watch", str(watched_file), "--from", f"file:{rows}?follow=0"]) == 2
        printed = capsys.readouterr()
        assert f"error: {told}" in printed.err
        assert printed.out == ""


def test_rows_from_stdin_to_stdout(watched_file, watched_csv, watched_batch, tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.csv").write_text(watched_csv + "1,2\n")
    with (tmp_path / "rows.csv").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run(["watch", str(watched_file), "--state", str(tmp_path / "state")]) == 0
        printed = capsys.readouterr()
        assert_equals_batch(printed.out, watched_batch)
        assert "300 rows, 300 verdicts; 1 refused, which " in printed.err
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        assert run(["watch", str(watched_file), "--state", str(tmp_path / "state")]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "300 came again and were left out" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "rows.csv"], "use one of: -, file:PATH[?follow=0]"),
        (["--from", "ftp://broker/topic"], "'ftp://broker/topic' is no source that is known"),
        (["--to", "ftp:x"], "use one of: -, file:PATH"),
        (["--from", "file:{here}?folow=0"], "use follow"),
        (["--from", "file:{here}?follow=yes"], "follow=0 or follow=1"),
        (["--from", "file:"], "names no file"),
        (["--to", "file:"], "names no file"),
        (["--from", "-", "--from", "-"], "given twice"),
        (["--to", "file:{here}", "--to", "file:./{here}"], "given twice"),
        (["--from", "file:{here}", "--to", "file:{here}"], "also an input"),
        (["--from", "file:nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["--from", "file:{here}", "--state", "."], "is a folder"),
        (["--log-level", "loud"], "loud"),
    ],
)
def test_wrong_calls(watched_file, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("flow\n1\n")
    assert run(["watch", str(watched_file), *(one.format(here="rows.csv") for one in arguments)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_closed_input_and_gone_readers(watched_file, watched_csv, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    assert run(["watch", str(watched_file)]) == 2
    assert "standard input is closed" in capsys.readouterr().err

    def gone(self, lines):
        raise BrokenPipeError

    monkeypatch.setattr(StdoutSink, "write", gone)
    (tmp_path / "rows.csv").write_text(watched_csv)
    assert run(["watch", str(watched_file), "--from", f"file:{tmp_path / 'rows.csv'}"]) == 0


def test_the_second_signal_ends_at_once():
    stop = Stop(reloads=True)
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop()
        os.kill(os.getpid(), signal.SIGHUP)
        assert (stop.reloading(), stop.reloading()) == (True, False)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

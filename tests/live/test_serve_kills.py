"""`patchad serve`, killed at random moments under load; and loaded for a while."""

from __future__ import annotations

import argparse
import random
import threading
import time

import pytest
from benchmarks.serve import measure_kills, measure_streams, model_file
from benchmarks.wrk import find_wrk, measure
from tests.live.killing import Watcher, assert_equals, disturb, faulty_lines, undisturbed

pytestmark = pytest.mark.live


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_lose_no_row_and_double_none(capsys, kills):
    options = argparse.Namespace(kills=kills, streams=2, longest=2.0, seed=1, model=None)
    measure_kills(options)  # exits where a row, a verdict, an event or an acknowledgement is wrong
    assert "other than undisturbed 0" in capsys.readouterr().out


def test_kills_lose_and_repeat_no_line_of_sources_and_sinks(watched_model, watched_file, tmp_path):
    """Rows are added to a file that the service follows."""
    lines = faulty_lines(2_000)
    expected = undisturbed(watched_model, lines, tmp_path)
    growing = tmp_path / "growing"
    growing.write_text("")

    def grow() -> None:
        with growing.open("a") as file:
            for start in range(0, len(lines), 50):
                file.write("".join(f"{line}\n" for line in lines[start : start + 50]))
                file.flush()
                time.sleep(0.2)

    watcher = Watcher(watched_file, f"file:{growing}", tmp_path, "serve", "--port", "0")
    writing = threading.Thread(target=grow)
    writing.start()

    def kill() -> None:
        watcher.kill()
        watcher.start()

    try:
        disturb(watcher, len(lines), [kill] * 4, random.Random(0))
        writing.join()
        watcher.wait_for(len(expected[0]))
        watcher.wait_until_said("listening on")  # from then on it ends in order when it is asked to
        watcher.stop()
    finally:
        writing.join()
        watcher.kill()
    assert_equals(watcher.out, expected)


@pytest.mark.skipif(find_wrk() is None, reason="wrk is not installed; scripts/install-live installs it")
@pytest.mark.parametrize("connections", [4, 64])
def test_wrk_loses_no_row(connections, tmp_path):
    well, text = measure(model_file(tmp_path, None), connections, 3, patience=60.0)
    assert well, text


@pytest.mark.slow
def test_a_hundred_streams_for_ten_minutes(capsys):
    measure_streams(argparse.Namespace(streams=100, rate=10, callers=10, seconds=600, model=None))
    assert "100 streams" in capsys.readouterr().out

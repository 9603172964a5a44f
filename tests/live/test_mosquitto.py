"""Mosquitto, which sends again at once and in order: a kill of the detector loses and repeats nothing."""

from __future__ import annotations

import pytest
from tests.live import servers
from tests.live.killing import Watcher, assert_equals, faulty_lines, undisturbed
from tests.live.publishing import publishing

pytestmark = pytest.mark.live


def test_a_kill_of_the_detector(watched_model, watched_file, tmp_path):
    lines = faulty_lines(1500)
    expected = undisturbed(watched_model, lines, tmp_path)
    with servers.mosquitto(tmp_path) as broker:
        watcher = Watcher(watched_file, f"mqtt://{broker.place}/plant/rows", tmp_path)
        try:
            watcher.wait_until_ready()
            with publishing(broker.port, "plant/rows", lines):
                servers.wait_for(lambda: watcher.told() >= 300)
                watcher.kill()
                watcher.start()
            watcher.wait_for(len(expected[0]))
            watcher.stop()
        finally:
            watcher.kill()
    assert_equals(watcher.out, expected)
    assert "connection is lost" not in watcher.log()

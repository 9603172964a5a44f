"""A kill of the detector or the broker at any moment loses no row, and gives no row two verdicts."""

from __future__ import annotations

import random

import pytest
from tests.live import servers
from tests.live.killing import Watcher, assert_equals, disturb, faulty_lines, undisturbed
from tests.live.publishing import publishing

pytestmark = pytest.mark.live


def kill_over_mqtt(model, file, folder, *, rows: int, seconds: float, seed: int) -> Watcher:
    """Send rows over a broker while the detector is killed three times and the broker once."""
    lines = faulty_lines(rows)
    expected = undisturbed(model, lines, folder)
    with servers.nats(folder) as broker:
        watcher = Watcher(file, f"mqtt://{broker.place}/plant/rows?settle=8", folder)
        watcher.wait_until_ready()

        def kill_watcher() -> None:
            watcher.kill()
            watcher.start()

        def kill_broker() -> None:
            broker.kill()
            broker.start()

        try:
            with publishing(broker.port, "plant/rows", lines, seconds):
                disturb(random.Random(seed), seconds, [kill_watcher, kill_watcher, kill_watcher, kill_broker])
            watcher.wait_for(len(expected[0]), 60)
            watcher.stop()
        finally:
            watcher.kill()
    assert_equals(watcher.out, expected)
    return watcher


def test_mqtt(watched_model, watched_file, tmp_path):
    kill_over_mqtt(watched_model, watched_file, tmp_path, rows=3000, seconds=30, seed=0)

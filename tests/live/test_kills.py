"""A kill of the detector or the broker at any moment loses no row, and gives no row two verdicts."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest
from tests.live import mockcluster, servers
from tests.live.killing import Watcher, assert_equals, disturb, faulty_lines, undisturbed
from tests.live.publishing import publishing

pytestmark = pytest.mark.live


def kill_over_mqtt(model, file, folder, *, rows: int, seconds: float, seed: int) -> Watcher:
    """Send rows over a broker while the detector is killed three times and the broker once."""
    lines = faulty_lines(rows)
    expected = undisturbed(model, lines, folder)
    with servers.nats(folder) as broker:
        watcher = Watcher(file, f"mqtt://{broker.place}/plant/rows?settle=20", folder)
        watcher.wait_until_ready()

        def kill_watcher() -> None:
            watcher.kill()
            watcher.start()

        def kill_broker() -> None:
            broker.kill()
            broker.start()

        try:
            with publishing(broker.port, "plant/rows", lines, seconds):
                actions = [kill_watcher, kill_watcher, kill_watcher, kill_broker]
                disturb(watcher, rows, actions, random.Random(seed))
            watcher.wait_for(len(expected[0]))
            watcher.stop()
        finally:
            watcher.kill()
    assert_equals(watcher.out, expected)
    return watcher


def test_mqtt(watched_model, watched_file, tmp_path):
    kill_over_mqtt(watched_model, watched_file, tmp_path, rows=3000, seconds=15, seed=0)


def kill_over_kafka(model, file, folder, *, rows: int, seconds: float, seed: int) -> Watcher:
    """Send rows over a cluster while the detector is killed three times; once the cluster does not answer."""
    lines = faulty_lines(rows)
    expected = undisturbed(model, lines, folder)
    with mockcluster.cluster() as cluster:
        watcher = Watcher(file, f"kafka://{cluster.place}/rows", folder)

        def kill_watcher() -> None:
            watcher.kill()
            watcher.start()

        def pause_cluster() -> None:
            cluster.process.send_signal(signal.SIGSTOP)
            time.sleep(2)
            cluster.process.send_signal(signal.SIGCONT)

        def produce() -> None:
            for start in range(0, rows, 100):
                cluster.send(lines[start : start + 100])
                time.sleep(seconds * 100 / rows)

        producing = threading.Thread(target=produce)
        producing.start()
        try:
            actions = [kill_watcher, kill_watcher, kill_watcher, pause_cluster]
            disturb(watcher, rows, actions, random.Random(seed))
            producing.join()
            watcher.wait_for(len(expected[0]))
            watcher.stop()
        finally:
            producing.join()
            watcher.kill()
    assert_equals(watcher.out, expected)
    return watcher


def test_kafka(watched_model, watched_file, tmp_path):
    """Rows of one stream are spread over four partitions."""
    kill_over_kafka(watched_model, watched_file, tmp_path, rows=3000, seconds=10, seed=0)

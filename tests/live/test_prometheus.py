"""A real Prometheus that scrapes a plant: a row for each step, over a kill of the detector and of the server."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from tests.conftest import WATCHED
from tests.live import servers
from tests.live.exporter import exporting, scraping
from tests.live.killing import Watcher
from tests.live.telling import read

pytestmark = pytest.mark.live


STEPS = 105
"""Rows until something happens: the first verdicts come when the first window is full."""


def test_prometheus(watched_file, tmp_path):
    count = itertools.count()

    def values() -> dict[str, float]:
        number = next(count)
        return {name: float(np.sin(number / 5 + place)) for place, name in enumerate(WATCHED)}

    with (
        exporting(values) as port,
        servers.prometheus(tmp_path, scraping(port, "100ms")) as server,
    ):
        # a scrape that takes longer than a step fails, and marks a series as gone: on a busy machine some do
        query = 'last_over_time({job="plant",__name__=~"' + "|".join(WATCHED) + '"}[5m])'
        time.sleep(3)
        watcher = Watcher(watched_file, f"prometheus+http://{server.place}?query={query}&step=100ms", tmp_path)
        try:
            watcher.wait_until_ready()
            watcher.wait_for(STEPS)
            watcher.kill()
            time.sleep(2)
            watcher.start()
            watcher.wait_for(STEPS + 40)
            server.kill()
            time.sleep(1)
            server.start()
            watcher.wait_for(STEPS + 80)
            watcher.stop()
        finally:
            watcher.kill()
    verdicts, _ = read(watcher.out.read_text())
    times = np.array([one["time"].removesuffix("Z") for one in verdicts], dtype="datetime64[ms]")
    steps = np.diff(times).astype(int) // 100
    away = steps > 1  # Prometheus itself has nothing of the time in which it did not run
    assert steps.min() == 1
    assert away.sum() <= 1
    assert "a row is refused" not in watcher.log()

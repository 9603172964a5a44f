"""Demo: a simulated plant that sends rows, and whose faults arrive one after the other."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections.abc import Sequence

import numpy as np

from patchad.data.table import Table
from patchad.datasets.plant import FAULTS, PlantRun, simulate_plant
from patchad.detectors.base import Detector
from patchad.detectors.patchad import PatchAD
from patchad.live.rows import Row
from patchad.serve.problems import Problem
from patchad.serve.station import Station

logger = logging.getLogger(__name__)

TRAIN_ROWS = 8_000
PLANTS = ("north", "south", "harbour")
HISTORY = 1_200
"""Rows, at least, that each plant has behind it at the start."""
ROWS = 40_000
"""Rows that are simulated; then they begin anew."""
STEP = 0.5
"""Seconds from one row, which is a minute of the plant, to the next."""
ROWS_PER_FAULT = 400
LEAD = 20
"""Rows before the first fault of the first plant; those of the others follow later."""
LAG = 90


def demo_model() -> Detector:
    """Fit to a plant without faults."""
    train = simulate_plant(TRAIN_ROWS, seed=0)
    return PatchAD(random_state=0, verbose=True, hop=5).fit(Table(train.values, train.channels, train.times))


def plant_run(number: int, rows: int = ROWS) -> PlantRun:
    """Simulate one plant, each with its faults in another order."""
    kinds = tuple(FAULTS)
    shifted = kinds[number % len(kinds) :] + kinds[: number % len(kinds)]
    return simulate_plant(rows, seed=10 + number, kinds=(shifted * rows)[: rows // ROWS_PER_FAULT])


class Plant:
    """Sends rows of several plants to a station: first what lies behind them, then a row of each every half second."""

    def __init__(self, station: Station, names: Sequence[str] = PLANTS, step: float = STEP, rows: int = ROWS) -> None:
        self._station, self._step = station, step
        self._runs = {name: plant_run(number, rows) for number, name in enumerate(names)}

    def start(self) -> threading.Thread:
        """Begin, in a thread."""
        thread = threading.Thread(target=self._send, name="patchad-demo", daemon=True)
        thread.start()
        return thread

    def _send(self) -> None:
        try:
            for number, name in enumerate(self._runs):
                self._catch_up(name, number)
            while self._station.alive:
                clock.sleep(self._step)
                for name in self._runs:
                    self._push(name, self._station.streams.count(name), [clock.time()])
        except Problem as problem:
            logger.info("the plants stop: %s", problem)

    def _catch_up(self, name: str, number: int) -> None:
        """Send what lies behind a plant, up to shortly before a fault."""
        if self._station.streams.count(name):
            return
        soon = min(fault.start for fault in self._runs[name].faults if fault.start > HISTORY)
        rows = max(soon - LEAD - LAG * number, 1)
        now = clock.time()
        self._push(name, 0, [now - self._step * (rows - row) for row in range(rows)])

    def _push(self, name: str, first: int, times: Sequence[float]) -> None:
        run = self._runs[name]
        rows = []
        for number, at in enumerate(times, first):
            values = dict(zip(run.channels, run.values[number % len(run.values)].round(4).tolist(), strict=True))
            time = f"{np.datetime64(round(at * 1000), 'ms')}+00:00"
            rows.append(Row(name, time, time, values))
        self._station.submit(name, lambda _: rows, len(rows), first).result()

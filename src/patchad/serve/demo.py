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
HISTORY = 1_440
"""Rows that each plant has behind it at the start: a day."""
AHEAD = 20_000
"""Rows that are simulated."""
STEP = 0.5
"""Seconds from one row, which is a minute of the plant, to the next."""
ROWS_PER_FAULT = 400


def demo_model() -> Detector:
    """Fit to a plant without faults."""
    train = simulate_plant(TRAIN_ROWS, seed=0)
    return PatchAD(random_state=0, verbose=True, hop=5).fit(Table(train.values, train.channels, train.times))


def plant_run(number: int, rows: int = HISTORY + AHEAD) -> PlantRun:
    """Simulate one plant; the faults of the first begin soon after the start, those of the others later."""
    kinds = tuple(FAULTS)
    shifted = kinds[number:] + kinds[:number]
    return simulate_plant(rows, seed=10 + number, kinds=(shifted * (rows // ROWS_PER_FAULT))[: rows // ROWS_PER_FAULT])


class Plant:
    """Sends rows of several plants to a station, first a day at once, then a row of each every half second."""

    def __init__(self, station: Station, names: Sequence[str] = PLANTS, step: float = STEP) -> None:
        self._station, self._step = station, step
        self._runs = {name: plant_run(number) for number, name in enumerate(names)}

    def start(self) -> None:
        """Begin, in a thread."""
        threading.Thread(target=self._send, name="patchad-demo", daemon=True).start()

    def _send(self) -> None:
        try:
            begun = np.datetime64(int(clock.time()) // 60 * 60, "s") - HISTORY * np.timedelta64(60, "s")
            place = {name: self._station.streams.count(name) for name in self._runs}
            for name in self._runs:
                self._push(name, place[name], max(HISTORY, place[name]), begun)
            while self._station.alive:
                clock.sleep(self._step)
                for name in self._runs:
                    count = self._station.streams.count(name)
                    self._push(name, count, count + 1, begun)
        except Problem as problem:
            logger.info("the plants stop: %s", problem)

    def _push(self, name: str, first: int, stop: int, begun: np.datetime64) -> None:
        run = self._runs[name]
        rows = []
        for number in range(first, stop):
            values = dict(zip(run.channels, run.values[number % len(run.values)].round(4).tolist(), strict=True))
            time = f"{begun + number * np.timedelta64(60, 's')}+00:00"
            rows.append(Row(name, time, time, values))
        if rows:
            self._station.submit(name, lambda _: rows, len(rows), first).result()

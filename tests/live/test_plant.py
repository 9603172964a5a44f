"""The whole way: a plant, a real Prometheus that scrapes it, `watch`, and a real Alertmanager that hears of a fault."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from urllib.parse import quote

import httpx
import numpy as np
import pandas as pd
import pytest
from tests.conftest import small
from tests.live import servers
from tests.live.exporter import exporting, scraping

from patchad.datasets.plant import simulate_plant
from patchad.live.records import Records

pytestmark = pytest.mark.live

CHANNELS = ["pump_speed", "flow", "pressure", "motor_current", "winding_temp"]
STEP = 0.2
"""Seconds of a row."""


class Plant:
    """Measured at any moment, between the rows of a simulation; a fault may be put in."""

    def __init__(self, seed: int) -> None:
        run = simulate_plant(4000, seed=seed)
        self._rows = run.values[:, [run.channels.index(name) for name in CHANNELS]]
        self._began = time.time()
        self.fault = 0.0
        """Deviations that the flow is too high by."""

    def at(self, rows: np.ndarray) -> pd.DataFrame:
        """Return what is measured at some rows, whole or not."""
        places = np.arange(len(self._rows))
        return pd.DataFrame({name: np.interp(rows, places, x) for name, x in zip(CHANNELS, self._rows.T, strict=True)})

    def now(self) -> dict[str, float]:
        values = self.at(np.array([(time.time() - self._began) / STEP])).iloc[0].to_dict()
        values["flow"] += self.fault * self._rows[:, 1].std()
        return values


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    jitter = np.random.default_rng(0).uniform(0, 0.5, 3000)  # a scrape is a little older than the step that it is of
    path = tmp_path_factory.mktemp("plant") / "model.safetensors"
    small(max_steps=60).fit(Plant(0).at(np.arange(3000) + jitter)).save(path)
    return path


def firing(server) -> list[dict]:
    return httpx.get(f"http://{server.place}/api/v2/alerts", params={"active": "true"}).json()


def test_a_fault_of_the_plant_fires_and_resolves_an_alert(model, tmp_path):
    folders = [tmp_path / name for name in ("prometheus", "alertmanager")]
    for folder in folders:
        folder.mkdir()
    plant = Plant(1)
    with (
        exporting(plant.now) as port,
        servers.prometheus(folders[0], scraping(port, "100ms")) as metrics,
        servers.alertmanager(folders[1]) as manager,
    ):
        query = quote('{job="plant",__name__=~"' + "|".join(CHANNELS) + '"}')
        config = tmp_path / "patchad.toml"
        config.write_text(
            f'model = "{model}"\nstate = "{tmp_path / "state"}"\nlog_level = "info"\n'
            f'sources = ["prometheus+http://{metrics.place}?query={query}&step=200ms"]\n'
            f'sinks = ["file:{tmp_path / "out"}", "alertmanager+http://{manager.place}?resolve=60"]\n'
            "[streams]\nsilence = 0\n"
        )
        time.sleep(2)
        command = [sys.executable, "-m", "patchad", "watch", "--config", str(config)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        checked = subprocess.run([*command, "--check"], env=environment, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout
        assert checked.stdout.count("ok: ") == 5
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, stderr=log, env=environment)
        try:
            out = tmp_path / "out"
            servers.wait_for(lambda: out.exists() and len(out.read_text().splitlines()) > 60, what="verdicts")
            before = firing(manager)
            plant.fault = 8.0
            servers.wait_for(lambda: len(firing(manager)) > len(before), what="an alert")
            alert = next(one for one in firing(manager) if one["fingerprint"] not in {b["fingerprint"] for b in before})
            assert (alert["labels"]["alertname"], alert["labels"]["channel"]) == ("PatchAD", "flow")
            plant.fault = 0.0
            gone = lambda: alert["fingerprint"] not in {one["fingerprint"] for one in firing(manager)}  # noqa: E731
            servers.wait_for(gone, what="the end of the alert")
        finally:
            process.terminate()
            assert process.wait(servers.PATIENCE) == 0
    with Records(tmp_path / "state") as records:
        told = records.events()
        assert any(one["state"] == "closed" and one["channels"][0][0] == "flow" for one in told)
        assert len(records.rows(None)) >= len(records.verdicts(None)) > 60

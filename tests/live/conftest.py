"""A model of three channels, rows with a fault, and what `detect` says of them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.conftest import waves

from patchad import make

CHANNELS = ["flow", "heat", "load"]


@pytest.fixture(scope="session")
def live_model():
    return make("moving_zscore").fit(pd.DataFrame(waves(600), columns=CHANNELS))


@pytest.fixture(scope="session")
def model_file(live_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "model.safetensors"
    live_model.save(path)
    return path


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """300 rows with a fault that is told of while it lasts."""
    rows = waves(300, seed=1)
    rows[120:240, 1] += 6.0
    rows[60:63, 2] = np.nan
    found = pd.DataFrame(rows.round(4), columns=CHANNELS)
    found.insert(0, "time", pd.date_range("2026-01-01", periods=300, freq="min").strftime("%Y-%m-%dT%H:%M:%S"))
    return found


@pytest.fixture(scope="session")
def csv_text(frame) -> str:
    return frame.to_csv(index=False)


@pytest.fixture(scope="session")
def json_text(frame) -> str:
    """The rows of a pump, with their values apart."""
    lines = []
    for row in json.loads(frame.to_json(orient="records")):
        time = row.pop("time")
        lines.append(json.dumps({"key": "pump", "time": time, "values": row}))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def batch(live_model, frame):
    return live_model.detect(frame.assign(time=pd.to_datetime(frame["time"])))

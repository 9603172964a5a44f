"""Small data and small detectors that several tests share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, settings

from patchad import PatchAD, make

# a busy machine is no bug
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# so that a change is judged by what it changed
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")

SMALL = {"window": 30, "max_steps": 25, "d_model": 8, "layers": 1}
"""Parameters of a detector that fits in about a second."""


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)  # tests run beside each other and beside other work; spinning threads slow all of it


def small(**changes) -> PatchAD:
    """Give a detector that fits in about a second, with some parameters changed."""
    return PatchAD(**(SMALL | changes))


def waves(rows: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Give `(rows, channels)` of noisy waves, each channel with its own phase."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None] + 7 * np.arange(channels)
    return np.sin(2 * np.pi * t / 25) + 0.1 * rng.standard_normal((rows, channels))


def save_tiny_gpt2(folder: Path) -> str:
    """Write a random GPT-2 of two layers, as the library transformers saves one; give the folder's name."""
    from transformers import GPT2Config, GPT2Model

    shape = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        GPT2Model(GPT2Config(vocab_size=3, bos_token_id=0, eos_token_id=0, **shape)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def train() -> np.ndarray:
    return waves(600)


@pytest.fixture(scope="session")
def fitted(train: np.ndarray) -> PatchAD:
    """A small fitted detector; tests must not change it."""
    return PatchAD(**SMALL).fit(train)


# -- rows to watch ----------------------------------------------------------------------------------------------------

WATCHED = ["flow", "heat", "load"]
"""Channels of the rows that the tests of `patchad watch` send."""


@pytest.fixture(scope="session")
def watched_model():
    return make("moving_zscore").fit(pd.DataFrame(waves(600), columns=WATCHED))


@pytest.fixture(scope="session")
def watched_file(watched_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "model.safetensors"
    watched_model.save(path)
    return path


@pytest.fixture(scope="session")
def watched() -> pd.DataFrame:
    """300 rows with a fault that is told of while it lasts."""
    rows = waves(300, seed=1)
    rows[120:240, 1] += 15.0
    rows[60:63, 2] = np.nan
    found = pd.DataFrame(rows.round(4), columns=WATCHED)
    found.insert(0, "time", pd.date_range("2026-01-01", periods=300, freq="min").strftime("%Y-%m-%dT%H:%M:%S"))
    return found


@pytest.fixture(scope="session")
def watched_csv(watched) -> str:
    return watched.to_csv(index=False)


@pytest.fixture(scope="session")
def watched_json(watched) -> str:
    """The rows of a pump, with their values apart."""
    lines = []
    for row in json.loads(watched.to_json(orient="records")):
        time = row.pop("time")
        lines.append(json.dumps({"key": "pump", "time": time, "values": row}))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def watched_batch(watched_model, watched):
    return watched_model.detect(watched.assign(time=pd.to_datetime(watched["time"])))

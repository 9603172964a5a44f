"""Model files with a good checksum and content that is not what it should be."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from tests.fuzz.models import hostile_model, nested

from patchad import ModelFileError, load
from patchad.detectors import checkpoint


@pytest.fixture(scope="module")
def model(fitted, tmp_path_factory):
    return fitted.save(tmp_path_factory.mktemp("model") / "model.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"layers": 10**6}},
        {"parameters": {"d_model": 8000}},
        {"parameters": {"patch_sizes": [3] * 100_000}},
        {"parameters": {"smoothing": "2"}},
        {"parameters": {"threshold": {"name": "auto", "false_alarms": "x"}}},
        {"parameters": {"threshold": {"name": ["auto"]}}},
        {"parameters": []},
        {"learned": {"window_": 10**9}},
        {"learned": {"patch_sizes_": 10**9}},
        {"learned": []},
        {"channels": ["a"] * 1_000_000},
        {"channels": "abc"},
        {"held_out": nested(900)},
        {"held_out": [[0]]},
        {"notes": 10**400},
        {"detector": ["patchad"]},
    ],
    ids=lambda change: str(change)[:50],
)
def test_a_header_that_claims_what_the_file_does_not_hold_is_refused_fast(model, tmp_path, change):
    header, arrays = checkpoint.read(model)
    for name, value in change.items():
        header[name] = header[name] | value if isinstance(value, dict) and value else value
    path = tmp_path / "model.safetensors"
    checkpoint.write(path, header, arrays)
    began = time.monotonic()
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        load(path)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["alarm_rules_.sensors.low", "rule_.witnesses.0.by_channel.spread"])
def test_arrays_that_only_events_need_are_checked_when_the_file_is_loaded(model, tmp_path, name):
    header, arrays = checkpoint.read(model)
    checkpoint.write(tmp_path / "m", header, arrays | {name: arrays[name][:-1]})
    with pytest.raises(ModelFileError, match="does not hold a whole detector"):
        load(tmp_path / "m")


@pytest.mark.parametrize("seed", range(60))
def test_a_changed_file_is_refused_or_works(model, tmp_path, train, seed):
    path = tmp_path / "model.safetensors"
    try:
        hostile_model(random.Random(seed), model, path)
    except (ValueError, TypeError):  # what JSON or safetensors cannot write
        return
    try:
        detector = load(path)
    except ModelFileError:
        return
    assert np.isfinite(detector.detect(train[:100]).scores).all()

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.conftest import small, waves
from typer.testing import CliRunner

from patchad import PatchAD, UnsupportedError, load, make
from patchad.cli.main import app
from patchad.detectors.backends.onnx import OnnxGraph, to_onnx
from patchad.errors import InputError

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def model(fitted, tmp_path_factory):
    return fitted.save(tmp_path_factory.mktemp("model") / "model.safetensors")


def test_scores_alarms_and_attribution_on_onnx_runtime_equal_those_on_torch(model):
    rows = waves(200, seed=1)
    rows[120:130, 1] += 4
    torch_side, onnx_side = load(model), load(model, backend="onnx")
    expected = torch_side.detect(rows)
    found = onnx_side.detect(rows)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.contributions, expected.contributions, atol=1e-4)
    np.testing.assert_array_equal(found.alarms, expected.alarms)


@pytest.mark.slow  # tens of seconds: a process of its own
def test_a_detector_with_a_graph_can_be_copied(model):
    rows, onnx_side = waves(200, seed=1), load(model, backend="onnx")
    expected = onnx_side.decision_function(rows)
    for copied in (copy.deepcopy(onnx_side), pickle.loads(pickle.dumps(onnx_side))):
        np.testing.assert_array_equal(copied.decision_function(rows), expected)


def test_a_fresh_process_can_score_on_onnx_runtime(model, tmp_path):
    rows = waves(80, seed=1)
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import sys, numpy as np, patchad\n"
        "detector = patchad.load(sys.argv[1], backend='onnx')\n"
        "np.save(sys.argv[3], detector.decision_function(np.load(sys.argv[2])))"
    )
    paths = [str(model), str(tmp_path / "rows.npy"), str(tmp_path / "scores.npy")]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    expected = load(model).decision_function(rows)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow  # seconds for each graph
@pytest.mark.parametrize(
    "setting", [{"fold": "mean"}, {"hop": 1}, {"view_pooling": "mean"}, {"share_channel_mixer": False}], ids=str
)
def test_every_kind_of_detector_can_be_exported(train, setting, tmp_path):
    path = small(max_steps=3, **setting).fit(train).save(tmp_path / "model.safetensors")
    rows = waves(80, seed=2)
    np.testing.assert_allclose(
        load(path, backend="onnx").decision_function(rows), load(path).decision_function(rows), rtol=1e-4, atol=1e-4
    )


def test_the_graph_takes_raw_windows_and_names_its_outputs(model, tmp_path):
    path = tmp_path / "model.onnx"
    done = CliRunner().invoke(app, ["export", str(model), "-o", str(path)])
    assert done.exit_code == 0, done.output
    graph = onnx.load(str(path))
    facts = json.loads({entry.key: entry.value for entry in graph.metadata_props}["patchad"])
    detector = load(model)
    assert facts["channels"] == list(detector.channels_)
    assert facts["window"] == detector.window_ == facts["steps"]
    assert facts["level"] == pytest.approx(detector.threshold_.level)
    windows = np.stack([waves(30, seed=seed) for seed in range(3)])
    assert [output.name for output in graph.graph.output] == [one.name for one in detector.rule_.witnesses]
    found = OnnxGraph(path.read_bytes())(windows)
    assert found["residual"].shape == found["discrepancy"].shape == (3, 30, 3)
    memory = next(one for one in detector.rule_.witnesses if one.name == "memory")
    scaled = torch.from_numpy(detector.scaler_(windows))
    np.testing.assert_allclose(found["memory"], memory(scaled).numpy(), rtol=1e-3, atol=1e-6)


def test_only_patchad_has_a_graph(train, tmp_path):
    detector = make("random").fit(train)
    with pytest.raises(UnsupportedError, match="RandomScore cannot be exported"):
        to_onnx(detector)
    path = detector.save(tmp_path / "random.safetensors")
    with pytest.raises(UnsupportedError, match="RandomScore cannot be exported"):
        load(path, backend="onnx")
    done = CliRunner().invoke(app, ["export", str(path), "-o", str(tmp_path / "random.onnx")])
    assert done.exit_code != 0
    assert not (tmp_path / "random.onnx").exists()


def test_a_new_fit_forgets_the_graph(model, train):
    detector = load(model, backend="onnx")
    assert isinstance(detector, PatchAD)
    assert detector.backend == "onnx"
    before = detector.decision_function(train)
    detector.set_params(random_state=1).fit(train)
    assert detector.backend == "torch"
    assert not np.allclose(before, detector.decision_function(train))


def test_an_unknown_backend_is_refused(model):
    with pytest.raises(InputError, match="use one of 'torch', 'onnx'"):
        load(model, backend="tensorrt")

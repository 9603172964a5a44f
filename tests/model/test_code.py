"""The paper's public code as a preset: net, loss and score equal a slow twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reference import code_slow

import patchad
from patchad import PatchAD
from patchad.errors import InputError
from patchad.model.loss import loss

SIZES = {"window": 30, "patch_sizes": (3, 5), "d_model": 8, "layers": 3, "batch_size": 16}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    t = np.arange(400)
    return np.column_stack([np.sin(t / 5), np.cos(t / 7), t % 20 / 10]) + 0.05 * random.standard_normal((400, 3))


@pytest.fixture(scope="module", params=[1, 2])
def fitted(request, rows):
    trainer = request.param
    return trainer, PatchAD.code(trainer, **SIZES, epochs=2, stride=5, random_state=0).fit(rows)


def slow(detector, trainer, windows):
    weights = {name: value.detach() for name, value in detector.net_.state_dict().items()}
    return code_slow.forward(weights, windows, detector.patch_sizes_, detector.layers, trainer)


def windows_of(detector, rows, count=6):
    scaled = detector.scaler_(rows)
    return torch.from_numpy(np.stack([scaled[30 * n : 30 * n + 30] for n in range(count)]))


def test_every_layer_of_the_net_equals_the_slow_twin(fitted, rows):
    trainer, detector = fitted
    windows = windows_of(detector, rows)
    with torch.no_grad():
        outputs, expected = detector.net_(windows), slow(detector, trainer, windows)
    assert len(outputs) == len(expected) == 2 * 3
    for out, twin in zip(outputs, expected, strict=True):
        for name in ("inter", "intra", "inter_projected", "intra_projected"):
            found = getattr(out, name)[0].transpose(0, 1).softmax(-1)
            torch.testing.assert_close(found, getattr(twin, name), rtol=1e-4, atol=1e-5)
        if trainer == 2:
            torch.testing.assert_close(out.reconstruction, twin.rebuilt, rtol=1e-4, atol=1e-5)
        else:
            assert out.rec_inter is twin.rebuilt is None


def test_the_loss_and_its_gradient_equal_the_slow_twin(fitted, rows):
    trainer, detector = fitted
    windows = windows_of(detector, rows)
    net = detector.net_
    net.zero_grad()
    value = loss(net(windows), windows, detector._objective)
    value.backward()
    weights = {name: leaf.detach().clone().requires_grad_() for name, leaf in net.named_parameters()}
    twin = code_slow.forward(weights, windows, detector.patch_sizes_, detector.layers, trainer)
    expected = code_slow.loss(twin, windows, 0.2, trainer)
    expected.backward()
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6)
    compared = [(name, leaf.grad) for name, leaf in net.named_parameters() if leaf.grad is not None]
    assert len(compared) > 50
    for name, grad in compared:
        torch.testing.assert_close(grad, weights[name].grad, rtol=1e-3, atol=1e-5)
    net.zero_grad()


def test_the_score_equals_the_slow_twin_also_of_rows_left_over_at_the_end(fitted, rows):
    trainer, detector = fitted
    test = rows[: 4 * 30 + 12]
    found = detector.decision_function(test)
    scaled = torch.from_numpy(detector.scaler_(test))
    windows = torch.cat([scaled[:120].reshape(4, 30, 3), scaled[None, -30:]])
    with torch.no_grad():
        outputs = slow(detector, trainer, windows)
    if trainer == 1:
        expected = (-code_slow.distance(outputs)).softmax(-1)
    else:
        expected = (torch.stack([out.rebuilt for out in outputs]).mean(0) - windows).square().mean(-1)
    expected = np.concatenate([expected[:4].flatten().numpy(), expected[4, -12:].numpy()])
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    if trainer == 1:
        np.testing.assert_allclose(found[:120].reshape(4, 30).sum(1), 1, rtol=1e-6)


def test_saving_streaming_and_explaining_work(fitted, rows, tmp_path):
    _, detector = fitted
    detector.save(tmp_path / "code.safetensors")
    loaded = patchad.load(tmp_path / "code.safetensors")
    assert loaded.get_params() == detector.get_params()
    test = rows[:100]
    scores = detector.decision_function(test)
    np.testing.assert_allclose(loaded.decision_function(test), scores, rtol=1e-6)
    shares = loaded.explain(test)
    assert shares.shape == test.shape
    assert np.isin(shares.sum(1).round(5), (0, 1)).all()
    loaded.set_threshold("quantile:0.99")
    stream = loaded.stream()
    pushed = [verdict.score for row in test for verdict in stream.push(row)]
    pushed += [verdict.score for verdict in stream.flush()]
    np.testing.assert_allclose(pushed, scores, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [1, 2])
def test_the_graph_of_onnx_equals_the_net(trainer, rows, tmp_path):
    pytest.importorskip("onnxruntime")
    settings = SIZES | {"patch_sizes": (5,), "layers": 2, "epochs": 1, "stride": 20}
    detector = PatchAD.code(trainer, **settings).fit(rows)
    detector.save(tmp_path / "code.safetensors")
    exported = patchad.load(tmp_path / "code.safetensors", backend="onnx")
    assert exported.backend == "onnx"
    np.testing.assert_allclose(
        exported.decision_function(rows[:100]), detector.decision_function(rows[:100]), rtol=1e-4
    )


def test_the_same_seed_gives_the_same_scores_with_dropout(rows):
    settings = SIZES | {"layers": 1, "epochs": 1, "stride": 20}
    one, other = (PatchAD.code(**settings, random_state=3).fit(rows[:200]) for _ in range(2))
    assert np.array_equal(one.decision_function(rows[:60]), other.decision_function(rows[:60]))


def test_the_sizes_are_those_of_the_paper_and_can_be_changed():
    assert PatchAD.code().d_model == PatchAD.paper().d_model == 40
    changed = PatchAD.code(1, window=60)
    assert (changed.window, changed.hop, changed.score, changed.reconstruction) == (60, 60, "softmax", 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trainer": 3}, "trainer=3"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"mixer": "residual"}, "dropout"),
        ({"mixer": "deep"}, "mixer='deep'"),
        ({"epochs": None, "max_steps": 3}, "decay=0.5"),
        ({"reconstruction": -1.0}, "reconstruction=-1.0"),
        ({"reconstruction": 0.0}, "score='error'"),
    ],
)
def test_what_cannot_be_is_refused(rows, wrong, message):
    with pytest.raises(InputError, match=message):
        PatchAD.code(**(SIZES | wrong)).fit(rows[:100])

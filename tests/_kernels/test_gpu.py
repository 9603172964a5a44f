"""On a GPU: its kernels, its CUDA graphs of training steps and its scores equal those of the CPU."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.conftest import waves

from patchad import PatchAD
from patchad._kernels.cuda_graphs import GraphedFunction
from patchad.model.distances import discrepancy
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.net import PatchADNet
from patchad.model.training import TrainStep

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def twins(channels: int = 51, **changes) -> tuple[PatchADNet, PatchADNet]:
    detector = PatchAD.paper(**changes)
    detector.channels_ = tuple(map(str, range(channels)))
    torch.manual_seed(0)
    one = PatchADNet(detector._net_config(105, (3, 5)))
    other = PatchADNet(one.config)
    other.load_state_dict(one.state_dict())
    return one, other.cuda()


@pytest.mark.parametrize("channels", [1, 3, 51, 123])
def test_distances_equal_those_of_the_cpu(channels):
    cpu, gpu = twins(channels)
    x = torch.randn(40, 105, channels)
    with torch.inference_mode():
        expected, found = discrepancy(cpu(x), "kl"), discrepancy(gpu(x.cuda()), "kl").cpu()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("channels", [3, 51, 123])
def test_gradients_equal_those_of_the_cpu(channels):
    cpu, gpu = twins(channels, objective="agreement")
    x = torch.randn(40, 105, channels)
    objective = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
    loss(cpu(x), x, objective).backward()
    loss(gpu(x.cuda()), x.cuda(), objective).backward()
    for (name, one), other in zip(cpu.named_parameters(), gpu.parameters(), strict=True):
        size = one.grad.abs().max()
        if size > 1e-6:
            assert (one.grad - other.grad.cpu()).abs().max() < 0.1 * size, name  # TF32 products have ten bits


def test_a_detector_trained_on_a_gpu_scores_alike_on_both():
    train, test = waves(1500), waves(400, seed=1)
    detector = PatchAD(device="cuda", max_steps=60).fit(train)
    scores = detector.decision_function(test)
    other = PatchAD(device="cpu", max_steps=60).fit(train)
    other.net_.load_state_dict({name: value.cpu() for name, value in detector.net_.state_dict().items()})
    other.rule_ = detector.rule_
    np.testing.assert_allclose(other.decision_function(test), scores, rtol=1e-4, atol=1e-3)


def test_captured_steps_train_as_plain_ones_do():
    train = waves(1500)
    on_cpu = PatchAD(device="cpu", max_steps=100).fit(train).history_[-1]
    on_gpu = PatchAD(device="cuda", max_steps=100).fit(train).history_[-1]
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=0.02)
    assert on_gpu.held_out == pytest.approx(on_cpu.held_out, rel=0.05)


@pytest.mark.parametrize("preset", [PatchAD, PatchAD.paper])
def test_replayed_steps_change_the_weights_as_eager_steps_do(preset):
    detector = preset()
    detector.channels_, detector.window_, detector.patch_sizes_ = ("a", "b", "c"), 60, (3, 5)
    batches = torch.randn(12, 16, 60, 3, device="cuda")
    found = []
    for capturable in (True, False):
        torch.manual_seed(0)
        net = PatchADNet(detector._net_config(60, (3, 5))).cuda()
        goal = replace(detector._goals(net)[0], capturable=capturable)
        step = TrainStep(net, [goal], [torch.optim.Adam(net.parameters(), lr=1e-3, fused=True, capturable=True)])
        losses = [float(step(batch)) for batch in batches]
        found.append((losses, torch.cat([p.detach().reshape(-1) for p in net.parameters()])))
    (losses, weights), (expected, plain) = found
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert float((weights - plain).abs().max()) < 2e-3  # Adam makes full steps of gradients near zero


def test_replayed_steps_follow_a_falling_rate():
    x = waves(1200)
    options = {"window": 30, "batch_size": 64, "learning_rate": 1e-2, "device": "cuda", "random_state": 0}
    falling, steady = (PatchAD.code(1, **options, decay=decay).fit(x) for decay in (1e-6, 1.0))
    eager = PatchAD.code(1, **options, decay=1e-6)
    eager._goals = lambda net: [replace(PatchAD._goals(eager, net)[0], capturable=False)]
    eager.fit(x)
    one, same, other = (
        torch.cat([p.detach().reshape(-1) for p in det.net_.parameters()]) for det in (falling, eager, steady)
    )
    assert float((one - same).abs().mean()) < 0.1 * float((one - other).abs().mean())


def test_replayed_dropout_draws_anew_and_follows_the_seed():
    x = waves(1200)
    scores = [
        PatchAD.code(2, window=30, device="cuda", random_state=seed).fit(x).decision_function(x) for seed in (0, 0, 1)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3, atol=1e-4)
    assert not np.allclose(scores[0], scores[2], rtol=1e-3, atol=1e-4)


def test_replayed_scoring_equals_scoring_and_follows_the_weights():
    detector = PatchAD(device="cuda", max_steps=20).fit(waves(1500))
    backend, names = detector.backend_, ("discrepancy", "residual", "memory")
    windows = torch.randn(7, detector.window_, detector.n_features_in_)
    for _ in range(2):
        with torch.inference_mode():
            plain = dict(zip(names, backend._run(windows.cuda(), 5, names), strict=True))
        for _ in range(5):  # the first are run, the rest replayed
            found = backend.observe(windows, 5, names).observed
            for name in names:
                np.testing.assert_allclose(found[name].cpu(), plain[name].cpu(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for parameter in detector.net_.parameters():
                parameter.mul_(1.1)
    assert backend._graphed._graphs
    np.testing.assert_array_equal(
        copy.deepcopy(detector).decision_function(waves(300, seed=1)), detector.decision_function(waves(300, seed=1))
    )


def test_garbage_does_not_invalidate_a_capture():
    def leave_garbage() -> None:
        older = GraphedFunction(lambda x: (x + 1,), warmup=0)
        older(torch.ones(3, device="cuda"))
        older.itself = older  # only the garbage collector frees it

    def wasteful(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = [[] for _ in range(20_000)]  # enough to start the garbage collector
        return (x + len(made),)

    leave_garbage()
    found = GraphedFunction(wasteful, warmup=0)(torch.ones(3, device="cuda"))
    assert found[0].tolist() == [20_001.0] * 3

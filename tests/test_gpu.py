"""What only a GPU can show: its kernels, its recorded training steps and its scores equal those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from patchad import PatchAD
from patchad.model import PatchADNet
from patchad.objective import ObjectiveConfig, discrepancy, loss
from tests.conftest import waves

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
    asked = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
    loss(cpu(x), x, asked).backward()
    loss(gpu(x.cuda()), x.cuda(), asked).backward()
    for (name, one), other in zip(cpu.named_parameters(), gpu.parameters(), strict=True):
        size = one.grad.abs().max()
        if size > 1e-6:
            assert (one.grad - other.grad.cpu()).abs().max() < 0.1 * size, name  # products of ten bits


def test_a_detector_trained_on_a_gpu_scores_alike_on_both():
    train, test = waves(1500), waves(400, seed=1)
    detector = PatchAD(device="cuda", max_steps=60).fit(train)
    scores = detector.decision_function(test)
    other = PatchAD(device="cpu", max_steps=60).fit(train)
    other.net_.load_state_dict({name: value.cpu() for name, value in detector.net_.state_dict().items()})
    other.rule_ = detector.rule_
    np.testing.assert_allclose(other.decision_function(test), scores, rtol=1e-4, atol=1e-3)


def test_recorded_steps_train_as_plain_ones_do():
    train = waves(1500)
    on_cpu = PatchAD(device="cpu", max_steps=100).fit(train).history_[-1]
    on_gpu = PatchAD(device="cuda", max_steps=100).fit(train).history_[-1]
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=0.02)
    assert on_gpu.held_out == pytest.approx(on_cpu.held_out, rel=0.05)

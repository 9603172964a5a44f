"""GPU kernels, interpreted on any machine. `test_gpu.py` runs them compiled."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from patchad import PatchAD
from patchad._kernels import backend, eager, mixing
from patchad._kernels.backend import FusedWeights
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.net import PatchADNet

pytest.importorskip("triton", reason="triton is not installed here")
if torch.cuda.is_available():
    pytest.skip("the kernels run compiled here", allow_module_level=True)
gpu = pytest.importorskip("patchad._kernels.gpu")

SHAPE = (7, 9, 5, 6)
WHOLE = {"channel": (0, 0, 9, 7), "patch": (1, 0, 6, 6), "step": (1, 6, 9, 3), "feature": (3, 0, 9, 6)}


def mixer(width: int, hidden: int) -> tuple[nn.LayerNorm, nn.Linear, nn.Linear]:
    torch.manual_seed(width)
    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm, nn.Linear(width, hidden), nn.Linear(hidden, width)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("name", WHOLE)
def test_kernels_mix_and_differentiate_as_torch_does(name, activation):
    axis, start, stop, width = WHOLE[name]
    weights = FusedWeights(*(weight.detach() for weight in mixing.fuse(*mixer(width, width + 2))))
    x, grad_out = (mixing._view(torch.randn(SHAPE), axis, start, stop) for _ in range(2))
    options = {"last": axis == 3, "activation": activation}
    found = []
    for module in (eager, gpu):
        out, grad_x = (mixing._view(torch.full(SHAPE, torch.nan), axis, start, stop) for _ in range(2))
        saved = module.forward(x, out, weights, **options, save=True)
        found.append((out, grad_x, *module.backward(saved, grad_out, grad_x, **options)))
    for expected, one in zip(*found, strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-4)


def test_a_hidden_layer_too_wide_to_be_held_is_mixed_in_pieces():
    weights = FusedWeights(*(weight.detach() for weight in mixing.fuse(*mixer(70, 150))))
    x = torch.randn(70, 40)
    expected, found = torch.empty_like(x), torch.empty_like(x)
    for module, out in ((eager, expected), (gpu, found)):
        module.forward(x, out, weights, last=False, activation="gelu", save=False)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_sizes_that_no_program_can_hold_are_left_to_torch():
    x = torch.empty(())
    wide, wider = (mixing.fuse(*mixer(size, size)) for size in (100, 150))
    assert gpu.handles(x, wide, training=False)
    assert not gpu.handles(x, wide, training=True)
    assert not gpu.handles(x, wider, training=False)


def test_fusing_and_its_gradient_equal_torchs():
    norm, widen, _ = mixer(19, 23)
    leaves = [norm.weight, norm.bias, widen.weight, widen.bias]
    gradients = torch.randn(23, 19), torch.randn(23)
    expected, found = (module.fuse(*leaves) for module in (eager, gpu))
    torch.testing.assert_close(found, expected)
    both = [torch.autograd.grad(fused, leaves, gradients) for fused in (expected, found)]
    torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)


def test_the_weighted_sum_of_layers_and_its_gradient_equal_torchs():
    views, weights = [torch.randn(SHAPE, requires_grad=True) for _ in range(3)], torch.rand(3, 9, requires_grad=True)
    gradient = torch.randn(SHAPE)
    expected, found = (module.weighted_sum(views, weights) for module in (eager, gpu))
    torch.testing.assert_close(found, expected)
    both = [torch.autograd.grad(total, [weights, *views], gradient) for total in (expected, found)]
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)


def test_a_whole_net_and_its_gradients_equal_torchs(monkeypatch):
    detector = PatchAD(d_model=4)
    detector.channels_ = ("a", "b", "c")
    torch.manual_seed(0)
    net = PatchADNet(detector._net_config(12, (2, 3)))
    windows = torch.randn(3, 12, 3)
    objective = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
    found = []
    for module in (eager, gpu):
        monkeypatch.setattr(backend, "_load", lambda device, module=module: module)
        value = loss(net(windows), windows, objective)
        found.append((value.detach(), torch.autograd.grad(value, list(net.parameters()))))
    (expected, gradients), (value, others) = found
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    for (name, _), one, other in zip(net.named_parameters(), others, gradients, strict=True):
        assert float((one - other).abs().max()) < 2e-2 * max(float(other.abs().max()), 1e-3), name


@pytest.mark.parametrize("name", WHOLE)
def test_kernels_mix_many_nets_at_once_as_each_alone(name):
    axis, start, stop, width = WHOLE[name]
    each = [FusedWeights(*(weight.detach() for weight in mixing.fuse(*mixer(width, width + 2)))) for _ in range(3)]
    each = [FusedWeights(*(weight * (1 + number) for weight in own)) for number, own in enumerate(each)]
    stacked = FusedWeights(*(torch.stack(weights) for weights in zip(*each, strict=True)))
    x, grad_out = (mixing._view(torch.randn(3, *SHAPE), axis, start, stop) for _ in range(2))
    out, grad_x = (mixing._view(torch.full((3, *SHAPE), torch.nan), axis, start, stop) for _ in range(2))
    options = {"last": axis == 3, "activation": "gelu"}
    saved = gpu.forward(x, out, stacked, **options, save=True)
    found = (out, grad_x, *gpu.backward(saved, grad_out, grad_x, **options))
    for number, weights in enumerate(each):
        below, passed = (mixing._view(torch.full(SHAPE, torch.nan), axis, start, stop) for _ in range(2))
        kept = eager.forward(x[number], below, weights, **options, save=True)
        wanted = (below, passed, *eager.backward(kept, grad_out[number], passed, **options))
        for one, expected in zip(found, wanted, strict=True):
            torch.testing.assert_close(one[number], expected, rtol=1e-3, atol=1e-3)

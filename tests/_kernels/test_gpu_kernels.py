"""The kernels for a GPU, interpreted: what they compute, on any machine. `test_gpu.py` runs them as they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from patchad import PatchAD
from patchad._kernels import mixing
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.net import PatchADNet

pytest.importorskip("triton", reason="triton is not installed here")
if torch.cuda.is_available():
    pytest.skip("the kernels run as they are here", allow_module_level=True)
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
def test_kernels_mix_and_give_gradients_as_torch_does(name, activation):
    axis, start, stop, width = WHOLE[name]
    last, gelu = axis == 3, activation == "gelu"
    weights = [weight.detach() for weight in mixing.fuse(*mixer(width, width + 2))]
    x, upper = torch.randn(SHAPE), torch.randn(SHAPE)
    for leaf in (x, *weights):
        leaf.requires_grad_()
    part = [(mixing.MixerSpan(start, stop, mixing.FusedWeights(*weights)))]
    expected = mixing._seen(mixing.mix(x, axis, part, activation), axis, start, stop)
    gradients = torch.autograd.grad(expected, [x, *weights], mixing._seen(upper, axis, start, stop))
    seen, above = (mixing._seen(tensor.detach(), axis, start, stop) for tensor in (x, upper))
    found, below = (mixing._seen(torch.full(SHAPE, torch.nan), axis, start, stop) for _ in range(2))
    with torch.no_grad():
        gpu.forward(seen, found, last, weights, gelu=gelu, precision="ieee")
        of_weights = gpu.backward(seen, above, below, last, weights, gelu=gelu, precision="ieee")
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(below, mixing._seen(gradients[0], axis, start, stop), rtol=1e-4, atol=1e-5)
    for one, other in zip(of_weights, gradients[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_hidden_layer_too_wide_to_be_held_is_mixed_in_parts():
    weights = [weight.detach() for weight in mixing.fuse(*mixer(70, 150))]
    x = torch.randn(70, 40)
    expected = mixing.mix(
        x.view(70, 1, 40, 1), 0, [mixing.MixerSpan(0, 1, mixing.FusedWeights(*weights))], "gelu"
    ).view(70, 40)
    found = torch.empty_like(x)
    gpu.forward(x, found, False, weights, gelu=True, precision="ieee")
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_weights_are_folded_and_their_gradients_unfolded():
    norm, widen, narrow = mixer(19, 23)
    leaves = [norm.weight, norm.bias, widen.weight, widen.bias]
    expected = mixing.fuse(norm, widen, narrow)[:2]
    found = gpu.fuse(*(leaf.detach() for leaf in leaves))
    upper = torch.randn(23, 19), torch.randn(23)
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(expected, leaves[:3], upper)
    unfolded = gpu.fuse_backward(*(leaf.detach() for leaf in leaves[:3]), *upper)
    torch.testing.assert_close(unfolded, gradients, rtol=1e-5, atol=1e-5)


def test_layers_are_weighed_in_one_pass():
    views, weights = [torch.randn(SHAPE, requires_grad=True) for _ in range(3)], torch.rand(3, 9, requires_grad=True)
    expected, upper = mixing.weighted_sum(views, weights), torch.randn(SHAPE)
    plain = tuple(view.detach() for view in views)
    torch.testing.assert_close(gpu.weighted_sum(plain, weights.detach()), expected.detach())
    gradients = torch.autograd.grad(expected, [weights, *views], upper)
    found = gpu.weighted_sum_backward(plain, weights.detach(), upper)
    torch.testing.assert_close(found, gradients, rtol=1e-4, atol=1e-5)


def test_a_whole_net_and_its_gradients_are_those_of_torch(monkeypatch):
    detector = PatchAD(d_model=4)
    detector.channels_ = ("a", "b", "c")
    torch.manual_seed(0)
    net = PatchADNet(detector._net_config(12, (2, 3)))
    windows = torch.randn(3, 12, 3)
    asked = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
    found = []
    for kernels in (None, gpu):
        monkeypatch.setattr(mixing, "kernels_for", lambda x, kernels=kernels: kernels)
        monkeypatch.setattr(mixing, "_gpu_kernels", lambda x, kernels=kernels: kernels)
        value = loss(net(windows), windows, asked)
        found.append((value.detach(), torch.autograd.grad(value, list(net.parameters()))))
    (expected, gradients), (value, others) = found
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    for (name, _), one, other in zip(net.named_parameters(), others, gradients, strict=True):
        assert float((one - other).abs().max()) < 2e-2 * max(float(other.abs().max()), 1e-3), name

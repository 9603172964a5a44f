from __future__ import annotations

import copy
import logging
import os
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from patchad._kernels import backend, eager
from patchad._kernels.backend import FusedWeights, backend_for
from patchad._kernels.mixing import MixerSpan, fuse, mix
from patchad.model.distances import DISTANCES

SHAPE = (5, 7, 3, 4)
AXES = (0, 1, 3)


def bounds_of(axis: int, size: int) -> list[tuple[int, int]]:
    """Return the span of each mixer: two of them, but one for the features."""
    middle = (size + 1) // 2
    return [(0, size)] if axis == 3 else [(0, middle), (middle, size)]


def weights(axis: int, shape: tuple[int, ...] = SHAPE, more: int = 2) -> list[nn.ModuleList]:
    torch.manual_seed(axis)
    made = []
    for start, stop in bounds_of(axis, shape[1]):
        width = stop - start if axis == 1 else shape[axis]
        norm, widen, narrow = nn.LayerNorm(width), nn.Linear(width, width + more), nn.Linear(width + more, width)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        made.append(nn.ModuleList([norm, widen, narrow]).double())
    return made


def mixed(x: torch.Tensor, axis: int, modules: list[nn.ModuleList], activation: str, **options) -> torch.Tensor:
    bounds = bounds_of(axis, x.shape[1])
    spans = [MixerSpan(*bound, fuse(*module)) for bound, module in zip(bounds, modules, strict=True)]
    return mix(x, axis, spans, activation, **options)


def plain(x: torch.Tensor, axis: int, modules: list[nn.ModuleList], activation: str) -> torch.Tensor:
    """Move the axis to the end, apply LayerNorm, Linear, activation and Linear, and move it back."""
    act = {"gelu": nn.functional.gelu, "relu": torch.relu}[activation]
    found = []
    for (start, stop), (norm, widen, narrow) in zip(bounds_of(axis, x.shape[1]), modules, strict=True):
        part = x[:, start:stop]
        found.append(part + narrow(act(widen(norm(part.movedim(axis, -1))))).movedim(-1, axis))
    return torch.cat(found, dim=1)


@pytest.fixture(params=["plain", "avx2", "avx512", "torch"])
def kernels(request, monkeypatch):
    """Run with the compiled kernels of one instruction set, or on torch's operations."""
    if request.param == "torch":
        monkeypatch.setattr(backend, "_load", lambda device: eager)
        return
    if os.environ.get("PATCHAD_NATIVE") != "required":
        pytest.importorskip("patchad._kernels._mixing", reason="patchad was installed without a C compiler")
    from patchad._kernels import _mixing, cpu

    monkeypatch.setattr(backend, "_load", lambda device: cpu if device == "cpu" else eager)
    wanted = ["plain", "avx2", "avx512"].index(request.param)
    if wanted > _mixing.BEST:
        pytest.skip(f"this machine has no {request.param}")
    monkeypatch.setattr(cpu, "INSTRUCTIONS", wanted)


def as_good_as_single(found: torch.Tensor, exact: torch.Tensor, terms: float = 1) -> None:
    """Check that errors are small beside the largest value, or the sum of terms, as in single precision."""
    size = max(float(exact.abs().max()), terms**0.5)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5 * size)


def check_single(shape: tuple[int, ...], axis: int, activation: str, more: int) -> None:
    """Compare result, gradients and the result in place with those in double precision."""
    modules = weights(axis, shape, more)
    single = [copy.deepcopy(part).float() for part in modules]
    # Neighbours differ, so that no norm divides by almost zero, which is ill-conditioned in any precision.
    offset = (6 * (torch.arange(shape[axis]) % 2)).view([-1 if dim == axis else 1 for dim in range(4)])
    x = (torch.randn(shape) + offset).requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    exact, found = plain(exact_x, axis, modules, activation), mixed(x, axis, single, activation)
    as_good_as_single(found, exact.detach())
    upper = torch.randn(shape)
    leaves = [x, *(p for part in single for p in part.parameters())]
    exact_leaves = [exact_x, *(p for part in modules for p in part.parameters())]
    for one, other in zip(
        torch.autograd.grad(found, leaves, upper),
        torch.autograd.grad(exact, exact_leaves, upper.double()),
        strict=True,
    ):
        as_good_as_single(one, other, terms=1 if one.shape == x.shape else x.numel() / x.shape[axis])
    with torch.inference_mode():
        over = x.detach().clone()
        assert mixed(over, axis, single, activation, in_place=True).data_ptr() == over.data_ptr()
    as_good_as_single(over, exact.detach())
    assert backend_for(x) is eager or torch.equal(over, found)  # rounding does not depend on gradients there


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(
    "shape", [SHAPE, (51, 38, 2, 40), (123, 26, 1, 16), (1, 8, 30, 16), (2, 2, 1, 1), (17, 33, 3, 51)]
)
def test_single_precision_has_only_rounding_errors(shape, axis, activation, kernels):
    check_single(shape, axis, activation, more=round(0.2 * shape[axis]))


@given(
    shape=st.tuples(st.integers(1, 70), st.integers(2, 40), st.integers(1, 5), st.integers(1, 50)),
    axis=st.sampled_from(AXES),
    more=st.integers(0, 40),
)
@settings(max_examples=60, deadline=None)
def test_any_sizes_are_mixed(shape, axis, more):
    check_single(shape, axis, "gelu", more)  # the gradient of relu jumps at zero, where rounding may change the sign


def test_gelu_is_accurate_near_and_far_from_zero(kernels):
    # A single value normalises to zero: the hidden unit is the shift alone, and the narrow matrix copies it.
    before = torch.cat([torch.linspace(-9, 9, 2001), torch.tensor([-1e6, -20.0, 20.0, 1e6])])
    one = torch.ones(len(before), 1)
    part = FusedWeights(torch.zeros_like(one), before, one.T.contiguous().fill_(0.0), torch.zeros(1))
    for hidden in range(0, len(before), 100):
        part.narrow.zero_()[0, hidden] = 1
        with torch.inference_mode():
            found = mix(torch.zeros(1, 1, 1, 1), 0, [MixerSpan(0, 1, part)], "gelu")
        expected = nn.functional.gelu(before[hidden].double())
        torch.testing.assert_close(found.double().squeeze(), expected, rtol=1e-6, atol=2e-7)


def test_nan_stays_nan(kernels):
    x = torch.zeros(SHAPE)
    x[0, 0, 0, 0] = torch.nan
    with torch.inference_mode():
        found = mixed(x, 0, [part.float() for part in weights(0)], "gelu")
    assert found[:, 0, 0, 0].isnan().all()
    assert int(found.isnan().sum()) == len(x)


def test_without_the_compiled_extension_torch_is_used(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "patchad._kernels._mixing", None)
    monkeypatch.delitem(sys.modules, "patchad._kernels.cpu", raising=False)
    for name in ("_mixing", "cpu"):
        monkeypatch.delattr(f"patchad._kernels.{name}", raising=False)
    backend._load.cache_clear()
    with caplog.at_level(logging.INFO):
        assert backend_for(torch.zeros(1)) is eager
    assert "without a C compiler" in caplog.text
    backend._load.cache_clear()


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("axis", AXES)
def test_a_mixer_and_its_gradients_equal_the_plain_one(axis, activation):
    x = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    modules = weights(axis)
    leaves = [x, *(p for part in modules for p in part.parameters())]
    expected, found = plain(x, axis, modules, activation), mixed(x, axis, modules, activation)
    torch.testing.assert_close(found, expected)
    upper = torch.randn(SHAPE, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(found, leaves, upper), torch.autograd.grad(expected, leaves, upper), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("axis", AXES)
def test_without_a_gradient_the_input_can_be_overwritten(axis):
    x = torch.randn(SHAPE, dtype=torch.float64)
    before, modules = x.clone(), weights(axis)
    expected = plain(x, axis, modules, "gelu")
    with torch.no_grad():
        kept = mixed(x, axis, modules, "gelu")
        torch.testing.assert_close(x, before, rtol=0, atol=0)
        found = mixed(x, axis, modules, "gelu", in_place=True)
    assert found.data_ptr() == x.data_ptr() != kept.data_ptr()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(kept, expected)


def test_large_means_do_not_swamp_small_differences(kernels):
    x = (1000 + 1e-2 * torch.randn(SHAPE, dtype=torch.float64)).requires_grad_()
    modules = weights(0)
    exact = plain(x, 0, modules, "gelu") - x
    single = mixed(x.detach().float(), 0, [part.float() for part in modules], "gelu") - x.detach().float()
    rounding = 1000 * 2.0**-23 / 1e-2  # what single precision leaves of the differences in x
    torch.testing.assert_close(single.double(), exact, rtol=0, atol=5 * rounding)


@pytest.mark.parametrize("distance", ["kl", "l2"])
@pytest.mark.parametrize(
    "sizes",  # channels, patches, steps, batch, features
    [(51, 20, 3, 32, 16), (3, 20, 5, 1, 16), (1, 35, 3, 9, 40), (2, 1, 1, 1, 1), (2, 3, 40, 7, 5), (2, 40, 2, 17, 9)],
)
def test_pairwise_distances_have_only_rounding_errors(sizes, distance, kernels):
    channels, patches, steps, batch, features = sizes
    torch.manual_seed(0)
    views = 5 * torch.randn(channels, patches + steps, batch, features)
    inter, intra = views[:, :patches], views[:, patches:]
    measure = DISTANCES[distance].pairwise
    exact = measure(inter.double(), intra.double())
    torch.testing.assert_close(measure(inter, intra).double(), exact, rtol=1e-5, atol=1e-6)
    pooled = inter.mean(0, keepdim=True), intra.mean(0, keepdim=True)
    exact = measure(*(view.double() for view in pooled))
    torch.testing.assert_close(measure(*pooled).double(), exact, rtol=1e-5, atol=1e-6)


def test_small_distances_do_not_cancel(kernels):
    intra = torch.randn(2, 3, 20, 16)
    inter = intra[:, :1] + 1e-3 * torch.randn(2, 1, 20, 16)
    exact = DISTANCES["kl"].pairwise(inter.double(), intra.double())[:, :, 0]
    found = DISTANCES["kl"].pairwise(inter, intra)[:, :, 0]
    torch.testing.assert_close(found.double(), exact, rtol=2e-3, atol=0)


def test_distances_have_a_gradient(kernels):
    inter, intra = torch.randn(2, 3, 4, 5, requires_grad=True), torch.randn(2, 2, 4, 5)
    DISTANCES["kl"].pairwise(inter, intra).sum().backward()
    assert inter.grad is not None

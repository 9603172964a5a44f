from __future__ import annotations

import pytest
import torch
from torch import nn

from patchad.mixing import Part, fold, mix

SHAPE = (5, 7, 3, 4)
WIDTHS = {0: (5, 5), 1: (4, 3), 3: (4,)}
BOUNDS = {0: ((0, 4), (4, 7)), 1: ((0, 4), (4, 7)), 3: ((0, 7),)}


def weights(axis: int) -> list[nn.ModuleList]:
    torch.manual_seed(axis)
    made = []
    for width in WIDTHS[axis]:
        norm, widen, narrow = nn.LayerNorm(width), nn.Linear(width, width + 2), nn.Linear(width + 2, width)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        made.append(nn.ModuleList([norm, widen, narrow]).double())
    return made


def mixed(x: torch.Tensor, axis: int, modules: list[nn.ModuleList], activation: str, **keep) -> torch.Tensor:
    parts = [Part(*bounds, fold(*part)) for bounds, part in zip(BOUNDS[axis], modules, strict=True)]
    return mix(x, axis, parts, activation, **keep)


def plain(x: torch.Tensor, axis: int, modules: list[nn.ModuleList], activation: str) -> torch.Tensor:
    """Move the axis to the end, LayerNorm, Linear, activation, Linear, and back."""
    act = {"gelu": nn.functional.gelu, "relu": torch.relu}[activation]
    found = []
    for (start, stop), (norm, widen, narrow) in zip(BOUNDS[axis], modules, strict=True):
        part = x[:, start:stop]
        found.append(part + narrow(act(widen(norm(part.movedim(axis, -1))))).movedim(-1, axis))
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("axis", [0, 1, 3])
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


@pytest.mark.parametrize("axis", [0, 1, 3])
def test_without_a_gradient_the_result_can_be_written_over_the_input(axis):
    x = torch.randn(SHAPE, dtype=torch.float64)
    before, modules = x.clone(), weights(axis)
    expected = plain(x, axis, modules, "gelu")
    with torch.no_grad():
        kept = mixed(x, axis, modules, "gelu")
        torch.testing.assert_close(x, before, rtol=0, atol=0)
        found = mixed(x, axis, modules, "gelu", keep=False)
    assert found.data_ptr() == x.data_ptr() != kept.data_ptr()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(kept, expected)


def test_large_means_do_not_eat_small_differences():
    x = (1000 + 1e-2 * torch.randn(SHAPE, dtype=torch.float64)).requires_grad_()
    modules = weights(0)
    exact = plain(x, 0, modules, "gelu") - x
    single = mixed(x.detach().float(), 0, [part.float() for part in modules], "gelu") - x.detach().float()
    rounding = 1000 * 2.0**-23 / 1e-2  # what single precision leaves of the differences in x
    torch.testing.assert_close(single.double(), exact, rtol=0, atol=5 * rounding)

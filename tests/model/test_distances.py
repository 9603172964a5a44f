from __future__ import annotations

from typing import get_args

import pytest
import torch
from tests.reference import views_slow

from patchad.model.distances import DISTANCES, DistanceName, discrepancy
from patchad.model.net import ScaleOutput


def random_output(seed: int = 0, *, projected: bool = True, scale: float = 1.0) -> ScaleOutput:
    torch.manual_seed(seed)
    b, c, n, p, d = 3, 2, 4, 5, 6

    def view(steps: int) -> torch.Tensor:
        return (scale * torch.randn(c, steps, b, d, dtype=torch.float64)).requires_grad_()

    rec = [torch.randn(b, n * p, c, dtype=torch.float64) for _ in range(2)]
    return ScaleOutput(view(n), view(p), view(n) if projected else None, view(p) if projected else None, *rec)


def batch_first(view: torch.Tensor) -> torch.Tensor:
    """Return `(b, c, n, d)`, as the slow twin has it."""
    return view.permute(2, 0, 1, 3)


def test_distances_are_those_of_the_type():
    assert tuple(DISTANCES) == get_args(DistanceName)


@pytest.mark.parametrize("kind", DISTANCES)
def test_distance_of_every_pair_equals_the_distance_of_repeated_views(kind):
    out = random_output()
    inter, intra = (
        views_slow.spread_inter(batch_first(out.inter), 5),
        views_slow.spread_intra(batch_first(out.intra), 4),
    )
    slow = views_slow.distance(inter, intra, kind)
    torch.testing.assert_close(DISTANCES[kind].pairwise(out.inter, out.intra).flatten(1, 2).permute(2, 0, 1), slow)


@pytest.mark.parametrize("kind", DISTANCES)
def test_the_mean_of_all_pairs_has_its_own_faster_way(kind):
    out = random_output()
    distance = DISTANCES[kind]
    mean = distance.mean(distance.summary(out.inter), distance.summary(out.intra))
    torch.testing.assert_close(mean, distance.pairwise(out.inter, out.intra).mean())


@pytest.mark.parametrize("kind", ["kl", "l2"])
def test_nearly_equal_views_keep_their_digits_in_single_precision(kind):
    torch.manual_seed(0)
    base = torch.randn(1, 1, 2, 16, dtype=torch.float64)
    inter = base + 1e-3 * torch.randn(1, 7, 2, 16, dtype=torch.float64)
    intra = base + 1e-3 * torch.randn(1, 3, 2, 16, dtype=torch.float64)
    spread = views_slow.spread_inter(batch_first(inter), 3), views_slow.spread_intra(batch_first(intra), 7)
    exact = views_slow.distance(*spread, kind)
    single = DISTANCES[kind].pairwise(inter.float(), intra.float()).flatten(1, 2).permute(2, 0, 1).double()
    torch.testing.assert_close(single, exact, rtol=2e-3, atol=0)


def test_the_discrepancy_is_the_mean_over_scales():
    outputs = [random_output(6), random_output(7)]
    each = [discrepancy([o], "kl") for o in outputs]
    torch.testing.assert_close(discrepancy(outputs, "kl"), (each[0] + each[1]) / 2)


@pytest.mark.parametrize("steps", [1, 5, 7, 20])
def test_the_newest_steps_alone_are_the_newest_of_all(steps):
    outputs = [random_output(6), random_output(7)]
    torch.testing.assert_close(discrepancy(outputs, "kl", steps), discrepancy(outputs, "kl")[:, -steps:])

from __future__ import annotations

import pytest
import torch
from tests.reference import views_slow

from patchad.errors import InputError
from patchad.model.distances import DISTANCES, discrepancy
from patchad.model.loss import ObjectiveConfig, loss, view_loss
from patchad.model.net import ScaleOutput
from patchad.model.witnesses.discrepancy import Discrepancy
from patchad.model.witnesses.residual import Residual


def random_output(seed: int = 0, *, projected: bool = True, scale: float = 1.0) -> ScaleOutput:
    torch.manual_seed(seed)
    b, c, n, p, d = 3, 2, 4, 5, 6

    def view(steps: int) -> torch.Tensor:
        return (scale * torch.randn(c, steps, b, d, dtype=torch.float64)).requires_grad_()

    rec = [torch.randn(b, n * p, c, dtype=torch.float64) for _ in range(2)]
    return ScaleOutput(view(n), view(p), view(n) if projected else None, view(p) if projected else None, *rec)


def turned(view: torch.Tensor) -> torch.Tensor:
    """Return (b, c, n, d), the layout of the slow twin."""
    return view.permute(2, 0, 1, 3)


@pytest.mark.parametrize("kind", DISTANCES)
def test_distance_of_every_pair_equals_the_distance_of_repeated_views(kind):
    out = random_output()
    inter, intra = views_slow.spread_inter(turned(out.inter), 5), views_slow.spread_intra(turned(out.intra), 4)
    slow = views_slow.distance(inter, intra, kind)
    torch.testing.assert_close(DISTANCES[kind](out.inter, out.intra).flatten(1, 2).permute(2, 0, 1), slow)


@pytest.mark.parametrize("kind", DISTANCES)
def test_the_mean_of_all_pairs_has_its_own_faster_way(kind):
    out = random_output()
    distance = DISTANCES[kind]
    mean = distance.mean(distance.summary(out.inter), distance.summary(out.intra))
    torch.testing.assert_close(mean, distance(out.inter, out.intra).mean())


@pytest.mark.parametrize("kind", ["kl", "l2"])
def test_nearly_equal_views_keep_their_digits_in_single_precision(kind):
    torch.manual_seed(0)
    base = torch.randn(1, 1, 2, 16, dtype=torch.float64)
    inter = base + 1e-3 * torch.randn(1, 7, 2, 16, dtype=torch.float64)
    intra = base + 1e-3 * torch.randn(1, 3, 2, 16, dtype=torch.float64)
    spread = views_slow.spread_inter(turned(inter), 3), views_slow.spread_intra(turned(intra), 7)
    exact = views_slow.distance(*spread, kind)
    single = DISTANCES[kind](inter.float(), intra.float()).flatten(1, 2).permute(2, 0, 1).double()
    torch.testing.assert_close(single, exact, rtol=2e-3, atol=0)


@pytest.mark.parametrize("objective", ["agreement", "adversarial"])
@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("c", [0.0, 0.3])
def test_the_loss_and_its_gradient_equal_the_papers_formula(objective, kind, c):
    fast, slow = random_output(1), random_output(1)
    view_loss(fast, ObjectiveConfig(objective=objective, distance=kind, constraint=c)).backward()

    def slow_contrast(one, other):
        return views_slow.contrast(turned(one), turned(other), kind, objective)

    constraint = slow_contrast(slow.inter_projected, slow.intra) + slow_contrast(slow.inter, slow.intra_projected)
    expected = (1 - c) * slow_contrast(slow.inter, slow.intra) + c * constraint
    expected.backward()
    value = view_loss(random_output(1), ObjectiveConfig(objective=objective, distance=kind, constraint=c))
    torch.testing.assert_close(value, expected)
    for name in ("inter", "intra"):
        torch.testing.assert_close(getattr(fast, name).grad, getattr(slow, name).grad)
    if c > 0:
        for name in ("inter_projected", "intra_projected"):
            torch.testing.assert_close(getattr(fast, name).grad, getattr(slow, name).grad)


def test_the_adversarial_value_is_zero_everywhere_but_its_gradient_is_not():
    out = random_output(2)
    value = view_loss(out, ObjectiveConfig(objective="adversarial", distance="kl", constraint=0.2))
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-12)
    assert out.inter.grad.abs().max() > 0


def test_without_projection_heads_the_constraint_has_nothing_to_act_on():
    config = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.4)
    plain = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.0)
    torch.testing.assert_close(view_loss(random_output(3, projected=False), config), view_loss(random_output(3), plain))


def test_the_loss_adds_the_reconstruction_error_of_every_scale():
    config = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
    outputs = [random_output(4), random_output(5)]
    target = torch.zeros(3, 20, 2, dtype=torch.float64)
    expected = sum(view_loss(o, config) + (o.reconstruction**2).mean() for o in outputs)
    torch.testing.assert_close(loss(outputs, target, config), expected)


def test_witnesses_average_over_scales():
    outputs = [random_output(6), random_output(7)]
    each = [discrepancy([o], "kl") for o in outputs]
    windows = torch.zeros(3, 20, 2, dtype=torch.float64)
    torch.testing.assert_close(Discrepancy("kl", 1).observe(windows, outputs, 20), (each[0] + each[1]) / 2)
    mean = (outputs[0].reconstruction + outputs[1].reconstruction) / 2
    torch.testing.assert_close(Residual().observe(windows, outputs, 20), mean.abs())


@pytest.mark.parametrize("steps", [1, 5, 7, 20])
@pytest.mark.parametrize("witness", [Discrepancy("kl", 1), Residual()], ids=["discrepancy", "residual"])
def test_the_newest_steps_alone_are_the_newest_of_all(steps, witness):
    outputs = [random_output(6), random_output(7)]
    windows = torch.randn(3, 20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole = witness.observe(windows, outputs, 20)
    torch.testing.assert_close(witness.observe(windows, outputs, steps), whole[:, -steps:])


@pytest.mark.parametrize(
    "wrong",
    [{"objective": "both"}, {"distance": "cosine"}, {"constraint": 1.5}, {"constraint": -0.1}],
)
def test_unknown_settings_are_refused_with_what_is_known(wrong):
    settings = {"objective": "agreement", "distance": "kl", "constraint": 0.2} | wrong
    with pytest.raises(InputError, match=r"use one of|between 0 and 1"):
        ObjectiveConfig(**settings)

from __future__ import annotations

import pytest
import torch
from tests.model.test_distances import batch_first, random_output
from tests.reference import views_slow

from patchad.errors import InputError
from patchad.model.distances import DISTANCES
from patchad.model.loss import ObjectiveConfig, loss, view_loss


@pytest.mark.parametrize("objective", ["agreement", "adversarial"])
@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("c", [0.0, 0.3])
def test_the_loss_and_its_gradient_equal_the_papers_formula(objective, kind, c):
    fast, slow = random_output(1), random_output(1)
    view_loss(fast, ObjectiveConfig(objective=objective, distance=kind, constraint=c)).backward()

    def slow_contrast(one, other):
        return views_slow.contrast(batch_first(one), batch_first(other), kind, objective)

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


@pytest.mark.parametrize(
    "wrong",
    [{"objective": "both"}, {"distance": "cosine"}, {"constraint": 1.5}, {"constraint": -0.1}],
)
def test_unknown_settings_are_refused_with_what_is_known(wrong):
    settings = {"objective": "agreement", "distance": "kl", "constraint": 0.2} | wrong
    with pytest.raises(InputError, match=r"use one of|between 0 and 1"):
        ObjectiveConfig(**settings)

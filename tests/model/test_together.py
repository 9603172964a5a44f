"""Nets that are trained together end as each would alone."""

from __future__ import annotations

import copy
import logging

import numpy as np
import pytest
import torch
from tests.conftest import waves

from patchad import PatchAD
from patchad.data.windows import WindowSampler
from patchad.errors import InputError
from patchad.model import distances, training
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.net import PatchADNet
from patchad.model.together import Member, _Stack, train_together
from patchad.model.training import PATIENCE, Goal, TrainConfig, train

CPU = torch.device("cpu")
CONFIG = TrainConfig(max_steps=40, epochs=None, batch_size=4, learning_rate=1e-3)


class Point(torch.nn.Module):
    """One weight that starts at zero; losses read it directly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(self, batch):
        return self.weight * batch.mean()


def nets(count: int = 3, **changes) -> list[PatchADNet]:
    detector = PatchAD(d_model=4, **changes)
    detector.channels_ = ("a", "b", "c")
    torch.manual_seed(0)
    return [PatchADNet(detector._net_config(12, (2, 3))) for _ in range(count)]


def loss_of(**changes):
    objective = ObjectiveConfig(**({"objective": "agreement", "distance": "kl", "constraint": 0.2} | changes))
    return lambda net, batch: loss(net(batch), batch, objective)


def stack_of(members: list[PatchADNet], own_loss) -> _Stack:
    weights = [{name: one.detach().numpy() for name, one in net.named_parameters()} for net in members]
    return _Stack(copy.deepcopy(members[0]), weights, own_loss, CONFIG, CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["kernels", "torch"])
@pytest.mark.parametrize(
    ("shape", "objective"),
    [
        ({}, {}),
        ({"share_channel_mixer": False, "activation": "relu"}, {"distance": "l2", "objective": "adversarial"}),
        ({"mixer": "normed", "view_pooling": "softmax"}, {}),
    ],
    ids=["default", "adversarial", "code"],
)
def test_losses_and_gradients_are_those_of_each_net(dtype, shape, objective):
    members = [net.to(dtype) for net in nets(**shape)]
    batch = torch.randn(3, 5, 12, 3, dtype=dtype)
    stack = stack_of(members, loss_of(**objective))
    found = stack._losses(batch)
    found.sum().backward()
    close = {"rtol": 1e-3, "atol": 1e-5} if dtype == torch.float32 else {}
    for number, net in enumerate(members):
        alone = loss_of(**objective)(net, batch[number])
        alone.backward()
        torch.testing.assert_close(found[number], alone)
        for name, parameter in net.named_parameters():
            wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            torch.testing.assert_close(stack.weights[name].grad[number], wanted, **close)


def test_training_together_gives_the_loss_curves_and_weights_of_training_alone(monkeypatch):
    monkeypatch.setattr(training, "CHECK_EVERY", 10)
    monkeypatch.setattr("patchad.model.together.CHECK_EVERY", 10)
    alone, given = nets(3), []
    for seed in range(3):
        rows = waves(110 + seed, seed=seed).astype(np.float32)
        windows, held_out = WindowSampler([rows[:40], rows[40:-30]], 12), WindowSampler([rows[-30:]], 12)
        given.append((windows, held_out, lambda rows: 2 * rows, CONFIG))
    members = [Member.of(net, *own, seed=seed) for seed, (net, own) in enumerate(zip(alone, given, strict=True))]
    found = train_together(nets(1)[0], members, loss_of(), CONFIG, device=CPU)
    for seed, (one, net, own) in enumerate(zip(found, alone, given, strict=True)):
        wanted = train(net, [Goal(list(net.parameters()), loss_of())], *own, seed=seed, device=CPU)
        assert [progress.step for progress in one.history] == [10, 20, 30, 40]
        for progress, other in zip(one.history, wanted, strict=True):
            assert progress.loss == pytest.approx(other.loss, rel=1e-4)
            assert progress.held_out == pytest.approx(other.held_out, rel=1e-4)
        for name, parameter in net.named_parameters():
            np.testing.assert_allclose(one.weights[name], parameter.detach(), rtol=1e-2, atol=1e-3)


def point(held: float, config: TrainConfig, *, held_out: bool = True, rows: float = 1.0) -> Member:
    train_windows = WindowSampler([np.full((10, 1), rows, dtype=np.float32)], 2)
    check = WindowSampler([np.full((10, 1), held, dtype=np.float32)], 2)
    own = check if held_out else WindowSampler([], 2)
    return Member.of(Point(), train_windows, own, lambda values: values, config, seed=0)


def test_each_net_stops_by_its_own_held_out_loss(monkeypatch):
    monkeypatch.setattr("patchad.model.together.CHECK_EVERY", 5)
    config = TrainConfig(max_steps=100, epochs=None, batch_size=4, learning_rate=0.01)
    members = [point(1.0, config), point(-1.0, config)]  # what the second learns is wrong for its held-out rows
    better, worse = train_together(Point(), members, lambda net, batch: -net(batch), config, device=CPU)
    assert [one.history[-1].step for one in (better, worse)] == [100, 5 * (PATIENCE + 1)]
    assert better.weights["weight"] == pytest.approx(1.0, rel=1e-3)
    assert worse.weights["weight"] == pytest.approx(0.05, rel=1e-3)  # those of the first check


def test_a_net_that_diverges_costs_no_other(monkeypatch, caplog):
    monkeypatch.setattr("patchad.model.together.CHECK_EVERY", 5)
    config = TrainConfig(max_steps=20, epochs=None, batch_size=4, learning_rate=0.01)

    def explosive(net, batch):
        value = net(batch)
        return torch.where(value > 1.2, torch.inf, -value)

    members = [point(1.0, config), point(1.0, config, rows=10.0), point(1.0, config, rows=1e3)]
    with caplog.at_level(logging.WARNING, logger="patchad"):
        calm, wild, lost = train_together(Point(), members, explosive, config, device=CPU)
    assert [one.step for one in calm.history] == [5, 10, 15, 20]
    assert [one.step for one in wild.history] == [5, 10]
    assert "the weights with the lowest held-out loss are used" in caplog.text
    assert isinstance(lost, InputError)
    assert "lower learning_rate=0.01" in str(lost)
    unchecked = [point(1.0, config, held_out=False), point(1.0, config, held_out=False, rows=1e3)]
    calm, lost = train_together(Point(), unchecked, explosive, config, device=CPU)
    assert calm.weights["weight"] == pytest.approx(0.2, rel=1e-3)
    assert isinstance(lost, InputError)


def test_what_cannot_be_trained_together_is_refused():
    epochs = TrainConfig(max_steps=None, epochs=1, batch_size=4, learning_rate=1e-3)
    with pytest.raises(InputError, match="leave epochs None"):
        train_together(Point(), [point(1.0, CONFIG)], lambda net, batch: net(batch), epochs, device=CPU)
    uneven = [point(1.0, CONFIG), point(1.0, CONFIG, held_out=False)]
    with pytest.raises(InputError, match="equally many held-out windows"):
        train_together(Point(), uneven, lambda net, batch: net(batch), CONFIG, device=CPU)


@pytest.mark.parametrize("name", ["jsd", "wasserstein"])
def test_other_distances_are_trained_together_too(name):
    batch = torch.randn(2, 5, 12, 3)
    stack = stack_of(nets(2), loss_of(distance=name))
    assert stack.step(batch).shape == (2,)
    assert name in distances.DISTANCES

from __future__ import annotations

import logging
import math
from itertools import chain

import numpy as np
import pytest
import torch
from tests.conftest import small, waves
from torch import nn

from patchad.data.windows import WindowSampler
from patchad.errors import InputError
from patchad.model import batches, training
from patchad.model.training import PATIENCE, Goal, TrainConfig, find_device, planned_steps, train

CPU = torch.device("cpu")
COUNT = np.arange(10, dtype=np.float32)[:, None]


class Point(nn.Module):
    """One weight that starts at zero; losses read it directly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))


def run(loss, net=None, *, held_out=True, seed=0, watch=None, goals=None, rows=COUNT, **budget):
    """Train on the windows of two rows that a count has; return the net and its history."""
    net = net or Point()
    settings = {"max_steps": None, "epochs": None, "batch_size": 4, "learning_rate": 0.01} | budget
    windows = WindowSampler([rows], 2)
    history = train(
        net,
        goals or [Goal(list(net.parameters()), loss)],
        windows,
        windows if held_out else WindowSampler([], 2),
        lambda values: values,
        TrainConfig(**settings),
        seed=seed,
        device=CPU,
        watch=watch,
    )
    return net, history


def seen_windows(**options) -> list[list[float]]:
    """Return the first row of every window, batch by batch, that a training run asks the loss for."""
    seen = []

    def loss(net, batch):
        if net.training:
            seen.append(batch[:, 0, 0].tolist())
        return net.weight.square()

    run(loss, **options)
    return seen


# -- divergence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learning_rate", [1e3, 1e30])
def test_a_fit_that_diverges_says_so_and_names_the_learning_rate(learning_rate):
    with pytest.raises(InputError, match=r"training diverged.*lower learning_rate=1(000|e\+30)"):
        small(learning_rate=learning_rate, max_steps=60).fit(waves(300))


@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_training(value, held_out):
    steps = []
    with pytest.raises(InputError, match=f"at step 1 the loss is {value}"):
        run(lambda net, batch: net.weight + value, held_out=held_out, watch=steps.append, max_steps=1000)
    assert len(steps) == 1


def test_without_any_finite_held_out_loss_training_stops_and_is_refused():
    steps = []
    with pytest.raises(InputError, match="nan on held-out windows"):
        run(lambda net, batch: net.weight * (1 if net.training else math.nan), max_steps=1000, watch=steps.append)
    assert len(steps) == PATIENCE * training.CHECK_EVERY


def test_divergence_after_a_good_check_keeps_the_best_weights_and_warns(monkeypatch, caplog):
    monkeypatch.setattr(training, "CHECK_EVERY", 1)
    left = iter(range(5))

    def loss(net, batch):
        diverged = net.training and next(left, None) is None
        return (net.weight - 1).square() + (math.nan if diverged else 0)

    with caplog.at_level(logging.WARNING):
        net, history = run(loss, max_steps=100)
    assert len(history) == 5
    assert net.weight.item() == pytest.approx(0.05, rel=1e-2)
    assert "training diverged: at step 6 the loss is nan" in caplog.text


# -- early stopping ----------------------------------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_weights(monkeypatch):
    monkeypatch.setattr(training, "CHECK_EVERY", 1)
    # Training increases the weight by 0.01 in every step; the held-out loss is lowest at 0.3.
    net, history = run(lambda net, batch: -net.weight if net.training else (net.weight - 0.3).square(), max_steps=1000)
    assert net.weight.item() == pytest.approx(0.3, abs=1e-4)
    assert not net.training
    assert [progress.step for progress in history] == list(range(1, 31 + PATIENCE))
    assert min(history, key=lambda progress: progress.held_out).step == 30


def test_without_held_out_windows_training_runs_to_its_end():
    net, history = run(lambda net, batch: -net.weight, held_out=False, max_steps=120)
    assert net.weight.item() == pytest.approx(1.2, rel=1e-4)
    assert [progress.step for progress in history] == [50, 100, 120]
    assert all(math.isnan(progress.held_out) for progress in history)


def test_every_step_is_watched_and_the_history_has_the_checks(monkeypatch):
    monkeypatch.setattr(training, "CHECK_EVERY", 3)
    watched = []
    _, history = run(lambda net, batch: (net.weight - 1).square(), max_steps=7, watch=watched.append)
    assert [progress.step for progress in watched] == list(range(1, 8))
    assert history == [progress for progress in watched if not math.isnan(progress.held_out)]
    assert [progress.step for progress in history] == [3, 6, 7]
    assert {progress.steps for progress in watched} == {7}


def test_the_reported_loss_is_the_mean_since_the_last_check(monkeypatch):
    monkeypatch.setattr(training, "CHECK_EVERY", 2)
    values = iter([1.0, 3.0, 10.0, 20.0])
    _, history = run(lambda net, batch: 0 * net.weight + next(values), held_out=False, max_steps=4)
    assert [progress.loss for progress in history] == [2.0, 15.0]


# -- the budget and the order of the windows ---------------------------------------------------------------------------


def test_an_epoch_has_every_window_once():
    seen = seen_windows(epochs=2)
    assert [len(batch) for batch in seen] == [4, 4, 1, 4, 4, 1]
    assert sorted(chain(*seen[:3])) == sorted(chain(*seen[3:])) == list(range(9))
    assert seen[:3] != seen[3:]


@pytest.mark.parametrize(("budget", "steps"), [({"epochs": 3, "max_steps": 4}, 4), ({"epochs": 1, "max_steps": 50}, 3)])
def test_max_steps_bounds_the_epochs(budget, steps):
    assert len(seen_windows(**budget)) == steps
    settings = TrainConfig(batch_size=4, learning_rate=1e-3, **budget)
    assert planned_steps(9, settings) == steps


def test_without_epochs_batches_are_random_and_full():
    seen = seen_windows(max_steps=5)
    assert [len(batch) for batch in seen] == [4] * 5


@pytest.mark.parametrize("budget", [{"epochs": 2}, {"max_steps": 6}])
def test_the_order_follows_the_seed_alone(budget):
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = seen_windows(seed=3, **budget)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert seen_windows(seed=3, **budget) == first
    assert seen_windows(seed=4, **budget) != first


@pytest.mark.parametrize(
    "wrong", [{}, {"max_steps": 0}, {"epochs": 0}, {"max_steps": 1, "batch_size": 0}, {"epochs": 1, "learning_rate": 0}]
)
def test_impossible_budgets_are_refused(wrong):
    with pytest.raises(InputError, match=r"needs an end|must be above 0"):
        run(None, **wrong)


# -- steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_micro_batches_have_the_gradient_of_the_batch(threads):
    torch.manual_seed(0)
    net, batch = nn.Linear(3, 1), torch.randn(7, 2, 3)

    def loss(net, batch):
        return net(batch).square().mean()

    found = []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for micro_batch in (None, 3):
            net.zero_grad()
            value = training._gradients(net, Goal(list(net.parameters()), loss, micro_batch=micro_batch), batch)
            found.append([value, *(parameter.grad.clone() for parameter in net.parameters())])
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*found)


def test_goals_are_taken_in_order_each_with_its_own_parameters():
    net = nn.ParameterList([nn.Parameter(torch.zeros(())) for _ in range(2)])
    seen = []

    def second(net, batch):
        seen.append(net[0].item())
        return -net[1] - 5 * net[0]

    goals = [Goal([net[0]], lambda net, batch: -net[0] + 5 * net[1]), Goal([net[1]], second)]
    run(None, net, goals=goals, held_out=False, max_steps=2)
    assert seen == pytest.approx([0.01, 0.02], rel=1e-4)  # the first goal has made its step
    assert [weight.item() for weight in net] == pytest.approx([0.02, 0.02], rel=1e-4)


def test_windows_cut_on_a_device_equal_those_cut_from_the_series(monkeypatch):
    monkeypatch.setattr(batches, "SCALED_ROWS", 7)
    windows, chosen = WindowSampler([COUNT, COUNT + 100], 3, 2), np.array([0, 5, 3, 3])
    drawn = [make(chosen) for make in (sampler(windows) for sampler in SAMPLERS)]
    assert torch.equal(*drawn)


SAMPLERS = (
    lambda windows: batches.host_sampler(windows, lambda values: 2 * values),
    lambda windows: batches.device_sampler(windows, lambda values: 2 * values, CPU),
)


def test_devices_are_found_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == CPU
    with pytest.raises(InputError, match="no CUDA device"):
        find_device("cuda")
    with pytest.raises(InputError, match="'nowhere' is unknown"):
        find_device("nowhere")


def test_a_rate_that_a_captured_step_reads_is_changed_in_place():
    read = torch.tensor(1.0)
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizers = [torch.optim.AdamW([parameter], lr=lr, capturable=False, foreach=False) for lr in (read, 1.0)]
    training._set_rate(optimizers, 0.5)
    assert float(read) == 0.5
    assert [float(optimizer.param_groups[0]["lr"]) for optimizer in optimizers] == [0.5, 0.5]

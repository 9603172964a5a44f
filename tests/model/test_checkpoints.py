"""A training that was killed goes on from its file, and ends as if nothing had happened."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.conftest import waves

from patchad import PatchAD
from patchad.data.windows import WindowSampler
from patchad.model import training
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.net import PatchADNet
from patchad.model.training import Goal, TrainConfig, train

OBJECTIVE = ObjectiveConfig(objective="agreement", distance="kl", constraint=0.2)
CONFIG = TrainConfig(max_steps=20, epochs=None, batch_size=4, learning_rate=1e-3)


class KilledError(Exception):
    pass


def new_net() -> PatchADNet:
    detector = PatchAD(d_model=4)
    detector.channels_ = ("a", "b", "c")
    torch.manual_seed(0)
    return PatchADNet(detector._net_config(12, (2, 3)))


def run(net, keep=None, *, kill_at=None, held_out=True, config=CONFIG, seed=3, rows=None):
    rows = waves(80).astype(np.float32) if rows is None else rows
    windows = WindowSampler([rows], 12)

    def kill(progress):
        if progress.step == kill_at:
            raise KilledError

    return train(
        net,
        [Goal(list(net.parameters()), lambda own, batch: loss(own(batch), batch, OBJECTIVE))],
        windows,
        windows if held_out else WindowSampler([], 12),
        lambda values: values,
        config,
        seed=seed,
        device=torch.device("cpu"),
        watch=kill if kill_at else None,
        keep=keep,
    )


def without_seconds(history):
    return [(one.step, one.steps, one.loss, one.held_out if one.held_out == one.held_out else None) for one in history]


@pytest.mark.parametrize("held_out", [True, False])
def test_a_killed_training_goes_on_where_it_was(held_out, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECK_EVERY", 5)
    whole, broken = new_net(), new_net()
    wanted = run(whole, held_out=held_out)
    with pytest.raises(KilledError):
        run(broken, tmp_path / "training", kill_at=13, held_out=held_out)
    fresh = new_net()
    history = run(fresh, tmp_path / "training", held_out=held_out)
    assert without_seconds(history) == without_seconds(wanted)
    for one, other in zip(fresh.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    again = copy.deepcopy(fresh)
    assert run(again, tmp_path / "training", held_out=held_out)[-1].step == 20  # nothing is left to do
    for one, other in zip(again.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("change", ["seed", "rows", "broken", "foreign"])
def test_the_file_of_another_training_is_as_good_as_none(change, tmp_path):
    path = tmp_path / "training"
    run(new_net(), path)
    other = {"seed": {"seed": 4}, "rows": {"rows": waves(80, seed=1).astype(np.float32)}}.get(change, {})
    if change == "broken":
        path.write_bytes(path.read_bytes()[:100])
    if change == "foreign":
        path.write_text("something else")
    plain, kept = new_net(), new_net()
    assert without_seconds(run(kept, path, **other)) == without_seconds(run(plain, **other))

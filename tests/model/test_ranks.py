"""Several processes train the net that one trains; here a group of one, `tests/fleet/test_ranks.py` has more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.conftest import waves
from torch import distributed

from patchad import PatchAD
from patchad.errors import InputError
from patchad.model.ranks import Ranks, current_ranks, joint_training
from patchad.model.training import Goal, TrainStep

SMALL = {"window": 12, "patch_sizes": (3,), "d_model": 4, "layers": 1, "max_steps": 60, "batch_size": 8}


@pytest.fixture
def group(tmp_path):
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_group_trains_the_net_that_one_process_trains(group):
    alone = PatchAD(**SMALL).fit(waves(200))
    assert not current_ranks().joint
    with joint_training():
        assert current_ranks() == Ranks(0, 1, joint=True)
        together = PatchAD(**SMALL).fit(waves(200))
    for one, other in zip(together.history_, alone.history_, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.held_out == pytest.approx(other.held_out, rel=1e-5)


def test_opposed_goals_are_left_to_one_process(group):
    net = torch.nn.Linear(2, 2)
    goal = Goal(list(net.parameters()), lambda own, batch: own(batch).sum())
    with pytest.raises(InputError, match="for one goal, and this one has 2"):
        TrainStep(net, [goal, goal], [], Ranks(0, 1, joint=True))


def test_the_parts_of_a_batch_are_all_of_it():
    parts = [Ranks(number, 3).part(np.arange(10)) for number in range(3)]
    assert np.concatenate([own for own, _ in parts]).tolist() == list(range(10))
    assert sum(weight for _, weight in parts) == pytest.approx(3)
    assert Ranks(2, 3).part(np.arange(2))[0].tolist() == [0, 1]

"""The training loop, where a net gives it no sensible loss."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from patchad.data.windows import WindowSampler
from patchad.model.training import PATIENCE, Goal, TrainConfig, train


def test_training_without_any_finite_held_out_loss_stops_and_keeps_its_weights():
    net = nn.Linear(1, 1)
    windows = WindowSampler([np.ones((50, 1), dtype=np.float32)], 5)
    history = train(
        net,
        [Goal(list(net.parameters()), lambda net, batch: net(batch).mean() * (1.0 if net.training else math.nan))],
        windows,
        windows,
        lambda values: values,
        TrainConfig(max_steps=1000, epochs=None, batch_size=4, learning_rate=1e-3),
        seed=0,
        device=torch.device("cpu"),
    )
    assert len(history) == PATIENCE
    assert all(torch.isfinite(value).all() for value in net.state_dict().values())

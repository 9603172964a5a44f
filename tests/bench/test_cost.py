"""What a window costs."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from patchad import PatchAD, make
from patchad.bench.cost import measure_cost


def test_operations_of_kernels_are_counted() -> None:
    """Torch counts its own operations only, so these are what the net is measured with."""
    rows = np.random.default_rng(0).standard_normal((200, 4))
    detector = PatchAD.paper(window=30, d_model=8, layers=1, epochs=1, stride=50, batch_size=4).fit(rows)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        net = detector.net_.double()
        net(torch.zeros(1, 30, 4, dtype=torch.float64), project=False, reconstruct=False)
    net.float()
    found = measure_cost(detector, len(rows))["flops"]
    assert counter.get_total_flops() <= found < 1.2 * counter.get_total_flops()


def test_a_detector_that_adapts_as_it_scores_is_measured_too() -> None:
    rows = np.random.default_rng(0).standard_normal((100, 2))
    found = measure_cost(make("m2n2", max_steps=1, latent=4).fit(rows), len(rows))
    assert found["flops"] > 0
    assert found["latency_ms"] > 0

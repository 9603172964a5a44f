from __future__ import annotations

import pytest
import torch
from tests.model.test_distances import random_output

from patchad.model.witnesses.residual import Residual


@pytest.mark.parametrize("steps", [1, 7, 20])
def test_the_residual_is_the_error_of_the_mean_reconstruction(steps):
    outputs = [random_output(6), random_output(7)]
    windows = torch.randn(3, 20, 2, dtype=torch.float64)
    mean = (outputs[0].reconstruction + outputs[1].reconstruction) / 2
    found = Residual().observe(windows, outputs, steps)
    torch.testing.assert_close(found, (windows - mean).abs()[:, -steps:])

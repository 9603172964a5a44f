from __future__ import annotations

import numpy as np
import pytest

from patchad.data.scaling import ZScore


def test_ranges_keep_rare_moves_small():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal(1000), np.zeros(1000), np.zeros(1000)])
    rows[500, 1], rows[600, 2], rows[700, 2] = 1.0, 1.0, 0.5
    plain = ZScore.fit([rows])
    calm = plain.with_ranges([rows])
    assert plain(rows)[500, 1] > 30
    assert calm(rows)[500, 1] == pytest.approx(
        0.8, abs=0.01
    )  # a switch: four spreads in its range, and a fifth of that
    assert calm(rows)[600, 2] == pytest.approx(4, abs=0.05)
    assert 1 <= calm.spread[0] / plain.spread[0] < 2

from __future__ import annotations

import numpy as np
import pytest

from patchad.data.scaling import ZScore, channel_range


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


@pytest.mark.parametrize("value", [1e18, 0.1, 5.1, 1.234567e18])
@pytest.mark.parametrize("rows", [600, 3001, 10_007])
def test_a_constant_channel_is_constant_however_many_stand_beside_it(value, rows):
    for width in (1, 2, 5):
        scale = ZScore.fit([np.full((rows, width), value)])
        assert (scale.mean == value).all()
        assert not scale(np.full((3, width), value)).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [5.0, 0.1, 1e18, -3e-30])
def test_rounding_is_no_movement(dtype, value):
    rows = np.full((1000, 1), value, dtype)
    rows[500] = np.nextafter(rows[500], dtype(np.inf))
    assert channel_range([rows[:, 0]]) == (float(rows[0, 0]), float(rows[0, 0]), False)
    for scale in (ZScore.fit([rows]), ZScore.fit([rows]).with_ranges([rows])):
        assert np.abs(scale(rows)).max() < 0.01


def test_small_moves_on_a_large_offset_are_moves():
    rows = 1.7e9 + 1e-3 * np.sin(np.arange(500))[:, None]
    assert ZScore.fit([rows])(rows).std() == pytest.approx(1, abs=0.01)
    assert ZScore.fit([np.zeros((0, 1)), rows])(rows).std() == pytest.approx(1, abs=0.01)

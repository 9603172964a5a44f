from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patchad.data.holdout import held_out_blocks, known_parts
from patchad.data.series import Series


@given(st.integers(40, 5000), st.floats(0.05, 0.6), st.integers(1, 80))
def test_held_out_blocks_and_the_rest_make_the_series(length, share, window):
    series = Series(np.arange(float(length))[:, None], ("x",))
    blocks = held_out_blocks(length, share, window)
    known = known_parts([series], [blocks])
    held = [series.values[block] for block in blocks]
    together = np.sort(np.concatenate([*known, *held]).ravel())
    np.testing.assert_array_equal(together, series.values.ravel())
    assert blocks[-1].stop == length, "the end of train is nearest to what follows"
    assert abs(sum(map(len, held)) - share * length) <= len(blocks)
    assert len(blocks) == 1 or min(map(len, held)) >= 3 * window - 1


def test_without_a_share_nothing_is_held_out():
    series = Series(np.zeros((100, 1)), ("x",))
    assert held_out_blocks(100, 0.0, 10) == []
    assert [len(part) for part in known_parts([series], [[]])] == [100]

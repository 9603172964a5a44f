from __future__ import annotations

import numpy as np
import pytest
import torch

from patchad.data.scaling import ZScore
from patchad.model.witnesses import Training, surprise
from patchad.model.witnesses.surprise import LEAST, ROWS, Surprise


def rows(count: int = 1200) -> np.ndarray:
    """Give three channels: a wave with a little noise, a switch, and one at rest."""
    random = np.random.default_rng(0)
    wave = 10 + 3 * np.sin(np.arange(count) / 7) + 0.05 * random.standard_normal(count)
    return np.column_stack([wave, wave > 10, np.full(count, 2.0)])


def fit(values: np.ndarray, *, asked: bool = True) -> tuple[Surprise | None, ZScore]:
    scaler = ZScore.fit([values])
    return Surprise.fit(Training([values], [], scaler, 30, "kl", 1, 0, 0, surprise=asked)), scaler


def observed(witness: Surprise, scaler: ZScore, window: np.ndarray, steps: int = 30) -> np.ndarray:
    return witness.observe(torch.from_numpy(scaler(window))[None], (), steps)[0].numpy()


@pytest.fixture(scope="module")
def fitted():
    return fit(rows())


def test_one_row_is_seen_when_it_comes(fitted):
    window = rows()[100:130].copy()
    calm = observed(*fitted, window)
    window[20, 0] += 1.0  # a third of the wave's height
    found = observed(*fitted, window)
    assert found[20, 0] > 3 * calm[ROWS:, 0].max()
    np.testing.assert_array_equal(found[:20], calm[:20])
    np.testing.assert_array_equal(found[20 + ROWS + 1 :], calm[20 + ROWS + 1 :])


def test_it_is_the_regression_on_the_last_rows(fitted):
    witness, scaler = fitted
    wave = scaler(rows())[:, 0].astype(float)
    before = np.column_stack([wave[lag : len(wave) - ROWS + lag] for lag in range(ROWS)])
    slopes, *_ = np.linalg.lstsq(before - before.mean(0), wave[ROWS:] - wave[ROWS:].mean(), rcond=None)
    np.testing.assert_allclose(-witness.kernel[:ROWS, 0].numpy(), slopes, atol=0.05)


def test_a_switch_and_what_rests_do_not_count(fitted):
    assert not fitted[0].kernel[:, 1:].any()
    window = rows()[:30]
    window[10:, 1] = 1 - window[10:, 1]
    assert not observed(*fitted, window)[:, 1:].any()


def test_fewer_steps_are_the_newest(fitted):
    window = rows()[:30]
    np.testing.assert_array_equal(observed(*fitted, window, 9), observed(*fitted, window)[-9:])


@pytest.mark.parametrize("values", [rows()[:, 1:], rows(999)])
def test_without_a_channel_or_rows_to_learn_from_there_is_none(values):
    assert fit(values)[0] is None


def test_a_score_that_has_no_use_for_it_has_none():
    assert fit(rows(), asked=False)[0] is None


def test_what_train_does_now_and_then_is_no_surprise():
    """A jump that train has three times does not count, one that it has twice does: train may have a fault or two."""
    for jumps, counts in ((2, True), (3, False)):
        values = rows(2000)
        for start in range(300, 300 + 400 * jumps, 400):
            values[start, 0] += 2.0
        witness, scaler = fit(values)
        window = rows()[100:130].copy()
        window[20, 0] += 2.0
        column = witness.columns(torch.from_numpy(observed(witness, scaler, window))[None])[0, :, 0]
        assert bool(column.max() >= LEAST) == counts


def test_blocks_of_train_are_seen_whole(monkeypatch):
    whole = fit(rows())[0].by_channel
    monkeypatch.setattr(surprise, "BLOCK_ROWS", 60)
    np.testing.assert_array_equal(fit(rows())[0].by_channel.spread, whole.spread)

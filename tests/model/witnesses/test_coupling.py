from __future__ import annotations

import numpy as np
import pytest
import torch

from patchad.data.scaling import ZScore
from patchad.model.witnesses import Training
from patchad.model.witnesses.coupling import Coupling


def rows(count: int = 600) -> np.ndarray:
    """Give five channels: the second follows the first, the third is on its own, two are a switch and at rest."""
    random = np.random.default_rng(0)
    first = np.sin(np.arange(count) / 7) + 0.3 * random.standard_normal(count)
    second = 5 - 3 * first + 0.1 * random.standard_normal(count)
    return np.column_stack([first, second, random.standard_normal(count), first > 0, np.full(count, 2.0)])


def fit(values: np.ndarray, *, coupling: bool = True) -> tuple[Coupling | None, ZScore]:
    scaler = ZScore.fit([values])
    return Coupling.fit(Training([values], [], scaler, 30, "kl", 1, 0, 0, coupling)), scaler


@pytest.fixture(scope="module")
def fitted():
    return fit(rows())


def test_a_channel_that_leaves_the_others_is_seen(fitted):
    witness, scaler = fitted
    window = rows()[:30].copy()
    calm = witness.observe(torch.from_numpy(scaler(window))[None], (), 30)[0].numpy()
    window[10:20, 1] = 5 + 3 * window[10:20, 0]  # a usual value at the wrong time
    found = witness.observe(torch.from_numpy(scaler(window))[None], (), 30)[0].numpy()
    assert found[12:18, :2].min() > 3 * calm[:, :2].max() > 0
    np.testing.assert_allclose(found[:8], calm[:8], rtol=1e-4, atol=1e-5)


def test_what_is_on_its_own_switched_or_at_rest_does_not_count(fitted):
    witness, _ = fitted
    assert not witness.matrix[:, 2:].any()
    assert not witness.matrix[3:].any()


def test_it_is_the_ridge_regression_of_each_channel(fitted):
    witness, scaler = fitted
    values = scaler(rows()).astype(float)[:, :3]
    standard = (values - values.mean(0)) / values.std(0)
    others = standard[:, [0, 2]]
    slopes = np.linalg.solve(
        others.T @ others / len(others) + 0.02 * np.eye(2), others.T @ standard[:, 1] / len(others)
    )
    expected = standard[:, 1] - others @ slopes
    found = (scaler(rows()) @ witness.matrix.numpy() - witness.offset.numpy())[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_fewer_steps_are_the_newest(fitted):
    witness, scaler = fitted
    windows = torch.from_numpy(scaler(rows()))[:60].reshape(2, 30, 5)
    assert torch.equal(witness.observe(windows, (), 7), witness.observe(windows, (), 30)[:, -7:])
    assert witness.observe(windows[:, :4], (), 4).shape == (2, 4, 5)


def test_columns_and_attribution_are_in_scales_of_held_out_windows(fitted):
    witness, scaler = fitted
    windows = torch.from_numpy(scaler(rows())).reshape(20, 30, 5)
    observed = witness.observe(windows, (), 30)
    calibrated = witness.calibrated(observed.numpy())
    assert abs(float(calibrated.columns(observed).median())) < 0.5
    assert calibrated.alone(observed).shape == (20, 30, 1)
    blame = calibrated.attribution(observed.numpy())
    assert blame.min() == 0
    assert not blame[..., 2:].any()
    assert calibrated.size == 30
    assert calibrated.to(torch.device("cpu")).matrix is not None


@pytest.mark.parametrize("values", [rows()[:, :1], rows()[:, 1:3]])
def test_there_is_none_where_no_channel_follows_another(values):
    assert fit(values)[0] is None


def test_there_is_none_where_it_is_not_wanted():
    assert fit(rows(), coupling=False)[0] is None

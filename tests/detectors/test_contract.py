"""What every detector of the registry promises, checked on each with a tiny budget."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.conftest import save_tiny_gpt2, waves

from patchad import DETECTORS, Detector, UnsupportedError, load, make

TINY = {
    "window": 20,
    "patch_sizes": (2, 5),
    "d_model": 8,
    "layers": 1,
    "hop": 3,
    "max_steps": 2,
    "epochs": None,
    "batch_size": 16,
    "device": "cpu",
}
"""Parameters that make a fit short, for the detectors that have them."""
OWN: dict[str, dict[str, object]] = {
    "gbrt": {"trees": 2},
    "deep_svdd": {"epochs": 1},
    "autoencoder": {"epochs": 1},
    "deep_if": {"nets": 2},
}
"""Parameters that only one detector needs to fit in a second or two."""
ROWS = 240
NAMES = tuple(DETECTORS)


@pytest.fixture(autouse=True, scope="session")
def _weights(tmp_path_factory):
    OWN["gpt2_adapter"] = {"weights": save_tiny_gpt2(tmp_path_factory.mktemp("gpt2"))}


def tiny(name: str, **changes) -> Detector:
    """Make a detector that fits in about a second."""
    known = DETECTORS[name]().get_params(deep=False)
    settings = TINY | OWN.get(name, {}) | changes
    return make(name, **{key: value for key, value in settings.items() if key in known})


@functools.cache
def fitted(name: str) -> Detector:
    return tiny(name).fit(waves(ROWS))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_named_as_it_is_registered(name):
    assert DETECTORS[name].name == name
    assert DETECTORS[name].__doc__


@pytest.mark.parametrize("name", NAMES)
def test_one_finite_score_a_row_the_same_each_time_and_the_input_untouched(name):
    rows = waves(150, seed=1)
    before = rows.copy()
    detector = fitted(name)
    scores = detector.decision_function(rows)
    assert scores.shape == (150,)
    assert np.isfinite(scores).all()
    assert np.array_equal(rows, before)
    np.testing.assert_array_equal(scores, detector.decision_function(rows))


@pytest.mark.parametrize("name", NAMES)
def test_seeded_and_global_generators_left_alone(name):
    rows = waves(100, seed=2)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - it is the global one that must stay as it is
    again = tiny(name).fit(waves(ROWS)).decision_function(rows)
    np.testing.assert_allclose(again, fitted(name).decision_function(rows), rtol=1e-6, atol=1e-9)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("name", NAMES)
def test_missing_values_are_taken(name):
    rows = waves(100, seed=3)
    rows[40:43, 1] = np.nan
    assert np.isfinite(fitted(name).decision_function(rows)).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_look_ahead(name):
    detector, row = fitted(name), 80
    rows = waves(120, seed=4)
    changed = rows.copy()
    changed[row + detector.delay + 1 :] += 5.0
    first, second = (detector.decision_function(x)[: row + 1] for x in (rows, changed))
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 60])
def test_one_channel_and_sixty(name, channels):
    detector = tiny(name).fit(waves(120, channels))
    assert np.isfinite(detector.decision_function(waves(60, channels, seed=5))).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_channel(name):
    rows = waves(120)
    rows[:, 1] = 7.0
    assert np.isfinite(tiny(name).fit(rows).decision_function(rows)).all()


@pytest.mark.parametrize("name", NAMES)
def test_shares_are_not_negative_and_sum_to_one_or_zero(name):
    shares = fitted(name).explain(waves(60, seed=6))
    assert shares.shape == (60, 3)
    assert (shares >= 0).all()
    total = shares.sum(axis=1)
    assert (np.isclose(total, 1, atol=1e-5) | (total == 0)).all()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_saved_or_refused_with_the_reason(name, tmp_path):
    detector = fitted(name)
    path = tmp_path / "model.safetensors"
    if any(vars(base).get("learned", {}) is None for base in type(detector).__mro__):
        with pytest.raises(UnsupportedError, match=type(detector).__name__):
            detector.save(path)
        assert not path.exists()
        return
    detector.save(path)
    rows = waves(60, seed=7)
    np.testing.assert_allclose(load(path).decision_function(rows), detector.decision_function(rows), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_short_train_is_enough(name):
    detector = tiny(name, window=100, patch_sizes=(5,)).fit(waves(40))
    assert np.isfinite(detector.decision_function(waves(45, seed=8))).all()

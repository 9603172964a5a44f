"""AdaMemBLS detects what its error and its memory should see, and keeps what it learned."""

from __future__ import annotations

import numpy as np
import pytest
from tests.detectors.baselines.test_nominal import plant, with_anomaly

from patchad import InputError, load, make
from patchad.detectors.baselines.adamembls import MemoryModel, Nodes, _ridge
from patchad.metrics import roc_auc


@pytest.fixture(scope="module")
def fitted():
    return make("adamembls", window=5, random_state=0).fit(plant(3000, seed=1))


@pytest.mark.parametrize(
    ("kind", "least"), [("broken correlation", 0.8), ("wrong switch", 0.95), ("changed frequency", 0.95)]
)
def test_it_finds_its_kinds_of_anomaly(fitted, kind, least):
    series, labels = with_anomaly(kind)
    assert roc_auc(labels=labels, scores=fitted.decision_function(series)) > least


def test_a_loaded_model_scores_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    series, _ = with_anomaly("flat line")
    found = load(tmp_path / "model.safetensors").decision_function(series)
    assert np.array_equal(found, fitted.decision_function(series))


def test_there_is_a_model_of_all_of_train_and_one_of_each_slice(fitted):
    assert len(fitted.models_) == 1 + 5
    shares = np.array([model.shares for model in fitted.models_])
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert (shares > 0).all()
    for model in fitted.models_:
        assert model.prototypes.shape == (50, 300)
        np.testing.assert_allclose(np.linalg.norm(model.prototypes, axis=1), 1)
    assert fitted.n_parameters_ == 6 * (50 * 300 + 2 * 300 * 5 * 7)
    assert len(make("adamembls", local_models=0).fit(plant(300, seed=1)).models_) == 1


def test_channels_are_scaled_to_their_range_and_a_constant_one_keeps_its_unit():
    rows = np.column_stack([np.linspace(-2, 6, 300), np.full(300, 5.0)])
    scaled = make("adamembls", calibration=0.0, contamination=0.0).fit(rows).scaler_(np.array([[2.0, 6.0]]))
    np.testing.assert_allclose(scaled, [[0.5, 1.0]])


def test_groups_of_features_are_orthonormal_and_the_levels_read_one_another():
    nodes = Nodes.draw(9, groups=3, width=4, levels=2, enhancement=6, seed=0)
    for group in np.split(nodes.features, 3, axis=1):
        np.testing.assert_allclose(group.T @ group, np.eye(4), atol=1e-12)
    flat = np.random.default_rng(0).standard_normal((5, 9))
    found = nodes(flat)
    assert found.shape == (5, 12 + 6 + 6)
    second = np.tanh(np.hstack([found[:, 12:18], np.ones((5, 1))]) @ nodes.levels[1])
    np.testing.assert_allclose(found[:, 18:], second)


def test_a_cold_memory_reads_the_nearest_prototype_and_its_own_nodes_are_at_no_distance():
    prototypes = np.eye(4)[:3]
    model = MemoryModel(prototypes, np.zeros((8, 2)), np.ones(2))
    nodes = 2 * prototypes
    np.testing.assert_allclose(model.read(nodes, 0.01), prototypes, atol=1e-12)
    errors, distances = model.judge(np.ones((3, 2)), nodes, 0.01)
    np.testing.assert_allclose(distances, 0, atol=1e-9)
    np.testing.assert_allclose(errors, 1)


def test_the_ridge_solution_is_the_least_squares_one_without_a_penalty():
    random = np.random.default_rng(0)
    inputs, targets = random.standard_normal((40, 5)), random.standard_normal((40, 2))
    np.testing.assert_allclose(_ridge(inputs, targets, 1e-12), np.linalg.lstsq(inputs, targets, rcond=None)[0])


@pytest.mark.parametrize(
    "wrong",
    [{"groups": 0}, {"prototypes": 0}, {"momentum": 1.5}, {"averaging": -0.1}, {"ridge": 0.0}, {"local_models": -1}],
    ids=str,
)
def test_sizes_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        make("adamembls", **wrong).fit(plant(100, seed=1))

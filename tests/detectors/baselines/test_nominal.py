"""NPSR and the mixtures of principal component analysers: each detects what it was designed for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from patchad import InputError, load, make
from patchad.detectors.baselines.nominality import induced
from patchad.detectors.baselines.probabilistic import Mixture
from patchad.metrics import roc_auc

NPSR = {
    "window": 40,
    "max_steps": 200,
    "batch_size": 8,
    "width": 16,
    "layers": 1,
    "learning_rate": 3e-3,
    "device": "cpu",
}
CASES = {
    ("npsr_pt", "broken correlation"): NPSR,
    ("npsr_seq", "changed frequency"): NPSR | {"max_steps": 400},
    ("npsr_seq", "flat line"): NPSR | {"score": "induced"},
    ("mmpcacd", "broken correlation"): {},
    ("mmpcacd", "wrong switch"): {},
    ("cl_mppca", "broken correlation"): {"max_steps": 60, "window": 11, "batch_size": 32, "device": "cpu"},
    ("cl_mppca", "flat line"): {"max_steps": 60, "window": 11, "batch_size": 32, "device": "cpu"},
}
"""A detector and the kind of anomaly it has to detect, with its parameters."""


def plant(rows: int, seed: int) -> np.ndarray:
    """Return six noisy mixtures of two waves, and a switch that follows the first of them."""
    random = np.random.default_rng(seed)
    t = np.arange(rows)
    waves = np.column_stack([np.sin(2 * np.pi * t / 20), np.sin(2 * np.pi * t / 33 + seed)])
    mixed = waves @ np.random.default_rng(7).normal(size=(2, 6)) + 0.05 * random.normal(size=(rows, 6))
    return np.column_stack([mixed, waves[:, 0] > 0])


def with_anomaly(kind: str, rows: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Return a series in which a tenth of the rows is anomalous, and the labels."""
    series, labels = plant(rows, seed=2), np.zeros(rows, dtype=bool)
    labels[400:450] = labels[700:750] = True
    for part in (slice(400, 450), slice(700, 750)):
        if kind == "broken correlation":
            series[part, 1] *= -1
        elif kind == "flat line":
            series[part, :3] = series[part.start, :3]
        elif kind == "changed frequency":
            series[part, :6] = plant(150, seed=3)[::3, :6]
        else:
            series[part, 6] = 1 - series[part, 6]
    return series, labels


@pytest.mark.parametrize(("case", "parameters"), CASES.items(), ids=[f"{n}: {kind}" for n, kind in CASES])
def test_it_detects_what_it_was_designed_for(case: tuple[str, str], parameters: dict[str, object]) -> None:
    name, kind = case
    series, labels = with_anomaly(kind)
    train = plant(1500, seed=1)
    scores = make(name, **parameters).fit(train).decision_function(series)
    assert roc_auc(labels=labels, scores=scores) > 0.8
    chance = make("random").fit(train).decision_function(series)
    assert roc_auc(labels=labels, scores=chance) < 0.6


def test_the_attribution_points_to_the_broken_channel() -> None:
    series, labels = with_anomaly("broken correlation")
    shares = make("mmpcacd").fit(plant(1500, seed=1)).explain(series)
    assert shares[labels].mean(axis=0).argmax() == 1


def slow_induced(scores: np.ndarray, gate: np.ndarray, reach: int) -> np.ndarray:
    """Apply the definition, one pair of rows at a time."""
    total = scores.copy()
    for t in range(len(scores)):
        start, stop = max(t - reach, 0), min(t + reach, len(scores) - 1)
        passed = 0.0
        for s in range(start, stop + 1):
            between = gate[s + 1 : t + 1] if s < t else gate[t:s]
            passed += scores[s] * between.prod() if s != t else 0.0
        total[t] += passed * 2 * reach / (stop - start + 1)
    return total


@pytest.mark.parametrize("reach", [1, 4, 50])
def test_the_induced_score_equals_its_definition(reach: int) -> None:
    random = np.random.default_rng(0)
    scores, gate = random.random((2, 20)), random.random((2, 20))
    gate[0, 7] = 0.0
    fast = induced(torch.from_numpy(scores), torch.from_numpy(gate), reach).numpy()
    for row in range(2):
        np.testing.assert_allclose(fast[row], slow_induced(scores[row], gate[row], reach))


def test_the_induced_score_survives_a_file(tmp_path) -> None:
    detector = make("npsr_seq", score="induced", **(NPSR | {"max_steps": 3})).fit(plant(300, seed=1))
    assert detector.gate_ > 0
    detector.save(tmp_path / "npsr.safetensors")
    series, _ = with_anomaly("flat line", rows=900)
    np.testing.assert_allclose(
        load(tmp_path / "npsr.safetensors").decision_function(series), detector.decision_function(series), rtol=1e-6
    )


def test_hidden_rows_do_not_affect_their_reconstruction() -> None:
    detector = make("npsr_seq", **(NPSR | {"max_steps": 3, "hop": 10})).fit(plant(300, seed=1))
    windows = detector.scaler_(plant(40, seed=4))[None]
    changed = windows.copy()
    changed[:, 30:] += 1.0
    with torch.inference_mode():
        first, second = (detector._from_others(torch.from_numpy(x), 40).numpy() for x in (windows, changed))
    np.testing.assert_array_equal(first[:, 30:], second[:, 30:])
    assert not np.allclose(first[:, :30], second[:, :30])


def test_the_joint_density_is_that_of_gaussian_components() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 4)) @ random.normal(size=(4, 4))
    none = np.zeros((500, 0))
    mixture = Mixture.fit(rows, none, none[0], components=3, latent=2, random=random)
    for number in range(len(mixture.weight)):
        spread = mixture.axes[number] * (mixture.variance[number] - mixture.noise[number])
        covariance = spread @ mixture.axes[number].T + mixture.noise[number] * np.eye(4)
        expected = np.log(mixture.weight[number]) + multivariate_normal(mixture.mean[number], covariance).logpdf(rows)
        np.testing.assert_allclose(mixture.joint(rows, none)[:, number], expected)


def test_with_all_axes_but_one_the_mixture_is_a_gaussian_mixture() -> None:
    random = np.random.default_rng(1)
    rows = np.concatenate([random.normal(-4, 1, (300, 3)), random.normal(4, [1, 2, 0.5], (300, 3))])
    none = np.zeros((600, 0))
    ours = Mixture.fit(rows, none, none[0], components=2, latent=2, random=np.random.default_rng(0))
    theirs = GaussianMixture(2, random_state=0, tol=1e-6).fit(rows)
    np.testing.assert_allclose(-ours.surprise(rows, none), theirs.score_samples(rows), atol=0.05)


def test_a_mixture_of_switches_alone_returns_their_frequencies() -> None:
    flags = np.array([[1.0, 0.0]] * 30 + [[0.0, 1.0]] * 10)
    rows = np.zeros((40, 0))
    mixture = Mixture.fit(rows, flags, np.array([2.0, 2.0]), components=1, latent=2, random=np.random.default_rng(0))
    np.testing.assert_allclose(np.exp(-mixture.surprise(rows, flags))[[0, -1]], [30.5 / 41, 10.5 / 41])


def test_a_mixture_with_switches_survives_a_file(tmp_path) -> None:
    detector = make("mmpcacd").fit(plant(400, seed=1))
    detector.save(tmp_path / "mmpcacd.safetensors")
    series, _ = with_anomaly("wrong switch", rows=900)
    np.testing.assert_array_equal(
        load(tmp_path / "mmpcacd.safetensors").decision_function(series), detector.decision_function(series)
    )


def test_constant_and_duplicate_channels_and_unseen_values() -> None:
    train = plant(400, seed=1)
    train = np.column_stack([train, train[:, 0], np.full(400, 3.0)])
    odd = train.copy()
    odd[200:210, -1] = 4.0
    for name in ("mmpcacd", "cl_mppca"):
        budget = {"max_steps": 3, "device": "cpu"} if name == "cl_mppca" else {}
        scores = make(name, **budget).fit(train).decision_function(odd)
        assert np.isfinite(scores).all()
        assert roc_auc(labels=np.arange(400) // 10 == 20, scores=scores) > 0.8
    only = make("mmpcacd").fit(np.tile([1.0, 2.0], (100, 1)))
    assert np.isfinite(only.decision_function(np.array([[1.0, 2.0], [5.0, 2.0]]))).all()


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("npsr_pt", {"width": 10, "heads": 4}, "cannot be shared"),
        ("npsr_seq", {"block": 0}, "block=0 is too small"),
        ("npsr_seq", {"nominal": 0.0}, "nominal=0.0 is out of range"),
        ("mmpcacd", {"components": 0}, "components=0"),
        ("cl_mppca", {"window": 1}, "window=1 is too small"),
    ],
)
def test_invalid_parameters_are_rejected(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(name, **parameters).fit(plant(100, seed=1))

"""Autoencoders and generative models: each detects what it was designed for, and its parts are correct."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from tests.conftest import waves

from patchad import make
from patchad.detectors.baselines.autoencoders import energy, fit_mixture
from patchad.detectors.baselines.likelihood import Gaussian, MarkovLatent, PlanarFlow
from patchad.metrics import roc_auc

ROWS = 600
EVENT = slice(300, 350)


def spikes(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Add spikes to single rows of single channels."""
    labels = np.zeros(len(rows), dtype=bool)
    at = random.choice(np.arange(60, len(rows)), size=20, replace=False)
    rows[at, random.integers(0, rows.shape[1], size=20)] += 3.0 * random.choice([-1, 1], size=20)
    labels[at] = True
    return labels


def level_shift(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    rows[EVENT] += 1.5
    return _event(rows)


def changed_frequency(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    steps = np.arange(EVENT.stop - EVENT.start)[:, None] + 7 * np.arange(rows.shape[1])
    rows[EVENT] = np.sin(2 * np.pi * steps / 10) + 0.1 * random.standard_normal(steps.shape)
    return _event(rows)


def broken_correlation(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    rows[EVENT, 1] *= -1
    return _event(rows)


def flat_line(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    rows[EVENT, 1] = rows[EVENT.start, 1]
    return _event(rows)


def _event(rows: np.ndarray) -> np.ndarray:
    labels = np.zeros(len(rows), dtype=bool)
    labels[EVENT] = True
    return labels


def planted(kind) -> tuple[np.ndarray, np.ndarray]:
    rows = waves(ROWS, seed=1)
    return rows, kind(rows, np.random.default_rng(5))


RECURRENT = {"window": 30, "hidden": 16, "max_steps": 100, "learning_rate": 1e-2}
D3R_SMALL = {"window": 96, "hop": 4, "max_steps": 100, "learning_rate": 1e-2}
CASES = [
    ("lstm_vae", spikes, RECURRENT),
    ("usad", broken_correlation, {"max_steps": 200}),
    ("dagmm", changed_frequency, {"max_steps": 200}),
    ("tranad", level_shift, {"max_steps": 60, "learning_rate": 1e-2}),
    ("beatgan", changed_frequency, {"window": 32, "filters": 8, "max_steps": 150}),
    ("omnianomaly", spikes, RECURRENT),
    ("interfusion", broken_correlation, RECURRENT | {"hidden": 32, "max_steps": 150, "learning_rate": 3e-3}),
    ("itad", flat_line, {}),
    ("d3r", spikes, D3R_SMALL),
]


@pytest.mark.parametrize(("name", "kind", "parameters"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_it_detects_what_it_was_designed_for(name, kind, parameters):
    rows, labels = planted(kind)
    scores = make(name, **parameters).fit(waves(1000)).decision_function(rows)
    assert roc_auc(labels=labels, scores=scores) > 0.8


@pytest.mark.parametrize("kind", dict.fromkeys(kind for _, kind, _ in CASES), ids=lambda kind: kind.__name__)
def test_random_scores_do_not_detect_it(kind):
    rows, labels = planted(kind)
    assert 0.35 < roc_auc(labels=labels, scores=make("random").fit(rows).decision_function(rows)) < 0.65


def test_d3r_detects_spikes_on_a_drifting_level():
    rows, labels = planted(spikes)
    rows += np.linspace(0, 2, ROWS)[:, None]
    plain = make("sensor_range").fit(waves(1000)).decision_function(rows)
    scores = make("d3r", **D3R_SMALL).fit(waves(1000)).decision_function(rows)
    assert roc_auc(labels=labels, scores=plain) < 0.8 < roc_auc(labels=labels, scores=scores)


def test_itad_accepts_a_constant_train():
    constant = np.ones((100, 2))
    assert np.isfinite(make("itad").fit(constant).decision_function(constant + 1)).all()


def test_the_energy_of_a_mixture_equals_that_of_scikit_learn():
    points = np.concatenate([np.random.default_rng(0).normal(c, 1 + c / 4, size=(200, 3)) for c in (0.0, 4.0)])
    reference = GaussianMixture(2, random_state=0, reg_covar=0, tol=1e-9, max_iter=500).fit(points)
    responsibilities = torch.from_numpy(reference.predict_proba(points))
    mixture = fit_mixture(torch.from_numpy(points), responsibilities)
    np.testing.assert_allclose(mixture[1].numpy(), reference.means_, rtol=1e-4)
    probe = np.random.default_rng(1).normal(2, 3, size=(50, 3))
    np.testing.assert_allclose(energy(torch.from_numpy(probe), *mixture), -reference.score_samples(probe), rtol=1e-3)


def test_a_gaussian_equals_that_of_torch():
    torch.manual_seed(0)
    mean, log_std, values = torch.randn(3, 5).unbind(0)
    ours, theirs = Gaussian(mean, log_std), torch.distributions.Normal(mean, log_std.exp())
    torch.testing.assert_close(ours.log_density(values), theirs.log_prob(values))
    standard = torch.distributions.Normal(torch.zeros(5), torch.ones(5))
    torch.testing.assert_close(ours.divergence(), torch.distributions.kl_divergence(theirs, standard))


def test_a_flow_returns_the_log_determinant_of_its_jacobian():
    torch.manual_seed(0)
    flow = PlanarFlow(3, 4)
    with torch.no_grad():
        flow.u.mul_(30), flow.w.mul_(30)  # make the nonlinearity matter
    point = torch.randn(3)
    jacobian = torch.autograd.functional.jacobian(lambda x: flow(x)[0], point)
    torch.testing.assert_close(flow(point)[1], torch.linalg.det(jacobian).abs().log(), rtol=1e-3, atol=1e-3)


def test_the_conditional_of_sampled_latents_is_the_distribution_they_came_from():
    torch.manual_seed(0)
    latent, features = MarkovLatent(4, 2), torch.randn(3, 7, 4)
    torch.nn.init.normal_(latent.of_previous.weight, std=0.5)
    drawn, posterior = latent.roll_out(features, sample=True)
    torch.testing.assert_close(latent.conditional(features, drawn), posterior)


@pytest.mark.parametrize("name", ["usad", "tranad"])
def test_the_two_decoders_have_opposite_adversarial_losses(name):
    detector = make(name, window=8, max_steps=1).fit(waves(200))
    net, batch = detector.net_.train(), torch.randn(4, 8, 3)
    net.steps = 10_000  # late in training the plain reconstruction has little weight
    for module in net.modules():
        module.p = 0.0  # no dropout, or the losses differ at random
    first, second = (goal.loss(net, batch).item() for goal in detector._goals(net))
    assert first > 0
    assert second == pytest.approx(-first, rel=0.2)

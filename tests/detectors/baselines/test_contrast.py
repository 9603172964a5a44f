"""Nets that compare views, codes or segments, and change points: each detects what it was designed for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from patchad import InputError, make
from patchad.detectors.baselines.attention import AnomalyTransformerNet, DualAttention, reverse_gradient, symmetric_kl
from patchad.detectors.baselines.hypersphere import DilatedGRU, native_anomalies
from patchad.detectors.baselines.injection import random_channels, random_rows
from patchad.detectors.baselines.segmentation import PRIOR_ROWS, RunLengths, inject_changes
from patchad.metrics import roc_auc

CHANNELS = 3


def normal(rows: int, seed: int = 0) -> np.ndarray:
    """Return two superposed waves per channel, with noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None] + 7 * np.arange(CHANNELS)
    waves = np.sin(2 * np.pi * t / 25) + 0.5 * np.sin(2 * np.pi * t / 60)
    return waves + 0.1 * rng.standard_normal((rows, CHANNELS))


def planted(kind: str, rows: int = 1600, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with six anomalies of one kind, and their labels."""
    rng = np.random.default_rng(seed + 7)
    x, labels = normal(rows, seed), np.zeros(rows, dtype=bool)
    for number, start in enumerate(range(150, rows - 150, 230)):
        rows_hit = slice(start + 3 * number, start + 3 * number + (3 if kind == "spike" else 50))
        if kind == "spike":
            x[rows_hit] += rng.choice([-3.0, 3.0], size=CHANNELS)
        elif kind == "level":
            x[rows_hit] += 2.0
        elif kind == "noise":
            x[rows_hit] += rng.standard_normal((50, CHANNELS))
        elif kind == "frequency":
            t = np.arange(50)[:, None] + 7 * np.arange(CHANNELS)
            x[rows_hit] = np.sin(2 * np.pi * t / 8) + 0.1 * rng.standard_normal((50, CHANNELS))
        labels[rows_hit] = True
    return x, labels


def auc_of(name: str, kind: str, **settings) -> float:
    """Fit on normal rows and return the ROC-AUC on planted anomalies."""
    x, labels = planted(kind)
    detector = make(name, device="cpu", **settings).fit(normal(1500))
    return roc_auc(labels=labels, scores=detector.decision_function(x))


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("dcdetector", "frequency", {"max_steps": 30, "d_model": 16, "batch_size": 8}),
        (
            "dcdetector",
            "spike",
            {"follows": "paper", "temperature": 1.0, "max_steps": 60, "d_model": 16, "batch_size": 8},
        ),
        ("ncad", "spike", {"max_steps": 60, "d_model": 8, "layers": 3, "window": 50}),
        ("couta", "spike", {"max_steps": 150, "hop": 2}),
        ("couta", "level", {"max_steps": 150, "hop": 2}),
        ("ts_cp2", "frequency", {"max_steps": 100, "d_model": 16, "learning_rate": 3e-3}),
        ("thoc", "level", {"max_steps": 60, "batch_size": 16, "window": 50}),
        ("paano", "frequency", {"max_steps": 15, "widths": (16, 32, 16), "bank": 100}),
        ("u_time", "noise", {"max_steps": 60, "window": 64, "filters": 8, "batch_size": 16}),
        ("u_time", "level", {"max_steps": 60, "window": 64, "filters": 8, "batch_size": 16}),
    ],
)
def test_it_detects_what_it_was_designed_for(name, kind, settings):
    assert auc_of(name, kind, **settings) > 0.8


@pytest.mark.parametrize("kind", ["spike", "level", "noise", "frequency"])
def test_random_scores_do_not_detect_it(kind):
    x, labels = planted(kind)
    assert abs(roc_auc(labels=labels, scores=make("random").fit(normal(500)).decision_function(x)) - 0.5) < 0.15


def test_anomaly_transformer_detects_spikes_where_the_softmax_does_not_suppress_them():
    settings = {"max_steps": 40, "batch_size": 8, "d_model": 32, "heads": 4, "layers": 2, "window": 50, "hop": 50}
    assert auc_of("anomaly_transformer", "spike", temperature=0.1, **settings) > 0.9


# -- attention -----------------------------------------------------------------------------------------------------


def two_views() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    one, other = torch.rand(2, 3, 4, 5, generator=generator).softmax(-1)
    return one.requires_grad_(), other.requires_grad_()


def test_the_symmetric_divergence_is_the_sum_of_both():
    one, other = (view.detach().double() for view in two_views())
    both = stats.entropy(one, other, axis=-1) + stats.entropy(other, one, axis=-1)
    np.testing.assert_allclose(symmetric_kl(one, other), both, rtol=2e-2)  # except for the constant in the logs


def test_a_reversed_gradient_equals_the_two_losses_with_stopped_gradients():
    one, other = two_views()
    symmetric_kl(reverse_gradient(one), other).sum().backward()
    away, near = one.grad.clone(), other.grad.clone()
    one.grad = other.grad = None
    (symmetric_kl(one.detach(), other) - symmetric_kl(one, other.detach())).sum().backward()
    torch.testing.assert_close(away, one.grad)
    torch.testing.assert_close(near, other.grad)


def test_associations_are_distributions_and_the_prior_peaks_at_each_point():
    torch.manual_seed(0)
    _, associations = AnomalyTransformerNet(channels=2, steps=12, width=8, layers=2, heads=2)(torch.randn(3, 12, 2))
    assert len(associations) == 2
    for series, prior in associations:
        assert series.shape == prior.shape == (3, 2, 12, 12)
        torch.testing.assert_close(series.sum(-1), torch.ones(3, 2, 12))
        torch.testing.assert_close(prior.sum(-1), torch.ones(3, 2, 12))
        assert torch.equal(prior.argmax(-1), torch.arange(12).expand(3, 2, 12))


def test_the_value_of_the_minimax_loss_is_twice_the_reconstruction_error():
    detector = make("anomaly_transformer", window=20, hop=20, max_steps=1, d_model=8, device="cpu").fit(normal(200))
    batch = torch.from_numpy(normal(40).reshape(2, 20, CHANNELS)).float()
    error = (detector.net_(batch)[0] - batch).square().mean()
    torch.testing.assert_close(detector._loss(detector.net_, batch), 2 * error)


def test_both_maps_of_dcdetector_are_distributions_spread_to_all_pairs_of_points():
    torch.manual_seed(0)
    maps = DualAttention(steps=12, sizes=(2, 3), width=8, layers=2, heads=1)(torch.randn(2, 12, 4))
    assert len(maps) == 4
    for size, (wide, fine) in zip((2, 2, 3, 3), maps, strict=True):
        torch.testing.assert_close(wide.sum(-1), torch.ones(2, 1, 12))
        torch.testing.assert_close(fine.sum(-1), torch.ones(2, 1, 12))
        assert torch.equal(wide[..., 0, :], wide[..., size - 1, :])  # points of a patch share the patch's attention
        assert torch.equal(fine[..., :size, :], fine[..., size : 2 * size, :])  # patches share that of their positions


def test_dcdetector_ignores_the_level_and_scale_of_a_window():
    detector = make("dcdetector", window=30, hop=30, patch_sizes=(3, 5), max_steps=2, d_model=8, device="cpu")
    windows = torch.from_numpy(normal(60).reshape(2, 30, CHANNELS)).float()
    detector.fit(normal(300))
    torch.testing.assert_close(detector._errors(3 * windows + 2), detector._errors(windows), rtol=1e-3, atol=1e-6)


def test_code_and_paper_of_dcdetector_have_opposite_signs():
    settings = {"window": 30, "hop": 30, "patch_sizes": (3, 5), "max_steps": 1, "d_model": 8, "device": "cpu"}
    detector = make("dcdetector", temperature=1.0, **settings).fit(normal(300))
    windows = torch.from_numpy(normal(30)[None]).float()
    small = detector._errors(windows)[0, :, 0].log()
    detector.follows = "paper"
    large = detector._errors(windows)[0, :, 0].log()
    torch.testing.assert_close(small - small.mean(), large.mean() - large)


def test_without_its_softmax_dcdetector_compares_windows_with_one_another():
    settings = {"window": 30, "hop": 30, "patch_sizes": (3, 5), "max_steps": 1, "d_model": 8, "device": "cpu"}
    detector = make("dcdetector", temperature=1.0, softmax=False, **settings).fit(normal(300))
    windows = torch.from_numpy(normal(60).reshape(2, 30, -1)).float()
    plain = detector._errors(windows)
    detector.follows = "paper"
    torch.testing.assert_close(-plain.log(), detector._errors(windows))
    detector.softmax = True
    torch.testing.assert_close(detector._errors(windows).sum(1), torch.ones(2, 1, dtype=torch.float64))
    assert not torch.allclose(plain.sum(1), torch.ones(2, 1, dtype=torch.float64))


def test_dcdetector_rejects_a_window_that_is_no_multiple_of_its_patches():
    with pytest.raises(InputError, match="multiple of every patch size"):
        make("dcdetector", window=100, hop=100, patch_sizes=(3, 5)).fit(normal(300))


@pytest.mark.parametrize("name", ["ncad", "ts_cp2", "thoc"])
def test_a_window_of_one_row_is_rejected(name):
    with pytest.raises(InputError, match="at least 2"):
        make(name, window=1, hop=1).fit(normal(200))


# -- synthetic anomalies -------------------------------------------------------------------------------------------


def test_synthetic_anomalies_affect_at_least_one_channel_and_one_run_of_rows():
    torch.manual_seed(0)
    batch = torch.randn(200, 30, 5)
    counts = random_channels(batch).sum(-1)
    assert (counts.min(), counts.max()) == (1, 5)
    rows = random_rows(batch, 10)[..., 0]
    assert (rows.sum(1).min(), rows.sum(1).max()) == (1, 10)
    assert (rows.int().diff(dim=1).abs().sum(1) <= 2).all()  # one run: at most one start and one end


def test_native_anomalies_corrupt_only_the_end_of_every_window():
    torch.manual_seed(0)
    batch = torch.randn(100, 20, 3)
    corrupted = native_anomalies(batch) != batch
    assert corrupted[:, -1].any(-1).all()
    assert not corrupted[:, :10].any()


def test_only_labelled_rows_are_changed():
    torch.manual_seed(0)
    batch = torch.randn(100, 20, 3)
    windows, labels = inject_changes(batch)
    different = (windows != batch).any(-1)
    assert not (different & ~labels).any()
    assert (different & labels).sum() > 0.9 * labels.sum()
    assert 0.3 < labels.any(1).float().mean() < 0.7


def test_a_dilated_layer_skips_every_other_row():
    torch.manual_seed(0)
    layer, rows = DilatedGRU(2, 4, dilation=2), torch.randn(1, 9, 2)
    changed = rows.clone()
    changed[:, 3] += 1
    affected = (layer(changed) != layer(rows)).any(-1)[0]
    assert affected.nonzero().ravel().tolist() == [3, 5, 7]


# -- change points -------------------------------------------------------------------------------------------------


def exact_surprise(values: np.ndarray, usual: float, expected: float) -> np.ndarray:
    """Follow Adams and MacKay with every run length, computing each posterior directly from the rows of the run."""
    hazard, belief, surprises = 1 / expected, np.array([1.0]), []
    for now, value in enumerate(values):
        densities = []
        for run in range(now + 1):
            rows = values[now - run : now]
            mean = rows.sum() / (PRIOR_ROWS + run)
            beta = usual + 0.5 * (np.square(rows).sum() - (PRIOR_ROWS + run) * mean**2)
            alpha, kappa = 1 + run / 2, PRIOR_ROWS + run
            scale = np.sqrt(beta * (kappa + 1) / (alpha * kappa))
            densities.append(stats.t.pdf(value, 2 * alpha, loc=mean, scale=scale))
        joint = belief * densities
        surprises.append(-np.log(joint.sum()))
        belief = np.concatenate([[hazard], (1 - hazard) * joint / joint.sum()])
    return np.array(surprises)


def test_run_lengths_equal_the_exact_posterior():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 1, 25), rng.normal(4, 0.3, 25)])
    runs = RunLengths(np.array([0.5]), longest=60, expected=20.0)
    np.testing.assert_allclose([runs.step(values[i : i + 1])[0] for i in range(50)], exact_surprise(values, 0.5, 20.0))


def test_merging_long_runs_hardly_changes_the_surprise():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 1, 150), rng.normal(4, 1, 50)])[:, None]
    few, many = RunLengths(np.array([1.0]), 40, 100.0), RunLengths(np.array([1.0]), 400, 100.0)
    one, other = (np.array([runs.step(row)[0] for row in values]) for runs in (few, many))
    assert np.abs(one - other).mean() < 0.1
    assert one.argmax() == other.argmax()


def test_bocpd_detects_changes_of_level():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((1000, 2)), np.zeros(1000, dtype=bool)
    for start in range(100, 1000, 100):
        rows[start:] += (-1) ** (start // 100) * 4.0
        labels[start : start + 2] = True
    detector = make("bocpd").fit(rng.standard_normal((500, 2)))
    assert roc_auc(labels=labels, scores=detector.decision_function(rows)) > 0.9


def test_a_switch_does_not_drown_the_other_channels_of_bocpd():
    rng = np.random.default_rng(0)
    train = np.column_stack([rng.standard_normal(500), np.zeros(500)])
    test = np.column_stack([rng.standard_normal(300), np.zeros(300)])
    test[100, 1] = 1.0  # a switch that never moved in train
    test[200:, 0] += 8.0
    quiet, loud = (make("bocpd", switches=switches).fit(train) for switches in (False, True))
    assert quiet.decision_function(test).argmax() == 200
    assert loud.decision_function(test).argmax() == 100
    assert quiet.explain(test)[200].tolist() == [1, 0]
    assert make("bocpd").fit(train[:, 1:]).decision_function(test[:, 1:]).argmax() == 100


def test_bocpd_attributes_a_change_to_its_channel():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100, 3))
    rows[60, 1] += 8
    assert make("bocpd").fit(rng.standard_normal((200, 3))).explain(rows)[60].argmax() == 1


def test_ts_cp2_locates_a_change_where_it_happens():
    detector = make("ts_cp2", max_steps=60, d_model=16, window=60, hop=1, device="cpu").fit(normal(1500))
    rows = normal(400, seed=3)
    rows[200:] = np.random.default_rng(0).standard_normal((200, CHANNELS)) * 2
    assert abs(int(detector.decision_function(rows).argmax()) - 200) <= 15
    assert detector.delay == 29

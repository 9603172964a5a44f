"""Nets that forecast, reconstruct or adapt: each detects what it was designed for, and follows its paper."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from tests.conftest import save_tiny_gpt2, waves
from torch import nn

from patchad import InputError, MissingWeightsError, load, make
from patchad.data.stages import Scored
from patchad.detectors.baselines.forecast import ExponentialMean
from patchad.detectors.baselines.transformers import _Inception, _TimesBlock
from patchad.metrics import roc_auc

CHANNELS = 4
CHANGED = 1
"""The channel that spikes and shifts."""
SMALL = {
    "lstm_rnn": {"window": 30, "hidden": 16, "max_steps": 100, "smoothing": 5},
    "lstm": {"window": 30, "hidden": 16, "max_steps": 150, "horizon": 3, "span": 15},
    "tcn_ed": {"window": 30, "max_steps": 100, "learning_rate": 5e-3, "widths": (16, 3), "dropout": 0.0},
    "kan_ad": {"window": 40, "max_steps": 100},
    "patchtst": {"window": 40, "max_steps": 60, "layers": 1, "dropout": 0.0, "learning_rate": 5e-3},
    "timesnet": {"window": 50, "max_steps": 60, "kernels": 3, "batch_size": 32, "learning_rate": 5e-3},
    "gpt2_adapter": {"window": 40, "max_steps": 150, "learning_rate": 5e-3},
    "m2n2": {"max_steps": 300},
}
KINDS = {
    "lstm_rnn": "changed frequency",
    "lstm": "level shift",
    "tcn_ed": "broken correlation",
    "kan_ad": "changed frequency",
    "patchtst": "spike",
    "timesnet": "broken correlation",
    "gpt2_adapter": "spike",
    "m2n2": "level shift",
}
"""The kind of anomaly that each method was designed for, according to its paper or its form."""
NAMES = tuple(SMALL)


@pytest.fixture(scope="session")
def weights(tmp_path_factory) -> str:
    return save_tiny_gpt2(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="session")
def fitted(weights):
    """Each small detector by name, fitted on first use; tests must not change it."""
    detectors = {}

    def get(name):
        if name not in detectors:
            detectors[name] = small(name, weights).fit(normal(1200, seed=0))
        return detectors[name]

    return get


def small(name, weights, **changes):
    own = {"weights": weights} if name == "gpt2_adapter" else {}
    return make(name, device="cpu", **(SMALL[name] | own | changes))


def normal(rows: int, seed: int) -> np.ndarray:
    """Return two waves that every channel follows, each with its own phase, and some noise."""
    noise = np.random.default_rng(seed).standard_normal((rows, CHANNELS))
    t, phase = np.arange(rows)[:, None], 0.9 * np.arange(CHANNELS)
    return np.sin(2 * np.pi * t / 25 + phase) + 0.4 * np.sin(2 * np.pi * t / 60 + 2 * phase) + 0.1 * noise


def planted(kind: str, rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Return a series with anomalies of one kind, and its labels."""
    values, labels = normal(rows, seed=1), np.zeros(rows, dtype=bool)
    noise = 0.1 * np.random.default_rng(2).standard_normal(values.shape)
    length = 1 if kind == "spike" else 60
    for start in range(110, rows - 80, 45 if kind == "spike" else 240):
        part = slice(start, start + length)
        labels[part] = True
        if kind == "spike":
            values[part, CHANGED] += 3.0 if start % 20 else -3.0
        elif kind == "level shift":
            values[part, CHANGED] += 2.0
        elif kind == "changed frequency":
            values[part] = np.sin(2 * np.pi * np.arange(length)[:, None] / 12 + np.arange(CHANNELS)) + noise[part]
        elif kind == "broken correlation":
            values[part, CHANGED] = values[start - 37 : start - 37 + length, CHANGED]
    return values, labels


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_it_detects_what_it_was_designed_for(fitted, name, kind):
    values, labels = planted(kind)
    assert roc_auc(labels=labels, scores=fitted(name).decision_function(values)) > 0.8


@pytest.mark.parametrize("kind", sorted(set(KINDS.values())))
def test_random_scores_do_not_detect_it(kind):
    values, labels = planted(kind)
    found = [roc_auc(labels=labels, scores=np.random.default_rng(s).random(len(values))) for s in range(20)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_attribution_points_to_the_channel_that_spikes(fitted, name):
    values, labels = planted("spike")
    shares = fitted(name).explain(values)[labels]
    assert np.mean(shares.argmax(axis=1) == CHANGED) > 0.8


@pytest.mark.parametrize("name", [name for name in NAMES if name != "m2n2"])
def test_a_window_is_scored_independently_of_its_batch(fitted, name):
    detector = fitted(name)
    values, _ = planted("changed frequency")
    windows = torch.from_numpy(
        detector.scaler_(np.stack([values[s : s + detector.window_] for s in (0, 80, 120, 300)]))
    )
    with torch.inference_mode():
        together = detector._errors(windows)
        alone = torch.cat([detector._errors(window[None]) for window in windows])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["kan_ad", "patchtst"])
def test_channels_are_scored_independently(fitted, name):
    detector = fitted(name)
    windows = torch.from_numpy(detector.scaler_(normal(detector.window_, seed=3)[None]))
    other = windows.clone()
    other[..., CHANGED] += torch.linspace(0, 3, detector.window_) ** 2
    with torch.inference_mode():
        first, second = detector._errors(windows), detector._errors(other)
    torch.testing.assert_close(first[..., CHANGED + 1 :], second[..., CHANGED + 1 :])
    assert not torch.allclose(first[..., CHANGED], second[..., CHANGED])


@pytest.mark.parametrize("name", NAMES)
def test_later_rows_do_not_change_a_score(fitted, name):
    detector = fitted(name)
    values, _ = planted("level shift")
    known = 400
    settled = known - detector.delay
    some, all_of_it = detector.decision_function(values[:known]), detector.decision_function(values)
    np.testing.assert_allclose(some[:settled], all_of_it[:settled], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("lstm_rnn", {"window": 1, "hop": 1}, "window=1 is too small"),
        ("lstm", {"horizon": 0}, "horizon=0 is too small"),
        ("lstm", {"span": 0}, "span=0 is too small"),
        ("kan_ad", {"window": 2}, "window=2 is too small"),
        ("patchtst", {"heads": 3}, "cannot be shared by heads=3"),
        ("patchtst", {"patch_stride": 0}, "patch_stride=0 is too small"),
        ("timesnet", {"periods": 0}, "periods=0 is too small"),
        ("gpt2_adapter", {"window": 65, "patch": 1}, "more than the 64 patches"),
        ("m2n2", {"momentum": 1.5}, "momentum=1.5 is out of range"),
        ("m2n2", {"adaptation_rate": -1.0}, "adaptation_rate=-1.0 is too small"),
    ],
)
def test_invalid_parameters_are_rejected(weights, name, changes, reason):
    with pytest.raises(InputError, match=reason):
        small(name, weights, **changes).fit(normal(300, seed=0))


@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_window_works(weights, name):
    least = {"lstm_rnn": 2, "lstm": 2, "kan_ad": 3}.get(name, 1)
    detector = small(name, weights, window=least, hop=1, max_steps=1).fit(normal(60, seed=0))
    assert np.isfinite(detector.decision_function(normal(40, seed=1))).all()


# -- lstm --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [1, 2, 105])
def test_the_exponential_mean_equals_that_of_pandas(span):
    values = np.random.default_rng(0).random(300)
    expected = pd.Series(values).ewm(span=span).mean()
    whole = ExponentialMean(span).push(Scored(values)).scores
    np.testing.assert_allclose(whole, expected, rtol=1e-12)
    mean = ExponentialMean(span)
    parts = [mean.push(Scored(part)).scores for part in np.split(values, [0, 1, 7, 7, 100])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_smoothing_does_not_depend_on_the_batch_size(fitted, monkeypatch):
    detector = fitted("lstm")
    values, _ = planted("level shift")
    whole = detector.decision_function(values), detector.explain(values)
    monkeypatch.setattr(type(detector), "_batch", lambda _: 3)
    np.testing.assert_allclose(detector.decision_function(values), whole[0], rtol=1e-4)
    np.testing.assert_allclose(detector.explain(values), whole[1], rtol=1e-3, atol=1e-5)


def test_the_score_is_the_smoothed_absolute_error_of_the_next_row(fitted):
    detector = fitted("lstm")
    values = normal(detector.window_, seed=4)
    scaled = torch.from_numpy(detector.scaler_(values))
    with torch.inference_mode():
        forecast = torch.stack([detector.net_(scaled[None, :row])[0, -1, 0] for row in range(1, len(scaled))])
    errors = (forecast - scaled[1:]).abs().mean(1).numpy()
    expected = pd.Series([errors[0], *errors]).ewm(span=detector.span).mean()
    np.testing.assert_allclose(detector.decision_function(values), expected, rtol=1e-4)


# -- kan_ad, timesnet --------------------------------------------------------------------------------------------------


def test_kan_ad_is_as_small_as_in_its_paper():
    assert make("kan_ad", max_steps=1, device="cpu").fit(waves(300)).n_parameters_ < 1000


def test_an_inception_is_the_mean_of_its_convolutions():
    inception = _Inception(3, 5, kernels=4)
    images = torch.randn(2, 3, 6, 9, generator=torch.Generator().manual_seed(0))
    views = [nn.functional.conv2d(images, c.weight, c.bias, padding=k) for k, c in enumerate(inception.convolutions)]
    torch.testing.assert_close(inception(images), torch.stack(views).mean(0))


@pytest.mark.parametrize("length", [1, 7, 25, 30])
def test_a_window_arranged_along_a_period_and_back_is_unchanged(length):
    block = _TimesBlock(2, 2, kernels=1, periods=1)
    shapes = []
    block.inception = nn.Module()
    block.inception.forward = lambda images: shapes.append(images.shape) or images
    windows = torch.arange(120.0).reshape(2, 30, 2)
    torch.testing.assert_close(block._along_period(windows, length), windows)
    assert shapes == [(2, 2, -(-30 // length), length)]


def test_each_window_is_arranged_along_its_own_periods(monkeypatch):
    calls = []
    block = _TimesBlock(1, 1, kernels=1, periods=1)
    monkeypatch.setattr(block, "_along_period", lambda x, length: calls.append((len(x), length)) or x)
    t = torch.arange(60.0)
    block(torch.stack([torch.sin(2 * torch.pi * t / period) for period in (12, 20, 12)])[..., None])
    assert calls == [(2, 12), (1, 20)]


# -- gpt2_adapter ------------------------------------------------------------------------------------------------------


def test_missing_weights_are_reported(tmp_path):
    train = waves(200)
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(MissingWeightsError, match=str(folder)) as caught:
            make("gpt2_adapter", weights=str(folder), device="cpu").fit(train)
        assert isinstance(caught.value, FileNotFoundError)
        assert caught.value.folder == str(folder)


def test_weights_of_another_model_are_rejected(tmp_path):
    from transformers import GPT2Config

    folder = save_tiny_gpt2(tmp_path)
    for changes in ({"n_layer": 3}, {"n_embd": 32}):  # a missing layer; embeddings of another shape
        shape = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2} | changes
        GPT2Config(vocab_size=3, bos_token_id=0, eos_token_id=0, **shape).save_pretrained(folder)
        with pytest.raises(MissingWeightsError):
            make("gpt2_adapter", weights=folder, device="cpu").fit(waves(200))


def test_only_norms_positions_and_the_ends_are_trained(fitted, weights):
    from transformers import GPT2Model

    detector = fitted("gpt2_adapter")
    before = dict(GPT2Model.from_pretrained(weights).named_parameters())
    after = dict(detector.net_.gpt.named_parameters())
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed
    assert all("ln_" in name or "wpe" in name for name in changed)
    ends = [*detector.net_.embed.parameters(), *detector.net_.head.parameters()]
    assert detector.n_parameters_ == sum(v.numel() for n, v in after.items() if "ln_" in n or "wpe" in n) + sum(
        value.numel() for value in ends
    )


def test_a_model_file_needs_no_weights_folder_but_another_fit_does(fitted, weights, tmp_path):
    detector = small("gpt2_adapter", weights, max_steps=2).fit(normal(300, seed=0))
    detector.set_params(weights=str(tmp_path / "gone"))
    loaded = load(detector.save(tmp_path / "model.safetensors"))
    rows = normal(100, seed=5)
    np.testing.assert_allclose(loaded.decision_function(rows), detector.decision_function(rows), rtol=1e-5)
    with pytest.raises(MissingWeightsError):
        loaded.fit(normal(300, seed=0))


# -- m2n2 --------------------------------------------------------------------------------------------------------------


def test_adaptation_follows_a_drift(fitted):
    values, labels = planted("spike", rows=3000)
    values += np.linspace(0, 6, len(values))[:, None]  # a drift that train does not have
    adaptive = copy.copy(fitted("m2n2")).set_params(momentum=0.9)
    frozen = copy.copy(fitted("m2n2")).set_params(momentum=1.0, adaptation_rate=0.0)
    found, missed = (roc_auc(labels=labels, scores=d.decision_function(values)) for d in (adaptive, frozen))
    assert found > 0.8
    assert missed < found - 0.1


def test_weights_adapt_during_scoring_and_are_restored_after(fitted):
    detector = fitted("m2n2")
    before = {name: value.clone() for name, value in detector.net_.state_dict().items()}
    values, _ = planted("level shift")
    scores = detector.decision_function(values)
    for name, value in detector.net_.state_dict().items():
        assert torch.equal(value, before[name])
    frozen = copy.copy(detector).set_params(adaptation_rate=0.0).decision_function(values)
    window = detector.window_
    np.testing.assert_allclose(scores[:window], frozen[:window], rtol=1e-5)  # the first window comes before any step
    assert not np.allclose(scores[window:], frozen[window:], rtol=1e-5)


def test_anomalous_rows_are_not_learned_from(fitted):
    detector = fitted("m2n2")
    frozen = copy.copy(detector).set_params(adaptation_rate=0.0)
    values = normal(300, seed=6) + 20.0  # all errors exceed those of train
    np.testing.assert_array_equal(detector.decision_function(values), frozen.decision_function(values))

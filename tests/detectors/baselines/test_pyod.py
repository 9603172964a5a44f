"""Baselines through PyOD: scores equal PyOD's, without side effects."""

from __future__ import annotations

import os
import random
import sys
import warnings

import numpy as np
import pytest
import torch
from tests.detectors.baselines.test_classic import TEST, TRAIN, fitted, flat, scaled

from patchad import InputError, MissingExtraError, make


@pytest.mark.parametrize("name", ["deep_svdd", "autoencoder", "deep_if"])
def test_scores_equal_those_of_pyod(name):
    small = {"nets": 3} if name == "deep_if" else {"epochs": 2}
    found = fitted(name, window=8, hop=1, fold="newest", **small)
    windows, seed = flat(scaled(TRAIN), 8), found._seed()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*pin_memory.*", category=UserWarning)
        theirs = pyod_model(name, windows, seed).fit(windows)
        expected = theirs.decision_function(windows)  # all of train at once, as PyOD standardises deep_if
    np.testing.assert_allclose(found.decision_function(TRAIN)[7:], expected, rtol=1e-3)


def pyod_model(name: str, windows: np.ndarray, seed: int):
    from pyod.models.auto_encoder import AutoEncoder
    from pyod.models.deep_svdd import DeepSVDD
    from pyod.models.dif import DIF

    if name == "deep_svdd":
        return DeepSVDD(windows.shape[1], epochs=2, preprocessing=False, verbose=0, random_state=seed)
    if name == "autoencoder":
        return AutoEncoder(epoch_num=2, preprocessing=False, verbose=0, random_state=seed, device="cpu")
    return DIF(n_ensemble=3, max_samples=min(256, len(windows)), random_state=seed, device="cpu")


@pytest.mark.parametrize(
    ("name", "small"), [("deep_svdd", {"epochs": 1}), ("autoencoder", {"epochs": 1}), ("deep_if", {"nets": 1})]
)
def test_pyod_prints_nothing_and_leaves_every_global_generator_unchanged(name, small, capsys, monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    make(name, window=8, **small).fit(TRAIN).decision_function(TEST)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])  # noqa: NPY002
    assert "PYTHONHASHSEED" not in os.environ
    assert capsys.readouterr() == ("", "")


def test_only_deep_svdd_rejects_a_constant_train():
    constant = np.full((60, 2), 3.0)
    with pytest.raises(InputError, match="constant"):
        make("deep_svdd", window=8).fit(constant)
    assert make("kmeans_ad", window=8).fit(constant).decision_function(constant + 1).min() > 0


def test_without_pyod_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyod.models.deep_svdd", None)
    with pytest.raises(MissingExtraError, match=r"patchad\[baselines\]"):
        make("deep_svdd", window=8).fit(TRAIN)

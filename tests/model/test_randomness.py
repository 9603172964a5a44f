from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tests.conftest import waves

from patchad import make
from patchad.model.randomness import seeded

CPU = torch.device("cpu")


def fit(name: str, seed: int, settings: dict[str, object]) -> np.ndarray:
    detector = make(name, window=20, random_state=seed, **settings).fit(waves(200))
    return detector.decision_function(waves(80, seed=1))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("patchad", {"patch_sizes": (2, 5), "d_model": 8, "layers": 1, "max_steps": 15}),
        ("lstm_vae", {"max_steps": 8}),  # its loss draws noise
        ("couta", {"max_steps": 8}),  # draws the anomalies that it trains on
        ("deep_svdd", {"epochs": 1}),  # by PyOD, which draws from numpy and Python too
    ],
)
def test_fits_in_four_threads_score_as_fits_one_after_another(name, settings):
    alone = [fit(name, seed, settings) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: fit(name, seed, settings), range(4)))
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(alone[0], alone[1])


def test_the_global_generator_is_as_before():
    before = torch.get_rng_state()
    with seeded(3, CPU):
        first = torch.rand(4)
        with seeded(3, CPU):  # a fit inside a fit
            assert torch.equal(torch.rand(4), first)
        assert not torch.equal(torch.rand(4), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_error_gives_the_generator_back():
    before = torch.get_rng_state()
    with pytest.raises(KeyError), seeded(3, CPU):
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)
    done = threading.Event()

    def borrow() -> None:
        with seeded(3, CPU):
            done.set()

    threading.Thread(target=borrow).start()
    assert done.wait(10)

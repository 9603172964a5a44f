"""Synthetic datasets: deterministic and labelled."""

from __future__ import annotations

import numpy as np
import pytest

from patchad.datasets.synthetic import KINDS, SYNTHETIC, generate, one_channel
from patchad.errors import InputError


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_datasets_are_deterministic_and_have_anomalies(name: str) -> None:
    for one, other in zip(generate(name), generate(name), strict=True):
        assert one.name == other.name
        for array in ("train", "test", "labels"):
            np.testing.assert_array_equal(getattr(one, array), getattr(other, array))
        assert one.labels.any()
        assert not one.labels.all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_anomaly_is_labelled_three_times(kind: str) -> None:
    labels = one_channel(kind, seed=5).labels
    assert np.count_nonzero(np.diff(labels.astype(int), prepend=0) == 1) == 3


def test_an_unknown_synthetic_dataset_is_refused() -> None:
    with pytest.raises(InputError, match="no synthetic dataset"):
        generate("moon")

"""Fit and score: what they cost, and which entities are skipped."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import SMALL

from patchad.bench.fits import fit_and_score, n_parameters
from patchad.bench.protocols import judge
from patchad.datasets.entity import Entity
from patchad.datasets.synthetic import one_channel
from patchad.detectors.baselines.random import RandomScore
from patchad.detectors.patchad import PatchAD


@pytest.fixture(scope="module")
def entity() -> Entity:
    return one_channel("seasonal", rows=600)


def test_time_peak_memory_and_parameters_are_measured(entity: Entity) -> None:
    fit = fit_and_score(PatchAD(**SMALL), entity)
    assert fit.fit_seconds > 0
    assert fit.score_seconds > 0
    assert fit.peak_memory > 50_000_000
    assert n_parameters(fit.detector) == fit.detector.n_parameters_ > 100
    assert n_parameters(RandomScore()) == 0
    assert n_parameters(object()) is None


@pytest.mark.parametrize("label", [False, True])
def test_an_entity_with_labels_of_one_kind_is_skipped_with_the_reason(entity: Entity, label: bool) -> None:
    same = Entity("same", entity.train, entity.test, np.full(len(entity.test), label))
    fit = fit_and_score(RandomScore(), same)
    assert fit.fit_seconds is None
    assert "every test row is labelled" in judge(fit, same, "open", "auto")["skipped"]


def test_an_entity_with_too_short_a_train_is_skipped_with_the_reason(entity: Entity) -> None:
    short = Entity("short", entity.train[:10], entity.test, entity.labels)
    assert "at least 32" in judge(fit_and_score(RandomScore(), short), short, "open", "auto")["skipped"]

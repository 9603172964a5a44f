"""Detectors that are fitted together equal those fitted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import waves

from patchad import PatchAD, load
from patchad.detectors import together
from patchad.detectors.together import fit_together
from patchad.fleet.local import LocalRunner

SMALL = {"window": 12, "patch_sizes": (3,), "d_model": 4, "layers": 1, "max_steps": 10}


def test_detectors_fitted_together_equal_those_fitted_alone(monkeypatch):
    monkeypatch.setitem(together.STACKED_VALUES, "cpu", 2000)  # groups of two
    series = [waves(200 + 10 * seed, seed=seed) * (seed + 1) for seed in range(3)]
    found = [PatchAD(**SMALL, random_state=seed) for seed in range(3)]
    assert fit_together(found, series) == [None] * 3
    for seed, detector in enumerate(found):
        alone = PatchAD(**SMALL, random_state=seed).fit(series[seed])
        scores, wanted = (one.decision_function(waves(100, seed=9)) for one in (detector, alone))
        np.testing.assert_allclose(scores, wanted, rtol=1e-3)
        assert detector.history_[0].held_out == pytest.approx(alone.history_[0].held_out, rel=1e-4)
        assert detector.held_out_ == alone.held_out_
        assert detector.fit_notes_ == alone.fit_notes_
    again = found[0].fit(series[0])  # by itself, as ever
    assert len(again.history_) == 1


def test_each_detector_has_its_own_error_and_what_cannot_be_stacked_is_fitted_alone(monkeypatch):
    wrong = np.full((100, 3), np.nan)
    detectors = [PatchAD(**SMALL) for _ in range(3)]
    detectors.append(PatchAD(**{**SMALL, "max_steps": None, "epochs": 1}))
    errors = fit_together(detectors, [waves(200), wrong, waves(100)[:10], waves(200)])
    assert [error is None for error in errors] == [True, False, False, True]
    assert "at least 32 are needed" in str(errors[2])
    assert detectors[3].history_[0].steps > 1
    wild = [PatchAD(**{**SMALL, "learning_rate": 1e30}), PatchAD(**SMALL)]
    errors = fit_together(wild, [waves(200), waves(200)])
    assert "training diverged" in str(errors[0])
    assert errors[1] is None


def test_an_error_after_training_is_the_detectors_own(monkeypatch):
    def refuse(self, train):
        raise together.PatchADError("no scores")

    monkeypatch.setattr(PatchAD, "_finish_fit", refuse)
    (error,) = fit_together([PatchAD(**SMALL)], [waves(200)])
    assert str(error) == "no scores"


def test_other_processes_prepare_and_finish_what_this_one_trains(tmp_path):
    series = [waves(200 + 10 * seed, seed=seed) for seed in range(3)] + [np.full((100, 3), np.nan)]
    here, elsewhere = ([PatchAD(**SMALL, random_state=seed) for seed in range(4)] for _ in range(2))
    wanted = fit_together(here, series)
    with LocalRunner(2) as runner:
        found = fit_together(elsewhere, series, run=runner.run)
    assert [str(error) for error in found] == [str(error) for error in wanted]
    for one, other in zip(here[:3], elsewhere, strict=False):
        np.testing.assert_allclose(
            one.decision_function(series[0]), other.decision_function(series[0]), rtol=1e-4, atol=1e-6
        )
        assert other.device == "auto"
        assert [progress.held_out for progress in other.history_] == [progress.held_out for progress in one.history_]
    assert load(elsewhere[0].save(tmp_path / "model.safetensors")).device == "auto"


def test_seeds_that_are_drawn_in_turn_are_drawn_in_this_process():
    def refuse(*_):
        raise AssertionError

    random = np.random.RandomState(0)
    detectors = [PatchAD(**SMALL, random_state=random) for _ in range(2)]
    assert fit_together(detectors, [waves(200)] * 2, run=refuse) == [None, None]

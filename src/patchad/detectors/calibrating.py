"""Calibration of the witnesses of a trained net: scales and weights, from held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from patchad.data.holdout import newest
from patchad.data.stages import Scored
from patchad.data.table import FloatArray
from patchad.data.windows import WindowStage
from patchad.model.relations import Relations
from patchad.model.reliability import inject_faults
from patchad.model.score import ScoreRule
from patchad.model.witnesses import Witness

if TYPE_CHECKING:
    from patchad.detectors.patchad import PatchAD

CALIBRATION_ROWS = 20_000
"""Most held-out rows that the scales of the folded columns are learned from."""
CALIBRATION_VALUES = 6_000_000
"""Most values of held-out windows that the scales of the witnesses are learned from."""


def calibrate(detector: PatchAD, witnesses: Sequence[Witness], held_out: Sequence[FloatArray], seed: int) -> None:
    """Learn the scales of the witnesses from windows taken evenly from these series, then those of their columns."""
    window = detector.window_
    windows = torch.from_numpy(
        detector._scaled_windows(held_out, max(CALIBRATION_VALUES // (window * held_out[0].shape[1]), 100))
    )
    backend = detector._torch_backend(witnesses)
    names = tuple(one.name for one in witnesses)
    parts = [backend.observe(some, window, names) for some in torch.split(windows, backend.batch)]
    observed = {name: torch.cat([part.observed[name] for part in parts]).cpu().numpy() for name in names}
    calibrated = tuple(one.calibrated(observed[one.name]) for one in witnesses)
    relations = Relations.fit(windows.numpy().reshape(-1, windows.shape[-1]))
    detector._set_rule(ScoreRule(detector.score, calibrated, relations, detector.adapt))
    if detector.score == "fused":
        rows = newest(held_out, window, CALIBRATION_ROWS)
        detector.rule_ = detector.rule_.with_scale(folded(detector, rows))
        detector.rule_ = weighed(detector, rows, seed)


def weighed(detector: PatchAD, series: Sequence[FloatArray], seed: int, hop: int | None = None) -> ScoreRule:
    """Learn how much each column counts from faults that are put into these series."""
    generator = np.random.default_rng(seed)
    faulty = [inject_faults(values, generator) for values in series]
    rows = folded(detector, [values for values, _ in faulty], hop)
    return detector.rule_.with_weights(rows, np.concatenate([where for _, where in faulty]))


def folded(detector: PatchAD, series: Sequence[FloatArray], hop: int | None = None) -> Scored:
    """Return the folded columns `(time, column)` of these series, from windows `hop` rows apart."""
    score = partial(detector._score_block, explain=False)
    found: list[Scored] = []
    for values in series:
        stage = WindowStage(detector.window_, hop or detector.hop_, detector.fold, detector._batch(), score)
        found += [stage.push(values), stage.flush()]
    return Scored.join(found)

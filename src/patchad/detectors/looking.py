"""One look at held-out rows: whatever a pretrained net has to learn from them comes from the same windows.

A net that is not trained needs no scores of the rows it was trained on, and everything else that `fit` asks of the net
are held-out rows: the scales of the witnesses and of their columns, the level, and what early scores are worth. So
these windows are observed once, and their columns kept until `fit` ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from patchad.data.holdout import newest
from patchad.data.stages import Scored
from patchad.data.table import FloatArray
from patchad.data.windows import Block, WindowStage
from patchad.detectors.calibrating import CALIBRATION_ROWS, CALIBRATION_VALUES, weighed
from patchad.model.relations import Relations
from patchad.model.score import ScoreRule
from patchad.model.witnesses import Evidence, Witness

if TYPE_CHECKING:
    from patchad.detectors.patchad import PatchAD

LOOK_VALUES, LEAST_WINDOWS = 15_000_000, 200
"""Most values of the windows that are looked at, where that leaves so many windows at least: RAM stays bounded."""
ENOUGH_WINDOWS = 100
"""Windows of held-out rows, a hop apart, that scales can be learned from."""
FAULT_WINDOWS = 4
"""Windows that cover a row with faults put into it: weights come from ranks, which need no more."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What was seen of the newest held-out blocks that are as long as a window, in order."""

    columns: list[FloatArray]
    """(window, step, column) of each block and the rows before it."""
    folded: list[Scored]
    """(time, column) of the same rows."""

    def of_train(self, detector: PatchAD, blocks: Sequence[Sequence[slice]]) -> tuple[Scored, list[list[int]]]:
        """Return the scores of the blocks, end to end, and the half-open range of each."""
        window = detector.window_
        every = [block for own in blocks for block in own if min(window, block.start) + _length(block) >= window]
        found: list[Scored] = []
        ranges: list[list[int]] = []
        for block, rows in zip(every[len(every) - len(self.folded) :], self.folded, strict=True):
            for stage in detector._row_stages():
                rows = stage.push(rows)
            found.append(rows[slice(-_length(block), None)])
            start = ranges[-1][1] if ranges else 0
            ranges.append([start, start + len(found[-1])])
        return Scored.join(found), ranges


def shows_enough(held_out: Sequence[FloatArray], window: int, hop: int) -> bool:
    """Return whether windows `hop` rows apart tell the scales of held-out rows; of fewer, all windows are needed."""
    return sum((len(values) - window) // hop + 1 for values in held_out if len(values) >= window) >= ENOUGH_WINDOWS


def look(detector: PatchAD, witnesses: Sequence[Witness], held_out: Sequence[FloatArray], seed: int) -> Look:
    """Observe the windows of these series of held-out rows; learn all scales, and the weights of the columns."""
    window, hop = detector.window_, detector.hop_
    values = window * held_out[0].shape[1]
    rows = min(CALIBRATION_ROWS, window + hop * max(LOOK_VALUES // values, LEAST_WINDOWS))
    parts = [part[(len(part) - window) % hop :] for part in reversed(newest(held_out, window, rows))]
    scaled = [detector.scaler_(part) for part in parts]
    evidence, counts = _observed(detector, witnesses, scaled)
    every = max(values * sum(counts) // CALIBRATION_VALUES, 1)
    calibrated = tuple(one.calibrated(evidence.observed[one.name][::every].cpu().numpy()) for one in witnesses)
    rule = ScoreRule(detector.score, calibrated, Relations.fit(np.concatenate(scaled)), detector.adapt)
    columns = np.split(_columns(rule, evidence), np.cumsum(counts)[:-1])
    folded = [_fold(detector, one, len(part)) for one, part in zip(columns, parts, strict=True)]
    detector._set_rule(rule.with_scale(Scored.join(folded)))
    apart = max(window // FAULT_WINDOWS, hop) if detector.fold == "mean" else hop
    detector.rule_ = weighed(detector, parts, seed, apart)
    return Look(columns, folded)


def _length(block: slice) -> int:
    return int(block.stop - block.start)


def _observed(
    detector: PatchAD, witnesses: Sequence[Witness], parts: Sequence[FloatArray]
) -> tuple[Evidence, list[int]]:
    """Return the evidence of whole windows of scaled series, and how many each series has."""
    window, backend = detector.window_, detector._torch_backend(witnesses)
    starts = [np.arange(0, len(part) - window + 1, detector.hop_, dtype=np.intp) for part in parts]
    windows = torch.cat([backend.cut(part, own) for part, own in zip(parts, starts, strict=True)])
    names = tuple(one.name for one in witnesses)
    found = [backend.observe(some, window, names) for some in torch.split(windows, backend.batch)]
    observed = {name: torch.cat([one.observed[name] for one in found]) for name in names}
    return Evidence(windows, observed), list(map(len, starts))


def _columns(rule: ScoreRule, evidence: Evidence) -> FloatArray:
    """Return `(window, step, column)`, some windows at a time: in float64 the evidence is large."""
    found = []
    for start in range(0, len(evidence.windows), 64):
        some = slice(start, start + 64)
        part = Evidence(evidence.windows[some], {name: one[some] for name, one in evidence.observed.items()})
        found.append(rule.columns(part).cpu().numpy())
    return np.concatenate(found)


def _fold(detector: PatchAD, columns: FloatArray, rows: int) -> Scored:
    """Fold the columns of all windows of a series of so many rows."""

    def known(block: Block, steps: int) -> tuple[FloatArray, None]:  # noqa: ARG001 - all windows are in one block
        return columns[:, -steps:], None

    stage = WindowStage(detector.window_, detector.hop_, detector.fold, len(columns), known)
    return Scored.join([stage.push(np.empty((rows, 0))), stage.flush()])

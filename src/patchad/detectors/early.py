"""Early words: learn what the scores of rows are worth while later windows have yet to cover them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from patchad.alarms.early import EarlyRules
from patchad.data.series import Series
from patchad.data.stages import Immediate, Scored
from patchad.data.table import FloatArray
from patchad.data.windows import Block
from patchad.streaming.plan import EarlyWords

if TYPE_CHECKING:
    from patchad.detectors.base import Detector
    from patchad.detectors.windowed import WindowDetector


def learn_early(detector: Detector, segments: Sequence[Series], blocks: Sequence[Sequence[slice]]) -> EarlyRules | None:
    """Learn from the held-out blocks of each segment; None where scores are final as soon as they are known.

    A block may be too short for all windows of a row. Where all are, all of train has to do: early scores are compared
    with final ones of the same rows, so that rows which were trained on mislead less than they would as a level.
    """
    from patchad.detectors.windowed import WindowDetector

    if not isinstance(detector, WindowDetector) or detector.fold != "mean" or not detector.shares_windows:
        return None
    reach, ages = detector.window_ - detector.hop_, detector.window_ // detector.hop_
    if ages < 2 or not all(isinstance(stage, Immediate) for stage in detector._row_stages()):
        return None
    looked = detector._take_columns()
    newest = detector._stored_rows() // len(segments)
    for parts in (blocks, [[slice(0, len(segment))] for segment in segments]):
        found = []
        for segment, own in zip(segments, parts, strict=True):
            for block in own if looked is None else ():
                start = max(block.start, reach, len(segment) - newest)
                found.append(_window_columns(detector, segment.values[start - reach : block.stop + reach]))
        known = [_early_scores(detector, columns, ages) for columns in looked or found if len(columns) >= ages]
        if known:
            return EarlyRules.fit(known, detector._shape_of_events().merge_gap)
        looked = None
    return None


def early_words(detector: Detector) -> EarlyWords | None:
    """Return what a stream may say early; None where nothing was learned for these windows.

    Rows like those that were accepted are told from others only when they are over, so that nothing is said early.
    """
    early = detector.early_
    window, hop = detector._window(), int(getattr(detector, "hop_", 1))
    fits = early is not None and getattr(detector, "fold", "newest") == "mean" and early.ages == window // hop - 1
    if early is None or not fits or any(one.accepted for one in detector.feedback_):
        return None
    return EarlyWords(early, detector.alarm_rules_.edge, window - hop)


def _window_columns(detector: WindowDetector, values: FloatArray) -> FloatArray:
    """Return the columns `(window, step, column)` of the windows of these values, a hop apart."""
    window = detector.window_
    starts = np.arange(0, len(values) - window + 1, detector.hop_, dtype=np.intp)
    if not len(starts):
        return np.empty((0, window, 0))
    parts = [
        detector._score_block(Block(values[some[0] : some[-1] + window], some - some[0]), window, explain=False)[0]
        for some in np.array_split(starts, range(detector._batch(), len(starts), detector._batch()))
    ]
    return np.concatenate(parts)


def _early_scores(detector: WindowDetector, columns: FloatArray, ages: int) -> FloatArray:
    """Score rows by the first, the first two, ... of the windows that cover them: `(age, time)`.

    The rows are those that all their windows are among these. What lasts is not adapted to.
    """
    window, hop, groups = detector.window_, detector.hop_, len(columns) - ages + 1
    total = np.zeros((groups, hop, columns.shape[2]))
    found = []
    for age in range(ages):
        stop = window - hop * age
        total += columns[age : age + groups, stop - hop : stop]
        rows = Scored(total.reshape(-1, columns.shape[2]) / (age + 1))
        for stage in detector._steady_stages():
            rows = stage.push(rows)
        found.append(rows.scores)
    return np.stack(found)

"""What a stream of a fitted detector is made of: the stages that its `detect` pushes all rows through."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from patchad.data.preparing import Preparer
from patchad.detectors.early import early_words
from patchad.detectors.listing import marking_of
from patchad.detectors.operator import knowledge_of
from patchad.detectors.reading import read_table
from patchad.detectors.saving import fingerprint
from patchad.errors import UnsupportedError
from patchad.streaming.plan import Plan

if TYPE_CHECKING:
    from patchad.detectors.base import Detector


def plan_of(detector: Detector) -> Plan:
    """Return what a stream is made of; refuse a threshold that a stream cannot have."""
    check_is_fitted(detector, "threshold_")
    if detector.threshold_.needs_all_scores:
        raise UnsupportedError(
            f"threshold {detector.threshold!r} needs all scores at once and cannot be used along a stream; use 'auto'"
        )
    preparer = partial(
        Preparer, detector.channels_, detector.initial_, missing=detector.missing, max_gap=detector.max_gap
    )
    score, batch = detector._shared_windows()
    return Plan(
        checksum=fingerprint(detector),
        shape=_shape_of(detector),
        channels=detector.channels_,
        fit_columns=detector.fit_columns_,
        columns=detector.columns_,
        read=partial(read_table, detector),
        blameless=np.flatnonzero(knowledge_of(detector).ignored),
        preparer=preparer,
        scorer=partial(detector._scorer, explain=True),
        threshold=detector.threshold_,
        alarms=partial(detector._alarm_stage, detector.feedback_),
        marking=partial(marking_of, detector),
        score=score,
        batch=batch,
        early=early_words(detector),
    )


def _shape_of(detector: Detector) -> tuple[object, ...]:
    """Return what decides which rows a stream holds back, and what it knows of them."""
    cut = [getattr(detector, f"{name}_", getattr(detector, name, None)) for name in ("hop", "fold", "smoothing")]
    rule = getattr(detector, "rule_", None)  # a witness more or less is another number of columns
    columns = 1 if rule is None else len(rule.weights)
    return (
        type(detector).name,
        detector.channels_,
        detector._window(),
        detector.delay,
        *cut,
        detector.missing,
        columns,
    )

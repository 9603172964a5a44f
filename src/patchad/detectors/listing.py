"""From the scores of a table to its events: what was accepted or confirmed is marked, then events are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from patchad.alarms.feedback import FeedbackStage, Judgement, Marks
from patchad.data.series import Matched, Prepared
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray, Table
from patchad.results.detection import Event

if TYPE_CHECKING:
    from patchad.detectors.base import Detector


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A table as a detector reads it."""

    table: Table
    prepared: Prepared
    matched: Matched


def list_events(
    detector: Detector, read: Read, scored: Scored, levels: FloatArray, feedback: Sequence[Judgement]
) -> tuple[tuple[Event, ...], BoolArray]:
    """Find the events of a table that was scored, and mark the rows that alarm."""
    prepared = read.prepared
    marks = _marks(detector, prepared, scored, levels, feedback)
    muted = prepared.muted | marks.accepted
    stage = detector._alarm_stage(feedback)
    stage.observe(read.matched.values, read.table.index)
    bounds = [0, *(int(rows[-1]) + 1 for rows in prepared.rows)]
    alarms = []
    for a, b in pairwise(bounds):
        alarms += [stage.push(scored[slice(a, b)], levels[a:b], muted[a:b], marks.confirmed[a:b]), stage.end_segment()]
    rest = slice(bounds[-1], None)
    alarms += [stage.push(scored[rest], levels[rest], muted[rest], marks.confirmed[rest]), stage.flush()]
    return stage.events, np.concatenate(alarms)


def feedback_stage(detector: Detector, feedback: Sequence[Judgement]) -> FeedbackStage:
    """Return the stage that compares the rows of one new segment with what was judged."""
    likeness = detector.likeness_
    context = likeness.window if detector.context is None else min(detector.context, likeness.window)
    after = max(detector._window() - 1, context)
    return FeedbackStage(likeness, feedback, before=detector.delay, after=after)


def _marks(
    detector: Detector, prepared: Prepared, scored: Scored, levels: FloatArray, feedback: Sequence[Judgement]
) -> Marks:
    """Compare the rows of a table with what was judged."""
    marks = Marks.none(prepared.length)
    for series, rows in zip(prepared.segments, prepared.rows, strict=True):
        stage = feedback_stage(detector, feedback)
        strange = detector.alarm_rules_.strangeness(scored[rows], levels[rows])
        found = Marks.join([stage.push(series.values, strange), stage.flush()])
        marks.accepted[rows], marks.confirmed[rows] = found.accepted, found.confirmed
    return marks


def shares_of(attribution: FloatArray) -> FloatArray:
    """Divide each row of `(time, channel)` attribution by its sum, in place."""
    total = attribution.sum(axis=1, keepdims=True)
    np.divide(attribution, total, out=attribution, where=total > 0)
    return attribution

"""From the scores of a table to its events: what was accepted or confirmed is marked, then events are listed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from patchad.alarms.feedback import FeedbackStage, Judgement, Marks
from patchad.data.series import Prepared
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray
from patchad.detectors.reading import Read
from patchad.results.detection import Event
from patchad.results.expectations import Expectations
from patchad.streaming.marking import Marking

if TYPE_CHECKING:
    from patchad.detectors.base import Detector


def list_events(
    detector: Detector,
    known: Read,
    scored: Scored,
    levels: FloatArray,
    feedback: Sequence[Judgement],
    *,
    quiet: BoolArray | None = None,
) -> tuple[tuple[Event, ...], BoolArray]:
    """Find the events of a table that was scored, and mark the rows that alarm; `quiet` marks rows and channels."""
    prepared, index = known.prepared, known.table.index
    marks = _marks(detector, prepared, scored, levels, feedback)
    muted = prepared.muted | marks.accepted
    stage = detector._alarm_stage(feedback)
    bounds = sorted({0, *(int(rows[-1]) + 1 for rows in prepared.rows), prepared.length})
    alarms = []
    for a, b in pairwise(bounds):
        own = slice(a, b)
        times = None if index is None else index[own]
        stage.observe(known.matched.values[own], times, None if quiet is None else quiet[own])
        alarms += [stage.push(scored[own], levels[own], muted[own], marks.confirmed[own])]
        alarms += [stage.end_segment() if b < prepared.length else stage.flush()]
    return stage.events, np.concatenate(alarms)


def expectations_of(detector: Detector, known: Read, events: Sequence[Event]) -> Expectations:
    """Return what the detector, as it is now, expects around events; computed when it is asked for."""
    return Expectations(copy(detector)._expected_rows, known.prepared, events)


def feedback_stage(detector: Detector, feedback: Sequence[Judgement]) -> FeedbackStage:
    """Return the stage that compares the rows of one new segment with what was judged."""
    likeness = detector.likeness_
    context = likeness.window if detector.context is None else min(detector.context, likeness.window)
    after = max(detector._window() - 1, context)
    return FeedbackStage(likeness, feedback, before=detector.delay, after=after)


def marking_of(detector: Detector) -> Marking | None:
    """Return the stage that compares the rows of one new stream with what was judged; None where nothing was."""
    if not detector.feedback_:
        return None
    return Marking(partial(feedback_stage, detector, detector.feedback_), detector.alarm_rules_.strangeness)


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

"""Judging rows: what `accept` and `confirm` make of them for a detector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from patchad.alarms.feedback import Judgement, Pattern, cut_patterns, digest
from patchad.alarms.sensors import SensorRules, SensorStage
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray, Table, is_list_of_series
from patchad.detectors.listing import list_events
from patchad.detectors.reading import read
from patchad.errors import InputError
from patchad.results.detection import Event, time_text

if TYPE_CHECKING:
    from patchad.data.series import Prepared
    from patchad.detectors.base import Detector

Judged = TypeVar("Judged", bound="Detector")

ROUNDS = 8
"""Times that rows are looked at again until nothing of what was accepted is left: repeats follow what they repeat."""


def judge(detector: Judged, X: Any, *, accepted: bool, start: int, stop: int | None) -> Judged:
    """Store a judgement of rows with a detector, for each series; of all of them or of none."""
    check_is_fitted(detector, "feedback_")
    before = detector.feedback_
    try:
        for item in X if is_list_of_series(X) else [X]:
            found = _judgement(detector, item, accepted=accepted, start=start, stop=stop)
            detector.feedback_ = (*detector.feedback_, found)
    except Exception:
        detector.feedback_ = before
        raise
    return detector


def retract(detector: Judged, X: Any, *, start: int, stop: int | None) -> Judged:
    """Take back the newest judgement, or the newest one of these rows."""
    check_is_fitted(detector, "feedback_")
    feedback = detector.feedback_
    if not feedback:
        raise InputError("nothing was accepted or confirmed, so there is nothing to take back")
    place = len(feedback) - 1
    if X is not None:
        values = read(detector, X).matched.values
        wanted = digest(values[_given(len(values), start, stop)])
        same = [number for number, one in enumerate(feedback) if one.digest == wanted]
        if not same:
            raise InputError(f"these very rows were not accepted or confirmed; the newest that were: {feedback[-1]}")
        place = same[-1]
    detector.feedback_ = (*feedback[:place], *feedback[place + 1 :])
    return detector


def _judgement(detector: Detector, X: Any, *, accepted: bool, start: int, stop: int | None) -> Judgement:
    """Make a judgement of rows of a series.

    What is stored of them are the events in them, so that rows that raised none change nothing. Where there is none, as
    in rows that were cut from what surrounds them, it is what differs from train, or is too short to be told.
    """
    known = read(detector, X)
    length = len(known.table.values)
    given = _given(length, start, stop)
    scored = detector._score_all(known.prepared, explain=True, since=known.since)
    levels = detector.threshold_.levels(scored.scores)
    lead = detector.alarm_rules_.strangeness(scored, levels).lead
    feedback = detector.feedback_
    since, until = _place(known.table, given)
    values = known.matched.values
    rules = detector.alarm_rules_.judged(feedback).sensors
    limits = _sensor_limits(values, given, rules) if accepted else _nothing(values.shape[1])
    found = Judgement(
        accepted=accepted,
        rows=given.stop - given.start,
        since=since,
        until=until,
        digest=digest(values[given]),
        patterns=(),
        **limits,
    )
    before, _ = list_events(detector, known, scored, levels, feedback)
    kept = [pattern for one in feedback if one.accepted == accepted for pattern in one.patterns]
    allowed = _surroundings(before, given, detector._shape_of_events().merge_gap, length)
    for number in range(ROUNDS if accepted else 1):
        events = before
        if accepted:
            events, _ = list_events(detector, known, scored, levels, (*feedback, found))
        first = number == 0
        wanted = _first_wanted(detector, events, given, known.prepared, scored) if first else _inside(events, allowed)
        new = _cut(detector, known.prepared, wanted, lead, [*kept, *found.patterns])
        if not new:
            break
        found = replace(found, patterns=(*found.patterns, *new))
    return found


def _given(length: int, start: int, stop: int | None) -> slice:
    stop = length if stop is None else stop
    if not 0 <= start < stop <= length:
        raise InputError(f"rows {start} to {stop} are none of the {length} rows; give 0 <= start < stop <= {length}")
    return slice(start, stop)


def _place(table: Table, given: slice) -> tuple[str, str]:
    """Say where rows are: by time, or by number; the last one is the last row of them."""
    first, last = given.start, given.stop - 1
    if table.index is None:
        return f"row {first}", f"row {last}"
    return str(time_text(table.times[first])), str(time_text(table.times[last]))


def _inside(events: Sequence[Event], rows: BoolArray) -> BoolArray:
    """Mark those of these rows that lie in events of the score."""
    inside: BoolArray = np.zeros(len(rows), dtype=bool)
    for event in events:
        if event.kind in ("anomaly", "regime"):
            inside[event.start : event.stop] = True
    return inside & rows


def _surroundings(events: Sequence[Event], given: slice, gap: int, length: int) -> BoolArray:
    """Mark the given rows, and the pause around them in which rows belong to the same event, but for other events."""
    rows = _part(slice(max(given.start - gap, 0), given.stop + gap), length)
    for event in events:
        if event.start >= given.stop or event.stop <= given.start:
            rows[event.start : event.stop] = False
    return rows


def _first_wanted(
    detector: Detector, events: Sequence[Event], given: slice, prepared: Prepared, scored: Scored
) -> BoolArray:
    """Mark the rows of a table that patterns have to cover: of events what is strange in them, or what else is."""
    rows = _part(given, prepared.length)
    inside = _inside(events, rows)
    strange: BoolArray = np.zeros(prepared.length, dtype=bool)
    short: BoolArray = np.zeros(prepared.length, dtype=bool)
    likeness = detector.likeness_
    for series, numbers in zip(prepared.segments, prepared.rows, strict=True):
        strange[numbers] = ~likeness.normal(likeness.scaled(series.values)).all(axis=1)
        short[numbers] = len(numbers) < detector._window()
    if not inside.any():
        return (strange | short) & rows
    if scored.local is not None:
        with np.errstate(invalid="ignore"):  # NaN is over no level
            strange |= scored.local > detector.alarm_rules_.edge
    return inside & strange if (inside & strange).any() else inside


def _part(given: slice, length: int) -> BoolArray:
    mask: BoolArray = np.zeros(length, dtype=bool)
    mask[given] = True
    return mask


def _cut(
    detector: Detector, prepared: Prepared, wanted: BoolArray, lead: NDArray[np.intp], known: list[Pattern]
) -> list[Pattern]:
    made: list[Pattern] = []
    for series, rows in zip(prepared.segments, prepared.rows, strict=True):
        if wanted[rows].any():
            values = detector.likeness_.scaled(series.values)
            made += cut_patterns(values, lead[rows], wanted[rows], [*known, *made], detector.likeness_)
    return made


def _nothing(channels: int) -> dict[str, FloatArray]:
    never = float(np.finfo(np.float64).max)
    fills = {"freeze": 0.0, "silence": 0.0, "low": never, "high": -never}
    return {name: np.full(channels, fill) for name, fill in fills.items()}


def _sensor_limits(values: FloatArray, given: slice, rules: SensorRules) -> dict[str, FloatArray]:
    """Measure what broke the rules of sensors in these rows, and the range of their values."""
    limits = _nothing(values.shape[1])
    limits["low"] = np.fmin(limits["low"], np.fmin.reduce(values[given], axis=0))
    limits["high"] = np.fmax(limits["high"], np.fmax.reduce(values[given], axis=0))
    stage = SensorStage(rules)
    for found in stage.push(values) + stage.flush():
        if found.start >= given.stop or found.stop <= given.start or found.kind == "range":
            continue
        channels, rows = list(found.channels), found.stop - found.start
        name = "freeze" if found.kind == "stuck" else "silence"
        whole = found.kind == "missing" and rows == len(values)  # never there, however long the series
        length = float(np.finfo(np.float64).max) / 4 if whole else float(rows)
        limits[name][channels] = np.maximum(limits[name][channels], length)
    return limits

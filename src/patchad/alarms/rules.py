"""What turns the scores of a detector into events: learned in `fit`, used by every detector alike."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.events import EventStage, Finding
from patchad.alarms.sensors import SensorFinding, SensorRules, SensorStage
from patchad.alarms.severity import severity
from patchad.data.stages import Scored
from patchad.data.table import BoolArray, FloatArray
from patchad.results.detection import Event

EDGE_QUANTILE = 0.999
"""Share of held-out rows whose local score is below that of an unusual row."""


@dataclass(frozen=True, slots=True, eq=False)
class AlarmRules:
    """What is normal of scores and sensors."""

    base: float
    """Median held-out score."""
    edge: float
    """Local score over which a row is unusual."""
    sensors: SensorRules

    @classmethod
    def fit(cls, held_out: Scored, train: Sequence[FloatArray]) -> Self:
        """Learn from held-out scores, and from the values of train as they were measured."""
        local = held_out.scores if held_out.local is None else held_out.local
        return cls(float(np.median(held_out.scores)), float(np.quantile(local, EDGE_QUANTILE)), SensorRules.fit(train))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shape:
    """How events are put together."""

    merge_gap: int
    min_duration: int


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows of a table that were scored in one piece."""

    rows: NDArray[np.intp]
    """(time,), row numbers of the table."""
    scored: Scored
    levels: FloatArray
    muted: BoolArray


def find_events(
    segments: Sequence[Segment],
    values: FloatArray,
    rules: AlarmRules,
    shape: Shape,
    channels: tuple[str, ...],
    *,
    index: NDArray[np.generic] | None = None,
    series: str = "",
) -> tuple[tuple[Event, ...], BoolArray]:
    """Find the events of a table, and mark the rows that alarm.

    Parameters
    ----------
    segments
        What was scored, in the order of the rows.
    values
        (time, channel), the table as it was measured, NaN where a value is missing.
    rules, shape
        What is normal, and how events are put together.
    channels
        Names of the channels.
    index
        (time,), the times.
    series
        Name of the series, part of the id of every event.
    """
    sensors = SensorStage(rules.sensors)
    sensors.push(values)
    broken = sensors.flush()
    alarms: BoolArray = np.zeros(len(values), dtype=bool)
    explained = np.zeros(len(values), dtype=bool)
    for one in broken:
        if one.stop - one.start == len(values):
            continue  # a channel that was never there explains no change
        around = slice(max(one.start - shape.merge_gap, 0), one.stop + shape.merge_gap)  # windows smear to both sides
        explained[around] |= one.kind != "range"
    listed: list[tuple[Event, slice]] = []
    for segment in segments:
        stage = EventStage(base=rules.base, edge=rules.edge, merge_gap=shape.merge_gap, min_duration=shape.min_duration)
        stage.push(segment.scored, segment.levels, segment.muted, explained[segment.rows])
        stage.flush()
        listed += [_event(found, segment, rules.base, channels, series) for found in stage.listed]
    dead = [_sensor_event(one, segments, channels, series) for one in broken if one.kind != "range"]
    kept = [*listed, *dead]
    seen = _seen(kept, segments, len(values))
    impossible = [one for one in broken if one.kind == "range" and not seen[one.start : one.stop].any()]
    kept += [_sensor_event(one, segments, channels, series) for one in impossible]
    for _, rows in kept:
        alarms[rows] = True
    events = sorted((event for event, _ in kept), key=lambda event: (event.start, event.stop))
    return tuple(event if index is None else event.timed(index) for event in events), alarms


def _event(
    found: Finding, segment: Segment, base: float, channels: tuple[str, ...], series: str
) -> tuple[Event, slice]:
    """Make an event of a finding, and the rows of the table that it alarms on."""
    first, last = found.rows[0], found.rows[1] - 1
    start, stop = int(segment.rows[first]), int(segment.rows[last]) + 1
    quiet = stop if found.recognised is None else int(segment.rows[found.recognised])
    shares = _shares(found.attribution, channels)
    excess = (found.peak_score - base) / max(found.level - base, 1e-12)
    event = Event(
        start=start,
        stop=stop,
        peak=int(segment.rows[min(max(found.peak, first), last)]),
        peak_score=found.peak_score,
        severity=severity(excess, last - first + 1, [share for _, share in shares]),
        channels=shares,
        kind=found.kind,
        repeats=found.repeats,
        id=_identifier(series, "anomaly", int(segment.rows[found.opened])),
    )
    return event, slice(start, quiet)


def _sensor_event(
    found: SensorFinding, segments: Sequence[Segment], channels: tuple[str, ...], series: str
) -> tuple[Event, slice]:
    peak, score = found.start, -np.inf
    for segment in segments:
        inside = np.flatnonzero((segment.rows >= found.start) & (segment.rows < found.stop))
        if len(inside):
            best = inside[np.nanargmax(segment.scored.scores[inside])]
            if segment.scored.scores[best] > score:
                peak, score = int(segment.rows[best]), float(segment.scored.scores[best])
    score = score if np.isfinite(score) else 0.0  # no row of it was scored
    share = 1 / len(found.channels)
    names = tuple((channels[channel], share) for channel in found.channels)
    rating = severity(found.excess, found.stop - found.start, [share] * len(names))
    identifier = _identifier(series, found.kind, found.start)
    event = Event(found.start, found.stop, peak, score, rating, names, kind=found.kind, id=identifier)
    return event, slice(found.start, found.stop)


def _seen(listed: Sequence[tuple[Event, slice]], segments: Sequence[Segment], length: int) -> BoolArray:
    """Mark the rows in which impossible values are no news: inside events, and over the level, as in repeats."""
    seen: BoolArray = np.zeros(length, dtype=bool)
    for event, _ in listed:
        seen[event.start : event.stop] = True
    for segment in segments:
        seen[segment.rows] |= (segment.scored.scores > segment.levels) & ~segment.muted
    return seen


def _shares(attribution: FloatArray | None, channels: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    if attribution is None or not attribution.sum() > 0:
        return ()
    shares = attribution / attribution.sum()
    order = np.argsort(-shares, kind="stable")
    return tuple((channels[i], float(shares[i])) for i in order if shares[i] > 0)


def _identifier(series: str, kind: str, row: int) -> str:
    return hashlib.sha256(f"{series}\x00{kind}\x00{row}".encode()).hexdigest()[:12]

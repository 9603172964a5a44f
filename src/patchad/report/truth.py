"""Events held against labels: hits, misses, false alarms, and every metric beside what random scores get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from patchad import metrics
from patchad.data.table import BoolArray
from patchad.errors import InputError
from patchad.results.detection import Detection, Event, alarm_runs

GRACE = 10
"""Rows after an anomaly in which an event still counts for it: hop and smoothing make a verdict late."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the events made of the labels."""

    runs: tuple[tuple[int, int], ...]
    """Labelled anomalies, half-open."""
    found: tuple[bool, ...]
    """For each of them whether an event counts for it."""
    true_events: tuple[bool, ...]
    """For each event whether it counts for a labelled anomaly; one that does not is a false alarm."""
    values: dict[str, float]
    """Metrics by name; empty where they have no value."""
    random: dict[str, float]
    """The same for random scores with as many alarms."""
    unscored: int
    """Rows without a score, which the metrics leave out."""

    @property
    def sentence(self) -> str:
        """Say it in one sentence.

        Examples
        --------
        >>> Comparison(((5, 9), (20, 22)), (True, False), (True,), {}, {}, 0).sentence
        '1 of 2 labelled anomalies found, 1 missed; no false alarm.'
        """
        total, false = len(self.runs), self.true_events.count(False)
        anomalies = f"{sum(self.found)} of {total} labelled anomal{'y' if total == 1 else 'ies'} found"
        alarms = f"{false or 'no'} false alarm{'s' if false > 1 else ''}"
        return f"{anomalies}, {self.found.count(False)} missed; {alarms}."


def compare(detection: Detection, labels: ArrayLike) -> Comparison:
    """Hold the events of a detection against labels, one per row, 1 or True where anomalous."""
    truth = _as_labels(labels, len(detection.scores))
    runs = alarm_runs(truth)
    own = [(event.start, event.stop) for event in detection.events]
    scored = np.isfinite(detection.scores)
    values: dict[str, float] = {}
    random: dict[str, float] = {}
    if len(np.unique(truth[scored])) == 2:
        alarms = detection.alarms[scored]
        values = metrics.evaluate(labels=truth[scored], scores=detection.scores[scored], alarms=alarms)
        random = metrics.evaluate_random(labels=truth[scored], alarms=alarms)
    return Comparison(
        runs=tuple(runs),
        found=_met([(start, stop + GRACE) for start, stop in runs], own, len(truth)),
        true_events=_met(own, [(start, stop + GRACE) for start, stop in runs], len(truth)),
        values=values,
        random=random,
        unscored=int((~scored).sum()),
    )


def _met(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]], rows: int) -> tuple[bool, ...]:
    """Tell of each half-open run whether it overlaps one of the others; as `counts_for`, for many at once."""
    covered = np.zeros(rows, dtype=bool)
    for start, stop in others:
        covered[start:stop] = True
    before = np.concatenate([[0], np.cumsum(covered)])
    return tuple(bool(before[min(stop, rows)] > before[start]) for start, stop in some)


def counts_for(event: Event, start: int, stop: int) -> bool:
    """Tell whether an event overlaps the anomaly in rows `start` to `stop - 1`, or begins shortly after it."""
    return event.start < stop + GRACE and event.stop > start


def _as_labels(labels: ArrayLike, rows: int) -> BoolArray:
    values = np.asarray(labels)
    if values.shape != (rows,):
        raise InputError(f"labels have shape {values.shape}, the detection {rows:,} rows; one label per row is needed")
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InputError("labels hold something other than 0 and 1; give 1 where a row is anomalous and 0 elsewhere")
    return values.astype(bool)

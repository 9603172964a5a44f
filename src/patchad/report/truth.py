"""Events compared with labels: hits, misses, false alarms, and every metric beside that of random scores."""

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
"""Rows after an anomaly within which an event still counts for it: hop and smoothing delay scores."""


@dataclass(frozen=True, slots=True)
class LabelComparison:
    """Which labelled anomalies the events found, and how well the scores separate them."""

    anomalies: tuple[tuple[int, int], ...]
    """Half-open runs of labelled rows."""
    found: tuple[bool, ...]
    """Per anomaly, whether an event counts for it."""
    true_events: tuple[bool, ...]
    """Per event, whether it counts for an anomaly; otherwise it is a false alarm."""
    metrics: dict[str, float]
    """Metrics by name; empty if all labels are equal."""
    random_metrics: dict[str, float]
    """The same metrics of random scores with as many alarms."""
    unscored: int
    """Rows without a score, which the metrics leave out."""

    @property
    def missed(self) -> list[tuple[int, int]]:
        """Return the anomalies that no event counts for."""
        return [run for run, found in zip(self.anomalies, self.found, strict=True) if not found]

    @property
    def summary(self) -> str:
        """Return the comparison in one sentence.

        Examples
        --------
        >>> LabelComparison(((5, 9), (20, 22)), (True, False), (True,), {}, {}, 0).summary
        '1 of 2 labelled anomalies found, 1 missed; no false alarm.'
        """
        total, false = len(self.anomalies), self.true_events.count(False)
        anomalies = f"{sum(self.found)} of {total} labelled anomal{'y' if total == 1 else 'ies'} found"
        alarms = f"{false or 'no'} false alarm{'s' if false > 1 else ''}"
        return f"{anomalies}, {self.found.count(False)} missed; {alarms}."


def compare_with_labels(detection: Detection, labels: ArrayLike) -> LabelComparison:
    """Compare the events and scores of a detection with labels, one per row, 1 or True where anomalous."""
    truth = _as_labels(labels, len(detection.scores))
    anomalies = alarm_runs(truth)
    credited = [(start, stop + GRACE) for start, stop in anomalies]
    events = [(event.start, event.stop) for event in detection.events]
    scored = np.isfinite(detection.scores)
    values: dict[str, float] = {}
    random: dict[str, float] = {}
    if len(np.unique(truth[scored])) == 2:
        alarms = detection.alarms[scored]
        values = metrics.evaluate(labels=truth[scored], scores=detection.scores[scored], alarms=alarms)
        random = metrics.evaluate_random(labels=truth[scored], alarms=alarms)
    return LabelComparison(
        anomalies=tuple(anomalies),
        found=_overlaps(credited, events, len(truth)),
        true_events=_overlaps(events, credited, len(truth)),
        metrics=values,
        random_metrics=random,
        unscored=int((~scored).sum()),
    )


def counts_for(event: Event, start: int, stop: int) -> bool:
    """Return whether an event overlaps the anomaly in rows `start` to `stop - 1` or begins shortly after it."""
    return event.start < stop + GRACE and event.stop > start


def _overlaps(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]], rows: int) -> tuple[bool, ...]:
    """Return for each half-open run whether it overlaps any of the others."""
    covered = np.zeros(rows, dtype=bool)
    for start, stop in others:
        covered[start:stop] = True
    before = np.concatenate([[0], np.cumsum(covered)])
    return tuple(bool(before[min(stop, rows)] > before[start]) for start, stop in some)


def _as_labels(labels: ArrayLike, rows: int) -> BoolArray:
    values = np.asarray(labels)
    if values.shape != (rows,):
        raise InputError(f"labels have shape {values.shape}, the detection {rows:,} rows; one label per row is needed")
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InputError("labels hold something other than 0 and 1; give 1 where a row is anomalous and 0 elsewhere")
    return values.astype(bool)

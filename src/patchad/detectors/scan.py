"""Scan: the events of a series of which nothing is known to be normal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from patchad.alarms.sensors import SensorRules
from patchad.data.series import Prepared, Series
from patchad.data.stages import Scored
from patchad.data.switches import Switches
from patchad.data.table import FloatArray, Table, is_list_of_series, to_table
from patchad.detectors.base import Detector
from patchad.detectors.listing import list_events
from patchad.detectors.patchad import PatchAD
from patchad.detectors.preparing import MIN_ROWS
from patchad.detectors.reading import read
from patchad.errors import InputError
from patchad.results.detection import Detection
from patchad.results.expectations import Expectations
from patchad.thresholds.promise import Promise

GUARD_SHARE = 0.25
"""Most rows between a fold and the rows learned from, as a share of the fold."""
WARM_UP = 240
"""Rows that are learned from before the first is judged, where only the past counts."""
TRIMMED = 0.02
"""Share of the held-out scores, the highest, that the level is not learned from: some of them belong to faults."""


def scan(X: Any, detector: Detector | None = None, *, folds: int = 3, past_only: bool = False) -> Any:
    """Find the strangest events of a series of which nothing is known to be normal.

    The series is cut into folds. Each is judged by a detector that learned from the others, a window away from it, so
    no row is judged by what learned from it. Scores are brought to one scale: 0 is the median held-out score of the
    detector, 1 its level.

    With `past_only` it is judged as it came, without any train: the first 240 rows warm up and are not judged; what
    follows is judged by a detector that learned from all rows before, anew whenever their number has doubled.

    Parameters
    ----------
    X
        One series, or a list of series, each of which is judged by itself.
    detector
        What to fit; it is not changed. By default `PatchAD()`.
    folds
        Folds, 2 or more; a short series has fewer.
    past_only
        Whether a row is judged by rows before it only.

    Returns
    -------
    A `Detection`, or a list of them for a list.

    Examples
    --------
    >>> import numpy as np
    >>> from patchad import make, scan
    >>> rows = np.sin(np.arange(3000) / 5)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(3000, 2))
    >>> rows[2000:2030, 1] += 2
    >>> worst = max(scan(rows, make("sub_knn", window=30)).events, key=lambda event: event.severity)
    >>> worst.start, worst.channels[0][0]
    (2000, 'channel_1')
    """
    if folds < 2:
        raise InputError(f"folds={folds} is too small; at least 2 are needed, so that each is judged by another")
    if is_list_of_series(X):
        return [scan(item, detector, folds=folds, past_only=past_only) for item in X]
    template = PatchAD() if detector is None else detector
    raw = to_table(X, unread=template.ignore)
    switches, notes = Switches.learn([raw])  # of the whole: a state that a fold never had is no other channel
    table = switches.encode(raw)
    if past_only:
        warming = f"warming up: the first {WARM_UP} rows are not judged"
        return _detection(table, _as_it_came(template, table), (*notes, warming))
    judges = [_judge(template, table, rows) for rows in _cut(len(table.values), folds)]
    return _detection(table, judges, notes)


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """A detector, and the rows that it judges because it did not learn from them."""

    rows: slice
    detector: Detector
    scored: Scored
    """Of its rows: scores in levels over normal, local scores in edges over normal."""


def _cut(length: int, folds: int) -> list[slice]:
    """Cut a series into folds; as many as leave enough rows beside each, and 2 at least."""
    folds = max(min(folds, length // (3 * MIN_ROWS)), 2)
    edges = np.linspace(0, length, folds + 1).round().astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


def _as_it_came(template: Detector, table: Table) -> list[_Judge]:
    """Judge each stretch of rows by all rows before it; the stretches double."""
    length = len(table.values)
    if length <= WARM_UP:
        raise InputError(
            f"the series has {length} rows, too few to judge what comes by what came; over {WARM_UP} are needed"
        )
    edges = [WARM_UP * 2**n for n in range(length.bit_length()) if WARM_UP * 2**n < length]
    judges = [_judge(template, table, slice(a, b), past_only=True) for a, b in pairwise([*edges, length])]
    first = judges[0]
    zeros, none = np.zeros(WARM_UP), np.zeros((WARM_UP, len(first.detector.channels_)))
    local, unadapted = (None if own is None else zeros for own in (first.scored.local, first.scored.unadapted))
    warm = Scored.join([Scored(zeros, none, local, unadapted), first.scored])
    return [_Judge(slice(0, first.rows.stop), first.detector, warm), *judges[1:]]


def _judge(template: Detector, table: Table, rows: slice, *, past_only: bool = False) -> _Judge:
    """Fit on what lies around a fold, or before it, and score the fold."""
    detector: Detector = clone(template)
    length = len(table.values)
    guard = min(detector._window(), round(GUARD_SHARE * (rows.stop - rows.start)))
    around = [slice(0, max(rows.start - guard, 0)), slice(min(rows.stop + guard, length), length)]
    if past_only:
        around = [slice(0, rows.start)]
    train = [table.take(part) for part in around if part.stop - part.start >= MIN_ROWS]
    if not train:
        raise InputError(
            f"the series has {length} rows, too few to judge one part by another; at least {3 * MIN_ROWS} are needed"
        )
    _trim(detector.fit(train))
    # Rows before the fold say what was usual there; their own scores are not used.
    first = 0 if detector.context is None else max(rows.start - detector.context, 0)
    last = min(rows.stop + detector.delay, length)
    known = read(detector, table.take(slice(first, last)))
    scored = detector._score_all(known.prepared, explain=True, since=known.since)
    own = _in_levels(detector, scored)[slice(rows.start - first, rows.stop - first)]
    return _Judge(rows, detector, own)


def _trim(detector: Detector) -> None:
    """Learn the level that keeps a promise without the highest held-out scores; others are as they were asked for."""
    if not isinstance(detector.threshold_, Promise):
        return
    known = detector.held_out_scores_
    detector.held_out_scores_ = np.where(known > np.nanquantile(known, 1 - TRIMMED), np.nan, known)
    detector.set_threshold(detector.threshold)


def _in_levels(detector: Detector, scored: Scored) -> Scored:
    """Bring scores to the scale that all folds share: 0 is normal, 1 the level; for local scores, an edge."""
    base, edge = detector.alarm_rules_.base, detector.alarm_rules_.edge
    least = 1e-9 * max(abs(base), 1.0)  # a constant series has no spread
    high = np.maximum(detector.threshold_.levels(scored.scores) - base, least)
    local = None if scored.local is None else (scored.local - base) / max(edge - base, least)
    unadapted = None if scored.unadapted is None else (scored.unadapted - base) / high
    return Scored((scored.scores - base) / high, scored.attribution, local, unadapted)


def _detection(table: Table, judges: Sequence[_Judge], notes: Sequence[str]) -> Detection:
    """Find the events of all folds together."""
    last = judges[-1].detector
    known = read(last, table)
    prepared = known.prepared
    scored = Scored.join([judge.scored for judge in judges])
    sensors = _narrowest([judge.detector.alarm_rules_.sensors for judge in judges])
    last.alarm_rules_ = replace(last.alarm_rules_, base=0.0, edge=1.0, sensors=sensors)  # of the scale of all folds
    levels = np.ones(len(table.values))
    events, alarms = list_events(last, known, scored, levels, ())
    expected = Expectations(partial(_expected_rows, judges, prepared), prepared, events)
    fitted = [f"in fold {n}: {note}" for n, judge in enumerate(judges, start=1) for note in judge.detector.fit_notes_]
    return Detection(
        scores=scored.scores,
        levels=levels,
        alarms=alarms,
        events=tuple(event.in_zone(table.zone) for event in events),
        channels=last.channels_,
        index=table.times,
        contributions=np.asarray(scored.attribution),
        notes=(*notes, *prepared.notes, *fitted),
        observed=table if last.named_ else replace(table, channels=None),
        expected=expected,
    )


def _narrowest(rules: Sequence[SensorRules]) -> SensorRules:
    """Return the limits that are narrowest in any fold: those of a fold that did not see a fault."""
    return SensorRules(
        freeze=np.min([one.freeze for one in rules], axis=0),
        silence=np.min([one.silence for one in rules], axis=0),
        low=np.max([one.low for one in rules], axis=0),
        high=np.min([one.high for one in rules], axis=0),
    )


def _expected_rows(
    judges: Sequence[_Judge], prepared: Prepared, series: Series, rows: slice
) -> tuple[FloatArray, FloatArray] | None:
    """Ask the detector that judges these rows of a segment what it expected there."""
    numbers = next(own for segment, own in zip(prepared.segments, prepared.rows, strict=True) if segment is series)
    middle = int(numbers[(rows.start + rows.stop - 1) // 2])
    judge = next(judge for judge in judges if judge.rows.start <= middle < judge.rows.stop)
    return judge.detector._expected_rows(series, rows)

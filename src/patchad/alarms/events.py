"""Events: alarms that belong together, with their peak, severity and attribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.severity import Yardstick
from patchad.data.table import BoolArray, FloatArray
from patchad.results.detection import Event, alarm_runs


def find_events(
    scores: FloatArray,
    levels: FloatArray,
    alarms: BoolArray,
    contributions: FloatArray,
    channels: tuple[str, ...],
    yardstick: Yardstick,
    *,
    index: NDArray[np.generic] | None = None,
    min_duration: int = 1,
    merge_gap: int = 0,
) -> tuple[Event, ...]:
    """Turn alarms into events.

    Runs of alarms at most `merge_gap` rows apart become one event; events under `min_duration` rows are left out. A
    channel's share is its mean contribution over the alarms, weighted by how far the score is over the level.

    Examples
    --------
    >>> scores = np.array([0.0, 3.0, 5.0, 0.0])
    >>> shares = np.array([[0.2, 0.8]] * 4)
    >>> events = find_events(scores, np.ones(4), scores > 1, shares, ("flow", "heat"), Yardstick(0, 1))
    >>> [(event.start, event.stop, event.peak, event.channels[0][0]) for event in events]
    [(1, 3, 2, 'heat')]
    """
    events = []
    for start, stop in alarm_runs(alarms, merge_gap):
        if stop - start < min_duration:
            continue
        rows = np.arange(start, stop)[alarms[start:stop]]
        peak = int(rows[np.argmax(scores[rows])])
        weights = scores[rows] - levels[rows]
        shares = weights @ contributions[rows]
        shares = shares / shares.sum() if shares.sum() > 0 else shares
        order = np.argsort(-shares, kind="stable")
        events.append(
            Event(
                start=int(start),
                stop=int(stop),
                peak=peak,
                peak_score=float(scores[peak]),
                severity=yardstick.severity(float(scores[peak])),
                channels=tuple((channels[i], float(shares[i])) for i in order if shares[i] > 0),
                start_time=None if index is None else index[start],
                stop_time=None if index is None else index[stop - 1],
            )
        )
    return tuple(events)

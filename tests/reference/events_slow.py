"""Events by their definition: every row of a segment at once, without regimes and repeats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchad.alarms.edges import CLOSING, SHARPNESS, STEPS
from patchad.alarms.listing import EXPLAINED
from patchad.data.stages import Scored


@dataclass(frozen=True)
class SlowEvent:
    rows: tuple[int, int]
    peak: int
    peak_score: float
    attribution: list[float]


def slow_events(
    rows: Scored,
    levels: np.ndarray,
    muted: np.ndarray,
    explained: np.ndarray,
    *,
    base: float,
    edge: float,
    merge_gap: int,
    min_duration: int,
) -> list[SlowEvent]:
    """List the events of a segment.

    Rows over the level are joined to an event if the pauses between them, counted in rows that do not sustain it, are
    at most `merge_gap` long. A row that is neither over the level nor unusual sustains it only before the first one
    that is unusual.
    """
    scores, local, unadapted, shares = rows.scores, rows.local, rows.unadapted, rows.attribution
    assert local is not None
    assert unadapted is not None
    assert shares is not None
    closing = base + CLOSING * (levels - base)
    over = (scores > levels) & ~muted
    active = (scores > closing) & ~muted
    sustained = active | ((unadapted > closing) & ~muted)
    heights = np.floor(STEPS * np.log2(np.maximum(local - base, 1e-9) / (edge - base)))
    found, begin = [], 0
    while over[begin:].any():
        opened = begin + int(np.flatnonzero(over[begin:])[0])
        first = opened
        while first > begin and active[first - 1]:
            first -= 1
        noted = any(local[row] > edge for row in range(first, opened + 1))
        own = []
        for row in range(opened, len(scores)):
            noted = noted or (sustained[row] and local[row] > edge)
            if sustained[row] and (over[row] or local[row] > edge or not noted):
                own.append(row)
        pauses = np.diff(own) - 1
        too_long = np.flatnonzero(pauses > merge_gap)
        own = own[: too_long[0] + 1] if len(too_long) else own
        begin = own[-1] + merge_gap + 2  # the event closes one row after the longest pause
        high = [row for row in range(opened, own[-1] + 1) if over[row]]
        unusual = [row for row in [*range(first, opened), *own] if local[row] > edge]
        highest = max(heights[unusual], default=0.0)
        sharp = [row for row in unusual if heights[row] >= SHARPNESS * highest] or [opened, high[-1]]
        peak = max(high, key=lambda row: (scores[row], -row))
        if sharp[-1] + 1 - sharp[0] >= min_duration and sum(explained[own]) <= EXPLAINED * len(own):
            weights = sum((scores[row] - levels[row]) * shares[row] for row in high)
            found.append(SlowEvent((sharp[0], sharp[-1] + 1), peak, float(scores[peak]), list(np.asarray(weights))))
    return found

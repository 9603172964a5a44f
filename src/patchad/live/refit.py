"""Refit: a new model from the stored rows of a state, without those of events."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from patchad.alarms.feedback import Judgement
from patchad.alarms.likeness import Likeness
from patchad.errors import InputError
from patchad.live.history import Rows
from patchad.live.records import LIVING, Records
from patchad.live.takeover import frame_of

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

logger = logging.getLogger(__name__)

MARGIN = 30
"""Rows before and after an event that are left out too, at least; else a window."""
LEAST = 200
"""Rows in one piece that are needed, at least; else so many that the window need not shrink."""


@dataclass(frozen=True, slots=True)
class Refitted:
    """A new model, and what it was made of."""

    detector: Detector
    rows: int
    pieces: int
    streams: int
    left_out: int
    """Rows in and around events."""


def refit(detector: Detector, records: Records) -> Refitted:
    """Fit a model with the same parameters to stored rows.

    Rows of events, and a window before and after them, are left out, unless the event was accepted; each piece between
    is a series. What was accepted or confirmed stays.
    """
    window = int(getattr(detector, "window", 1))
    needed = max(math.ceil(2 * window / (1 - detector.calibration)), LEAST)
    margin = max(window, MARGIN)
    pieces: list[Any] = []
    streams = stored = rows = longest = 0
    keys = records.keys()
    for key in keys:
        kept = records.rows(key)
        stored += len(kept)
        own = [piece for piece in _pieces(kept, _strange(key, kept, records, margin)) if len(piece) >= margin]
        pieces += [frame_of(piece, detector) for piece in own]
        streams += bool(own)
        rows += sum(map(len, own))
        longest = max([longest, *map(len, own)])
    if longest < needed:
        raise InputError(
            f"{stored:,} rows are stored, and the longest piece without events has {longest:,}; {needed:,} are needed; "
            "watch for longer, keep rows for longer ([retention] in patchad.toml), or accept events that were normal"
        )
    fresh = clone(detector).fit(pieces)
    fresh.feedback_ = _kept_feedback(detector, fresh)
    return Refitted(fresh, rows, len(pieces), streams, stored - rows)


def _strange(key: Any, rows: Rows, records: Records, margin: int) -> Iterator[tuple[int, int]]:
    """Return the numbers of rows, half open, that lie in events or beside them."""
    accepted = {one.event for one in records.remarks() if one.kind == "accept" and one.key == key}
    for event in records.events(key):
        if event["state"] != "withdrawn" and event["id"] not in accepted:
            last = int(rows.index[-1]) + 1 if len(rows) and event["state"] in LIVING else event["stop"]
            yield event["start"] - margin, last + margin


def _pieces(rows: Rows, strange: Iterator[tuple[int, int]]) -> list[Rows]:
    """Cut rows where some are strange, or none are kept."""
    good = np.ones(len(rows), dtype=bool)
    for start, stop in strange:
        good &= (rows.index < start) | (rows.index >= stop)
    places = np.flatnonzero(good)
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(rows.index[places]) > 1) + 1
    return [rows.take(part) for part in np.split(places, breaks)]


def _kept_feedback(before: Detector, after: Detector) -> tuple[Judgement, ...]:
    """Return what was said of rows, brought to the scales of another fit."""
    if before.feedback_ and before.channels_ != after.channels_:
        logger.warning("what was accepted or confirmed is not kept: the new model has other channels")
        return ()
    return tuple(_rescaled(one, before.likeness_, after.likeness_) for one in before.feedback_)


def _rescaled(judgement: Judgement, before: Likeness, after: Likeness) -> Judgement:
    patterns = []
    for pattern in judgement.patterns:
        measured = pattern.values.astype(np.float64) * before.spread + before.centre
        patterns.append(replace(pattern, values=after.scaled(measured).astype(pattern.values.dtype)))
    return replace(judgement, patterns=tuple(patterns))

"""Verdict: what is said of one row of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from patchad.data.table import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """The score of a row, the level that it is held to, and whether the row alarms."""

    index: int
    """Number of the row, counted from the first that was pushed."""
    score: float
    """Higher is stranger; NaN where the row could not be scored."""
    level: float
    alarm: bool
    """Whether the row lies in a listed event, as `Detection.alarms` says."""
    contributions: FloatArray
    """(channel,), shares of the blame in the order of the channels; they sum to 1, or to 0 if nothing is to blame."""

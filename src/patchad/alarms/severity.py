"""Severity: how much an event matters, from 0 to 100, in units that were calibrated on train."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, log2

HALF = 3.0
"""Doublings that bring the severity halfway from where it is to 100."""
SHORT = 10
"""Rows that count as a short event."""


def severity(excess: float, rows: int, shares: Sequence[float]) -> float:
    """Rate an event by how far it is over the level, how long it lasts, and how many channels it has.

    A doubling of the peak's distance from normal counts one; a doubling of the length (beyond a short event) or of the
    channels that share the blame counts a half. Three such doublings halve what is left to 100.

    Parameters
    ----------
    excess
        Distance of the peak from the median held-out score, in distances of the level.
    rows
        Rows of the event.
    shares
        Shares of the blame of its channels, summing to one.

    Examples
    --------
    >>> [round(severity(excess, 1, [1.0])) for excess in (1, 2, 8, 64)]  # a blip, by its height
    [2, 22, 51, 75]
    >>> [round(severity(4, rows, [1.0])) for rows in (1, 30, 1000)]  # by its length
    [38, 50, 71]
    >>> round(severity(4, 30, [0.25] * 4))  # four channels
    60
    """
    doublings = log2(max(excess, 1.0)) + log2(1 + rows / SHORT) / 2 + log2(_effective(shares)) / 2
    return round(100 * (1 - 2 ** (-doublings / HALF)), 6)


def _effective(shares: Sequence[float]) -> float:
    """Return the effective number of channels: the exponential of the entropy of their shares."""
    return exp(-sum(share * log(share) for share in shares if share > 0)) if shares else 1.0

"""eTaPR, enhanced time-series-aware precision and recall (Hwang et al., SAC 2022), without the matrix of all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import FloatArray, IntArray, labels_and_alarms, need_anomaly, share
from patchad.metrics.intervals import intervals, overlaps
from patchad.metrics.return_types import PrecisionRecallF1, harmonic


def etapr(*, labels: ArrayLike, alarms: ArrayLike, theta_p: float = 0.5, theta_r: float = 0.1) -> PrecisionRecallF1:
    """Return precision and recall of alarm runs and events that overlap sufficiently.

    An event with less than the share ``theta_r`` covered counts as missed, and an alarm run with less than the share
    ``theta_p`` anomalous as false; their overlaps are then removed from their partners, until nothing changes. The rest
    earn half for being sufficient and half for the share covered. Alarm runs are weighted by the square root of their
    length. All values are 0 without alarms.

    Parameters
    ----------
    labels, alarms
        Ground truth and decisions, one per point.
    theta_p, theta_r
        Shares required of a correct alarm run and of a detected event. The paper's ambiguous range after an event is
        empty here (its ratio delta is 0).

    Raises
    ------
    MetricError
        The labels are all normal.

    Examples
    --------
    >>> etapr(labels=[0, 1, 1, 1, 1, 0], alarms=[0, 0, 1, 1, 0, 0])
    PrecisionRecallF1(precision=1.0, recall=0.75, f1=0.8571428571428571)
    """
    truth, raised = labels_and_alarms(labels, alarms)
    need_anomaly(truth, "etapr")
    least_p, least_r = share(theta_p, "theta_p"), share(theta_r, "theta_r")
    if not raised.any():
        return PrecisionRecallF1(0.0, 0.0, 0.0)
    events, runs = intervals(truth), intervals(raised)
    pairs = overlaps(truth, raised, events, runs)
    found = _Side(pairs.events, pairs.lengths, events.lengths, least_r)
    right = _Side(pairs.alarms, pairs.lengths, runs.lengths, least_p)
    _prune(pairs.lengths, found, right)
    recall = float(np.mean(found.earned()))
    precision = float(np.average(right.earned(), weights=np.sqrt(runs.lengths)))
    return PrecisionRecallF1(precision, recall, harmonic(precision, recall))


class _Side:
    """Events or alarm runs: how much of each is covered, and how much must be."""

    def __init__(self, owners: IntArray, shared: IntArray, lengths: IntArray, least: float) -> None:
        self.owners = owners  # (pair,), sorted: the pairs of a member are adjacent
        self.lengths = lengths  # (member,)
        self.least = least
        self.covered: FloatArray = np.bincount(owners, weights=shared, minlength=lengths.size).astype(np.float64)

    def earned(self) -> FloatArray:
        """Return the reward of each: half for being sufficient, half for the share covered."""
        part = self.covered / self.lengths
        return np.where(part >= self.least, (1.0 + part) / 2.0, 0.0)

    def insufficient(self) -> IntArray:
        """Return the members that are covered, but insufficiently."""
        return np.flatnonzero((self.covered > 0) & (self.covered / self.lengths < self.least))

    def pairs(self, member: int) -> range:
        """Return the indices of a member's pairs."""
        first, stop = np.searchsorted(self.owners, [member, member + 1])
        return range(first, stop)

    def lose(self, member: int, points: int) -> bool:
        """Remove points from a member; return whether it keeps some, but too few."""
        self.covered[member] -= points
        left = self.covered[member]
        return bool(left > 0 and left / self.lengths[member] < self.least)


def _prune(shared: IntArray, found: _Side, right: _Side) -> None:
    """Remove all pairs with an insufficient member, in place.

    Removing a pair only lowers other shares, so the order does not matter. The pairs form chains along time, and one
    insufficient member can undo a whole chain link by link; a worklist of members keeps that linear.
    """
    gone = np.zeros(shared.size, np.bool_)
    waiting = [(side, int(member)) for side in (found, right) for member in side.insufficient()]
    while waiting:
        side, member = waiting.pop()
        other = right if side is found else found
        for pair in side.pairs(member):
            if not gone[pair]:
                gone[pair] = True
                side.lose(member, shared[pair])
                partner = int(other.owners[pair])
                if other.lose(partner, shared[pair]):
                    waiting.append((other, partner))

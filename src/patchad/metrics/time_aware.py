"""eTaPR, enhanced time-series-aware precision and recall (Hwang et al., SAC 2022), without its matrix of all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from patchad.metrics.checks import FloatArray, IntArray, labels_and_alarms, need_anomaly, share
from patchad.metrics.intervals import intervals, overlaps
from patchad.metrics.return_types import PrecisionRecallF1, harmonic


def etapr(*, labels: ArrayLike, alarms: ArrayLike, theta_p: float = 0.5, theta_r: float = 0.1) -> PrecisionRecallF1:
    """Precision and recall of events that were found, and of alarm runs that are right, to a sufficient part.

    An event of which less than ``theta_r`` is covered counts as not found, and an alarm run less than ``theta_p`` of
    which is anomalous as wrong; what such a one overlaps is taken away from its partners, until nothing changes.
    Those left earn half for being left and half for the share covered. Alarm runs weigh as the root of their length.
    All zero without alarms.

    Parameters
    ----------
    labels, alarms
        Ground truth and decisions, one per point.
    theta_p, theta_r
        The shares that make an alarm run right and an event found. The range after an event that the paper calls
        ambiguous is empty here (its ratio delta is 0).

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
    """Events, or alarm runs: how much of each lies in pairs, and how much has to."""

    def __init__(self, owners: IntArray, shared: IntArray, lengths: IntArray, least: float) -> None:
        self.owners = owners  # (pair,), sorted: the pairs of a member are neighbours
        self.lengths = lengths  # (member,)
        self.least = least
        self.covered: FloatArray = np.bincount(owners, weights=shared, minlength=lengths.size).astype(np.float64)

    def earned(self) -> FloatArray:
        """Half for being sufficient, half for the share covered."""
        part = self.covered / self.lengths
        return np.where(part >= self.least, (1.0 + part) / 2.0, 0.0)

    def insufficient(self) -> IntArray:
        """Members that are covered, but by too little."""
        return np.flatnonzero((self.covered > 0) & (self.covered / self.lengths < self.least))

    def pairs(self, member: int) -> range:
        """Numbers of a member's pairs."""
        first, stop = np.searchsorted(self.owners, [member, member + 1])
        return range(first, stop)

    def lose(self, member: int, points: int) -> bool:
        """Take points from a member; true if it is thereby left with some, but too few."""
        self.covered[member] -= points
        left = self.covered[member]
        return bool(left > 0 and left / self.lengths[member] < self.least)


def _prune(shared: IntArray, found: _Side, right: _Side) -> None:
    """Take away all pairs with an insufficient member, in place.

    Taking a pair away only lowers the shares of others, so the order does not matter. The pairs form chains along
    time, and one insufficient member can undo a whole chain link by link; a list of members still to be looked at
    keeps that linear.
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

"""Promise: the level that keeps a promised rate of false events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray
from patchad.thresholds.base import Threshold, finite, require
from patchad.thresholds.pareto import cluster_maxima, fit_pareto

PROMISE_ROWS = 10_000
"""Rows that a promised number of false events refers to: a week of minutes."""
TAILS = (0.1, 0.05, 0.02, 0.01)
"""Shares of the scores that may make the tail: the one with most clusters does. Where scores hardly depend on the rows
before, a tenth of them leaves no pause for a cluster to end in."""
MIN_CLUSTERS = 10
"""Clusters below which a level is called extrapolated."""
PRIOR_SCALE = 0.68
"""Mean excess of clusters over the start of the tail, in distances of that start from the median: on fault-free
generated series of five kinds it lies between 0.58 and 0.84."""
PRIOR_CLUSTERS = 10
"""Clusters that the prior counts for."""
PRIOR_SHAPE = 0.15
"""Shape of the tail where clusters do not tell: rare events are somewhat higher than an exponential tail has them."""
SHAPE_CLUSTERS = 30
"""Clusters that this counts for."""
MAX_SHAPE = 0.25
"""Heaviest tail, and lightest: heavier ones put the level out of reach."""
SHORT_ROWS = 500
"""Held-out rows that show hardly anything of how normal operation varies: there the level is twice as high over the
median, and more below."""
SHORT_POWER = 2
MAX_FACTOR = 4.0
RESAMPLES = 200
CONFIDENCE = 0.9
"""One-sided confidence that the rate of events stays under the promise."""
RECENT_ROWS = 2_000
"""Rows of a stream that show whether it is like what was held out."""
NEWEST_ROWS = 240
"""Newest rows that are left out of them: a fault that grows must not raise the level that it is to reach."""
FEWEST_SCORES = 500
"""Scores under the level that these rows need to have, to show anything."""
UNLIKE = 2.0
"""Start of the upper tenth of recent scores, in that of held-out ones over the median, from which on they are unlike:
then what was held out does not say how high normal scores are."""
RAISED = 1.4
"""How much further from the median the level is while they are."""
LOOK_EVERY = 100
"""Rows between two looks at the recent scores."""


@dataclass
class Promise(Threshold):
    """The lowest level at which an upper confidence bound of the rate of false events keeps the promise.

    Neighbouring rows rise together, so the unit is the cluster: rows over the start of the tail that lie at most `gap`
    rows apart, in one block. The maxima of the clusters follow a generalised Pareto distribution; with their number it
    gives the rate of events over any level. The bound comes from resampling the clusters. A few clusters say little
    about a tail, so their mean is drawn towards what is usual; and a few rows say little about how normal operation
    varies, so the level is higher where few were held out.

    Nor does any of it say much of a plant that has changed since. Along a stream, the level is raised for as long as
    the scores under it are clearly higher than the held-out ones were.
    """

    false_alarms: float = 1.0
    """Expected false events per 10,000 normal rows."""
    gap: int = 60
    """Rows under the start of the tail that end a cluster."""

    def __post_init__(self) -> None:
        require(
            0 < self.false_alarms <= 10_000,
            f"false_alarms={self.false_alarms} is out of range; it is a number of events per 10,000 rows, "
            "over 0 and at most 10,000",
        )

    def fit(self, calibration: FloatArray) -> Self:
        """Fit the tail of held-out scores.

        Examples
        --------
        >>> scores = np.random.default_rng(0).exponential(size=20_000)
        >>> often, seldom = (Promise(rate, gap=5).fit(scores).level for rate in (10.0, 0.5))
        >>> bool(5 < often < seldom < 15)
        True
        """
        known = finite(calibration)
        median, lowest, *higher = np.quantile(known, [0.5, *(1 - tail for tail in TAILS)])
        clear = np.where(np.isfinite(calibration), calibration, np.nan)
        tails = {start: cluster_maxima(clear, float(start), self.gap) for start in (lowest, *higher)}
        start = max(tails, key=lambda one: len(tails[one]))
        excess = tails[start] - start
        self.rows, self.clusters = len(known), len(excess)
        allowed = self.false_alarms / PROMISE_ROWS * self.rows
        prior = PRIOR_CLUSTERS * PRIOR_SCALE * (lowest - median)
        random = np.random.default_rng(0)
        counts = np.maximum(random.poisson(self.clusters, RESAMPLES), 1)
        drawn = random.choice(excess, counts.sum())  # at once: calls cost more than draws
        sums = np.array([part.sum() for part in np.split(drawn, np.cumsum(counts)[:-1])])
        scales = (sums + prior) / (counts + PRIOR_CLUSTERS)
        levels = start + _excess(scales, self._shape(excess), np.minimum(allowed / counts, 1.0))
        factor = min(1 + (SHORT_ROWS / self.rows) ** SHORT_POWER, MAX_FACTOR)
        self.median, self.high = float(median), float(lowest)
        self.usual = float(median + factor * (np.quantile(levels, CONFIDENCE) - median))
        self.level, self._seen, self._recent = self.usual, 0, np.empty(0)
        return self

    def step(self, score: float) -> float:
        """Return the level for this score; then see whether it is to be raised."""
        return float(self.advance(np.array([score]))[0])

    def advance(self, scores: FloatArray) -> FloatArray:
        """Return the level for each of the next scores; raise it for as long as what lies under it is unlike train.

        Examples
        --------
        >>> scores = np.random.default_rng(0).exponential(size=20_000)
        >>> promise = Promise(gap=5).fit(scores)
        >>> bool(promise.advance(scores).max() == promise.usual < promise.advance(2 * scores[:5_000]).max())
        True
        """
        levels, row = np.empty(len(scores)), 0
        while row < len(scores):
            stop = min(row + LOOK_EVERY - self._seen % LOOK_EVERY, len(scores))
            levels[row:stop] = self.level
            new = np.asarray(scores[row:stop], dtype=np.float64)
            known = np.where(new <= self.usual, new, np.nan)  # what alarms says nothing of what is normal
            self._recent = np.concatenate([self._recent, known])[-(RECENT_ROWS + NEWEST_ROWS) :]
            self._seen += stop - row
            if self._seen % LOOK_EVERY == 0:
                factor = RAISED if self._is_unlike() else 1.0
                self.level = self.median + factor * (self.usual - self.median)
            row = stop
        return levels

    def _is_unlike(self) -> bool:
        """Return whether recent scores under the level are clearly higher than held-out ones were."""
        known = self._recent[:-NEWEST_ROWS]
        known = known[~np.isnan(known)]
        if len(known) < FEWEST_SCORES:
            return False
        return bool(np.quantile(known, 1 - TAILS[0]) - self.median > UNLIKE * (self.high - self.median))

    @staticmethod
    def _shape(excess: FloatArray) -> float:
        """Fit the shape of the tail, drawn towards what is usual; a lighter one than exponential is taken for that."""
        if len(excess) < MIN_CLUSTERS:
            return PRIOR_SHAPE
        fitted = float(np.clip(fit_pareto(excess)[0], -MAX_SHAPE, MAX_SHAPE))
        return max((len(excess) * fitted + SHAPE_CLUSTERS * PRIOR_SHAPE) / (len(excess) + SHAPE_CLUSTERS), 0.0)

    @property
    def basis(self) -> Literal["measured", "extrapolated"]:
        """Whether the level rests on enough clusters."""
        return "measured" if self.clusters >= MIN_CLUSTERS else "extrapolated"


def _excess(mean: FloatArray, shape: float, ratio: FloatArray) -> FloatArray:
    """Return what a share of clusters exceeds: quantiles of Pareto distributions with these means."""
    if shape < 1e-8:
        return np.asarray(-mean * np.log(ratio))
    return np.asarray(mean * (1 - shape) / shape * (ratio**-shape - 1))


PERIODS = {"hour": 3_600.0, "day": 86_400.0, "week": 604_800.0, "month": 2_629_800.0, "year": 31_557_600.0}
"""Seconds of the periods that a rate can be given in."""


def parse_rate(text: str, indexes: Sequence[NDArray[np.generic] | None]) -> float:
    """Read a rate of false events: a number per 10,000 rows, or a number in a period of time.

    Parameters
    ----------
    text
        As in `1.5` or `2/week`.
    indexes
        Times of the data, whose usual step turns a period into rows.

    Examples
    --------
    >>> minutes = np.arange(100).astype("datetime64[m]")
    >>> parse_rate("3", []), round(parse_rate("2/week", [minutes]), 3)
    (3.0, 1.984)
    """
    number, slash, period = text.partition("/")
    try:
        rate = float(number)
    except ValueError:
        rate = np.nan
    require(
        np.isfinite(rate) and rate > 0 and (not slash or period in PERIODS),
        f"false alarms {text!r} cannot be read; give a number over 0 per 10,000 rows, or one in a period, as 2/week "
        f"({', '.join(PERIODS)})",
    )
    if not slash:
        return rate
    steps = [np.diff(index) for index in indexes if index is not None and index.dtype.kind in "mM" and len(index) > 1]
    require(len(steps) > 0, f"false alarms {text!r} need times, and the data has none; give a number per 10,000 rows")
    seconds = float(np.median(np.concatenate(steps).astype("timedelta64[ns]").astype(np.int64))) / 1e9
    return rate * PROMISE_ROWS * seconds / PERIODS[period]

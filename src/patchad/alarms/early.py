"""Early scores: what a row's score is worth while only some of the windows that will cover it have done so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray
from patchad.thresholds.promise import Promise


@dataclass(frozen=True, slots=True, eq=False)
class EarlyRules:
    """How early scores compare with final ones, by the age of a row: the windows that have covered it so far.

    A score by a few windows varies more than the mean of all, so that each age has a scale of its own. And a row is
    judged at every age, where once is enough to be suspected. In these scales a normal row is over the level at any age
    as seldom as its final score is: the promise of false events holds for what is suspected too.
    """

    base: float
    """Median held-out score, final."""
    centers: FloatArray
    """(age,), median held-out score at each age."""
    scales: FloatArray
    """(age,), what a distance from it is worth as a distance of final scores from their median."""

    @classmethod
    def fit(cls, blocks: Sequence[FloatArray], gap: int) -> Self:
        """Learn from the scores of held-out rows at each age, `(age, time)` in each block; the last age is final.

        `gap` is how many rows are between two events.

        Examples
        --------
        >>> noise = np.random.default_rng(0).normal(size=(4, 5000))
        >>> rules = EarlyRules.fit([np.cumsum(noise, axis=0) / np.arange(1, 5)[:, None]], gap=5)
        >>> rules.of(np.array([2.0, 2.0]), np.array([1, 3])).round().tolist()  # one window says less than three
        [1.0, 2.0]
        """
        joined = np.concatenate([np.pad(block, ((0, 0), (0, 1)), constant_values=np.nan) for block in blocks], axis=1)
        centers = np.nanmedian(joined, axis=1)
        base, tiny = float(centers[-1]), 1e-9 * max(float(np.abs(centers).max()), 1.0)
        distance = joined - centers[:, None]
        reach = np.array([_reach(one, gap) for one in distance])
        scales = np.where(reach > tiny, reach[-1] / np.maximum(reach, tiny), 1.0)[:-1]
        once = _reach((distance[:-1] * scales[:, None]).max(axis=0), gap)
        together = reach[-1] / once if min(once, reach[-1]) > tiny else 1.0
        return cls(base, centers[:-1], scales * min(together, 1.0))

    @property
    def ages(self) -> int:
        """Ages at which a score is not final."""
        return len(self.centers)

    def of(self, scores: FloatArray, ages: NDArray[np.integer]) -> FloatArray:
        """Return early scores of rows of these ages in the scale of final ones."""
        place = np.minimum(ages, self.ages) - 1
        return np.asarray(self.base + (scores - self.centers[place]) * self.scales[place])

    def raw(self, level: float, age: int) -> float:
        """Return a level of final scores in the scale of the scores of this age."""
        place = min(age, self.ages) - 1
        return float(self.centers[place] + (level - self.base) / self.scales[place])

    def is_sound(self) -> bool:
        """Return whether the arrays fit each other; a scale of 0 is that of final scores that never vary.

        Examples
        --------
        >>> still = np.stack([np.random.default_rng(0).normal(size=500), np.zeros(500)])
        >>> rules = EarlyRules.fit([still], gap=5)
        >>> rules.scales.tolist(), rules.is_sound()
        ([0.0], True)
        """
        return self.ages > 0 and self.centers.shape == self.scales.shape and bool((self.scales >= 0).all())


def _reach(distance: FloatArray, gap: int) -> float:
    """Return the distance that keeps one false event in 10,000 rows."""
    return Promise(gap=gap).fit(distance).level

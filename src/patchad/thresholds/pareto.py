"""The tail of scores: declustered maxima, and the generalised Pareto distribution that they follow."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from patchad.data.table import FloatArray


def cluster_maxima(scores: FloatArray, start: float, apart: int) -> FloatArray:
    """Return the highest score of each cluster over a start; clusters are more than `apart` rows, or a NaN, apart.

    Examples
    --------
    >>> cluster_maxima(np.array([0.0, 2.0, 3.0, 0.0, 2.5, 0.0, 0.0, 4.0]), 1.0, apart=2).tolist()
    [3.0, 4.0]
    """
    over = np.flatnonzero(scores > start)
    if len(over) == 0:
        return np.array([np.nanmax(scores)])
    blocks = np.cumsum(np.isnan(scores))[over]
    first = np.concatenate([[0], np.flatnonzero((np.diff(over) > apart) | (np.diff(blocks) > 0)) + 1])
    return np.maximum.reduceat(scores[over], first)


def fit_pareto(excess: FloatArray) -> tuple[float, float]:
    """Fit a generalised Pareto distribution, with its location at zero, by maximum likelihood.

    The likelihood is profiled: for a given theta = shape / scale the best shape is the mean of log(1 + theta y), which
    leaves one number to search (Grimshaw 1993). Shapes under -1/2, where the likelihood has no regular maximum, are
    left out.

    Parameters
    ----------
    excess
        `(peak,)`, how far each peak is over the threshold; not negative.

    Returns
    -------
    Shape and scale.

    Examples
    --------
    >>> shape, scale = fit_pareto(np.random.default_rng(0).exponential(2.0, 5000))
    >>> abs(shape) < 0.05, abs(scale - 2) < 0.1
    (True, True)
    """
    mean = float(np.mean(excess))
    tiny = float(np.finfo(np.float64).tiny) ** 0.5
    if mean <= tiny or np.ptp(excess) <= 1e-12 * mean:
        return 0.0, max(mean, tiny)
    y = np.asarray(excess, dtype=np.float64) / mean

    def cost(theta: float) -> float:
        if abs(theta) < 1e-9:
            return 1.0  # the exponential distribution
        shape = float(np.mean(np.log1p(theta * y)))
        return 1e6 if shape < -0.5 else float(np.log(shape / theta)) + shape + 1

    lowest = -(1 - 1e-9) / float(y.max())
    grid = np.concatenate([lowest * np.geomspace(1, 1e-3, 12), np.geomspace(1e-3, 1e3, 20)])
    costs = [cost(theta) for theta in grid]
    best = int(np.argmin(costs))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        cost, bounds=(left, right), method="bounded", options={"xatol": 1e-7 * max(abs(left), abs(right))}
    )
    theta = float(found.x) if found.fun < costs[best] else float(grid[best])
    if cost(theta) >= 1.0:
        return 0.0, mean
    shape = float(np.mean(np.log1p(theta * y)))
    return shape, shape / theta * mean

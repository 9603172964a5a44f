"""Windows as a tensor: a window is anomalous where its weights on the tensor's components are far from all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans

from patchad.data.table import FloatArray
from patchad.data.windows import Fold
from patchad.detectors.windowed import WindowDetector


@dataclass(kw_only=True, eq=False, repr=False)
class ITAD(WindowDetector):
    """Distance of a window's weights on tensor components to the nearest cluster of train weights.

    Shin et al., "ITAD: Integrative Tensor-based Anomaly Detection System for Reducing False Positives of Satellite
    Systems" (2020): windows, steps and channels make a third-order tensor; its CANDECOMP/PARAFAC decomposition, by
    alternating least squares, gives each window its weights on a few components; these are clustered, and the distance
    to the nearest centre is the score. The paper integrates several such tensors, of the satellite's subsystems; here
    there is one of all channels. New windows are projected on the components by least squares. The paper's sizes are
    for its telemetry, so those here are ours.

    Parameters
    ----------
    rank
        Components of the tensor.
    clusters
        Of the windows' weights.
    windows
        Most train windows in the tensor.
    sweeps
        Iterations of alternating least squares.
    """

    name = "itad"
    learned: ClassVar[Mapping[str, Any] | None] = {
        "projection_": np.ndarray,
        "spread_": np.ndarray,
        "centres_": np.ndarray,
    }

    window: int = 30
    fold: Fold = "mean"
    rank: int = 10
    clusters: int = 10
    windows: int = 2000
    sweeps: int = 30

    @property
    def n_parameters_(self) -> int:
        """Values of the projection and of the centres."""
        return int(self.projection_.size + self.centres_.size)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        tensor = self._scaled_windows(known, self.windows).astype(np.float64)
        seed = self._seed()
        steps, channels = cp_factors(tensor, self.rank, self.sweeps, np.random.default_rng(seed))
        self.projection_ = np.linalg.pinv(_khatri_rao(steps, channels)).T  # (step x channel, rank)
        weights = tensor.reshape(len(tensor), -1) @ self.projection_
        self.spread_ = np.maximum(weights.std(axis=0), 1e-6)
        weights /= self.spread_
        count = min(self.clusters, len(np.unique(weights, axis=0)))
        self.centres_ = KMeans(count, n_init=3, random_state=seed).fit(weights).cluster_centers_

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:  # noqa: ARG002 - weights belong to a whole window
        weights = windows.reshape(len(windows), -1) @ self.projection_ / self.spread_
        distances = np.linalg.norm(weights[:, None] - self.centres_, axis=2)
        return distances.min(axis=1, keepdims=True), None


def _khatri_rao(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the Khatri-Rao product `(i x j, rank)` of two factors: the products of all pairs of their rows."""
    return np.asarray((left[:, None] * right).reshape(-1, left.shape[1]))


def cp_factors(
    tensor: FloatArray, rank: int, sweeps: int, random: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Decompose `(window, step, channel)` by alternating least squares; return the factors of steps and channels.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> factors = [random.normal(size=(size, 2)) for size in (40, 6, 3)]
    >>> tensor = np.einsum("wr,sr,cr->wsc", *factors)
    >>> components = _khatri_rao(*cp_factors(tensor, 2, 200, random))
    >>> flat = tensor.reshape(40, -1)
    >>> bool(np.allclose(flat @ np.linalg.pinv(components).T @ components.T, flat, atol=1e-3))
    True
    """
    factors = [random.normal(size=(size, rank)) for size in tensor.shape]
    for _ in range(sweeps):
        for mode in range(3):
            one, two = (factors[other] for other in range(3) if other != mode)
            matrix = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
            gram = (one.T @ one) * (two.T @ two)
            ridge = 1e-9 * np.trace(gram) + 1e-12  # a constant channel, or more components than the data has
            solved = np.linalg.solve(gram + ridge * np.eye(rank), (matrix @ _khatri_rao(one, two)).T).T
            scale = np.linalg.norm(solved, axis=0) if mode else np.ones(rank)  # the factor of windows keeps the scale
            factors[mode] = solved / np.maximum(scale, 1e-12)
    return factors[1], factors[2]

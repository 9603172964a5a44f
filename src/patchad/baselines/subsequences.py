"""Classical methods on windows of the series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.decomposition import PCA

from patchad.containers import FloatArray
from patchad.windowed import WindowDetector
from patchad.windows import Fold

LEARNED_VALUES = 20_000_000
"""Values at most of all the windows that are learned from."""


@dataclass(kw_only=True, eq=False, repr=False)
class SubPCA(WindowDetector):
    """Distance of a window to the plane of the main directions of train windows.

    The univariate method of TSB-AD (Liu and Paparrizos, "The Elephant in the Room", 2024); a multivariate window is
    laid out as one long vector. Directions are kept until they hold `explained` of the variance; TSB-AD weighs all of
    them by their eigenvalues instead.

    Parameters
    ----------
    explained
        Share of the variance that counts as normal movement.
    """

    name = "sub_pca"
    kept: ClassVar[tuple[str, ...]] = ("mean_", "directions_")

    window: int = 50
    fold: Fold = "mean"
    explained: float = 0.9

    @property
    def n_parameters_(self) -> int:
        """Directions and mean."""
        return int(self.directions_.size + self.mean_.size)

    def _learn(self, known: Sequence[FloatArray], unseen: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        windows = self._scaled_windows(known, LEARNED_VALUES // (self.window_ * len(self.channels_)))
        flat = windows.reshape(len(windows), -1)
        found = PCA(random_state=self._seed()).fit(flat)
        directions = int(np.searchsorted(np.cumsum(found.explained_variance_ratio_), self.explained)) + 1
        self.mean_, self.directions_ = found.mean_, found.components_[:directions]

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        flat = windows.reshape(len(windows), -1) - self.mean_
        errors = np.square(flat - flat @ self.directions_.T @ self.directions_).reshape(windows.shape)[:, -steps:]
        return errors.mean(axis=2), errors if explain else None

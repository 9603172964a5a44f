"""Classical methods on windows of the series."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from patchad.data.table import FloatArray
from patchad.data.windows import Fold, views
from patchad.detectors.windowed import WindowDetector

LEARNED_VALUES = 20_000_000
"""Values at most of all the windows that are learned from."""
STILL = 1e-6
"""Deviation of a z-scored window, under which it counts as not moving: what float32 leaves of a constant."""


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
    learned: ClassVar[Mapping[str, Any] | None] = {"mean_": np.ndarray, "directions_": np.ndarray}

    window: int = 50
    fold: Fold = "mean"
    explained: float = 0.9

    @property
    def n_parameters_(self) -> int:
        """Directions and mean."""
        return int(self.directions_.size + self.mean_.size)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        windows = self._scaled_windows(known, LEARNED_VALUES // (self.window_ * len(self.channels_)))
        flat = windows.reshape(len(windows), -1)
        found = PCA(random_state=self._seed()).fit(flat)
        directions = int(np.searchsorted(np.cumsum(found.explained_variance_ratio_), self.explained)) + 1
        self.mean_ = found.mean_
        self.directions_ = np.ascontiguousarray(found.components_[:directions])  # as a file restores them

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        flat = windows.reshape(len(windows), -1) - self.mean_
        errors = np.square(flat - flat @ self.directions_.T @ self.directions_).reshape(windows.shape)[:, -steps:]
        return errors.mean(axis=2), errors if explain else None


@dataclass(kw_only=True, eq=False, repr=False)
class FlatDetector(WindowDetector):
    """A detector to which a window is one long vector; one score stands for all rows of the window.

    Parameters
    ----------
    max_windows
        Windows of train, evenly taken, that are learned from at most; fewer where windows are large.
    """

    window: int = 50
    fold: Fold = "mean"
    max_windows: int = 10_000

    @abstractmethod
    def _learn_flat(self, flat: FloatArray) -> None:
        """Learn from scaled windows `(b, t * c)`."""

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        most = min(self.max_windows, LEARNED_VALUES // (self.window_ * len(self.channels_)))
        windows = self._scaled_windows(known, most)
        self._learn_flat(windows.reshape(len(windows), -1))


# -- an estimator over windows ----------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class FlatModel(FlatDetector):
    """A detector around an estimator, by default one of scikit-learn, that is fitted to windows."""

    learned: ClassVar[Mapping[str, Any] | None] = None

    @abstractmethod
    def _new(self, windows: int, values: int, seed: int) -> Any:
        """Make the estimator for so many windows of so many values."""

    def _learn_flat(self, flat: FloatArray) -> None:
        self.model_ = self._new(len(flat), flat.shape[1], self._seed()).fit(flat)

    def _strangeness(self, flat: FloatArray) -> FloatArray:
        """Score scaled windows `(b, t * c)`: `(b,)`."""
        return np.asarray(-self.model_.score_samples(flat))

    def _batch(self) -> int:
        return 1024  # every call of an estimator has its own cost

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - one score for all
        *,
        explain: bool,  # noqa: ARG002 - it does not tell channels apart
    ) -> tuple[FloatArray, FloatArray | None]:
        return self._strangeness(windows.reshape(len(windows), -1)).astype(np.float64)[:, None], None


@dataclass(kw_only=True, eq=False, repr=False)
class SubOCSVM(FlatModel):
    """How far a window lies outside the smooth boundary around the windows of train.

    Schölkopf et al., "Estimating the Support of a High-Dimensional Distribution" (2001), by scikit-learn, on
    subsequences as in Lai et al., "Revisiting Time Series Outlier Detection: Definitions and Benchmarks" (2021). The
    kernel is scikit-learn's radial one with its width; `nu`, the window and the number of windows are ours. The score
    has a ceiling: all windows far from every window of train have the same.

    Parameters
    ----------
    nu
        Share of train windows that may lie outside, at most.
    """

    name = "ocsvm_sub"

    max_windows: int = 2_000
    nu: float = 0.1

    def _new(self, windows: int, values: int, seed: int) -> OneClassSVM:  # noqa: ARG002 - the same for any size
        return OneClassSVM(nu=self.nu)


@dataclass(kw_only=True, eq=False, repr=False)
class SubIForest(FlatModel):
    """How few random cuts it takes to set a window apart from windows of train.

    Liu et al., "Isolation Forest" (2008), by scikit-learn, with the paper's 100 trees of 256 samples each, on
    subsequences as in Lai et al., "Revisiting Time Series Outlier Detection: Definitions and Benchmarks" (2021). The
    window is ours.

    Parameters
    ----------
    trees
        Trees of the forest; each is grown on 256 windows, or on all if there are fewer.
    """

    name = "iforest_sub"

    trees: int = 100

    def _new(self, windows: int, values: int, seed: int) -> IsolationForest:  # noqa: ARG002 - the same for any size
        return IsolationForest(n_estimators=self.trees, random_state=seed)


# -- windows held against windows -------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class ReferenceDetector(FlatDetector):
    """A detector that holds a window against reference windows; the nearest of them says which channels differ."""

    learned: ClassVar[Mapping[str, Any] | None] = {"references_": np.ndarray}

    @property
    def n_parameters_(self) -> int:
        """The references."""
        return int(self.references_.size)

    def _rank(self) -> int:
        """Say the distance to which reference is the score: 1 is the nearest."""
        return 1

    def _batch(self) -> int:
        return 512

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - one score for all
        *,
        explain: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        flat = windows.reshape(len(windows), -1)
        near = closeness(flat, self.references_)
        counted = np.argpartition(near, -self._rank(), axis=1)[:, -self._rank()]
        scores = np.sqrt(np.square(flat - self.references_[counted]).sum(axis=1, dtype=np.float64))[:, None]
        if not explain:
            return scores, None
        nearest = self.references_[near.argmax(axis=1)].reshape(windows.shape)
        return scores, np.square(windows - nearest).mean(axis=1, keepdims=True)


@dataclass(kw_only=True, eq=False, repr=False)
class SubKNN(ReferenceDetector):
    """Distance of a window to the k-th nearest window of train.

    Ramaswamy et al., "Efficient Algorithms for Mining Outliers from Large Data Sets" (2000), on subsequences, as in
    TSB-AD (Liu and Paparrizos, "The Elephant in the Room", 2024), whose number of neighbours it has; but neighbours are
    looked for in train, never in the series that is scored. The search is exact over the windows learned from, which
    are thinned to `max_windows` for the budget. The window is ours.

    Parameters
    ----------
    neighbours
        Which of the nearest windows counts.
    """

    name = "sub_knn"

    neighbours: int = 10

    def _rank(self) -> int:
        return min(self.neighbours, len(self.references_))

    def _learn_flat(self, flat: FloatArray) -> None:
        self.references_ = flat


@dataclass(kw_only=True, eq=False, repr=False)
class KMeansAD(ReferenceDetector):
    """Distance of a window to the nearest centre of the clusters of train windows.

    Yairi et al., "Fault Detection by Mining Association Rules from House-Keeping Data" (2001), in the form that
    Schmidl et al., "Anomaly Detection in Time Series: A Comprehensive Evaluation" (2022), compared, with their window
    and number of clusters. Clusters are found by scikit-learn from one start.

    Parameters
    ----------
    clusters
        Number of centres.
    """

    name = "kmeans_ad"

    window: int = 20
    clusters: int = 20

    def _learn_flat(self, flat: FloatArray) -> None:
        found = KMeans(min(self.clusters, len(flat)), n_init=1, random_state=self._seed())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different windows than clusters: no harm
            self.references_ = found.fit(flat).cluster_centers_


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixProfile(WindowDetector):
    """Distance of the shape of a window to the nearest shape in train; level and size do not count.

    Yeh et al., "Matrix Profile I: All Pairs Similarity Joins for Time Series" (2016): the AB-join of the series with
    train, where windows are z-normalised each by itself. Every channel has its own nearest window, and the score is the
    mean of the channels' distances; the multidimensional profile of Yeh et al. (2017), which asks for one moment that
    fits several channels, is another thing. It is computed by matrix products, window by window against all of train:
    as exact as the diagonal algorithms, and a window's distance can depend on nothing but itself and train. A window
    that does not move is at distance 0 from others like it and at the root of its length from all else, as in stumpy.
    The window is ours.

    Parameters
    ----------
    max_windows
        Windows of train, the newest, that are held against; for the budget.
    """

    name = "matrix_profile"
    learned: ClassVar[Mapping[str, Any] | None] = {"rows_": np.ndarray, "starts_": np.ndarray}

    window: int = 50
    fold: Fold = "mean"
    max_windows: int = 30_000

    @property
    def n_parameters_(self) -> int:
        """The rows of train that are kept."""
        return int(self.rows_.size)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - nothing to stop
        firsts = np.cumsum([0, *(len(values) for values in known)])[:-1]
        starts = [first + np.arange(len(v) - self.window_ + 1) for first, v in zip(firsts, known, strict=True)]
        newest = np.concatenate(starts)[-self.max_windows :]
        self.rows_ = np.concatenate([self.scaler_(values) for values in known])[newest[0] :]
        self.starts_ = newest - newest[0]

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - one score for all
        *,
        explain: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        distances = np.empty((len(windows), windows.shape[2]))
        for channel in range(windows.shape[2]):
            references = _shapes(views(self.rows_[:, [channel]], self.window_)[self.starts_, :, 0])
            for part in np.array_split(np.arange(len(windows)), -(-len(windows) // 256)):
                shapes = _shapes(windows[part, :, channel])
                nearest = references[closeness(shapes, references).argmax(axis=1)]
                distances[part, channel] = np.sqrt(np.square(shapes - nearest).sum(axis=1, dtype=np.float64))
        return distances.mean(axis=1, keepdims=True), distances[:, None] if explain else None

    def _batch(self) -> int:
        return max(256, 8_000_000 // (self.window_ * len(self.channels_)))  # the shapes of train are made once for all


def closeness(flat: FloatArray, references: FloatArray) -> FloatArray:
    """Give `(b, n)` numbers that fall as the distance from `(b, d)` to references `(n, d)` grows.

    They tell near from far fast, by one matrix product, but lose digits that the distance itself has.

    Examples
    --------
    >>> closeness(np.array([[0.9], [5.0]]), np.array([[0.0], [1.0], [4.0]])).argmax(axis=1).tolist()
    [1, 2]
    """
    near: FloatArray = flat @ references.T
    near -= np.einsum("nd,nd->n", references, references) / 2
    return near


def _shapes(windows: FloatArray) -> FloatArray:
    """Give windows `(b, t)` with mean 0 and deviation 1; one that does not move is 0."""
    centred = windows - windows.mean(axis=1, keepdims=True, dtype=np.float64)
    deviations = centred.std(axis=1, keepdims=True)
    moves = deviations > STILL
    return np.where(moves, centred / np.where(moves, deviations, 1.0), 0.0).astype(np.float32)

"""Classical outlier detectors on subsequences: flattened windows of the series."""

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

from patchad.data.table import BoolArray, FloatArray
from patchad.data.windows import Fold, views
from patchad.detectors.reading import read
from patchad.detectors.windowed import WindowDetector

LEARNED_VALUES = 20_000_000
"""Most values of all train windows used together."""
CONSTANT = 1e-6
"""Standard deviation of a z-scored window below which it counts as constant: rounding in float32."""


@dataclass(kw_only=True, eq=False, repr=False)
class SubPCA(WindowDetector):
    """Squared distance of a window to the span of the principal components of train windows.

    The univariate method of TSB-AD (Liu and Paparrizos, "The Elephant in the Room", 2024); a multivariate window is
    flattened to one vector. The leading components that explain `explained` of the variance are kept; TSB-AD weighs
    all of them by their eigenvalues instead.

    Parameters
    ----------
    explained
        Share of the variance that counts as normal variation.
    """

    name = "sub_pca"
    learned: ClassVar[Mapping[str, Any] | None] = {"mean_": np.ndarray, "components_": np.ndarray}

    window: int = 50
    fold: Fold = "mean"
    explained: float = 0.9

    @property
    def n_parameters_(self) -> int:
        """Components and mean."""
        return int(self.components_.size + self.mean_.size)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - all at once
        windows = self._scaled_windows(known, LEARNED_VALUES // (self.window_ * len(self.channels_)))
        flat = windows.reshape(len(windows), -1)
        pca = PCA(random_state=self._seed()).fit(flat)
        count = int(np.searchsorted(np.cumsum(pca.explained_variance_ratio_), self.explained)) + 1
        self.mean_ = pca.mean_
        self.components_ = np.ascontiguousarray(pca.components_[:count])  # as a file restores them

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        flat = windows.reshape(len(windows), -1) - self.mean_
        errors = np.square(flat - flat @ self.components_.T @ self.components_).reshape(windows.shape)[:, -steps:]
        return errors.mean(axis=2), errors if explain else None


@dataclass(kw_only=True, eq=False, repr=False)
class FlatDetector(WindowDetector):
    """A detector of flattened windows; one score stands for all rows of a window.

    Parameters
    ----------
    max_windows
        Most train windows to learn from, evenly spaced; fewer where windows are large.
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
    """A detector around an estimator, by default of scikit-learn, that is fitted to flattened windows."""

    learned: ClassVar[Mapping[str, Any] | None] = None

    @abstractmethod
    def _new_model(self, windows: int, values: int, seed: int) -> Any:
        """Build the estimator for this many windows of this many values."""

    def _learn_flat(self, flat: FloatArray) -> None:
        self.model_ = self._new_model(len(flat), flat.shape[1], self._seed()).fit(flat)

    def _score_flat(self, flat: FloatArray) -> FloatArray:
        """Score scaled windows `(b, t * c)`: `(b,)`."""
        return np.asarray(-self.model_.score_samples(flat))

    def _batch(self) -> int:
        return 1024  # every call of an estimator has a fixed cost

    def _judge(
        self,
        windows: FloatArray,
        steps: int,  # noqa: ARG002 - one score for all
        *,
        explain: bool,  # noqa: ARG002 - channels cannot be told apart
    ) -> tuple[FloatArray, FloatArray | None]:
        return self._score_flat(windows.reshape(len(windows), -1)).astype(np.float64)[:, None], None


@dataclass(kw_only=True, eq=False, repr=False)
class SubOCSVM(FlatModel):
    """Distance of a window outside the one-class SVM boundary around the windows of train.

    Schölkopf et al., "Estimating the Support of a High-Dimensional Distribution" (2001), by scikit-learn, on
    subsequences as in Lai et al., "Revisiting Time Series Outlier Detection: Definitions and Benchmarks" (2021). The
    kernel is scikit-learn's radial one with its width; `nu`, the window and the number of windows are ours. The score
    has a ceiling: all windows far from every window of train have the same.

    Parameters
    ----------
    nu
        Largest share of train windows that may lie outside.
    """

    name = "ocsvm_sub"

    max_windows: int = 2_000
    nu: float = 0.1

    def _new_model(self, windows: int, values: int, seed: int) -> OneClassSVM:  # noqa: ARG002 - the same for any size
        model = OneClassSVM(nu=self.nu)
        model.random_state = 0  # it draws a number that it does not use, from the global generator if there is no other
        return model


@dataclass(kw_only=True, eq=False, repr=False)
class SubIForest(FlatModel):
    """How few random splits isolate a window from the windows of train.

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

    def _new_model(self, windows: int, values: int, seed: int) -> IsolationForest:  # noqa: ARG002 - the same for any size
        return IsolationForest(n_estimators=self.trees, random_state=seed)


# -- windows compared with windows ------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class ReferenceDetector(FlatDetector):
    """A detector that compares a window with references; attribution is the difference to the nearest of them."""

    learned: ClassVar[Mapping[str, Any] | None] = {"references_": np.ndarray}

    @property
    def n_parameters_(self) -> int:
        """Values of the references."""
        return int(self.references_.size)

    def _rank(self) -> int:
        """Return which reference counts for the score: 1 is the nearest."""
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
        close = closeness(flat, self.references_)
        ranked = np.argpartition(close, -self._rank(), axis=1)[:, -self._rank()]
        scores = np.sqrt(np.square(flat - self.references_[ranked]).sum(axis=1, dtype=np.float64))[:, None]
        if not explain:
            return scores, None
        nearest = self.references_[close.argmax(axis=1)].reshape(windows.shape)
        return scores, np.square(windows - nearest).mean(axis=1, keepdims=True)


@dataclass(kw_only=True, eq=False, repr=False)
class SubKNN(ReferenceDetector):
    """Distance of a window to its k-th nearest neighbour among the windows of train.

    Ramaswamy et al., "Efficient Algorithms for Mining Outliers from Large Data Sets" (2000), on subsequences, as in
    TSB-AD (Liu and Paparrizos, "The Elephant in the Room", 2024), with its number of neighbours; but neighbours come
    from train only, never from the scored series. The search is exact over the train windows used, which are thinned
    to `max_windows` for the budget. The window is ours.

    Parameters
    ----------
    neighbours
        Rank k of the neighbour whose distance is the score.
    """

    name = "sub_knn"

    neighbours: int = 10

    def _rank(self) -> int:
        return min(self.neighbours, len(self.references_))

    def _learn_flat(self, flat: FloatArray) -> None:
        self.references_ = flat


@dataclass(kw_only=True, eq=False, repr=False)
class KMeansAD(ReferenceDetector):
    """Distance of a window to the nearest k-means centre of the train windows.

    Yairi et al., "Fault Detection by Mining Association Rules from House-Keeping Data" (2001), in the form that
    Schmidl et al., "Anomaly Detection in Time Series: A Comprehensive Evaluation" (2022), compared, with their window
    and number of clusters. Clustering is scikit-learn's, from one initialisation.

    Parameters
    ----------
    clusters
        Number of centres.
    """

    name = "kmeans_ad"

    window: int = 20
    clusters: int = 20

    def _learn_flat(self, flat: FloatArray) -> None:
        clustering = KMeans(min(self.clusters, len(flat)), n_init=1, random_state=self._seed())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct windows than clusters is harmless
            self.references_ = clustering.fit(flat).cluster_centers_


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixProfile(WindowDetector):
    """Distance of a window's z-normalised shape to the nearest in train, channel by channel.

    Yeh et al., "Matrix Profile I: All Pairs Similarity Joins for Time Series" (2016): the AB-join of the series with
    train, where each window is z-normalised by itself, so that level and scale are ignored. Every channel has its own
    nearest window, and the score is the mean of the channels' distances; the multidimensional profile of Yeh et al.
    (2017), which looks for one time that fits several channels, is a different method. It is computed by matrix
    products, window by window against all of train: as exact as the diagonal algorithms, and a window's distance
    depends only on itself and train. A constant window is at distance 0 from other constant ones and at the square
    root of its length from all others, as in stumpy; it is compared with none of them, which saves most of the work on
    telemetry, and `pairs` counts the comparisons that are left. The window is ours.

    Parameters
    ----------
    max_windows
        Train windows to compare with, the newest ones; limited for the budget.
    """

    name = "matrix_profile"
    learned: ClassVar[Mapping[str, Any] | None] = {"rows_": np.ndarray, "starts_": np.ndarray}

    window: int = 50
    fold: Fold = "mean"
    max_windows: int = 30_000

    @property
    def n_parameters_(self) -> int:
        """Values of the stored rows of train."""
        return int(self.rows_.size)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002 - no early stopping
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
            references, still = self._references(channel)
            shapes = _shapes(windows[:, :, channel])
            varies = shapes.any(axis=1)
            distances[~varies, channel] = 0.0 if still else np.sqrt(self.window_)
            for part in np.array_split(np.flatnonzero(varies), -(-int(varies.sum()) // 256) or 1):
                nearest = references[closeness(shapes[part], references).argmax(axis=1)]
                distances[part, channel] = np.sqrt(np.square(shapes[part] - nearest).sum(axis=1, dtype=np.float64))
        return distances.mean(axis=1, keepdims=True), distances[:, None] if explain else None

    def _references(self, channel: int) -> tuple[FloatArray, bool]:
        """Return the shapes of the windows of train, of all constant ones only one; and whether there are such."""
        rows = self.rows_[:, [channel]]
        moved = self.starts_[_moves(rows, self.window_)[self.starts_, 0]]
        shapes = _shapes(views(rows, self.window_)[moved, :, 0])
        varies = shapes.any(axis=1)
        still = len(moved) < len(self.starts_) or not varies.all()
        return np.concatenate([shapes[varies], np.zeros((int(still), self.window_), np.float32)]), still

    def pairs(self, X: Any) -> int:
        """Count the pairs of windows that scoring a series compares, which is what it costs; nothing is compared.

        One core compares some 300 million pairs of the usual window in a second.
        """
        known = _moves(self.rows_, self.window_)[self.starts_].sum(axis=0)
        segments = (part.values for part in read(self, X).prepared.segments if len(part) >= self.window_)
        return sum(int(_moves(self.scaler_(values), self.window_).sum(axis=0) @ known) for values in segments)

    def _batch(self) -> int:
        return max(
            256, 8_000_000 // (self.window_ * len(self.channels_))
        )  # the shapes of train are computed once per call


def closeness(flat: FloatArray, references: FloatArray) -> FloatArray:
    """Return `(b, n)` numbers that fall as the distance from `(b, d)` to references `(n, d)` grows.

    One matrix product ranks references fast, but less precisely than the distances themselves.

    Examples
    --------
    >>> closeness(np.array([[0.9], [5.0]]), np.array([[0.0], [1.0], [4.0]])).argmax(axis=1).tolist()
    [1, 2]
    """
    close: FloatArray = flat @ references.T
    close -= np.einsum("nd,nd->n", references, references) / 2
    return close


def _moves(rows: FloatArray, window: int) -> BoolArray:
    """Return whether any value changes inside each window of these rows, `(window, c)`.

    Examples
    --------
    >>> _moves(np.array([[1.0], [1.0], [1.0], [2.0]]), 3).ravel().tolist()
    [False, True]
    """
    changes = np.cumsum(np.concatenate([np.zeros((1, rows.shape[1]), bool), rows[1:] != rows[:-1]]), axis=0)
    moved: BoolArray = changes[window - 1 :] > changes[: len(changes) - window + 1]
    return moved


def _shapes(windows: FloatArray) -> FloatArray:
    """Return windows `(b, t)` scaled to mean 0 and standard deviation 1; constant ones become 0."""
    centred = windows - windows.mean(axis=1, keepdims=True, dtype=np.float64)
    deviations = centred.std(axis=1, keepdims=True)
    varies = deviations > CONSTANT
    return np.where(varies, centred / np.where(varies, deviations, 1.0), 0.0).astype(np.float32)

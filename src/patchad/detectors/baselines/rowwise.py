"""Classical outlier detectors on single rows, without the rows around them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from patchad.data.table import FloatArray
from patchad.detectors.rows import RowDetector


@dataclass(kw_only=True, eq=False, repr=False)
class RowModel(RowDetector):
    """A detector around a scikit-learn estimator that is fitted to rows.

    Parameters
    ----------
    max_rows
        Most rows of train to learn from, evenly spaced.
    """

    learned: ClassVar[Mapping[str, Any] | None] = None

    max_rows: int = 10_000

    @abstractmethod
    def _new_model(self, rows: int) -> Any:
        """Build the estimator for this many rows; its `score_samples` is high for normal ones."""

    def _learn(self, rows: FloatArray) -> None:
        sample = self._sample(rows, self.max_rows)
        self.model_ = self._new_model(len(sample)).fit(sample)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:  # noqa: ARG002
        return -self.model_.score_samples(rows), None


@dataclass(kw_only=True, eq=False, repr=False)
class LOF(RowModel):
    """Local outlier factor: how much sparser train is around a row than around its nearest neighbours.

    Breunig et al., "LOF: Identifying Density-Based Local Outliers" (2000), by scikit-learn, where new rows are compared
    with train and not with each other. The number of neighbours is scikit-learn's default, which lies in the range that
    the paper advises; train is thinned to `max_rows` for the budget.

    Parameters
    ----------
    neighbours
        Rows of train that form the neighbourhood of a row.
    """

    name = "lof"

    max_rows: int = 5_000
    neighbours: int = 20

    def _new_model(self, rows: int) -> LocalOutlierFactor:
        return LocalOutlierFactor(n_neighbors=min(self.neighbours, rows - 1), novelty=True)


@dataclass(kw_only=True, eq=False, repr=False)
class OCSVM(RowModel):
    """Distance of a row outside the one-class SVM boundary around the rows of train.

    Schölkopf et al., "Estimating the Support of a High-Dimensional Distribution" (2001), by scikit-learn with its
    radial kernel and width. `nu` is ours: train is assumed normal here, while scikit-learn's default of 0.5 would put
    half of it outside. The score has a ceiling: all rows far from every row of train have the same.

    Parameters
    ----------
    nu
        Largest share of train that may lie outside.
    """

    name = "ocsvm"

    max_rows: int = 3_000
    nu: float = 0.1

    def _new_model(self, rows: int) -> OneClassSVM:  # noqa: ARG002 - the same for any number
        model = OneClassSVM(nu=self.nu)
        model.random_state = 0  # it draws a number that it does not use, from the global generator if there is no other
        return model


@dataclass(kw_only=True, eq=False, repr=False)
class IForest(RowModel):
    """How few random splits isolate a row from the rows of train.

    Liu et al., "Isolation Forest" (2008), by scikit-learn, with the paper's 100 trees of 256 rows each.

    Parameters
    ----------
    trees
        Trees of the forest; each is grown on 256 rows, or on all if there are fewer.
    """

    name = "iforest"

    trees: int = 100

    def _new_model(self, rows: int) -> IsolationForest:  # noqa: ARG002 - the same for any number
        return IsolationForest(n_estimators=self.trees, random_state=self._seed())


@dataclass(kw_only=True, eq=False, repr=False)
class RowPCA(RowDetector):
    """Squared distance of a row to the span of the principal components of train: broken correlations.

    The residual of Jackson and Mudholkar, "Control Procedures for Residuals Associated with Principal Component
    Analysis" (1979); the mean over channels is the score. At least one component is left out, or nothing would remain:
    of one channel, the residual is the squared z-score.

    Parameters
    ----------
    explained
        Share of the variance that counts as normal variation; the value is ours.
    """

    name = "pca"
    learned: ClassVar[Mapping[str, Any] | None] = {"mean_": np.ndarray, "components_": np.ndarray}

    explained: float = 0.9

    @property
    def n_parameters_(self) -> int:
        """Components and mean."""
        return int(self.components_.size + self.mean_.size)

    def _learn(self, rows: FloatArray) -> None:
        variances, components = np.linalg.eigh(np.atleast_2d(np.cov(rows, rowvar=False)))  # smallest first
        cumulative = np.cumsum(variances[::-1])
        count = min(int(np.searchsorted(cumulative, self.explained * cumulative[-1])) + 1, rows.shape[1] - 1)
        self.mean_ = rows.mean(axis=0, dtype=np.float64)
        self.components_ = np.ascontiguousarray(components[:, ::-1].T[:count])

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        centred = rows - self.mean_
        errors = np.square(centred - centred @ self.components_.T @ self.components_)
        return errors.mean(axis=1, dtype=np.float64), errors if explain else None

"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.forecast import CNN
from patchad.baselines.pyod_methods import AutoEncoder, DeepIF, DeepSVDD
from patchad.baselines.random import RandomScore
from patchad.baselines.regressions import GBRT, VAR, Autoregression
from patchad.baselines.rowwise import LOF, OCSVM, IForest, RowPCA
from patchad.baselines.simple import LastDifference, MovingZScore, SensorRange
from patchad.baselines.subsequences import KMeansAD, MatrixProfile, SubIForest, SubKNN, SubOCSVM, SubPCA
from patchad.detector import Detector

BASELINES: Mapping[str, type[Detector]] = {
    "random": RandomScore,
    "last_difference": LastDifference,
    "sensor_range": SensorRange,
    "moving_zscore": MovingZScore,
    "lof": LOF,
    "ocsvm": OCSVM,
    "iforest": IForest,
    "pca": RowPCA,
    "sub_pca": SubPCA,
    "ocsvm_sub": SubOCSVM,
    "iforest_sub": SubIForest,
    "sub_knn": SubKNN,
    "kmeans_ad": KMeansAD,
    "matrix_profile": MatrixProfile,
    "var": VAR,
    "autoregression": Autoregression,
    "gbrt": GBRT,
    "deep_svdd": DeepSVDD,
    "autoencoder": AutoEncoder,
    "deep_if": DeepIF,
    "cnn": CNN,
}

"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.attention import AnomalyTransformer, DCdetector
from patchad.baselines.contrastive import NCAD, PaAno, TSCP2
from patchad.baselines.forecast import CNN
from patchad.baselines.hypersphere import COUTA, THOC
from patchad.baselines.pyod_methods import AutoEncoder, DeepIF, DeepSVDD
from patchad.baselines.random import RandomScore
from patchad.baselines.regressions import Autoregression, GBRT, VAR
from patchad.baselines.rowwise import IForest, LOF, OCSVM, RowPCA
from patchad.baselines.segmentation import BOCPD, UTime
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
    "ocsvm_sub": SubOCSVM,
    "iforest": IForest,
    "iforest_sub": SubIForest,
    "pca": RowPCA,
    "sub_pca": SubPCA,
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
    "thoc": THOC,
    "anomaly_transformer": AnomalyTransformer,
    "dcdetector": DCdetector,
    "ncad": NCAD,
    "couta": COUTA,
    "bocpd": BOCPD,
    "u_time": UTime,
    "ts_cp2": TSCP2,
    "paano": PaAno,
}

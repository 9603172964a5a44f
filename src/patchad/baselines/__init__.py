"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.attention import AnomalyTransformer, DCdetector
from patchad.baselines.contrastive import NCAD, TSCP2, PaAno
from patchad.baselines.forecast import CNN
from patchad.baselines.hypersphere import COUTA, THOC
from patchad.baselines.random import RandomScore
from patchad.baselines.segmentation import BOCPD, UTime
from patchad.baselines.simple import LastDifference, SensorRange
from patchad.baselines.subsequences import SubPCA
from patchad.detector import Detector

BASELINES: Mapping[str, type[Detector]] = {
    "random": RandomScore,
    "last_difference": LastDifference,
    "sensor_range": SensorRange,
    "sub_pca": SubPCA,
    "cnn": CNN,
    "anomaly_transformer": AnomalyTransformer,
    "dcdetector": DCdetector,
    "ncad": NCAD,
    "couta": COUTA,
    "ts_cp2": TSCP2,
    "thoc": THOC,
    "paano": PaAno,
    "u_time": UTime,
    "bocpd": BOCPD,
}

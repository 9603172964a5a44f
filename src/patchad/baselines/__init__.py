"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.forecast import CNN
from patchad.baselines.memory import AdaMemBLS
from patchad.baselines.nominality import NPSRPoint, NPSRSequence
from patchad.baselines.probabilistic import CLMPPCA, MMPCACD
from patchad.baselines.random import RandomScore
from patchad.baselines.simple import LastDifference, SensorRange
from patchad.baselines.subsequences import SubPCA
from patchad.detector import Detector

BASELINES: Mapping[str, type[Detector]] = {
    "random": RandomScore,
    "last_difference": LastDifference,
    "sensor_range": SensorRange,
    "sub_pca": SubPCA,
    "cnn": CNN,
    "npsr_pt": NPSRPoint,
    "npsr_seq": NPSRSequence,
    "adamembls": AdaMemBLS,
    "mmpcacd": MMPCACD,
    "cl_mppca": CLMPPCA,
}

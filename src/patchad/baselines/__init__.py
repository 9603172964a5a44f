"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.adversarial import USAD, BeatGAN, TranAD
from patchad.baselines.autoencoders import DAGMM, LSTMVAE
from patchad.baselines.forecast import CNN
from patchad.baselines.random import RandomScore
from patchad.baselines.simple import LastDifference, SensorRange
from patchad.baselines.stochastic import D3R, InterFusion, OmniAnomaly
from patchad.baselines.subsequences import SubPCA
from patchad.baselines.tensors import ITAD
from patchad.detector import Detector

BASELINES: Mapping[str, type[Detector]] = {
    "random": RandomScore,
    "last_difference": LastDifference,
    "sensor_range": SensorRange,
    "sub_pca": SubPCA,
    "cnn": CNN,
    "lstm_vae": LSTMVAE,
    "usad": USAD,
    "dagmm": DAGMM,
    "tranad": TranAD,
    "beatgan": BeatGAN,
    "omnianomaly": OmniAnomaly,
    "interfusion": InterFusion,
    "itad": ITAD,
    "d3r": D3R,
}

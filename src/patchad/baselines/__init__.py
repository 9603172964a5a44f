"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.adaptive import M2N2
from patchad.baselines.forecast import CNN, KANAD, LSTM, LSTMRNN, TCNED
from patchad.baselines.random import RandomScore
from patchad.baselines.simple import LastDifference, SensorRange
from patchad.baselines.subsequences import SubPCA
from patchad.baselines.transformers import GPT2Adapter, PatchTST, TimesNet
from patchad.detector import Detector

BASELINES: Mapping[str, type[Detector]] = {
    "random": RandomScore,
    "last_difference": LastDifference,
    "sensor_range": SensorRange,
    "sub_pca": SubPCA,
    "cnn": CNN,
    "lstm_rnn": LSTMRNN,
    "lstm": LSTM,
    "tcn_ed": TCNED,
    "kan_ad": KANAD,
    "patchtst": PatchTST,
    "timesnet": TimesNet,
    "gpt2_adapter": GPT2Adapter,
    "m2n2": M2N2,
}

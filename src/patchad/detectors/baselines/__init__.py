"""Other methods, each with the interface of `patchad.detectors.base.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.detectors.base import Detector
from patchad.detectors.baselines.adamembls import AdaMemBLS
from patchad.detectors.baselines.adaptive import M2N2
from patchad.detectors.baselines.adversarial import USAD, BeatGAN, TranAD
from patchad.detectors.baselines.attention import AnomalyTransformer, DCdetector
from patchad.detectors.baselines.autoencoders import DAGMM, LSTMVAE
from patchad.detectors.baselines.contrastive import NCAD, TSCP2, PaAno
from patchad.detectors.baselines.forecast import CNN, KANAD, LSTM, LSTMRNN, TCNED
from patchad.detectors.baselines.hypersphere import COUTA, THOC
from patchad.detectors.baselines.nominality import NPSRPoint, NPSRSequence
from patchad.detectors.baselines.probabilistic import CLMPPCA, MMPCACD
from patchad.detectors.baselines.pyod_methods import AutoEncoder, DeepIF, DeepSVDD
from patchad.detectors.baselines.random import RandomScore
from patchad.detectors.baselines.regressions import GBRT, VAR, Autoregression
from patchad.detectors.baselines.rowwise import LOF, OCSVM, IForest, RowPCA
from patchad.detectors.baselines.segmentation import BOCPD, UTime
from patchad.detectors.baselines.simple import LastDifference, MovingZScore, SensorRange
from patchad.detectors.baselines.stochastic import D3R, InterFusion, OmniAnomaly
from patchad.detectors.baselines.subsequences import KMeansAD, MatrixProfile, SubIForest, SubKNN, SubOCSVM, SubPCA
from patchad.detectors.baselines.tensors import ITAD
from patchad.detectors.baselines.transformers import GPT2Adapter, PatchTST, TimesNet

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
    "lstm_rnn": LSTMRNN,
    "lstm": LSTM,
    "lstm_vae": LSTMVAE,
    "cnn": CNN,
    "tcn_ed": TCNED,
    "usad": USAD,
    "dagmm": DAGMM,
    "beatgan": BeatGAN,
    "omnianomaly": OmniAnomaly,
    "thoc": THOC,
    "anomaly_transformer": AnomalyTransformer,
    "dcdetector": DCdetector,
    "timesnet": TimesNet,
    "patchtst": PatchTST,
    "tranad": TranAD,
    "ncad": NCAD,
    "couta": COUTA,
    "npsr_pt": NPSRPoint,
    "npsr_seq": NPSRSequence,
    "m2n2": M2N2,
    "adamembls": AdaMemBLS,
    "bocpd": BOCPD,
    "u_time": UTime,
    "ts_cp2": TSCP2,
    "mmpcacd": MMPCACD,
    "cl_mppca": CLMPPCA,
    "itad": ITAD,
    "interfusion": InterFusion,
    "d3r": D3R,
    "gpt2_adapter": GPT2Adapter,
    "kan_ad": KANAD,
    "paano": PaAno,
}

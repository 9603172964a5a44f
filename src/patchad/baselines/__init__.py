"""Other methods, each with the interface of `patchad.detector.Detector`."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.baselines.adaptive import M2N2
from patchad.baselines.adversarial import USAD, BeatGAN, TranAD
from patchad.baselines.attention import AnomalyTransformer, DCdetector
from patchad.baselines.autoencoders import DAGMM, LSTMVAE
from patchad.baselines.contrastive import NCAD, TSCP2, PaAno
from patchad.baselines.forecast import CNN, KANAD, LSTM, LSTMRNN, TCNED
from patchad.baselines.hypersphere import COUTA, THOC
from patchad.baselines.nominality import NPSRPoint, NPSRSequence
from patchad.baselines.probabilistic import CLMPPCA, MMPCACD
from patchad.baselines.pyod_methods import AutoEncoder, DeepIF, DeepSVDD
from patchad.baselines.random import RandomScore
from patchad.baselines.regressions import GBRT, VAR, Autoregression
from patchad.baselines.rowwise import LOF, OCSVM, IForest, RowPCA
from patchad.baselines.segmentation import BOCPD, UTime
from patchad.baselines.simple import LastDifference, MovingZScore, SensorRange
from patchad.baselines.stochastic import D3R, InterFusion, OmniAnomaly
from patchad.baselines.subsequences import KMeansAD, MatrixProfile, SubIForest, SubKNN, SubOCSVM, SubPCA
from patchad.baselines.tensors import ITAD
from patchad.baselines.transformers import GPT2Adapter, PatchTST, TimesNet
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

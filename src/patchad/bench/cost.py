"""What a fitted net costs: parameters, operations and latency of one window, time of a training epoch."""

from __future__ import annotations

import math
import time

import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from patchad._kernels.backend import plain_arithmetic
from patchad.data.windows import Block, WindowSampler
from patchad.detectors.baselines.adaptive import M2N2
from patchad.detectors.neural import NeuralDetector

REPEATS = 30


def measure_cost(detector: NeuralDetector, train_rows: int) -> dict[str, float]:
    """Measure a fitted detector.

    Parameters
    ----------
    detector
        Fitted.
    train_rows
        Rows of the series it was fitted on.

    Returns
    -------
    `n_parameters`; `flops` of scoring one window, as counted by torch; `latency_ms`, the median time of that;
    `step_ms`, the mean time of a training step; `epoch_seconds`, that time over all steps of an epoch.
    """
    rows = np.zeros((detector.window_, len(detector.channels_)), dtype=np.float32)
    block = Block(rows, np.zeros(1, dtype=np.intp))
    scoring = detector.for_segment() if isinstance(detector, M2N2) else detector

    def score() -> None:
        scoring._score_block(block, detector.window_, explain=False)  # noqa: SLF001 - what `decision_function` runs

    with plain_arithmetic(), FlopCounterMode(display=False) as counter:
        score()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        score()
        seconds.append(time.perf_counter() - began)
    last = detector.history_[-1]
    windows = len(WindowSampler([np.empty((train_rows, 1))], detector.window_, detector.stride))
    step = last.seconds / last.step
    return {
        "n_parameters": float(detector.n_parameters_),
        "flops": float(counter.get_total_flops()),
        "latency_ms": 1000 * float(np.median(seconds)),
        "step_ms": 1000 * step,
        "epoch_seconds": step * math.ceil(windows / detector.batch_size),
    }

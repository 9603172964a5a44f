"""A function as the runners of TSB-AD call detectors: one series whose first rows are train, one score per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from patchad.data.table import FloatArray
from patchad.detectors.registry import make
from patchad.errors import InputError


def run(data: Any, train_len: int, *, detector: str = "patchad", **params: Any) -> FloatArray:
    """Fit on the first `train_len` rows and score all rows, higher is stranger.

    Nothing of the rows after `train_len` has a part in the fit, nor in the scale of the scores.

    Parameters
    ----------
    data
        `(time, channel)` or `(time,)`.
    train_len
        Rows at the start that are train, as the number after `tr_` in the names of the TSB-AD files.
    detector
        A name of `patchad.DETECTORS`.
    params
        The detector's parameters, what TSB-AD calls HP.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(600, 1))
    >>> rows[450] = 9
    >>> int(run(rows, 300, detector="moving_zscore").argmax())
    450
    """
    rows = np.asarray(data)
    if not 0 < train_len <= len(rows):
        raise InputError(f"train_len={train_len} does not fit {len(rows)} rows; give how many of them are train")
    return np.asarray(make(detector, **params).fit(rows[:train_len]).decision_function(rows))

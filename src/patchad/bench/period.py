"""The period of a series, by its auto-correlation, as the TSB-AD benchmark chooses the window of its metrics."""

from __future__ import annotations

import numpy as np
from scipy.signal import argrelextrema, correlate

from patchad.data.table import FloatArray

ROWS = 20_000
"""Rows from the start that are looked at."""
LAGS = 400
FIRST = 3
"""The first lag that can be a period."""
LONGEST = 300
"""Peaks at longer lags, counted from `FIRST`, are no periods."""
NONE = 125
"""The window of a series without a period."""


def period(values: FloatArray) -> int:
    """Return the lag of the highest peak of the auto-correlation of `(time,)`, or 125 where there is none.

    Examples
    --------
    >>> period(np.sin(2 * np.pi * np.arange(2000) / 50))
    50
    >>> period(np.arange(2000.0))
    125
    """
    centred = values[:ROWS] - values[:ROWS].mean()
    size = float(centred @ centred)
    if size == 0.0:
        return NONE
    middle = len(centred) - 1
    lags = correlate(centred, centred, method="fft")[middle : middle + LAGS + 1] / size
    candidates = lags[FIRST:]
    peaks = argrelextrema(candidates, np.greater)[0]
    if not len(peaks):
        return NONE
    best = int(peaks[np.argsort(candidates[peaks])[-1]])
    return best + FIRST if FIRST <= best <= LONGEST else NONE

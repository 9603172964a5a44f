"""A detector of ours as one of River's: rows come as dicts, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from patchad.detectors.base import Detector
from patchad.detectors.patchad import PatchAD
from patchad.detectors.preparing import MIN_ROWS
from patchad.detectors.registry import make
from patchad.errors import InputError, MissingExtraError
from patchad.streaming.detector import StreamDetector

try:
    from river.base import AnomalyDetector
except ImportError as error:
    raise MissingExtraError("river", "river") from error


class RiverDetector(AnomalyDetector):  # type: ignore[misc]
    """A detector of River on a stream of PatchAD.

    It fits on the first `warmup` rows, unless the detector is fitted already; then the stream goes on. A feature that
    is left out is a missing value; one that the fit did not know is ignored. `stream_.events` has the events so far.

    Parameters
    ----------
    detector
        What to fit, or a fitted one; it is not changed. By default `PatchAD()`.
    warmup
        Rows to fit on; until then every score is 0.

    Examples
    --------
    >>> from patchad import make
    >>> from patchad.adapters.river import RiverDetector
    >>> online = RiverDetector(make("moving_zscore"), warmup=100)
    >>> for k in range(200):
    ...     online.learn_one({"flow": k % 7, "heat": k % 5})
    >>> online.score_one({"flow": 50, "heat": 2}) > 5 * online.score_one({"flow": 3, "heat": 2})
    True
    """

    def __init__(self, detector: Detector | None = None, warmup: int = 1000) -> None:
        if warmup < MIN_ROWS:
            raise InputError(f"warmup={warmup} is too small; at least {MIN_ROWS} rows are needed")
        self.detector = detector
        self.warmup = warmup
        self._rows: list[dict[str, float]] = []
        self.stream_: StreamDetector | None = None
        self.detector_ = detector if hasattr(detector, "threshold_") else None
        if self.detector_ is not None:
            self.stream_ = self.detector_.stream()

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Take the next row."""
        if self.stream_ is not None:
            self.stream_.push(self._known(x))
            return
        self._rows.append({str(name): _number(name, value) for name, value in x.items()})
        if len(self._rows) == self.warmup:
            train = pd.DataFrame(self._rows)
            train = train[sorted(train.columns)]
            self.detector_ = (PatchAD() if self.detector is None else clone(self.detector)).fit(train)
            self.stream_ = self.detector_.stream()
            self.stream_.push_many(train)
            self._rows = []

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the score that a row would have if it came next, as far as can be told at once."""
        if self.stream_ is None or self.detector_ is None:
            return 0.0
        probe = StreamDetector.restore(self.detector_, self.stream_.snapshot())
        probe.push(self._known(x))
        verdict = probe.outlook()
        return 0.0 if verdict is None or np.isnan(verdict.score) else float(verdict.score)

    def _known(self, x: Mapping[Any, Any]) -> dict[str, float]:
        """Return the features that the fit knew."""
        known = () if self.detector_ is None else self.detector_.channels_
        return {str(name): _number(name, value) for name, value in x.items() if str(name) in known}

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the stream, of which a snapshot goes along."""
        state = self.__dict__.copy()
        state["stream_"] = None if self.stream_ is None else self.stream_.snapshot()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        if self.detector_ is not None and state["stream_"] is not None:
            self.stream_ = StreamDetector.restore(self.detector_, state["stream_"])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        """Return the parameters that River's own checks use."""
        yield {"detector": make("moving_zscore"), "warmup": 50}


def _number(name: Any, value: Any) -> float:
    """Return a feature's value; None is a missing one."""
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise InputError(f"feature {name!r} has the value {value!r}; leave it out, or encode it as a number") from None

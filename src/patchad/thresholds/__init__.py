"""Levels that scores are compared with, fitted on scores of train, never on test (except `Ratio`, which says so)."""

from patchad.thresholds.base import Threshold
from patchad.thresholds.fixed import Fixed, Mad, Quantile, Ratio, Sigma
from patchad.thresholds.pot import DSPOT, SPOT, PlainSPOT
from patchad.thresholds.promise import Promise
from patchad.thresholds.registry import NAMED, describe, from_description, make_threshold, usage

__all__ = [
    "DSPOT",
    "NAMED",
    "SPOT",
    "Fixed",
    "Mad",
    "PlainSPOT",
    "Promise",
    "Quantile",
    "Ratio",
    "Sigma",
    "Threshold",
    "describe",
    "from_description",
    "make_threshold",
    "usage",
]

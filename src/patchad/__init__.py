"""PatchAD: time-series anomaly detection with patches. Names load when they are first used, so importing is quick."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchad.detectors.base import Detector
    from patchad.detectors.patchad import PatchAD
    from patchad.detectors.registry import DETECTORS, load, make
    from patchad.detectors.scan import scan
    from patchad.errors import (
        InputError,
        MetricError,
        MissingExtraError,
        MissingWeightsError,
        ModelFileError,
        PatchADError,
        UnsupportedError,
    )
    from patchad.results.detection import Detection, Event
    from patchad.streaming.detector import StreamDetector
    from patchad.streaming.pool import StreamPool
    from patchad.streaming.verdict import Verdict

_HOMES = {
    "DETECTORS": "detectors.registry",
    "Detection": "results.detection",
    "Detector": "detectors.base",
    "Event": "results.detection",
    "InputError": "errors",
    "MetricError": "errors",
    "MissingExtraError": "errors",
    "MissingWeightsError": "errors",
    "ModelFileError": "errors",
    "PatchAD": "detectors.patchad",
    "PatchADError": "errors",
    "StreamDetector": "streaming.detector",
    "StreamPool": "streaming.pool",
    "UnsupportedError": "errors",
    "Verdict": "streaming.verdict",
    "load": "detectors.registry",
    "make": "detectors.registry",
    "scan": "detectors.scan",
}
_SUBMODULES = ("datasets", "metrics", "thresholds")

__all__ = [
    "DETECTORS",
    "Detection",
    "Detector",
    "Event",
    "InputError",
    "MetricError",
    "MissingExtraError",
    "MissingWeightsError",
    "ModelFileError",
    "PatchAD",
    "PatchADError",
    "StreamDetector",
    "StreamPool",
    "UnsupportedError",
    "Verdict",
    "load",
    "make",
    "scan",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"patchad.{_HOMES[name]}"), name)
    if name in _SUBMODULES:
        return import_module(f"patchad.{name}")
    raise AttributeError(f"module 'patchad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_SUBMODULES, "__version__"]

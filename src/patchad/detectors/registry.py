"""Detectors by name, and detectors from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from patchad.detectors import checkpoint
from patchad.detectors.base import Detector
from patchad.detectors.baselines import BASELINES
from patchad.detectors.patchad import PatchAD
from patchad.detectors.saving import restore_detector
from patchad.errors import InputError, ModelFileError, listed

Backend = Literal["torch", "onnx"]

_BROKEN = (ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError)
"""What a file that is not what it claims to be may raise, `ModelFileError` without the path among them."""

DETECTORS: Mapping[str, type[Detector]] = {"patchad": PatchAD, **BASELINES}


def make(name: str, **params: Any) -> Detector:
    """Make a detector by its name in `DETECTORS`.

    Examples
    --------
    >>> make("patchad", window=30).window
    30
    """
    if name not in DETECTORS:
        raise InputError(f"there is no detector {name!r}; use one of {listed(tuple(DETECTORS), 100)}")
    return DETECTORS[name](**params)


def load(path: str | Path, *, backend: Backend = "torch") -> Detector:
    """Read a detector that `save` wrote; its scores are the same.

    Parameters
    ----------
    path
        A model file.
    backend
        `torch`; or `onnx`, to score with ONNX Runtime, which answers sooner where windows come one by one. Only for
        PatchAD; takes some seconds to write and check the graph.
    """
    if backend not in get_args(Backend):
        raise InputError(f"backend={backend!r} is unknown; use one of {listed(get_args(Backend))}")
    detector = _load(path)
    if backend == "onnx":
        from patchad.detectors.backends.onnx import with_onnx

        return with_onnx(detector)
    return detector


def _load(path: str | Path) -> Detector:
    header, arrays = checkpoint.read(Path(path))
    name = str(header.get("detector"))
    if name not in DETECTORS:
        raise ModelFileError(f"{str(path)!r} holds a detector {name!r} that is not known here; upgrade patchad")
    try:
        return restore_detector(DETECTORS[name], header, arrays)
    except InputError as error:  # a parameter that is wrong, or a device that is not here
        raise ModelFileError(f"{str(path)!r} cannot be used: {error}") from error
    except _BROKEN as error:
        raise ModelFileError(f"{str(path)!r} does not hold a whole detector ({error}); fit it again") from error

"""Detectors by name, and detectors from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchad import checkpoint
from patchad.baselines import BASELINES
from patchad.detector import Detector
from patchad.errors import InputError, ModelFileError, listed
from patchad.estimator import PatchAD

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


def load(path: str | Path) -> Detector:
    """Read a detector that `save` wrote; its scores are the same."""
    header, arrays = checkpoint.read(Path(path))
    if header.get("detector") not in DETECTORS:
        raise ModelFileError(
            f"{str(path)!r} holds a detector {header.get('detector')!r} that is not known here; upgrade patchad"
        )
    try:
        return DETECTORS[header["detector"]]._from_file(header, arrays)  # noqa: SLF001 - our own
    except (KeyError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{str(path)!r} does not hold a whole detector ({error}); fit it again") from error

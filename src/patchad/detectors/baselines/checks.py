"""Parameter checks that several baselines share."""

from __future__ import annotations

from patchad.detectors.base import Detector
from patchad.errors import InputError


def check_least(detector: Detector, **least: int) -> None:
    """Raise `InputError` for the first of these parameters that is below its least value."""
    for name, bound in least.items():
        value = getattr(detector, name)
        if value < bound:
            raise InputError(f"{name}={value} is too small; it must be at least {bound}")


def check_heads(heads: int, **width: int) -> None:
    """Raise `InputError` where attention heads cannot share a width equally."""
    for name, value in width.items():
        if heads < 1 or value % heads:
            raise InputError(f"{name}={value} cannot be shared by heads={heads}; it must be a multiple of heads")

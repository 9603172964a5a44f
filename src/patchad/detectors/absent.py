"""Absent channels: those that no value is known of in a window are left out of its score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from patchad.alarms.rules import AlarmRules
    from patchad.detectors.patchad import PatchAD


def absent_channels(detector: PatchAD, windows: Tensor) -> Tensor | None:
    """Mark the channels that are absent from windows `(b, t, c)`, `(b, c)`; None where none is, and in a fit.

    They are held at the median of train; a channel that may rest there for as long is none of them.
    """
    rules: AlarmRules | None = getattr(detector, "alarm_rules_", None)
    if rules is None:
        return None
    held = detector.scaler_(detector.initial_[None])[0]
    value = np.where(rules.sensors.freeze <= detector.window_, held, np.nan)
    stand_in = torch.as_tensor(value, dtype=windows.dtype, device=windows.device)
    if not (windows[:, 0] == stand_in).any():
        return None
    found = (windows == stand_in).all(1)
    return found if found.any() else None

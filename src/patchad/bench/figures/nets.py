"""The nets that the figures look at: settings written out, so that no figure changes with a default."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from patchad.data.table import FloatArray
from patchad.detectors.patchad import PatchAD
from patchad.model.net import ScaleOutput

WINDOW = 100
"""Rows of a window in the paper's five cases."""
CASE_PATCHES = (1, 2, 5)
"""Patch sizes of its first case."""
PATCH_SETS = (CASE_PATCHES, (1,), (2,), (5,), (10,), (20,))
ROWS = 1000
"""Of train, and of test, of a simulated series."""
OBJECTIVES = ("adversarial", "agreement")
"""The paper's equations, and its text."""
BRIEF: dict[str, Any] = {"epochs": None, "batch_size": 32}
"""Training on random batches: three epochs of the paper's would be 21 steps on `ROWS`."""
QUICK: dict[str, Any] = {"max_steps": 3, "d_model": 8, "layers": 1}
"""What `Options.quick` makes of any net."""


def paper_net(steps: int, seed: int, quick: bool = False, **changes: Any) -> PatchAD:
    """Give the paper's net and score, trained for so many steps at its rate.

    At a rate ten times as large the distance that its equations drive up soon drowns the reconstruction.
    """
    return PatchAD.paper(**(_settings(steps, seed, quick) | changes))


def _settings(steps: int, seed: int, quick: bool) -> dict[str, Any]:
    return BRIEF | {"max_steps": steps, "random_state": seed} | (QUICK if quick else {})


def light_net(steps: int, seed: int, quick: bool = False) -> PatchAD:
    """Give a lighter net, trained to agree, whose score adds the residual of the reconstruction."""
    settings: dict[str, Any] = {
        "window": 105,
        "patch_sizes": (3, 5),
        "d_model": 16,
        "layers": 2,
        "view_pooling": "none",
        "hop": 5,
        "fold": "newest",
        "objective": "agreement",
        "score": "fused",
        "memory": 0,
        "scaling": "zscore",
        "smoothing": 5,
        "calibration": 0.2,
        "threshold": "ratio:1",
        "learning_rate": 1e-3,
    }
    return PatchAD(**(settings | _settings(steps, seed, quick)))


def look(detector: PatchAD, windows: FloatArray) -> tuple[ScaleOutput, ...]:
    """Run the net on windows `(b, t, c)` of the series, scaled here."""
    scaled = torch.from_numpy(np.ascontiguousarray(detector.scaler_(windows), dtype=np.float32))
    with torch.no_grad():
        found: tuple[ScaleOutput, ...] = detector.net_(scaled.to(detector.device_))
    return found


def halves(detector: PatchAD, windows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give what the inter and the intra view each add to the reconstruction, `(b, t, c)`: "Rec 1" and "Rec 2".

    Both are means over the scales, as the reconstruction is, in standard deviations of train.
    """
    outputs = look(detector, windows)
    parts = ([out.rec_inter for out in outputs], [out.rec_intra for out in outputs])
    inter, intra = (torch.stack([part for part in half if part is not None]).mean(0).cpu().numpy() for half in parts)
    return inter, intra

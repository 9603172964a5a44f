"""The nets of the figures, with all settings written out, so that no figure changes with a default."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from patchad.data.table import FloatArray
from patchad.detectors.patchad import PatchAD
from patchad.model.net import ScaleOutput

WINDOW = 100
"""Rows per window in the paper's five cases."""
CASE_PATCHES = (1, 2, 5)
"""Patch sizes of the first of these cases."""
PATCH_SETS = (CASE_PATCHES, (1,), (2,), (5,), (10,), (20,))
ROWS = 1000
"""Rows of train, and of test, of a simulated series."""
OBJECTIVES = ("adversarial", "agreement")
"""As in the paper's equations, and as in its text."""
BRIEF: dict[str, Any] = {"epochs": None, "batch_size": 32}
"""Train on random batches: the paper's three epochs would be 21 steps on `ROWS`."""
QUICK: dict[str, Any] = {"max_steps": 3, "d_model": 8, "layers": 1}
"""Settings of `FigureOptions.quick` for any net."""


def paper_net(steps: int, seed: int, quick: bool = False, **changes: Any) -> PatchAD:
    """Return an unfitted detector with the paper's net, score and learning rate.

    At ten times that rate, the distance that its equations maximise soon drowns the reconstruction.
    """
    return PatchAD.paper(**(_settings(steps, seed, quick) | changes))


def _settings(steps: int, seed: int, quick: bool) -> dict[str, Any]:
    return BRIEF | {"max_steps": steps, "random_state": seed} | (QUICK if quick else {})


def light_net(steps: int, seed: int, quick: bool = False) -> PatchAD:
    """Return an unfitted, lighter detector with agreeing views, whose score adds the residual of the reconstruction."""
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


def run_net(detector: PatchAD, windows: FloatArray) -> tuple[ScaleOutput, ...]:
    """Scale windows `(b, t, c)` of the series and run the net on them."""
    scaled = torch.from_numpy(np.ascontiguousarray(detector.scaler_(windows), dtype=np.float32))
    with torch.no_grad():
        found: tuple[ScaleOutput, ...] = detector.net_(scaled.to(detector.device_))
    return found


def halves(detector: PatchAD, windows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the halves of the reconstruction from the inter and the intra view, `(b, t, c)`: "Rec 1" and "Rec 2".

    Both are means over the scales, as the reconstruction is, in standard deviations of train.
    """
    outputs = run_net(detector, windows)
    parts = ([out.rec_inter for out in outputs], [out.rec_intra for out in outputs])
    inter, intra = (torch.stack([part for part in half if part is not None]).mean(0).cpu().numpy() for half in parts)
    return inter, intra

"""What a PatchAD expected of rows: its reconstruction of them, and how far it usually errs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from patchad.data.series import Series
from patchad.data.stages import Scored
from patchad.data.table import FloatArray
from patchad.data.windows import Block, WindowStage
from patchad.model.witnesses.residual import Residual

if TYPE_CHECKING:
    from patchad.detectors.patchad import PatchAD


def expected_rows(detector: PatchAD, series: Series, rows: slice) -> tuple[FloatArray, FloatArray] | None:
    """Reconstruct these rows: the mean over all windows that cover them; 99 % of held-out errors are within reach.

    Windows are a row apart here, whatever `hop` is. The net errs, and reaches, differently at each position of a
    window, and a row lies at every `hop`-th position only: drawn so, the curves would repeat every `hop` rows.
    """
    window, channels = detector.window_, len(detector.channels_)
    if len(series) < window or not detector.reconstruction:
        return None
    start = max(min(rows.start - window + 1, len(series) - window), 0)
    values = series.values[start : max(rows.stop + window - 1, start + window)]
    reach = np.asarray(detector._witness(Residual).by_channel.high)

    def reconstruct(block: Block, steps: int) -> tuple[FloatArray, None]:
        windows = torch.from_numpy(detector.scaler_(block.rows))[
            torch.from_numpy(block.starts)[:, None] + torch.arange(window)
        ]
        with torch.inference_mode():
            outputs = detector.net_(windows.to(detector.device_), project=False)
            found = torch.stack([out.reconstruction[:, -steps:] for out in outputs]).mean(0).cpu().numpy()
        return np.concatenate([found, np.broadcast_to(reach[-steps:], found.shape)], axis=2), None

    stage = WindowStage(window, 1, "mean", detector._batch(), reconstruct)
    found = Scored.join([stage.push(values), stage.flush()]).scores[rows.start - start : rows.stop - start]
    scale = detector.scaler_
    return found[:, :channels] * scale.spread + scale.mean, found[:, channels:] * scale.spread

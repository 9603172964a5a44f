"""Nets that go on learning while they score."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from patchad.data.stages import Stage
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError

MEASURED_WINDOWS = 2_000
"""Train windows at most that say which errors are normal."""


@dataclass(kw_only=True, eq=False, repr=False)
class M2N2(NeuralDetector):
    """An autoencoder follows the series as it changes; what it cannot rebuild with all it learned up to now is strange.

    Kim et al., "When Model Meets New Normals: Test-Time Adaptation for Unsupervised Time-Series Anomaly Detection"
    (2024): an exponential moving average of the windows, updated along the scored series, is taken off the input of an
    MLP autoencoder, and after each window the weights take a step of plain gradient descent on those of its rows that
    were judged normal, whose error is under a quantile of the errors on train. The error is the squared difference of
    each channel. Every series that is scored starts afresh from the trained weights and the mean of train; a window is
    scored before anything is learned from it, though the average has seen it. The public code updates after batches of
    windows, where rows see others that come later; here it is after each window, so that nothing looks ahead, and the
    average therefore moves faster in rows. Window, layers and rates are the public code's.

    Parameters
    ----------
    window
        Rows of a window; the average and the weights are updated once a window.
    hop
        Rows between two windows when scoring: as many as the window, so that each row is learned from once.
    latent
        Width of the middle layer.
    memory
        Share of the moving average that stays when a window comes; 1 takes off the mean of train for good.
    adaptation_rate
        Of the gradient descent on scored windows; 0 leaves the weights as they are.
    normal
        Share of the rows of train whose errors count as normal.
    """

    name = "m2n2"
    learned: ClassVar[Mapping[str, Any] | None] = {"largest_normal_": np.ndarray}

    window: int = 12
    hop: int = 12
    max_steps: int | None = 2000
    latent: int = 128
    memory: float = 0.99
    adaptation_rate: float = 1e-3
    normal: float = 0.95

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("memory", "normal"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)} is out of range; it is a share from 0 to 1")
        if self.adaptation_rate < 0:
            raise InputError(f"adaptation_rate={self.adaptation_rate} is too small; it must be at least 0")

    def _build(self, channels: int) -> nn.Module:
        size = self.window_ * channels
        sizes = (size, max(size // 2, 1), max(size // 4, 1), self.latent, max(size // 4, 1), max(size // 2, 1), size)
        parts: list[nn.Module] = [nn.Flatten()]
        for a, b in pairwise(sizes):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*parts[:-1], nn.Unflatten(1, (self.window_, channels)))

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return (net(batch) - batch).square().mean()  # type: ignore[no-any-return]

    def _settle(self, known: WindowSampler) -> None:
        chosen = np.unique(np.linspace(0, len(known) - 1, min(len(known), MEASURED_WINDOWS)).astype(np.intp))
        windows = torch.from_numpy(self.scaler_(known[chosen])).to(self.device_)
        with torch.inference_mode():
            rows = (self.net_(windows) - windows).square().mean(-1)
        self.largest_normal_ = float(np.quantile(rows.cpu().numpy(), self.normal))

    @property
    def context(self) -> None:
        """None: the weights adapt along the series."""
        return

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        walker = copy.copy(self)  # what adapts belongs to one segment
        walker.net_ = copy.deepcopy(self.net_)
        walker.descent_ = torch.optim.SGD(walker.net_.parameters(), lr=self.adaptation_rate)
        walker.average_ = torch.zeros(len(self.channels_), device=self.device_)
        return super(M2N2, walker)._scorer(explain=explain)

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        with torch.enable_grad():
            met = [self._meet(window) for window in torch.from_numpy(windows).to(self.device_)]
        errors = torch.stack(met)[:, -steps:].cpu()
        return errors.double().mean(-1).numpy(), errors.numpy() if explain else None

    def _meet(self, window: Tensor) -> Tensor:
        """Give the errors `(t, c)` of the next window of a series, and learn from its normal rows."""
        self.average_ += (1 - self.memory) * (window.mean(0) - self.average_)
        centred = (window - self.average_)[None]
        errors: Tensor = (self.net_(centred) - centred).square()
        rows = errors.mean(-1)
        self.descent_.zero_grad()
        (rows * (rows < float(self.largest_normal_))).mean().backward()  # type: ignore[no-untyped-call]
        self.descent_.step()
        return errors[0].detach()

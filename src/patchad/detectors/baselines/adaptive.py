"""Nets that keep learning while they score."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from patchad.data.stages import Chain, Scored, Stage
from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.baselines.sampling import evenly_spaced
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError

QUANTILE_WINDOWS = 2_000
"""Most train windows used to estimate the quantile of normal errors."""


@dataclass(kw_only=True, eq=False, repr=False)
class M2N2(NeuralDetector):
    """Reconstruction error of an autoencoder that keeps adapting to the series it scores.

    Kim et al., "When Model Meets New Normals: Test-Time Adaptation for Unsupervised Time-Series Anomaly Detection"
    (2024): an exponential moving average of the windows, updated along the scored series, is subtracted from the input
    of an MLP autoencoder. After each window the weights take one step of plain gradient descent on the rows judged
    normal, those with an error under a quantile of the train errors. The error is the squared difference of each
    channel. Every scored series starts from the trained weights and the mean of train. A window is scored before the
    weights learn from it, though the average already includes it. The public code updates after batches of windows,
    where rows see later ones; here it updates after each window, so that nothing looks ahead, and the average
    therefore moves faster per row. Window, layers and rates are the public code's.

    Parameters
    ----------
    window
        Rows per window; the average and the weights are updated once per window.
    hop
        Rows between two windows when scoring: the window by default, so that each row is learned from once.
    latent
        Width of the middle layer.
    momentum
        Share of the moving average kept at each window; 1 always subtracts the mean of train.
    adaptation_rate
        Learning rate of the gradient descent on scored windows; 0 freezes the weights.
    normal
        Share of train rows whose errors count as normal.
    """

    name = "m2n2"
    learned: ClassVar[Mapping[str, Any] | None] = {"largest_normal_": np.ndarray}

    shares_windows: ClassVar[bool] = False

    window: int = 12
    hop: int = 12
    max_steps: int | None = 2000
    latent: int = 128
    momentum: float = 0.99
    adaptation_rate: float = 1e-3
    normal: float = 0.95

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("momentum", "normal"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)} is out of range; it is a share from 0 to 1")
        check_least(self, adaptation_rate=0)

    def _build(self, channels: int) -> nn.Module:
        size = self.window_ * channels
        sizes = (size, max(size // 2, 1), max(size // 4, 1), self.latent, max(size // 4, 1), max(size // 2, 1), size)
        layers: list[nn.Module] = [nn.Flatten()]
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers[:-1], nn.Unflatten(1, (self.window_, channels)))

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return (net(batch) - batch).square().mean()  # type: ignore[no-any-return]

    def _settle(self, known: WindowSampler) -> None:
        windows = torch.from_numpy(self.scaler_(evenly_spaced(known, QUANTILE_WINDOWS))).to(self.device_)
        with torch.inference_mode():
            rows = (self.net_(windows) - windows).square().mean(-1)
        self.largest_normal_ = float(np.quantile(rows.cpu().numpy(), self.normal))

    @property
    def context(self) -> None:
        """None: the weights adapt along the series."""
        return

    def for_segment(self) -> Self:
        """Return a copy that can score and adapt: weights and average belong to one segment."""
        adapting = copy.copy(self)
        adapting.net_ = copy.deepcopy(self.net_)
        adapting.optimizer_ = torch.optim.SGD(adapting.net_.parameters(), lr=self.adaptation_rate)
        adapting.average_ = torch.zeros(len(self.channels_), device=self.device_)
        return adapting

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        adapting = self.for_segment()
        chain = cast("Chain", super(M2N2, adapting)._scorer(explain=explain))
        return _Adapting(adapting, chain.first, *chain.rest)

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        with torch.enable_grad():
            adapted = [self._adapt(window) for window in torch.from_numpy(windows).to(self.device_)]
        errors = torch.stack(adapted)[:, -steps:].cpu()
        return errors.double().mean(-1).numpy(), errors.numpy() if explain else None

    def _adapt(self, window: Tensor) -> Tensor:
        """Return the errors `(t, c)` of the next window of a series, then learn from its normal rows."""
        self.average_ += (1 - self.momentum) * (window.mean(0) - self.average_)
        centred = (window - self.average_)[None]
        errors: Tensor = (self.net_(centred) - centred).square()
        rows = errors.mean(-1)
        self.optimizer_.zero_grad()
        (rows * (rows < float(self.largest_normal_))).mean().backward()  # type: ignore[no-untyped-call]
        self.optimizer_.step()
        return errors[0].detach()


class _Adapting(Chain):
    """The stages of one segment, with the weights and the average that adapt to it."""

    state: ClassVar[tuple[str, ...]] = (*Chain.state, "weights", "average")

    def __init__(self, detector: M2N2, first: Stage[FloatArray], *rest: Stage[Scored]) -> None:
        super().__init__(first, *rest)
        self._detector = detector

    @property
    def weights(self) -> dict[str, FloatArray]:
        return {name: value.cpu().numpy() for name, value in self._detector.net_.state_dict().items()}

    @weights.setter
    def weights(self, weights: dict[str, FloatArray]) -> None:
        self._detector.net_.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})

    @property
    def average(self) -> FloatArray:
        return np.asarray(self._detector.average_.cpu().numpy())

    @average.setter
    def average(self, average: FloatArray) -> None:
        self._detector.average_ = torch.from_numpy(average).to(self._detector.device_)

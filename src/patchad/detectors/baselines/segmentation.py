"""Where one regime ends and another begins: a segmentation net, and Bayesian inference over run lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import gammaln
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.stages import Scored, Stage
from patchad.data.table import FloatArray
from patchad.data.windows import Fold
from patchad.detectors.baselines.injection import random_channels, random_rows, random_sign, uniform
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.rows import RowDetector, RowStage

FEWEST_STEPS = 4
"""Rows below which a level of the U-Net is not pooled further."""
PRIOR_ROWS = 0.1
"""Weight of the prior mean of a new run, in rows: after a change, any level within a few deviations is plausible."""
SWITCH_VALUES = 2
"""Values of a channel up to which it is a switch."""
TINY = 1e-300
"""Smallest density distinguished from zero."""


def _conv_pair(inputs: int, outputs: int) -> nn.Sequential:
    """Build two convolutions with batch norms."""
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 5, padding=2),
        nn.ReLU(),
        nn.BatchNorm1d(outputs),
        nn.Conv1d(outputs, outputs, 5, padding=2),
        nn.ReLU(),
        nn.BatchNorm1d(outputs),
    )


class UNet(nn.Module):
    """Down- and upsampling over time, with a shortcut at each level: `(b, t, c)` to a logit per row, `(b, t)`."""

    def __init__(self, channels: int, steps: int, filters: int, depth: int) -> None:
        super().__init__()
        while depth > 0 and steps >> depth < FEWEST_STEPS:
            depth -= 1
        widths = [filters << level for level in range(depth + 1)]
        self.down = nn.ModuleList([_conv_pair(n, w) for n, w in zip([channels, *widths], widths, strict=False)])
        self.narrow = nn.ModuleList([nn.Conv1d(2 * w, w, 3, padding=1) for w in widths[:-1]])
        self.up = nn.ModuleList([_conv_pair(2 * w, w) for w in widths[:-1]])
        self.head = nn.Sequential(nn.Conv1d(filters, filters, 1), nn.Tanh(), nn.Conv1d(filters, 1, 1))

    def forward(self, rows: Tensor) -> Tensor:
        """Segment windows."""
        x, levels = rows.transpose(1, 2), []
        for number, block in enumerate(self.down):
            x = block(functional.max_pool1d(x, 2) if number else x)
            levels.append(x)
        for level in range(len(self.up) - 1, -1, -1):
            shortcut = levels[level]
            upsampled = self.narrow[level](functional.interpolate(x, size=shortcut.shape[-1], mode="nearest"))
            x = self.up[level](torch.cat([shortcut, upsampled], 1))
        logits: Tensor = self.head(x)[:, 0]
        return logits


def inject_changes(batch: Tensor) -> tuple[Tensor, Tensor]:
    """Change a run of rows in half of the windows `(b, t, c)`; return the windows and their labels, bool `(b, t)`.

    Six kinds, at random: rows of another window, another level, another spread, the rows mirrored in time and value,
    more noise, or constant values.
    """
    b, t, _ = batch.shape
    rows, channels = random_rows(batch, t // 2), random_channels(batch)
    mean = batch.mean(1, keepdim=True)
    spread = batch.std(1, correction=0, keepdim=True).clamp_min(0.1)
    first = batch.gather(1, rows.long().argmax(1, keepdim=True).expand(-1, -1, batch.shape[2]))
    kinds = torch.stack(
        [
            batch.roll(1, 0),
            batch + random_sign(batch) * uniform(1, 4, batch) * spread,
            mean + (batch - mean) * uniform(2, 4, batch),
            2 * mean - batch.flip(1),
            batch + spread * uniform(0.5, 2, batch) * torch.randn_like(batch),
            first.expand_as(batch),
        ]
    )
    kind = torch.randint(len(kinds), (b,), device=batch.device)
    labels = rows & (torch.rand(b, 1, 1, device=batch.device) < 0.5)
    changed = torch.where(labels & channels, kinds[kind, torch.arange(b, device=batch.device)], batch)
    return changed, labels[..., 0]


@dataclass(kw_only=True, eq=False, repr=False)
class UTime(NeuralDetector):
    """Confidence of a segmentation net that a row belongs to a changed subsequence, as injected in training.

    Perslev et al., "U-Time: A Fully Convolutional Network for Time Series Segmentation Applied to Sleep Staging"
    (2019): a one-dimensional U-Net, trained with the dice loss, that assigns each row a class. It needs labels, and a
    detector has none, so they are synthetic: half of the training windows get one changed subsequence (rows of another
    window, another level or spread, mirrored, noisy or constant), and the classes are normal and changed. This is our
    interpretation of a supervised net in an unsupervised comparison; papers that list it there do not say.

    Kernels, batch norms, shortcuts and first filters are the paper's. Its pooling factors (10, 8, 6, 4) fit the 35
    minutes of sleep in its windows; here they are 2, and the depth is 3. The score is the softplus of the logit: it
    orders rows as the probability does, without saturating.

    Parameters
    ----------
    filters, depth
        Filters of the first level, doubled with each, and number of poolings.
    """

    name = "u_time"

    window: int = 128
    hop: int = 16
    fold: Fold = "mean"
    max_steps: int | None = 300
    batch_size: int = 32
    filters: int = 16
    depth: int = 3

    def _build(self, channels: int) -> nn.Module:
        return UNet(channels, self.window_, self.filters, self.depth)

    def _loss(self, net: UNet, batch: Tensor) -> Tensor:
        windows, labels = inject_changes(batch)
        logits, truth = net(windows), labels.float()
        predicted = torch.stack([torch.sigmoid(logits), torch.sigmoid(-logits)])
        target = torch.stack([truth, 1 - truth])
        overlap = (predicted * target).sum((1, 2)) + 1
        return 1 - (2 * overlap / ((predicted + target).sum((1, 2)) + 2)).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return functional.softplus(self.net_(windows).double())[..., None]


class RunLengths:
    """Posterior over the time since each channel last changed, and over its mean and variance since then.

    The longest run stands for all that are at least as long, and forgets its oldest rows as fast as new ones come, so
    that space and time are bounded.

    Parameters
    ----------
    usual
        Usual variance of each channel inside a run, `(channel,)`.
    longest
        Number of distinct run lengths.
    expected
        Prior expectation of the rows between two changes.
    """

    state = ("belief", "mean", "beta")

    def __init__(self, usual: FloatArray, longest: int, expected: float) -> None:
        runs = np.arange(longest)
        self.kappa, self.alpha = PRIOR_ROWS + runs, 1 + runs / 2.0
        self.usual, self.hazard = usual, 1 / expected
        self.belief = np.zeros((len(usual), longest))
        self.belief[:, 0] = 1.0
        self.mean = np.zeros((len(usual), longest))
        self.beta = np.repeat(usual[:, None], longest, axis=1)
        self._widening = (self.kappa + 1) / self.kappa
        self._log_constant = gammaln(self.alpha + 0.5) - gammaln(self.alpha) - 0.5 * np.log(2 * np.pi * self._widening)
        self._forgetting = self.alpha[-1] / (self.alpha[-1] + 0.5)

    def step(self, row: FloatArray) -> FloatArray:
        """Return the surprise of each channel's new value, its negative log density, then update the posterior."""
        deviation = row[:, None] - self.mean
        squared = np.square(deviation)
        inside = 1 + squared / (2 * self.beta * self._widening)  # a Student t with 2 alpha degrees of freedom
        logs = self._log_constant - 0.5 * np.log(self.beta) - (self.alpha + 0.5) * np.log(inside)
        highest = logs.max(axis=1, keepdims=True)
        joint = self.belief * np.exp(logs - highest)
        marginal = joint.sum(axis=1, keepdims=True)
        joint /= np.maximum(marginal, TINY)
        beta = self.beta + squared / (2 * self._widening)
        mean = self.mean + deviation / (self.kappa + 1)
        self._grow(joint, mean, beta)
        return np.asarray(-(np.log(np.maximum(marginal, TINY)) + highest)[:, 0])

    def _grow(self, joint: FloatArray, mean: FloatArray, beta: FloatArray) -> None:
        """Make every run a row longer, or end it."""
        self.belief[:, 1:] = joint[:, :-1] * (1 - self.hazard)
        self.belief[:, -1] += joint[:, -1] * (1 - self.hazard)
        self.belief[:, 0] = self.hazard
        self.belief /= self.belief.sum(axis=1, keepdims=True)
        oldest = np.where(joint[:, -1] >= joint[:, -2], mean[:, -1], mean[:, -2])
        spread = np.where(joint[:, -1] >= joint[:, -2], beta[:, -1] * self._forgetting, beta[:, -2])
        self.mean[:, 1:], self.beta[:, 1:] = mean[:, :-1], beta[:, :-1]
        self.mean[:, -1], self.beta[:, -1] = oldest, spread
        self.mean[:, 0], self.beta[:, 0] = 0.0, self.usual


@dataclass(kw_only=True, eq=False, repr=False)
class BOCPD(RowDetector):
    """Negative log density of a row, marginalised over the time since the last change point.

    Adams and MacKay, "Bayesian Online Changepoint Detection" (2007), for values that are Gaussian with their own mean
    and variance in each run, and a constant hazard: the posterior over the run length and the Student t forecast of
    each run follow in closed form, row by row. The score is the mean over channels of the negative log density of the
    row under the forecast.

    Each channel is tracked by itself. Run lengths over `longest` are merged into one that forgets. The prior is ours:
    means around that of train with the weight of a tenth of a row, and variances around that of the differences of
    train rows, with the weight of two rows. The paper shows the probability of run lengths; the surprise needs no
    delay, while a change becomes probable only a few rows later.

    A channel that had at most two values in train is no Gaussian: its variance is next to nothing, and any move of it
    outweighs all others. Such channels do not count unless there are no others, or with `switches`.

    Parameters
    ----------
    expected
        Prior expectation of the rows between two changes; one over the hazard.
    longest
        Number of distinct run lengths.
    switches
        Whether channels of at most two values count as well.
    """

    name = "bocpd"
    learned: ClassVar[Mapping[str, Any] | None] = {"usual_": np.ndarray, "counted_": np.ndarray}

    expected: float = 250.0
    longest: int = 200
    switches: bool = False

    @property
    def n_parameters_(self) -> int:
        """One variance for each channel."""
        return len(self.usual_)

    def _learn(self, rows: FloatArray) -> None:
        self.usual_ = np.maximum(np.diff(rows.astype(np.float64), axis=0).var(axis=0) / 2, 1e-4)
        many = np.array([self.switches or len(np.unique(channel)) > SWITCH_VALUES for channel in rows.T])
        self.counted_ = many if many.any() else np.ones_like(many)

    @property
    def context(self) -> None:
        """None: a row's score depends on all rows before it."""
        return

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        counted = np.flatnonzero(self.counted_)
        runs = RunLengths(self.usual_[counted], max(self.longest, 2), max(self.expected, 2))

        def score(rows: FloatArray) -> Scored:
            scaled = self.scaler_(rows).astype(np.float64)
            surprise = np.array([runs.step(row) for row in scaled[:, counted]])
            attribution = None
            if explain:
                attribution = np.zeros(scaled.shape, dtype=np.float32)
                attribution[:, counted] = np.maximum(surprise, 0)
            return Scored(surprise.mean(axis=1), attribution)

        return RowStage(0, score, runs)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        raise NotImplementedError  # `_scorer` carries the run lengths from row to row

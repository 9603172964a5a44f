"""Where one regime ends and another begins: a net that segments, and Bayes' rule over run lengths."""

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
from patchad.detectors.baselines.injection import between, either, some_channels, some_rows
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.rows import RowDetector, RowStage

FEWEST_STEPS = 4
"""Rows under which a level of the U-Net is not pooled any more."""
PRIOR_ROWS = 0.1
"""Rows that the prior mean of a new run counts for: after a change, any level within a few deviations may come."""
TINY = 1e-300
"""Least density that is told from zero."""


def _pair(inputs: int, outputs: int) -> nn.Sequential:
    """Make two convolutions with batch norms."""
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 5, padding=2),
        nn.ReLU(),
        nn.BatchNorm1d(outputs),
        nn.Conv1d(outputs, outputs, 5, padding=2),
        nn.ReLU(),
        nn.BatchNorm1d(outputs),
    )


class UNet(nn.Module):
    """Down and up again over time, with a shortcut at each level: `(b, t, c)` to one logit a row, `(b, t)`."""

    def __init__(self, channels: int, steps: int, filters: int, depth: int) -> None:
        super().__init__()
        while depth > 0 and steps >> depth < FEWEST_STEPS:
            depth -= 1
        widths = [filters << level for level in range(depth + 1)]
        self.down = nn.ModuleList([_pair(n, w) for n, w in zip([channels, *widths], widths, strict=False)])
        self.narrow = nn.ModuleList([nn.Conv1d(2 * w, w, 3, padding=1) for w in widths[:-1]])
        self.up = nn.ModuleList([_pair(2 * w, w) for w in widths[:-1]])
        self.rows = nn.Sequential(nn.Conv1d(filters, filters, 1), nn.Tanh(), nn.Conv1d(filters, 1, 1))

    def forward(self, rows: Tensor) -> Tensor:
        """Segment windows."""
        x, levels = rows.transpose(1, 2), []
        for number, block in enumerate(self.down):
            x = block(functional.max_pool1d(x, 2) if number else x)
            levels.append(x)
        for level in range(len(self.up) - 1, -1, -1):
            beside = levels[level]
            risen = self.narrow[level](functional.interpolate(x, size=beside.shape[-1], mode="nearest"))
            x = self.up[level](torch.cat([beside, risen], 1))
        logits: Tensor = self.rows(x)[:, 0]
        return logits


def changed(batch: Tensor) -> tuple[Tensor, Tensor]:
    """Change a run of rows in half of the windows `(b, t, c)`; give them with the labels of their rows, bool `(b, t)`.

    Six kinds, at random: rows of another window, another level, another spread, the rows mirrored in time and value,
    more noise, or no movement.
    """
    b, t, _ = batch.shape
    rows, channels = some_rows(batch, t // 2), some_channels(batch)
    mean = batch.mean(1, keepdim=True)
    spread = batch.std(1, correction=0, keepdim=True).clamp_min(0.1)
    first = batch.gather(1, rows.long().argmax(1, keepdim=True).expand(-1, -1, batch.shape[2]))
    ways = torch.stack(
        [
            batch.roll(1, 0),
            batch + either(batch) * between(1, 4, batch) * spread,
            mean + (batch - mean) * between(2, 4, batch),
            2 * mean - batch.flip(1),
            batch + spread * between(0.5, 2, batch) * torch.randn_like(batch),
            first.expand_as(batch),
        ]
    )
    kind = torch.randint(len(ways), (b,), device=batch.device)
    hit = rows & (torch.rand(b, 1, 1, device=batch.device) < 0.5)
    spoiled = torch.where(hit & channels, ways[kind, torch.arange(b, device=batch.device)], batch)
    return spoiled, hit[..., 0]


@dataclass(kw_only=True, eq=False, repr=False)
class UTime(NeuralDetector):
    """A row that a segmenting net takes for part of a changed stretch, such as it was shown in training, is strange.

    Perslev et al., "U-Time: A Fully Convolutional Network for Time Series Segmentation Applied to Sleep Staging"
    (2019): a one-dimensional U-Net, trained with the dice loss, that gives each row a class. It needs labels. As a
    detector it has none, so it is given some: half of the training windows get one changed stretch (rows of another
    window, another level or spread, mirrored, noisy or still), and the classes are normal and changed. This is our
    reading of how a supervised net can stand in an unsupervised comparison; papers that list it there do not say.

    Kernels, batch norms, shortcuts and first filters are the paper's. Its pools (10, 8, 6, 4) fit the 35 minutes of
    sleep that its windows hold; here they are 2, and the depth is 3. The score is the softplus of the logit: it
    orders rows as the probability does, and does not saturate.

    Parameters
    ----------
    filters, depth
        Filters of the first level, doubled with each, and how many times rows are pooled.
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
        windows, labels = changed(batch)
        logits, truth = net(windows), labels.float()
        found = torch.stack([torch.sigmoid(logits), torch.sigmoid(-logits)])
        wanted = torch.stack([truth, 1 - truth])
        shared = (found * wanted).sum((1, 2)) + 1
        return 1 - (2 * shared / ((found + wanted).sum((1, 2)) + 2)).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return functional.softplus(self.net_(windows).double())[..., None]


class RunLengths:
    """Beliefs about how long ago each channel last changed, and what it has been like since.

    The longest run stands for all that are at least as long, and forgets its oldest rows at the pace at which new ones
    come: memory and time are bounded.

    Parameters
    ----------
    usual
        Usual variance of each channel inside a run, `(channel,)`.
    longest
        Run lengths that are told apart.
    expected
        Rows between two changes, as expected beforehand.
    """

    def __init__(self, usual: FloatArray, longest: int, expected: float) -> None:
        runs = np.arange(longest)
        self.kappa, self.alpha = PRIOR_ROWS + runs, 1 + runs / 2.0
        self.usual, self.hazard = usual, 1 / expected
        self.belief = np.zeros((len(usual), longest))
        self.belief[:, 0] = 1.0
        self.mean = np.zeros((len(usual), longest))
        self.beta = np.repeat(usual[:, None], longest, axis=1)
        self._wide = (self.kappa + 1) / self.kappa
        self._fixed = gammaln(self.alpha + 0.5) - gammaln(self.alpha) - 0.5 * np.log(2 * np.pi * self._wide)
        self._shrink = self.alpha[-1] / (self.alpha[-1] + 0.5)

    def step(self, row: FloatArray) -> FloatArray:
        """Give how surprising each channel's new value is, minus the log of its density; then learn from it."""
        off = row[:, None] - self.mean
        squared = np.square(off)
        inside = 1 + squared / (2 * self.beta * self._wide)  # a Student t of 2 alpha degrees of freedom
        logs = self._fixed - 0.5 * np.log(self.beta) - (self.alpha + 0.5) * np.log(inside)
        highest = logs.max(axis=1, keepdims=True)
        joint = self.belief * np.exp(logs - highest)
        evidence = joint.sum(axis=1, keepdims=True)
        joint /= np.maximum(evidence, TINY)
        beta = self.beta + squared / (2 * self._wide)
        mean = self.mean + off / (self.kappa + 1)
        self._grow(joint, mean, beta)
        return np.asarray(-(np.log(np.maximum(evidence, TINY)) + highest)[:, 0])

    def _grow(self, joint: FloatArray, mean: FloatArray, beta: FloatArray) -> None:
        """Make every run a row longer, or end it."""
        self.belief[:, 1:] = joint[:, :-1] * (1 - self.hazard)
        self.belief[:, -1] += joint[:, -1] * (1 - self.hazard)
        self.belief[:, 0] = self.hazard
        self.belief /= self.belief.sum(axis=1, keepdims=True)
        oldest = np.where(joint[:, -1] >= joint[:, -2], mean[:, -1], mean[:, -2])
        spread = np.where(joint[:, -1] >= joint[:, -2], beta[:, -1] * self._shrink, beta[:, -2])
        self.mean[:, 1:], self.beta[:, 1:] = mean[:, :-1], beta[:, :-1]
        self.mean[:, -1], self.beta[:, -1] = oldest, spread
        self.mean[:, 0], self.beta[:, 0] = 0.0, self.usual


@dataclass(kw_only=True, eq=False, repr=False)
class BOCPD(RowDetector):
    """A row is strange if it surprises whoever weighs all stretches, short and long, that it may belong to.

    Adams and MacKay, "Bayesian Online Changepoint Detection" (2007), for values that are Gaussian with a mean and a
    variance of their own in each run, and a constant hazard: the beliefs about the run length and the Student t
    forecast of each run follow in closed form, row by row. The score is the mean over channels of minus the log of
    the forecast density of the row.

    Each channel is followed by itself. Run lengths over `longest` are held together as one that forgets. The prior
    is ours: means around that of train with the weight of a tenth of a row, and variances around that of the train
    rows' differences, with the weight of two rows. The paper shows the probability of run lengths; the surprise needs
    no delay, while a change is only believed a few rows later.

    Parameters
    ----------
    expected
        Rows between two changes, as expected beforehand; one over the hazard.
    longest
        Run lengths that are told apart.
    """

    name = "bocpd"
    learned: ClassVar[Mapping[str, Any] | None] = {"usual_": np.ndarray}

    expected: float = 250.0
    longest: int = 200

    @property
    def n_parameters_(self) -> int:
        """One variance for each channel."""
        return len(self.usual_)

    def _learn(self, rows: FloatArray) -> None:
        self.usual_ = np.maximum(np.diff(rows.astype(np.float64), axis=0).var(axis=0) / 2, 1e-4)

    @property
    def context(self) -> None:
        """None: a row's score depends on all rows before it."""
        return

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        runs = RunLengths(self.usual_, max(self.longest, 2), max(self.expected, 2))

        def score(rows: FloatArray) -> Scored:
            surprise = np.array([runs.step(row) for row in self.scaler_(rows).astype(np.float64)])
            attribution = np.maximum(surprise, 0).astype(np.float32) if explain else None
            return Scored(surprise.mean(axis=1), attribution)

        return RowStage(0, score)

    def _judge(self, rows: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        raise NotImplementedError  # `_scorer` carries the run lengths from row to row

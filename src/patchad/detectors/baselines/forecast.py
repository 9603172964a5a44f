"""Recurrent and convolutional nets that foretell the next row, or rebuild the window; the error is the score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.signal import lfilter
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch.nn.utils.parametrizations import weight_norm

from patchad.data.stages import Immediate, Scored, Stage
from patchad.data.table import FloatArray
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError

MEASURED_WINDOWS = 1_000
"""Train windows at most that say how far each channel usually moves in a row."""


@dataclass(kw_only=True, eq=False, repr=False)
class CNN(NeuralDetector):
    """Convolutions that foretell the next row from the ones before it.

    Munir et al., "DeepAnT: A Deep Learning Approach for Unsupervised Anomaly Detection in Time Series" (2018): two
    blocks of convolution, ReLU and max pooling, then a linear map to the next row; the error is the squared
    difference. Sizes are those of the paper's experiments but for the width, 32 filters.

    Parameters
    ----------
    window
        Rows before, and the row to foretell.
    filters
        Of each convolution.
    """

    name = "cnn"

    window: int = 51
    filters: int = 32

    def _build(self, channels: int) -> nn.Module:
        before = self.window_ - 1
        return nn.Sequential(
            nn.Conv1d(channels, self.filters, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool1d(2, ceil_mode=True),
            nn.Conv1d(self.filters, self.filters, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool1d(2, ceil_mode=True),
            nn.Flatten(),
            nn.Linear(self.filters * -(-before // 4), channels),
        )

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return (_foretold(net, batch) - batch[:, -1]).square().mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return (_foretold(self.net_, windows) - windows[:, -1]).square()[:, None]


def _foretold(net: nn.Module, windows: Tensor) -> Tensor:
    """Give the newest row `(b, c)` as the net expects it from the rows before."""
    foretold: Tensor = net(windows[:, :-1].transpose(1, 2))
    return foretold


# -- recurrent ---------------------------------------------------------------------------------------------------------


class _LSTMNet(nn.Module):
    """At each row, foretell the next `horizon` rows from it and the ones before it in the window."""

    def __init__(self, channels: int, hidden: int, layers: int, horizon: int, dropout: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.lstm = nn.LSTM(channels, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.head = nn.Linear(hidden, horizon * channels)

    def forward(self, rows: Tensor) -> Tensor:
        """Turn `(b, t, c)` into `(b, t, horizon, c)`."""
        states, _ = self.lstm(rows)
        foretold: Tensor = self.head(states)
        return foretold.reshape(*rows.shape[:2], self.horizon, rows.shape[2])


@dataclass(kw_only=True, eq=False, repr=False)
class LSTMRNN(NeuralDetector):
    """An LSTM foretells the next row; a run of rows that come otherwise is strange.

    Bontemps et al., "Collective Anomaly Detection Based on Long Short-Term Memory Recurrent Neural Networks" (2016):
    the relative error of a row, which the paper defines as the absolute difference, is averaged over the latest rows,
    so that a collective anomaly counts for more than one odd row. The paper then counts how many of these rows are over
    a threshold and alarms by both figures; here the average is the score, and a threshold comes after it as for every
    detector. The paper foretells one channel of traffic counts; here one net foretells all channels, and the score is
    their mean. Every row of a window foretells the next, in training and in scoring; the first row of a series has no
    forecast and takes the error of the second. Sizes and learning rate are ours, for a short training.

    Parameters
    ----------
    window
        Rows after which the LSTM's memory starts afresh.
    hop
        Rows between two windows when scoring: a row is foretold from `window - hop` rows at least.
    smoothing
        Rows whose errors are averaged: the paper's least duration of an attack.
    hidden
        Units of the LSTM.
    """

    name = "lstm_rnn"

    window: int = 60
    hop: int = 10
    smoothing: int = 10
    learning_rate: float = 5e-3
    hidden: int = 64

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.window < 2:
            raise InputError(f"window={self.window} is too small; a row and the one to foretell are needed, 2 at least")

    def _build(self, channels: int) -> nn.Module:
        return _LSTMNet(channels, self.hidden, layers=1, horizon=1, dropout=0.0)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        target = batch[:, 1:].unfold(1, net.horizon, 1).transpose(2, 3)  # (b, t - horizon, horizon, c)
        foretold: Tensor = net(batch[:, :-1])[:, : target.shape[1]]
        return (foretold - target).square().mean()

    def _errors(self, windows: Tensor) -> Tensor:
        wrong = (self.net_(windows[:, :-1])[:, :, 0] - windows[:, 1:]).abs()
        return torch.cat([wrong[:, :1], wrong], dim=1)


@dataclass(kw_only=True, eq=False, repr=False)
class LSTM(LSTMRNN):
    """Two layers of LSTM foretell the next rows; a row is strange where the smoothed error of its forecast is large.

    Hundman et al., "Detecting Spacecraft Anomalies Using LSTMs and Nonparametric Dynamic Thresholding" (2018), known
    as telemanom. The net foretells `horizon` rows; the absolute error of the first of them, smoothed by an
    exponentially weighted mean of the rows up to now, is the score. The paper's dynamic threshold and the pruning of
    its alarms are no part of the score and are left out. The public code foretells one telemetry channel with a net of
    its own and moves the first smoothed errors to their mean; here one net foretells all channels, and nothing looks
    ahead. Every row of a window foretells, not only its end, so that a small budget suffices. Layers, units, dropout,
    horizon and span are the public code's; its 250 rows of history are cut to 100 for the budget.

    Parameters
    ----------
    window
        Rows after which the LSTM's memory starts afresh.
    hop
        Rows between two windows when scoring: a row is foretold from `window - hop` rows at least.
    smoothing
        Rows of a trailing mean over the scores, before the exponential one; 1 is none.
    hidden, layers, dropout
        Of the LSTM.
    horizon
        Rows that are foretold at once.
    span
        Of the exponentially weighted mean: a row's weight falls by `1 - 2 / (span + 1)` with each row after it; 1 is
        no smoothing.
    """

    name = "lstm"

    window: int = 110
    smoothing: int = 1
    max_steps: int | None = 300
    hidden: int = 80
    layers: int = 2
    dropout: float = 0.3
    horizon: int = 10
    span: int = 105

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("horizon", "span"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")

    def _build(self, channels: int) -> nn.Module:
        return _LSTMNet(channels, self.hidden, self.layers, min(self.horizon, self.window_ - 1), self.dropout)

    @property
    def context(self) -> None:
        """None: the exponentially weighted mean forgets nothing."""
        return

    def _row_stages(self) -> tuple[Stage[Scored], ...]:
        return (*super()._row_stages(), ExponentialMean(self.span))


class ExponentialMean(Immediate):
    """Average scores and attribution with all rows before, whose weights fall exponentially with their age.

    Examples
    --------
    >>> mean = ExponentialMean(span=3)
    >>> mean.push(Scored(np.array([0.0]))).scores.tolist(), mean.push(Scored(np.array([3.0]))).scores.tolist()
    ([0.0], [2.0])
    """

    def __init__(self, span: int) -> None:
        self._keep = 1 - 2 / (span + 1)
        self._states: dict[str, FloatArray] = {}

    def push(self, rows: Scored) -> Scored:
        """Return the rows, averaged."""
        if not len(rows):  # lfilter would return a state of its own
            return rows
        weight = self._filtered("weight", np.ones((len(rows), 1)))
        scores = self._filtered("scores", rows.scores[:, None]) / weight
        if rows.attribution is None:
            return Scored(scores[:, 0])
        attribution = self._filtered("attribution", rows.attribution) / weight
        return Scored(scores[:, 0], attribution.astype(np.float32))

    def _filtered(self, name: str, values: FloatArray) -> FloatArray:
        """Sum `(time, column)` values with all before, each row weighing `keep` times the one after it."""
        before = self._states.get(name, np.zeros((1, values.shape[1])))
        total, self._states[name] = lfilter([1.0], [1.0, -self._keep], values.astype(np.float64), axis=0, zi=before)
        return np.asarray(total)


# -- convolutional -----------------------------------------------------------------------------------------------------


class _TemporalBlock(nn.Module):
    """Two dilated convolutions that see only rows before, or only rows after, beside a short cut."""

    def __init__(self, size_in: int, size_out: int, kernel: int, dilation: int, dropout: float, *, back: bool) -> None:
        super().__init__()
        reach = (kernel - 1) * dilation
        side = (reach, 0) if back else (0, reach)
        parts: list[nn.Module] = []
        for inputs in (size_in, size_out):
            convolution = weight_norm(nn.Conv1d(inputs, size_out, kernel, dilation=dilation))
            parts += [nn.ConstantPad1d(side, 0.0), convolution, nn.ReLU(), nn.Dropout(dropout)]
        self.body = nn.Sequential(*parts)
        self.short_cut = nn.Conv1d(size_in, size_out, 1) if size_in != size_out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.body(x) + self.short_cut(x)
        return total.relu()


@dataclass(kw_only=True, eq=False, repr=False)
class TCNED(NeuralDetector):
    """Dilated convolutions squeeze each row and its neighbours into few numbers and rebuild the window from them.

    Garg et al., "An Evaluation of Anomaly Detection and Diagnosis in Multivariate Time Series" (2022): the encoder is a
    temporal convolutional network whose dilation doubles from block to block and which sees rows before; the decoder
    mirrors it and sees rows after. The error is the squared difference of each channel. The paper gathers errors with
    scoring functions of its own, fitted Gaussians among them; here the mean over channels is the score. A linear map
    ends the decoder, where the public code has a ReLU for data between 0 and 1, and plain convolutions stand for its
    transposed ones. Window, kernel and dropout are the public code's; the widths, which it tunes, and the hop are ours.

    Parameters
    ----------
    widths
        Channels of each block of the encoder; the last is what a row is squeezed into.
    kernel
        Rows of a convolution.
    dropout
        Share of the activations that training drops.
    """

    name = "tcn_ed"

    window: int = 55
    hop: int = 10
    widths: tuple[int, ...] = (32, 16, 4)
    kernel: int = 5
    dropout: float = 0.2

    def _build(self, channels: int) -> nn.Module:
        sizes = [channels, *self.widths]
        encoder = [
            _TemporalBlock(a, b, self.kernel, 2**level, self.dropout, back=True)
            for level, (a, b) in enumerate(pairwise(sizes))
        ]
        turned = list(reversed(self.widths))
        decoder = [
            _TemporalBlock(a, b, self.kernel, 2 ** (len(turned) - 1 - level), self.dropout, back=False)
            for level, (a, b) in enumerate(pairwise([*turned, turned[-1]]))
        ]
        return nn.Sequential(*encoder, *decoder, nn.Conv1d(turned[-1], channels, 1))

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return (_rebuilt(net, batch) - batch).square().mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return (_rebuilt(self.net_, windows) - windows).square()


def _rebuilt(net: nn.Module, windows: Tensor) -> Tensor:
    """Give the windows `(b, t, c)` as the net, which takes `(b, c, t)`, rebuilds them."""
    rebuilt: Tensor = net(windows.transpose(1, 2)).transpose(1, 2)
    return rebuilt


# -- Kolmogorov-Arnold -------------------------------------------------------------------------------------------------


class _KANADNet(nn.Module):
    """Foretell the next value of single channels as a learned sum of smooth functions of value and position."""

    turns: Tensor  # (order, 1): 1, 2, ...
    waves: Tensor  # (order, t): cosines of the position

    def __init__(self, rows: int, order: int) -> None:
        super().__init__()
        functions = 2 * order + 1
        turns = torch.arange(1, order + 1)[:, None]
        self.register_buffer("waves", torch.cos(2 * math.pi * turns * torch.arange(rows) / rows), persistent=False)
        self.register_buffer("turns", turns, persistent=False)
        self.mix_first = nn.Conv1d(functions, functions, 3, padding=1, bias=False)
        self.mix_second = nn.Conv1d(functions, functions, 3, padding=1, bias=False)
        self.merge = nn.Conv1d(functions, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in (functions, functions, 1))
        self.foretell = nn.Linear(rows, 1)

    def forward(self, values: Tensor) -> Tensor:
        """Turn `(b, t)` into the next value, `(b,)`."""
        value = values[:, None]
        basis = torch.cat([self.waves.expand(len(values), -1, -1), torch.cos(self.turns * value), value], dim=1)
        mixed = gelu(self.norms[0](self.mix_first(basis)))
        mixed = gelu(self.norms[1](self.mix_second(mixed) + basis))
        merged = gelu(self.norms[2](self.merge(mixed) + value))
        foretold: Tensor = self.foretell(merged)
        return foretold[:, 0, 0]


@dataclass(kw_only=True, eq=False, repr=False)
class KANAD(NeuralDetector):
    """A few smooth functions foretell each channel's next move; a move that they do not follow is strange.

    Zhou et al., "KAN-AD: Time Series Anomaly Detection with Kolmogorov-Arnold Networks" (2025): the splines of a
    Kolmogorov-Arnold net are replaced by a truncated Fourier series, cosines of the value and of its place in the
    window, whose coefficients come from small convolutions; about 300 numbers are learned. The net sees differences of
    successive rows, which rids it of the constant term; that they are divided by each channel's usual move on train is
    ours. One net serves every channel, one at a time; the error is the squared difference, and the score its mean over
    channels. The 96 differences that are seen, the order and the learning rate are the public code's; the batch is
    smaller for the budget.

    Parameters
    ----------
    window
        Rows seen, and the row to foretell.
    order
        Cosines of the value, and as many of the place in the window.
    """

    name = "kan_ad"
    learned: ClassVar[Mapping[str, Any] | None] = {"moves_": np.ndarray}

    window: int = 98
    learning_rate: float = 1e-2
    order: int = 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.window < 3:
            raise InputError(f"window={self.window} is too small; a move and the next are needed, 3 rows at least")

    def _build(self, channels: int) -> nn.Module:  # noqa: ARG002 - one net for every channel
        return _KANADNet(self.window_ - 2, self.order)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        moves = np.diff(self._scaled_windows(known, MEASURED_WINDOWS), axis=1)
        self.moves_ = np.maximum(moves.std(axis=(0, 1)), 1e-3)  # of a standard deviation: less is rounding
        super()._learn(known, held_out)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return self._wrong(net, batch).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return self._wrong(self.net_, windows)[:, None]

    def _wrong(self, net: nn.Module, windows: Tensor) -> Tensor:
        """Give the squared error of the newest row's move, `(b, c)`."""
        usual = torch.as_tensor(self.moves_, dtype=windows.dtype, device=windows.device)
        moves = (windows.diff(dim=1) / usual).transpose(1, 2)  # (b, c, t - 1)
        foretold: Tensor = net(moves[..., :-1].flatten(0, 1)).reshape(moves.shape[:2])
        return (foretold - moves[..., -1]).square()

"""Recurrent and convolutional nets that forecast the next row or reconstruct the window; the error is the score."""

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
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.neural import NeuralDetector

DIFFERENCE_WINDOWS = 1_000
"""Most train windows used to estimate the usual difference of successive rows."""


@dataclass(kw_only=True, eq=False, repr=False)
class CNN(NeuralDetector):
    """Error of a convolutional forecast of the next row from the rows before it.

    Munir et al., "DeepAnT: A Deep Learning Approach for Unsupervised Anomaly Detection in Time Series" (2018): two
    blocks of convolution, ReLU and max pooling, then a linear map to the next row; the error is the squared
    difference. Sizes are those of the paper's experiments except for the width, 32 filters.

    Parameters
    ----------
    window
        The rows before, and the row to forecast.
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
        return _newest_row_errors(net, batch).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return _newest_row_errors(self.net_, windows)[:, None]


def _newest_row_errors(net: nn.Module, windows: Tensor) -> Tensor:
    """Return the squared errors `(b, c)` of the newest row as forecast from the rows before it."""
    forecast: Tensor = net(windows[:, :-1].transpose(1, 2))
    return (forecast - windows[:, -1]).square()


# -- recurrent ---------------------------------------------------------------------------------------------------------


class _LSTMNet(nn.Module):
    """At each row, forecast the next `horizon` rows from it and the rows before it in the window."""

    def __init__(self, channels: int, hidden: int, layers: int, horizon: int, dropout: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.lstm = nn.LSTM(channels, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.head = nn.Linear(hidden, horizon * channels)

    def forward(self, rows: Tensor) -> Tensor:
        """`(b, t, c)` to `(b, t, horizon, c)`."""
        states, _ = self.lstm(rows)
        forecast: Tensor = self.head(states)
        return forecast.reshape(*rows.shape[:2], self.horizon, rows.shape[2])


@dataclass(kw_only=True, eq=False, repr=False)
class LSTMRNN(NeuralDetector):
    """Error of an LSTM's forecast of the next row, averaged over the latest rows.

    Bontemps et al., "Collective Anomaly Detection Based on Long Short-Term Memory Recurrent Neural Networks" (2016):
    the relative error of a row, which the paper defines as the absolute difference, is averaged over the latest rows,
    so that a collective anomaly counts for more than a single outlier. The paper then counts how many of these rows
    exceed a threshold and alarms by both figures; here the average is the score, and a threshold follows as for every
    detector. The paper forecasts one channel of traffic counts; here one net forecasts all channels, and the score is
    their mean. Every row of a window yields a forecast of the next, in training and in scoring; the first row of a
    series has no forecast and takes the error of the second. Sizes and learning rate are ours, for a short training.

    Parameters
    ----------
    window
        Rows after which the state of the LSTM is reset.
    hop
        Rows between two windows when scoring: a row is forecast from at least `window - hop` rows.
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
        check_least(self, window=2)

    def _build(self, channels: int) -> nn.Module:
        return _LSTMNet(channels, self.hidden, layers=1, horizon=1, dropout=0.0)

    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        target = batch[:, 1:].unfold(1, net.horizon, 1).transpose(2, 3)  # (b, t - horizon, horizon, c)
        forecast: Tensor = net(batch[:, :-1])[:, : target.shape[1]]
        return (forecast - target).square().mean()

    def _errors(self, windows: Tensor) -> Tensor:
        errors = (self.net_(windows[:, :-1])[:, :, 0] - windows[:, 1:]).abs()
        return torch.cat([errors[:, :1], errors], dim=1)


@dataclass(kw_only=True, eq=False, repr=False)
class LSTM(LSTMRNN):
    """Exponentially smoothed error of a two-layer LSTM's forecast of the next row.

    Hundman et al., "Detecting Spacecraft Anomalies Using LSTMs and Nonparametric Dynamic Thresholding" (2018), known
    as telemanom. The net forecasts `horizon` rows; the absolute error of the first of them, smoothed by an
    exponentially weighted mean of the rows so far, is the score. The paper's dynamic threshold and the pruning of its
    alarms are not part of the score and are left out. The public code forecasts one telemetry channel with a net of
    its own and sets the first smoothed errors to their mean; here one net forecasts all channels, and nothing looks
    ahead. Every row of a window yields a forecast, not only its end, so that a small budget suffices. Layers, units,
    dropout, horizon and span are the public code's; its 250 rows of history are cut to 100 for the budget.

    Parameters
    ----------
    window
        Rows after which the state of the LSTM is reset.
    hop
        Rows between two windows when scoring: a row is forecast from at least `window - hop` rows.
    smoothing
        Rows of a trailing mean over the scores, before the exponential one; 1 is none.
    hidden, layers, dropout
        Of the LSTM.
    horizon
        Rows forecast at once.
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
        check_least(self, horizon=1, span=1)

    def _build(self, channels: int) -> nn.Module:
        return _LSTMNet(channels, self.hidden, self.layers, min(self.horizon, self.window_ - 1), self.dropout)

    @property
    def context(self) -> None:
        """None: the exponentially weighted mean never forgets a row."""
        return

    def _row_stages(self) -> tuple[Stage[Scored], ...]:
        return (*super()._row_stages(), ExponentialMean(self.span))


class ExponentialMean(Immediate):
    """Average scores and attribution with all rows before, with weights that decay exponentially with age.

    Examples
    --------
    >>> mean = ExponentialMean(span=3)
    >>> mean.push(Scored(np.array([0.0]))).scores.tolist(), mean.push(Scored(np.array([3.0]))).scores.tolist()
    ([0.0], [2.0])
    """

    state: ClassVar[tuple[str, ...]] = ("_states",)

    def __init__(self, span: int) -> None:
        self._decay = 1 - 2 / (span + 1)
        self._states: dict[str, FloatArray] = {}

    def push(self, rows: Scored) -> Scored:
        """Return the averaged rows."""
        if not len(rows):  # lfilter would return a state of its own
            return rows
        weight = self._filter("weight", np.ones((len(rows), 1)))
        scores = self._filter("scores", rows.scores[:, None]) / weight
        if rows.attribution is None:
            return Scored(scores[:, 0])
        attribution = self._filter("attribution", rows.attribution) / weight
        return Scored(scores[:, 0], attribution.astype(np.float32))

    def _filter(self, name: str, values: FloatArray) -> FloatArray:
        """Sum `(time, column)` values with all before, each row with `decay` times the weight of the next."""
        before = self._states.get(name, np.zeros((1, values.shape[1])))
        total, self._states[name] = lfilter([1.0], [1.0, -self._decay], values.astype(np.float64), axis=0, zi=before)
        return np.asarray(total)


# -- convolutional -----------------------------------------------------------------------------------------------------


class _TemporalBlock(nn.Module):
    """Two dilated convolutions over rows before (or, with `causal` off, rows after) beside a shortcut."""

    def __init__(
        self, size_in: int, size_out: int, kernel: int, dilation: int, dropout: float, *, causal: bool
    ) -> None:
        super().__init__()
        reach = (kernel - 1) * dilation
        padding = (reach, 0) if causal else (0, reach)
        layers: list[nn.Module] = []
        for inputs in (size_in, size_out):
            convolution = weight_norm(nn.Conv1d(inputs, size_out, kernel, dilation=dilation))
            layers += [nn.ConstantPad1d(padding, 0.0), convolution, nn.ReLU(), nn.Dropout(dropout)]
        self.body = nn.Sequential(*layers)
        self.shortcut = nn.Conv1d(size_in, size_out, 1) if size_in != size_out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.body(x) + self.shortcut(x)
        return total.relu()


@dataclass(kw_only=True, eq=False, repr=False)
class TCNED(NeuralDetector):
    """Reconstruction error of a temporal convolutional autoencoder with a narrow code at every row.

    Garg et al., "An Evaluation of Anomaly Detection and Diagnosis in Multivariate Time Series" (2022): the encoder is a
    temporal convolutional network whose dilation doubles from block to block and which covers rows before; the decoder
    mirrors it and covers rows after. The error is the squared difference of each channel. The paper aggregates errors
    with scoring functions of its own, fitted Gaussians among them; here the mean over channels is the score. A linear
    map ends the decoder, where the public code has a ReLU for data between 0 and 1, and plain convolutions replace its
    transposed ones. Window, kernel and dropout are the public code's; the widths, which it tunes, and the hop are ours.

    Parameters
    ----------
    widths
        Channels of each block of the encoder; the last is the width of the code of a row.
    kernel
        Rows per convolution.
    dropout
        Dropout rate in training.
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
            _TemporalBlock(a, b, self.kernel, 2**depth, self.dropout, causal=True)
            for depth, (a, b) in enumerate(pairwise(sizes))
        ]
        mirrored = list(reversed(self.widths))
        decoder = [
            _TemporalBlock(a, b, self.kernel, 2 ** (len(mirrored) - 1 - depth), self.dropout, causal=False)
            for depth, (a, b) in enumerate(pairwise([*mirrored, mirrored[-1]]))
        ]
        return nn.Sequential(*encoder, *decoder, nn.Conv1d(mirrored[-1], channels, 1))

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return _reconstruction_errors(net, batch).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return _reconstruction_errors(self.net_, windows)


def _reconstruction_errors(net: nn.Module, windows: Tensor) -> Tensor:
    """Return the squared errors of windows `(b, t, c)` under a net that takes `(b, c, t)`."""
    reconstruction: Tensor = net(windows.transpose(1, 2)).transpose(1, 2)
    return (reconstruction - windows).square()


# -- Kolmogorov-Arnold -------------------------------------------------------------------------------------------------


class _KANADNet(nn.Module):
    """Forecast the next value of single channels as a learned sum of smooth functions of value and position."""

    frequencies: Tensor  # (order, 1): 1, 2, ...
    waves: Tensor  # (order, t): cosines of the position

    def __init__(self, rows: int, order: int) -> None:
        super().__init__()
        functions = 2 * order + 1
        frequencies = torch.arange(1, order + 1)[:, None]
        waves = torch.cos(2 * math.pi * frequencies * torch.arange(rows) / rows)
        self.register_buffer("waves", waves, persistent=False)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.mix_first = nn.Conv1d(functions, functions, 3, padding=1, bias=False)
        self.mix_second = nn.Conv1d(functions, functions, 3, padding=1, bias=False)
        self.merge = nn.Conv1d(functions, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in (functions, functions, 1))
        self.head = nn.Linear(rows, 1)

    def forward(self, values: Tensor) -> Tensor:
        """`(b, t)` to the next value, `(b,)`."""
        value = values[:, None]
        basis = torch.cat([self.waves.expand(len(values), -1, -1), torch.cos(self.frequencies * value), value], dim=1)
        mixed = gelu(self.norms[0](self.mix_first(basis)))
        mixed = gelu(self.norms[1](self.mix_second(mixed) + basis))
        merged = gelu(self.norms[2](self.merge(mixed) + value))
        forecast: Tensor = self.head(merged)
        return forecast[:, 0, 0]


@dataclass(kw_only=True, eq=False, repr=False)
class KANAD(NeuralDetector):
    """Error of a forecast of each channel's next difference by a learned sum of a few smooth functions.

    Zhou et al., "KAN-AD: Time Series Anomaly Detection with Kolmogorov-Arnold Networks" (2025): the splines of a
    Kolmogorov-Arnold net are replaced by a truncated Fourier series, cosines of the value and of its position in the
    window, whose coefficients come from small convolutions; about 300 parameters are learned. The net sees differences
    of successive rows, which removes the constant term; dividing them by each channel's usual difference on train is
    ours. One net serves every channel, one at a time; the error is the squared difference, and the score its mean over
    channels. The 96 input differences, the order and the learning rate are the public code's; the batch is smaller for
    the budget.

    Parameters
    ----------
    window
        The rows before, and the row to forecast.
    order
        Cosines of the value, and as many of the position in the window.
    """

    name = "kan_ad"
    learned: ClassVar[Mapping[str, Any] | None] = {"usual_": np.ndarray}

    window: int = 98
    learning_rate: float = 1e-2
    order: int = 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=3)

    def _build(self, channels: int) -> nn.Module:  # noqa: ARG002 - one net for every channel
        return _KANADNet(self.window_ - 2, self.order)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        differences = np.diff(self._scaled_windows(known, DIFFERENCE_WINDOWS), axis=1)
        # The floor is in standard deviations of the channel: smaller differences are rounding.
        self.usual_ = np.maximum(differences.std(axis=(0, 1)), 1e-3)
        super()._learn(known, held_out)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return self._difference_errors(net, batch).mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return self._difference_errors(self.net_, windows)[:, None]

    def _difference_errors(self, net: nn.Module, windows: Tensor) -> Tensor:
        """Return the squared error of the newest difference, `(b, c)`."""
        usual = torch.as_tensor(self.usual_, dtype=windows.dtype, device=windows.device)
        differences = (windows.diff(dim=1) / usual).transpose(1, 2)  # (b, c, t - 1)
        forecast: Tensor = net(differences[..., :-1].flatten(0, 1)).reshape(differences.shape[:2])
        return (forecast - differences[..., -1]).square()

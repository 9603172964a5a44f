"""One-class nets: train is pulled towards one centre or several; what stays far from them is anomalous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.table import FloatArray
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.baselines.contrastive import TCN
from patchad.detectors.baselines.injection import random_channels
from patchad.detectors.neural import NeuralDetector
from patchad.model.training import Goal


class CalibratedNet(nn.Module):
    """A TCN's newest code, two projections of it that should agree, and a classifier of synthetic anomalies."""

    centre: Tensor

    def __init__(self, channels: int, width: int, layers: int, kernel: int) -> None:
        super().__init__()
        self.tcn = TCN(channels, width, layers, kernel, bias=False)
        self.hidden = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(2)])
        self.out = nn.Linear(width, width, bias=False)
        self.classify = nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(), nn.Linear(width, 1))
        self.register_buffer("centre", torch.zeros(width))

    def project(self, code: Tensor) -> list[Tensor]:
        """Project codes `(b, width)` in two ways."""
        return [self.out(functional.leaky_relu(hidden(code))) for hidden in self.hidden]

    def distances(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared distance of each projection to the centre: `(b,)` each."""
        one, other = ((projected - self.centre).square().sum(-1) for projected in self.project(code))
        return one, other


@dataclass(kw_only=True, eq=False, repr=False)
class COUTA(NeuralDetector):
    """Distance of a window's code to a single centre of the train windows' codes.

    Xu et al., "Calibrated One-class Classification for Unsupervised Time Series Anomaly Detection" (2022, 2024). Two
    projections of the code are pulled towards the centre; where their distances differ, the net is uncertain about the
    window, and its weight falls (uncertainty modelling). The net also learns to tell natural windows from synthetic
    anomalies made from them (native anomalies), of six kinds: some channels of the end of the window stay constant at
    the lowest or highest value; their newest value differs from the mean of the ten newest by half of the range, up or
    down; or it is far outside the range, up or down. The score is the sum of both squared distances.

    The TCN is the public code's: a single block of 16 filters of two rows, which covers only the newest three rows;
    more `layers` cover more. Loss weights and the share of synthetic anomalies are the public code's. Its data lie
    between 0 and 1; here the range of a channel is that of the batch. It takes 40 epochs at a learning rate of 1e-4;
    here fewer and longer steps. It scores the newest row; so does `hop=1`, while rows of a longer hop share a score.

    Parameters
    ----------
    d_model, layers, kernel
        Width, blocks and kernel of the TCN, whose dilation doubles from block to block.
    weight
        Of the classification of synthetic anomalies in the loss.
    made
        Synthetic anomalies, as a share of the batch.
    """

    name = "couta"

    window: int = 100
    hop: int = 1
    max_steps: int | None = 400
    d_model: int = 16
    layers: int = 1
    kernel: int = 2
    weight: float = 0.1
    made: float = 0.2

    def _build(self, channels: int) -> nn.Module:
        return CalibratedNet(channels, self.d_model, self.layers, self.kernel)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        self._centre_windows = torch.from_numpy(self._scaled_windows(known, 512))
        super()._learn(known, held_out)
        del self._centre_windows

    def _goals(self, net: Any) -> list[Goal]:
        """Set the centre to the untrained net's mean projection, off zero: at zero the net could collapse."""
        with torch.no_grad():
            mean = net.project(net.tcn(self._centre_windows.to(self.device_))[:, -1])[0].mean(0)
            net.centre.copy_(torch.where(mean < 0, -1.0, 1.0) * mean.abs().clamp_min(0.1))
        return super()._goals(net)

    def _loss(self, net: CalibratedNet, batch: Tensor) -> Tensor:
        natural = net.tcn(batch)[:, -1]
        one, other = net.distances(natural)
        uncertainty = (one - other).square()
        calibrated = 0.5 * (torch.exp(-uncertainty) * (one + other) + uncertainty)
        made = native_anomalies(batch)[: max(round(self.made * len(batch)), 1)]
        predicted = net.classify(torch.cat([natural, net.tcn(made)[:, -1]]))[:, 0]
        truth = torch.ones_like(predicted)
        truth[len(batch) :] = -1
        loss: Tensor = calibrated.mean() + self.weight * (predicted - truth).square().mean()
        return loss

    def _errors(self, windows: Tensor) -> Tensor:
        net: Any = self.net_
        one, other = net.distances(net.tcn(windows)[:, -1])
        distance: Tensor = (one + other)[:, None, None]
        return distance


def native_anomalies(batch: Tensor) -> Tensor:
    """Corrupt the end of each window `(b, t, c)` in one of COUTA's six ways, at random."""
    b, t, _ = batch.shape
    low, high = batch.amin((0, 1)), batch.amax((0, 1))
    scale = (high - low).clamp_min(0.1)
    steps = torch.arange(t, device=batch.device)[:, None]
    newest = steps == t - 1
    end = steps >= t - torch.randint(1, max(t // 2, 2), (b, 1, 1), device=batch.device)
    kind = torch.randint(6, (b, 1, 1), device=batch.device)
    around = batch[:, -10:].mean(1, keepdim=True)
    corrupted = batch.clone()
    for number, (rows, value) in enumerate(
        [
            (end, low),
            (end, high),
            (newest, around - 0.5 * scale),
            (newest, around + 0.5 * scale),
            (newest, low - 2 * scale),
            (newest, high + scale),
        ]
    ):
        corrupted = torch.where((kind == number) & rows & random_channels(batch), value, corrupted)
    return corrupted


class DilatedGRU(nn.Module):
    """A recurrent layer that steps over `dilation` rows at a time: `(b, t, c)` to `(b, t, width)`."""

    def __init__(self, inputs: int, width: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.cell = nn.GRU(inputs, width, batch_first=True)

    def forward(self, rows: Tensor) -> Tensor:
        """Run over each of the `dilation` interleaved series separately."""
        b, t, c = rows.shape
        padding = -t % self.dilation
        padded = functional.pad(rows, (0, 0, padding, 0))
        separate = padded.view(b, -1, self.dilation, c).transpose(1, 2).reshape(b * self.dilation, -1, c)
        states = self.cell(separate)[0].view(b, self.dilation, -1, self.cell.hidden_size)
        interleaved: Tensor = states.transpose(1, 2).reshape(b, t + padding, -1)[:, padding:]
        return interleaved


class HierarchicalNet(nn.Module):
    """Dilated layers, each with its own clusters, to which the features of the layer below are assigned."""

    def __init__(self, channels: int, width: int, clusters: Sequence[int]) -> None:
        super().__init__()
        inputs = [channels, *[width] * (len(clusters) - 1)]
        self.layers = nn.ModuleList([DilatedGRU(n, width, 2**i) for i, n in enumerate(inputs)])
        self.centres = nn.ParameterList([nn.Parameter(torch.randn(k, width) / width**0.5) for k in clusters])
        self.lift = nn.ModuleList([nn.Linear(width, width) for _ in clusters])
        self.join = nn.ModuleList([nn.Linear(2 * width, width) for _ in clusters[1:]])
        self.forecast = nn.ModuleList([nn.Linear(width, channels) for _ in clusters])

    def forward(self, rows: Tensor, temperature: float) -> tuple[Tensor, list[Tensor]]:
        """Return the distance of each row to the clusters, `(b, t)`, and each layer's features, `(b, t, width)`."""
        features: list[Tensor] = []
        x, gathered, weights = rows, rows, rows[..., :1].new_ones(*rows.shape[:2], 1)
        for number, (layer, centres, lift) in enumerate(zip(self.layers, self.centres, self.lift, strict=True)):
            x = layer(x)
            features.append(x)
            if number == 0:
                joined = x[:, :, None]  # b, t, feature of a cluster of the layer below, width
            else:
                own = x[:, :, None].expand_as(gathered)
                joined = torch.tanh(self.join[number - 1](torch.cat([gathered, own], -1)))
            cosine = functional.normalize(joined, dim=-1) @ functional.normalize(centres, dim=-1).T
            assigned = (cosine / temperature).softmax(-1)  # b, t, feature, cluster
            gathered = assigned.transpose(-1, -2) @ functional.relu(lift(joined))
            weights = (weights[:, :, None] @ assigned)[:, :, 0]
        cosine = functional.cosine_similarity(gathered, self.centres[-1], dim=-1)
        return (weights * (1 - cosine)).sum(-1), features


@dataclass(kw_only=True, eq=False, repr=False)
class THOC(NeuralDetector):
    """Distance of a row's recurrent features, at several time scales, to learned clusters of train.

    Shen et al., "Timeseries Anomaly Detection using Temporal Hierarchical One-Class Network" (2020): a dilated
    recurrent net; at each layer the features are softly assigned, by cosine, to clusters with learned centres, and
    what a cluster gathers is joined with the features of the next layer. The score is one minus the cosine between
    what the top clusters gather and their centres, weighted by the assignments. The loss also makes the centres of a
    layer orthogonal, and makes each layer forecast the row that lies its dilation ahead.

    The paper chooses widths, clusters and weights for each data set; those here are ours, as is the GRU cell. The net
    starts afresh in each window, so that the first rows of a series are scored with little past.

    Parameters
    ----------
    d_model
        Features of each layer.
    clusters
        Of each layer; the dilation doubles from layer to layer.
    temperature
        Divisor of the cosines in the assignment.
    orthogonal, forecasting
        Weights of these terms of the loss.
    """

    name = "thoc"

    window: int = 100
    hop: int = 10
    max_steps: int | None = 200
    batch_size: int = 32
    learning_rate: float = 3e-3
    d_model: int = 32
    clusters: tuple[int, ...] = (12, 6, 4)
    temperature: float = 0.1
    orthogonal: float = 0.1
    forecasting: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=2)

    def _build(self, channels: int) -> nn.Module:
        return HierarchicalNet(channels, self.d_model, self.clusters)

    def _loss(self, net: HierarchicalNet, batch: Tensor) -> Tensor:
        distance, features = net(batch, self.temperature)
        loss: Tensor = distance.mean()
        for centres in net.centres:
            unit = functional.normalize(centres, dim=-1)
            loss = loss + self.orthogonal * (unit @ unit.T - torch.eye(len(unit), device=unit.device)).square().mean()
        for number, (forecast, x) in enumerate(zip(net.forecast, features, strict=True)):
            ahead = min(2**number, batch.shape[1] - 1)
            error = (forecast(x[:, :-ahead]) - batch[:, ahead:]).square().mean()
            loss = loss + self.forecasting * error / len(features)
        return loss

    def _errors(self, windows: Tensor) -> Tensor:
        distance: Tensor = self.net_(windows, self.temperature)[0]
        return distance.clamp_min(0)[..., None]

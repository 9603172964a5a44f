"""Points alone, points in sequence, and the difference between the two: the models of NPSR.

Lai et al., "Nominality Score Conditioned Time Series Anomaly Detection by Point/Sequential Reconstruction" (2023). Its
point model reconstructs a row through a bottleneck; its sequence model reconstructs a hidden row from the rows around
it. Where the two agree on a deviation, the row is not nominal, and passes its score on to its neighbours.

The tables of PatchAD's paper name "NPSR-pt" and "NPSR-seq" without explaining them. They are interpreted here as the
errors of the two models, which is what the public code of NPSR prints under these names. The whole of NPSR, which those
tables also have, is `npsr_seq` with `score="induced"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.baselines.checks import check_heads, check_least
from patchad.detectors.baselines.sampling import even_batches
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError
from patchad.model.net import sinusoids

GATE_VALUES = 1_000_000
"""Most values of train windows from which the level of the nominality score is estimated."""


class RowTransformer(nn.Module):
    """A Transformer over the rows of a window that reconstructs them, `(b, t, c)` to `(b, t, c)`.

    Parameters
    ----------
    window, channels
        Of the windows.
    width, heads, layers
        Of the attention; with a bottleneck, layers before it and as many after.
    latent
        Width of the bottleneck of each row; None: no bottleneck.
    """

    def __init__(self, window: int, channels: int, width: int, heads: int, layers: int, latent: int | None) -> None:
        super().__init__()
        self.embed = nn.Linear(channels, width)
        self.hidden = nn.Parameter(torch.zeros(width))  # replaces the embedding of a hidden row
        self.register_buffer("position", sinusoids(window, width), persistent=False)
        self.before = _encoder(width, heads, layers)
        self.squeeze = None if latent is None else nn.Sequential(nn.Linear(width, latent), nn.GELU())
        self.widen = None if latent is None else nn.Linear(latent, width)
        self.after = None if latent is None else _encoder(width, heads, layers)
        self.head = nn.Linear(width, channels)

    def forward(self, windows: Tensor, hide: Tensor | None = None) -> Tensor:
        """Reconstruct the rows; those where `hide`, `(b, t)` or `(1, t)`, is true are hidden from the net."""
        x = self.embed(windows)
        if hide is not None:
            x = torch.where(hide[..., None], self.hidden, x)
        x = self.before(x + self.position)
        if self.squeeze is not None and self.widen is not None and self.after is not None:
            x = self.after(self.widen(self.squeeze(x)) + self.position)
        reconstruction: Tensor = self.head(x)
        return reconstruction


def _encoder(width: int, heads: int, layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


@dataclass(kw_only=True, eq=False, repr=False)
class _RowTransformerDetector(NeuralDetector):
    """Parameters and checks that the two models share.

    Parameters
    ----------
    width, heads, layers
        Of the attention.
    """

    hop: int = 10
    max_steps: int | None = 400
    batch_size: int = 16
    learning_rate: float = 3e-3
    width: int = 32
    heads: int = 4
    layers: int = 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_heads(self.heads, width=self.width)

    def _point_model(self, channels: int, latent: int) -> RowTransformer:
        most = max(channels // 2, 1)
        return RowTransformer(self.window_, channels, self.width, self.heads, self.layers, min(latent, most))


@dataclass(kw_only=True, eq=False, repr=False)
class NPSRPoint(_RowTransformerDetector):
    """Reconstruction error of a row through a bottleneck: the point model of NPSR alone.

    Lai et al., "Nominality Score Conditioned Time Series Anomaly Detection by Point/Sequential Reconstruction" (2023),
    its model M_pt: an autoencoder with attention before and after a narrow bottleneck for each row. As in the public
    code, the attention spans the rows of a window; it is the bottleneck that restricts the model to points. Changed
    here: softmax attention in place of its random-feature approximation (windows are short), a width of its own in
    place of the number of channels, 2 layers on each side in place of 4, no tanh on the output since the data is
    z-scored, 400 steps at a higher rate in place of 100 epochs. Window 100 and latent 10 are the paper's, the latter
    never more than half of the channels. One channel leaves nothing to compress: the paper names that limit, too.

    Parameters
    ----------
    width, heads, layers
        Of the attention; layers before the bottleneck and as many after.
    latent
        Width of the bottleneck of each row.
    """

    name = "npsr_pt"

    latent: int = 10

    def _build(self, channels: int) -> nn.Module:
        return self._point_model(channels, self.latent)

    def _loss(self, net: RowTransformer, batch: Tensor) -> Tensor:
        loss: Tensor = (net(batch) - batch).square().mean()
        return loss

    def _errors(self, windows: Tensor) -> Tensor:
        reconstruction: Tensor = self.net_(windows)
        return (reconstruction - windows).square()


@dataclass(kw_only=True, eq=False, repr=False)
class NPSRSequence(_RowTransformerDetector):
    """Error of a row reconstructed from the rows around it: the sequence model of NPSR, or the whole method.

    Lai et al., "Nominality Score Conditioned Time Series Anomaly Detection by Point/Sequential Reconstruction" (2023),
    its model M_seq: some rows are hidden and reconstructed from those around them. With `score="induced"` the point
    model is trained as well, and the score is the paper's induced anomaly score: a row's error under the point model,
    plus those of its neighbours as far as the rows in between are not nominal. The nominality score of a row is the
    squared difference of the two models' outputs over the squared error of the sequence model.

    Changed here: the hidden rows are any block of a window, not always its middle, so that the newest rows, which have
    none after them, are scored without delay; the net is a Transformer with hidden rows in place of Performer layers
    that compress the time axis; neighbours are those in the window. The soft gate and the share 0.9985 of train rows
    below the gate's level are the public code's. That code tries induction lengths from 1 to 256 and reports the best;
    it is 16 here. Width, depth and steps are ours, for the budget.

    Parameters
    ----------
    width, heads, layers
        Of the attention of each model.
    score
        `sequence`: the sequence model's error; `induced`: the whole method.
    block
        Rows that are hidden together.
    latent
        Width of the point model's bottleneck, for `induced`.
    reach
        Neighbours on each side that a row can receive a score from, for `induced`.
    nominal
        Share of train rows whose nominality score is under the level at which the gate closes, for `induced`.
    """

    name = "npsr_seq"
    learned: ClassVar[Mapping[str, Any] | None] = {"gate_": np.ndarray}

    score: Literal["sequence", "induced"] = "sequence"
    block: int = 10
    latent: int = 10
    reach: int = 16
    nominal: float = 0.9985

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=2, block=1, reach=1)
        if not 0 < self.nominal <= 1:
            raise InputError(f"nominal={self.nominal} is out of range; it is a share of train over 0, up to 1")

    def _build(self, channels: int) -> nn.Module:
        sequence = RowTransformer(self.window_, channels, self.width, self.heads, self.layers, None)
        models: dict[str, nn.Module] = {"sequence": sequence}
        if self.score == "induced":
            models["points"] = self._point_model(channels, self.latent)
        return nn.ModuleDict(models)

    def _blocks(self, steps: int) -> Iterator[slice]:
        """Yield the blocks that cover the newest `steps` rows, newest first; at least one row stays visible."""
        size = min(self.block, self.window_ - 1)
        for stop in range(self.window_, self.window_ - steps, -size):
            yield slice(max(stop - size, 0), stop)

    def _loss(self, net: nn.ModuleDict, batch: Tensor) -> Tensor:
        blocks = list(self._blocks(self.window_))
        hide = torch.zeros(batch.shape[:2], dtype=torch.bool, device=batch.device)
        for number, block in enumerate(blocks):
            hide[number :: len(blocks), block] = True  # windows come in random order, so blocks can take turns
        loss: Tensor = (net["sequence"](batch, hide) - batch)[hide].square().mean()
        if self.score == "induced":
            loss = loss + (net["points"](batch) - batch).square().mean()
        return loss

    def _from_others(self, windows: Tensor, steps: int) -> Tensor:
        """Reconstruct the newest `steps` rows, each from all rows outside its block; the other rows are zero."""
        reconstruction = torch.zeros_like(windows)
        for block in self._blocks(steps):
            hide = torch.zeros((1, windows.shape[1]), dtype=torch.bool, device=windows.device)
            hide[:, block] = True
            reconstruction[:, block] = self.net_.get_submodule("sequence")(windows, hide)[:, block]
        return reconstruction

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        rows = torch.from_numpy(windows).to(self.device_)
        with torch.inference_mode():
            if self.score == "sequence":
                errors = (self._from_others(rows, steps) - rows).square()[:, -steps:].double()
                scores = errors.mean(dim=2)
            else:
                point_error, nominality, squares = self._both_models(rows)
                gate = (1 - nominality / self.gate_.item()).clamp(min=0)
                scores, errors = induced(point_error, gate, self.reach)[:, -steps:], squares[:, -steps:]
        return scores.cpu().numpy(), errors.float().cpu().numpy() if explain else None

    def _both_models(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the point model's error and the nominality score, `(b, t)`, and the sequence model's `(b, t, c)`."""
        by_sequence = (rows - self._from_others(rows, self.window_)).double()
        by_point = (rows - self.net_.get_submodule("points")(rows)).double()
        squares = by_sequence.square()
        nominality = (by_sequence - by_point).square().mean(2) / squares.mean(2).clamp(min=1e-12)
        return by_point.square().mean(2), nominality, squares

    def _settle(self, known: WindowSampler) -> None:
        self.gate_ = np.array(1.0)
        if self.score == "sequence":
            return
        most = max(GATE_VALUES // (self.window_ * len(self.channels_)), 20)
        nominality = []
        with torch.inference_mode():
            for windows in even_batches(known, most, 64):
                rows = torch.from_numpy(self.scaler_(windows)).to(self.device_)
                nominality.append(self._both_models(rows)[1].cpu().numpy().ravel())
        self.gate_ = np.maximum(np.quantile(np.concatenate(nominality), self.nominal), 1e-12)


def induced(scores: Tensor, gate: Tensor, reach: int) -> Tensor:
    """Add to each row's score those of its neighbours, as far as the gates in between let them pass.

    Parameters
    ----------
    scores, gate
        `(b, t)`; a gate is between 0, closed, and 1, open.
    reach
        Neighbours on each side that count. Where there are fewer, at the edges, the sum is scaled up as in the paper.

    Examples
    --------
    >>> scores, gate = torch.tensor([[0.0, 6.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.5, 1.0, 0.5]])
    >>> induced(scores, gate, reach=1).tolist()
    [[0.0, 6.0, 4.0, 0.0]]
    """
    steps = scores.shape[1]
    total = _from_earlier(scores, gate, reach) + _from_earlier(scores.flip(1), gate.flip(1), reach).flip(1)
    position = torch.arange(steps, device=scores.device)
    neighbours = position.clamp(max=reach) + (steps - 1 - position).clamp(max=reach)
    return scores + total * (2 * reach / (neighbours + 1))


def _from_earlier(scores: Tensor, gate: Tensor, reach: int) -> Tensor:
    """Sum what each row receives from the rows before it."""
    total = torch.zeros_like(scores)
    passed = gate.clone()  # product of the gates after the row `lag` before, up to and including this one
    for lag in range(1, min(reach, scores.shape[1] - 1) + 1):
        total[:, lag:] += scores[:, :-lag] * passed[:, lag:]
        passed[:, lag:] *= gate[:, :-lag]
    return total

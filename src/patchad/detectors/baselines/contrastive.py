"""Nets that learn an embedding in which normal windows lie close together; distant windows are anomalous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.stages import Scored, Stage
from patchad.data.table import FloatArray
from patchad.data.windows import Fold, WindowSampler
from patchad.detectors.baselines.checks import check_least
from patchad.detectors.baselines.injection import random_channels, random_sign, uniform
from patchad.detectors.baselines.sampling import even_batches
from patchad.detectors.neural import NeuralDetector
from patchad.model.training import TrainConfig, planned_steps


class TCN(nn.Module):
    """Causal convolutions whose dilation doubles from block to block: `(b, t, c)` to `(b, t, width)`."""

    def __init__(self, channels: int, width: int, layers: int, kernel: int, *, bias: bool = True) -> None:
        super().__init__()
        inputs = [channels, *[width] * (layers - 1)]
        self.padding = [2**layer * (kernel - 1) for layer in range(layers)]
        self.first = nn.ModuleList(nn.Conv1d(n, width, kernel, dilation=2**i, bias=bias) for i, n in enumerate(inputs))
        self.second = nn.ModuleList(nn.Conv1d(width, width, kernel, dilation=2**i, bias=bias) for i in range(layers))
        self.shortcut = nn.ModuleList(nn.Conv1d(n, width, 1, bias=bias) for n in inputs)

    def forward(self, rows: Tensor) -> Tensor:
        """Encode each row together with those before it."""
        x = rows.transpose(1, 2)
        blocks = zip(self.padding, self.first, self.second, self.shortcut, strict=True)
        for padding, first, second, shortcut in blocks:
            y = functional.relu(first(functional.pad(x, (padding, 0))))
            y = functional.relu(second(functional.pad(y, (padding, 0))))
            x = functional.relu(y + shortcut(x))
        return x.transpose(1, 2)


class PooledTCN(nn.Module):
    """A TCN, max pooling over time, and a linear map to the unit sphere: any number of rows to `(b, size)`."""

    def __init__(self, channels: int, width: int, layers: int, kernel: int, size: int) -> None:
        super().__init__()
        self.tcn = TCN(channels, width, layers, kernel)
        self.out = nn.Linear(width, size)

    def forward(self, rows: Tensor) -> Tensor:
        """Encode `(b, t, c)`."""
        return functional.normalize(self.out(self.tcn(rows).amax(1)), dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class NCAD(NeuralDetector):
    """Distance between the code of a window and that of its context, the window without its newest rows.

    Carmona et al., "Neural Contextual Anomaly Detection for Time Series" (2022): a TCN encodes the window and its
    context; the squared distance of the two codes is the score, and one minus its negative exponential the probability
    of an anomaly. It is trained by cross-entropy: windows of train are normal, and synthetic anomalies are made from
    them by contextual outlier exposure (some channels of the newest rows come from another window), by point outliers,
    and by mixup of all these with their labels.

    The paper scores a row by all windows that have it among their newest rows; here one window scores its `suspect`
    newest rows. Point outliers are 2 to 6 standard deviations of the window high, at one row. The paper's windows and
    nets differ between data sets; the sizes here are ours, for a CPU.

    Parameters
    ----------
    suspect
        Newest rows that are not context; at least `hop` and at most half of the window.
    d_model, layers, kernel
        Width, blocks and kernel of the TCN, whose dilation doubles from block to block.
    code
        Size of the code of a window.
    """

    name = "ncad"

    window: int = 100
    hop: int = 10
    max_steps: int | None = 300
    batch_size: int = 16
    suspect: int = 10
    d_model: int = 32
    layers: int = 4
    kernel: int = 5
    code: int = 32

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=2)

    def _context_rows(self) -> int:
        return self.window_ - min(max(self.suspect, self.hop_, 1), self.window_ // 2)

    def _build(self, channels: int) -> nn.Module:
        return PooledTCN(channels, self.d_model, self.layers, self.kernel, self.code)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        context = self._context_rows()
        newest = torch.arange(batch.shape[1], device=batch.device)[:, None] >= context
        swapped = torch.where(newest & random_channels(batch), batch.roll(1, 0), batch)
        position = context + (torch.rand(len(batch), device=batch.device) * (batch.shape[1] - context)).long()
        here = torch.arange(batch.shape[1], device=batch.device)[None, :, None] == position[:, None, None]
        spike = random_sign(batch) * uniform(2, 6, batch) * batch.std(1, keepdim=True).clamp_min(0.1)
        spiked = batch + spike * (here & random_channels(batch))
        windows = torch.cat([batch, batch, swapped, spiked])  # as many normal windows as synthetic anomalies
        labels = torch.arange(4, device=batch.device).repeat_interleave(len(batch)).ge(2).float()
        share = torch.distributions.Beta(0.05, 0.05).sample(labels.shape).to(batch.device)
        other = torch.randperm(len(windows), device=batch.device)
        mixed = share[:, None, None] * windows + (1 - share[:, None, None]) * windows[other]
        windows = torch.cat([windows[len(batch) :], mixed])
        labels = torch.cat([labels[len(batch) :], share * labels + (1 - share) * labels[other]])
        distance = self._distance(net, windows).clamp_min(1e-4)
        return ((1 - labels) * distance - labels * torch.log(-torch.expm1(-distance))).mean()

    def _distance(self, net: nn.Module, windows: Tensor) -> Tensor:
        """Return the squared distance between the codes of windows and of their contexts: `(b,)`."""
        distance: Tensor = (net(windows) - net(windows[:, : self._context_rows()])).square().sum(-1)
        return distance

    def _errors(self, windows: Tensor) -> Tensor:
        return self._distance(self.net_, windows)[:, None, None]


@dataclass(kw_only=True, eq=False, repr=False)
class TSCP2(NeuralDetector):
    """Dissimilarity of the rows before and after a row: change points.

    Deldari et al., "Time Series Change Point Detection with Self-Supervised Contrastive Predictive Coding" (2021): one
    TCN encodes the past and the future half of a window; InfoNCE makes the two halves of a window more alike than
    halves of different windows of the batch. The score is one minus the cosine of the two codes, at the row where the
    future begins.

    The paper then looks for peaks of the score minus its moving mean; here the scores stay as they are. Sizes are ours.

    Parameters
    ----------
    window
        Past and future together: a row waits until its future, half of the window, has arrived.
    d_model, layers, kernel
        Width, blocks and kernel of the TCN, whose dilation doubles from block to block.
    code
        Size of the code of half a window.
    temperature
        Divisor of the cosines in the loss.
    """

    name = "ts_cp2"

    window: int = 100
    hop: int = 5
    max_steps: int | None = 300
    d_model: int = 32
    layers: int = 3
    kernel: int = 5
    code: int = 16
    temperature: float = 0.1

    @property
    def delay(self) -> int:
        """Rows that a verdict waits for: the rest of the future half of the window, and hop - 1."""
        return super().delay + (self._future() - 1 if self.fold == "newest" else 0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, window=2)

    def _future(self) -> int:
        return int(getattr(self, "window_", self.window)) // 2

    def _build(self, channels: int) -> nn.Module:
        return PooledTCN(channels, self.d_model, self.layers, self.kernel, self.code)

    def _codes(self, net: nn.Module, windows: Tensor) -> tuple[Tensor, Tensor]:
        future = self._future()
        return net(windows[:, :-future]), net(windows[:, -future:])

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        past, future = self._codes(net, batch)
        own = torch.arange(len(batch), device=batch.device)
        return functional.cross_entropy(past @ future.T / self.temperature, own)

    def _errors(self, windows: Tensor) -> Tensor:
        past, future = self._codes(self.net_, windows)
        return (1 - (past * future).sum(-1)).clamp_min(0)[:, None, None]

    def _row_stages(self) -> tuple[Stage[Scored], ...]:
        advance = (Advance(self._future() - 1),) if self.fold == "newest" else ()
        return (*super()._row_stages(), *advance)


class Advance:
    """Move every score some rows earlier; the last rows of a segment repeat its last score.

    Examples
    --------
    >>> advance = Advance(1)
    >>> advance.push(Scored(np.array([1.0, 2.0]))).scores.tolist(), advance.flush().scores.tolist()
    ([2.0], [2.0])
    """

    state = ("_seen", "_last")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._seen, self._last = 0, 0.0

    def push(self, rows: Scored) -> Scored:
        """Return the scores without the first ones of the segment."""
        skipped = max(self._rows - self._seen, 0)
        self._seen += len(rows)
        self._last = float(rows.scores[-1]) if len(rows) else self._last
        return Scored(rows.scores[skipped:])

    def flush(self) -> Scored:
        """Repeat the last score."""
        return Scored(np.full(min(self._rows, self._seen), self._last))


ELSEWHERE = 5
"""Patches of elsewhere for each that adjoins."""


class PatchEncoder(nn.Module):
    """Convolutions and a mean over time; a head for the triplet loss, and one that predicts whether patches adjoin."""

    def __init__(self, channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for inputs, outputs, kernel in zip([channels, *widths], widths, (7, 5, 3, 3), strict=False):
            conv = nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
            blocks += [conv, nn.BatchNorm1d(outputs), nn.ReLU()]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Linear(widths[-1], 256), nn.ReLU(), nn.Linear(256, 256))
        self.adjoin = nn.Linear(2 * widths[-1], 1)

    def forward(self, patches: Tensor) -> Tensor:
        """Embed `(b, t, c)`, each channel of a patch normalised by itself: `(b, width)`."""
        centred = patches - patches.mean(1, keepdim=True)
        normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        embedded: Tensor = self.blocks(normed.transpose(1, 2)).mean(-1)
        return embedded


@dataclass(kw_only=True, eq=False, repr=False)
class PaAno(NeuralDetector):
    """Distance of a patch's embedding to its nearest neighbours in a bank of train embeddings.

    Park and Kang, "PaAno: Patch-Based Representation Learning for Time-Series Anomaly Detection" (2026): a small
    convolutional net embeds patches, each normalised by itself. A triplet loss on cosine distances makes a patch closer
    to one that starts a row or two apart than to the farthest patch of the batch, by a margin; in the first tenth of
    the steps a pretext task, with a weight that falls to zero, predicts whether two patches adjoin. The bank holds the
    train embeddings that are nearest to the centres of their clusters; a patch's score is its mean cosine distance to
    the nearest `neighbours` there, and a row's the mean over the patches that cover it.

    Net, losses, optimizer (AdamW along half a cosine, to the last step) and bank are those of the public code as we
    know it. Its batch of 512, 200 steps at a rate of 1e-4, hop of 1, and bank of a tenth of all train patches are for a
    GPU: the variant `paano-public` of the benchmark has them, with patches of 96 rows on several channels. The defaults
    are smaller, for a CPU.

    Parameters
    ----------
    window
        Rows per patch.
    widths
        Filters of the convolutions, at most four.
    margin, shift
        Of the triplet loss; `shift` is the most rows between a patch and its positive.
    bank, neighbours
        Embeddings in the bank, and how many of them a patch is compared with. None: a tenth of the train patches, at
        least 500.
    """

    name = "paano"
    learned: ClassVar[Mapping[str, Any] | None] = {"bank_": np.ndarray}

    window: int = 64
    hop: int = 4
    fold: Fold = "mean"
    max_steps: int | None = 100
    batch_size: int = 32
    widths: tuple[int, ...] = (128, 256, 128, 64)
    margin: float = 0.5
    shift: int = 2
    bank: int | None = 500
    neighbours: int = 3

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_least(self, shift=1, neighbours=1)
        if self.bank is not None:
            check_least(self, bank=1)

    def _budget(self) -> TrainConfig:
        return replace(super()._budget(), weight_decay=1e-4, last_rate=0.1)

    def _build(self, channels: int) -> nn.Module:
        return PatchEncoder(channels, self.widths)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:  # noqa: ARG002
        # Train on a patch together with the one before it, and as many rows after it as there are.
        patch, longest = self.window_, max(map(len, known))
        self._shifts = [*range(-min(self.shift, patch), 0), *range(1, min(self.shift, longest - 2 * patch) + 1)]
        self.window_ = 2 * patch + max(*self._shifts, 0)
        self._steps, self._step = planned_steps(longest, self._budget()), 0
        super()._learn(known, ())
        self.window_ = patch

    def _loss(self, net: PatchEncoder, batch: Tensor) -> Tensor:
        b, after = len(batch), max(*self._shifts, 0)
        patch = (batch.shape[1] - after) // 2
        shifts = torch.tensor(self._shifts)[torch.randint(len(self._shifts), (b,))]
        rows = patch + shifts[:, None] + torch.arange(patch)
        moved = batch[torch.arange(b)[:, None], rows.to(batch.device)]
        embedded = net(torch.cat([batch[:, patch : 2 * patch], moved, batch[:, :patch]]))
        anchor, positive, before = embedded[:b], embedded[b : 2 * b], embedded[2 * b :]
        cosines = functional.normalize(net.head(anchor), dim=-1) @ functional.normalize(net.head(positive), dim=-1).T
        farthest = cosines.masked_fill(torch.eye(b, dtype=torch.bool, device=batch.device), 1).amin(1)
        triplet = functional.relu(farthest - cosines.diagonal() + self.margin).mean()
        self._step += 1
        weight = 1 - 10 * self._step / self._steps
        if weight <= 0:
            return triplet
        return (triplet if batch.shape[2] > 1 else triplet / 10) + weight * _adjoining_loss(net, anchor, before)

    def _settle(self, known: WindowSampler) -> None:
        patch = (self.window_ - max(*self._shifts, 0)) // 2
        most = len(known) if self.bank is None else 10 * self.bank
        embedded = np.concatenate(
            [self._embed(self.scaler_(batch[:, patch : 2 * patch])) for batch in even_batches(known, most, 64)]
        )
        least = 500 if self.bank is None else self.neighbours
        centres = min(max(len(embedded) // 10, least), len(embedded))
        clusters = MiniBatchKMeans(centres, n_init=1, batch_size=1024, random_state=self._seed()).fit(embedded)
        nearest = pairwise_distances_argmin(clusters.cluster_centers_, embedded)
        self.bank_ = embedded[np.unique(nearest)].astype(np.float32)

    def _embed(self, patches: FloatArray) -> FloatArray:
        """Embed scaled patches on the unit sphere."""
        with torch.inference_mode():
            embedded = functional.normalize(self.net_(torch.from_numpy(patches).to(self.device_)), dim=-1)
        return np.asarray(embedded.cpu().numpy())

    def _errors(self, windows: Tensor) -> Tensor:
        embedded = functional.normalize(self.net_(windows), dim=-1)
        bank = torch.from_numpy(self.bank_).to(windows.device)
        # Of unit vectors, half the squared distance is the cosine distance, without what 1 - cosine rounds away.
        distances = torch.cdist(embedded, bank, compute_mode="donot_use_mm_for_euclid_dist").square() / 2
        return distances.topk(min(self.neighbours, len(self.bank_)), largest=False).values.mean(-1)[:, None, None]


def _adjoining_loss(net: PatchEncoder, anchor: Tensor, before: Tensor) -> Tensor:
    """Return the loss of telling the patch just before another from patches of elsewhere, five for each."""
    b, device = len(anchor), anchor.device
    anchors = torch.arange(b, device=device).repeat_interleave(ELSEWHERE)
    others = (anchors + torch.randint(1, max(b, 2), (len(anchors),)).to(device)) % b
    near = net.adjoin(torch.cat([anchor, before], -1))[:, 0]
    far = net.adjoin(torch.cat([anchor[anchors], anchor[others]], -1))[:, 0]
    loss = functional.binary_cross_entropy_with_logits
    return loss(near, torch.ones_like(near)) + loss(far, torch.zeros_like(far))

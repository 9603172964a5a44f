"""Nets that learn a space in which normal windows lie close together; a window that lies apart is strange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor, nn
from torch.nn import functional

from patchad.data.stages import Scored, Stage
from patchad.data.table import FloatArray
from patchad.data.windows import Fold, WindowSampler
from patchad.detectors.baselines.injection import between, either, some_channels
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError


class TCN(nn.Module):
    """Causal convolutions, each block looking twice as far back as the one before: `(b, t, c)` to `(b, t, width)`."""

    def __init__(self, channels: int, width: int, layers: int, kernel: int, *, bias: bool = True) -> None:
        super().__init__()
        inputs = [channels, *[width] * (layers - 1)]
        self.reach = [2**layer * (kernel - 1) for layer in range(layers)]
        self.first = nn.ModuleList(nn.Conv1d(n, width, kernel, dilation=2**i, bias=bias) for i, n in enumerate(inputs))
        self.second = nn.ModuleList(nn.Conv1d(width, width, kernel, dilation=2**i, bias=bias) for i in range(layers))
        self.short = nn.ModuleList(nn.Conv1d(n, width, 1, bias=bias) for n in inputs)

    def forward(self, rows: Tensor) -> Tensor:
        """Encode each row and those before it."""
        x = rows.transpose(1, 2)
        for reach, first, second, short in zip(self.reach, self.first, self.second, self.short, strict=True):
            y = functional.relu(first(functional.pad(x, (reach, 0))))
            y = functional.relu(second(functional.pad(y, (reach, 0))))
            x = functional.relu(y + short(x))
        return x.transpose(1, 2)


def check_two_parts(window: int) -> None:
    """Refuse a window that cannot be divided into earlier and later rows."""
    if window < 2:
        raise InputError(f"window={window} is too small; earlier and later rows are compared, so it must be at least 2")


class PooledTCN(nn.Module):
    """A TCN, its largest values over time, and a linear map to the unit sphere: any number of rows to `(b, width)`."""

    def __init__(self, channels: int, width: int, layers: int, kernel: int, size: int) -> None:
        super().__init__()
        self.steps = TCN(channels, width, layers, kernel)
        self.out = nn.Linear(width, size)

    def forward(self, rows: Tensor) -> Tensor:
        """Encode `(b, t, c)`."""
        return functional.normalize(self.out(self.steps(rows).amax(1)), dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class NCAD(NeuralDetector):
    """A window whose newest rows move its code away from the code of the rows before them is strange.

    Carmona et al., "Neural Contextual Anomaly Detection for Time Series" (2022): a TCN encodes the window and its
    context, the window without its newest rows; the squared distance of the two codes is the score, and one minus its
    negative exponential the probability of an anomaly. It is trained by cross-entropy: windows of train are normal,
    and anomalies are made of them by contextual outlier exposure (some channels of the newest rows come from another
    window), by point outliers, and by mixup of all these with their labels.

    The paper judges a row by all windows in whose newest part it lies; here one window judges its `suspect` newest
    rows. Point outliers are 2 to 6 standard deviations of the window high, at one row. The paper's windows and nets
    differ from one data set to the next; the sizes here are ours, for a CPU.

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
        check_two_parts(self.window)

    def _before(self) -> int:
        """Give the rows of the context."""
        return self.window_ - min(max(self.suspect, self.hop_, 1), self.window_ // 2)

    def _build(self, channels: int) -> nn.Module:
        return PooledTCN(channels, self.d_model, self.layers, self.kernel, self.code)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        before = self._before()
        newest = torch.arange(batch.shape[1], device=batch.device)[:, None] >= before
        foreign = torch.where(newest & some_channels(batch), batch.roll(1, 0), batch)
        place = before + (torch.rand(len(batch), device=batch.device) * (batch.shape[1] - before)).long()
        here = torch.arange(batch.shape[1], device=batch.device)[None, :, None] == place[:, None, None]
        spike = either(batch) * between(2, 6, batch) * batch.std(1, keepdim=True).clamp_min(0.1)
        pointed = batch + spike * (here & some_channels(batch))
        windows = torch.cat([batch, batch, foreign, pointed])  # as many normal windows as made anomalies
        labels = torch.arange(4, device=batch.device).repeat_interleave(len(batch)).ge(2).float()
        share = torch.distributions.Beta(0.05, 0.05).sample(labels.shape).to(batch.device)
        other = torch.randperm(len(windows), device=batch.device)
        mixed = share[:, None, None] * windows + (1 - share[:, None, None]) * windows[other]
        windows = torch.cat([windows[len(batch) :], mixed])
        labels = torch.cat([labels[len(batch) :], share * labels + (1 - share) * labels[other]])
        apart = self._apart(net, windows).clamp_min(1e-4)
        return ((1 - labels) * apart - labels * torch.log(-torch.expm1(-apart))).mean()

    def _apart(self, net: nn.Module, windows: Tensor) -> Tensor:
        """Give the squared distance of the codes of windows and of their contexts: `(b,)`."""
        apart: Tensor = (net(windows) - net(windows[:, : self._before()])).square().sum(-1)
        return apart

    def _errors(self, windows: Tensor) -> Tensor:
        return self._apart(self.net_, windows)[:, None, None]


@dataclass(kw_only=True, eq=False, repr=False)
class TSCP2(NeuralDetector):
    """A row is strange where the rows that follow it look unlike the rows before it: a change point.

    Deldari et al., "Time Series Change Point Detection with Self-Supervised Contrastive Predictive Coding" (2021): one
    TCN encodes the past and the future half of a window; InfoNCE makes the two halves of a window more alike than
    halves of different windows of the batch. The score is one minus the cosine of the two codes, at the row where the
    future begins.

    The paper then looks for peaks of the score less its moving mean; scores are left as they are here. Sizes are ours.

    Parameters
    ----------
    window
        Past and future together: a row waits until its future, half of the window, is there.
    d_model, layers, kernel
        Width, blocks and kernel of the TCN, whose dilation doubles from block to block.
    code
        Size of the code of half a window.
    temperature
        By which the cosines are divided in the loss.
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
        check_two_parts(self.window)

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
        moved = (Advance(self._future() - 1),) if self.fold == "newest" else ()
        return (*super()._row_stages(), *moved)


class Advance:
    """Move every score some rows ahead; the last rows of a segment keep its last score.

    Examples
    --------
    >>> ahead = Advance(1)
    >>> ahead.push(Scored(np.array([1.0, 2.0]))).scores.tolist(), ahead.flush().scores.tolist()
    ([2.0], [2.0])
    """

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


class PatchEncoder(nn.Module):
    """Four convolutions and a mean over time; a head for the triplets, and one that guesses whether patches adjoin."""

    seen: Tensor

    def __init__(self, channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for inputs, outputs, kernel in zip([channels, *widths], widths, (7, 5, 3, 3), strict=False):
            conv = nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
            blocks += [conv, nn.BatchNorm1d(outputs), nn.ReLU()]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Linear(widths[-1], 256), nn.ReLU(), nn.Linear(256, 256))
        self.adjoin = nn.Linear(2 * widths[-1], 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, patches: Tensor) -> Tensor:
        """Embed `(b, t, c)`, each channel of a patch normalised by itself: `(b, width)`."""
        centred = patches - patches.mean(1, keepdim=True)
        normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        embedded: Tensor = self.blocks(normed.transpose(1, 2)).mean(-1)
        return embedded


@dataclass(kw_only=True, eq=False, repr=False)
class PaAno(NeuralDetector):
    """A patch whose embedding is far from those of all train patches is strange.

    Park and Kang, "PaAno: Patch-Based Representation Learning for Time-Series Anomaly Detection" (2026): a small
    convolutional net embeds patches. A triplet loss on cosine distances puts a patch nearer to one that starts a row
    or two beside it than to the farthest patch of the batch, by a margin; in the first steps a second task, with a
    weight that falls to zero, asks whether two patches adjoin. The bank is made of cluster centres of the embeddings
    of train, a tenth of them; a patch's score is its mean distance to the nearest `neighbours` there, and a row's the
    mean over the patches that cover it.

    Convolutions, heads, margin, shifts and the tenth are those of the public code as we know it. Here the patch
    beside another starts before it only, there is one pair that does not adjoin for each that does, Adam keeps its
    rate, and distances are those of unit vectors. Batch, steps, the bank's limit and the hop between two patches are
    ours, for a CPU.

    Parameters
    ----------
    window
        Rows of a patch.
    widths
        Filters of the convolutions, at most four.
    margin, shift
        Of the triplet loss; the most rows between a patch and its like.
    pretext_steps
        Steps in which the second task counts.
    bank, neighbours
        Most embeddings in the bank, and how many of them a patch is held against.
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
    pretext_steps: int = 20
    bank: int = 500
    neighbours: int = 3

    def _build(self, channels: int) -> nn.Module:
        return PatchEncoder(channels, self.widths)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        patch, self.window_ = self.window_, 2 * self.window_  # trained on a patch together with the one before it
        super()._learn(known, held_out)
        self.window_ = patch

    def _loss(self, net: PatchEncoder, batch: Tensor) -> Tensor:
        patch, b = batch.shape[1] // 2, len(batch)
        shift = int(torch.randint(1, min(self.shift, patch) + 1, ()))
        embedded = net(torch.cat([batch[:, patch:], batch[:, patch - shift : -shift], batch[:, :patch]]))
        anchor, beside, before = embedded[:b], embedded[b : 2 * b], embedded[2 * b :]
        cosines = functional.normalize(net.head(anchor), dim=-1) @ functional.normalize(net.head(beside), dim=-1).T
        farthest = cosines.masked_fill(torch.eye(b, dtype=torch.bool, device=batch.device), 1).amin(1)
        loss = functional.relu(farthest - cosines.diagonal() + self.margin).mean()
        if not net.training:
            return loss  # what training stops on must not change with the steps
        net.seen += 1
        weight = max(1 - int(net.seen) / self.pretext_steps, 0)
        if weight == 0:
            return loss
        pairs = torch.cat([torch.cat([before, anchor], -1), torch.cat([anchor.roll(1, 0), anchor], -1)])
        truth = torch.arange(2, device=batch.device).repeat_interleave(b).eq(0).float()
        return loss + 2 * weight * functional.binary_cross_entropy_with_logits(net.adjoin(pairs)[:, 0], truth)

    def _settle(self, known: WindowSampler) -> None:
        patches = np.unique(np.linspace(0, len(known) - 1, min(len(known), 10 * self.bank)).astype(np.intp))
        rows = known[patches[:1]].shape[1] // 2
        embedded = np.concatenate(
            [
                self._embedded(self.scaler_(known[part][:, -rows:]))
                for part in np.array_split(patches, -(-len(patches) // 64))
            ]
        )
        centres = max(len(embedded) // 10, min(len(embedded), self.neighbours))
        found = MiniBatchKMeans(centres, n_init=1, batch_size=1024, random_state=self._seed()).fit(embedded)
        self.bank_ = found.cluster_centers_.astype(np.float32)

    def _embedded(self, patches: FloatArray) -> FloatArray:
        """Embed scaled patches on the unit sphere."""
        with torch.inference_mode():
            embedded = functional.normalize(self.net_(torch.from_numpy(patches).to(self.device_)), dim=-1)
        return np.asarray(embedded.cpu().numpy())

    def _errors(self, windows: Tensor) -> Tensor:
        embedded = functional.normalize(self.net_(windows), dim=-1)
        apart = torch.cdist(
            embedded, torch.from_numpy(self.bank_).to(windows.device), compute_mode="donot_use_mm_for_euclid_dist"
        )
        return apart.topk(min(self.neighbours, len(self.bank_)), largest=False).values.mean(-1)[:, None, None]

"""PatchAD: the detector of the paper, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from patchad._kernels.batching import (
    MAX_GRAPH_VALUES,
    batch_size_for_core,
    batch_size_for_gpu,
    micro_batch_size,
    split_batch,
)
from patchad._kernels.cuda_graphs import GraphedFunction
from patchad._kernels.mixing import Activation
from patchad._kernels.threads import parallel_map
from patchad.data.scaling import ZScore
from patchad.data.series import Series
from patchad.data.table import FloatArray
from patchad.data.windows import Block, Fold, Folder, blocks, shrink_window
from patchad.detectors.neural import NeuralDetector
from patchad.errors import InputError, UnsupportedError
from patchad.model.distances import DistanceName
from patchad.model.loss import Objective, ObjectiveConfig, evidence, loss
from patchad.model.net import LayersMode, NetConfig, PatchADNet, ViewPooling
from patchad.model.score import EMPHASIS, Score, ScoreRule
from patchad.model.training import Goal
from patchad.model.witnesses.memory import PARTS, Memory

Runtime = Callable[[FloatArray], tuple[FloatArray, ...]]
"""What speaks in place of net and memory: residual, discrepancy and, where there is a memory, the distances to it."""
CALIBRATION_ROWS = 20_000
"""Held-out rows at most that the scales of the witnesses are learned from."""
CALIBRATION_VALUES = 6_000_000
"""Values of held-out windows at most that the scales of the score are learned from."""


@dataclass(kw_only=True, eq=False, repr=False)
class PatchAD(NeuralDetector):
    """Multi-scale, patch-based MLP-Mixer with two views of each window, trained to agree.

    Where the views disagree, or the window cannot be reconstructed, or nothing like it is remembered, something is
    wrong.

    Parameters
    ----------
    window
        Rows that the net sees at once.
    patch_sizes
        Divisors of the window; each gives one scale.
    d_model, layers
        Width and depth of the net.
    layers_mode
        `stacked`: each layer reads the one before; `parallel`: all read the embedding.
    activation
        `gelu` or `relu`.
    view_pooling
        `none`: views are compared channel by channel; `mean`: after averaging the channels.
    hop
        Rows between two windows when scoring: a row waits at most `hop - 1` rows for its score.
    fold
        `newest`: the first window that covers a row scores it; `mean`: all windows that cover it.
    objective
        `agreement` pulls the views together; `adversarial` is the difference of the paper's equations.
    distance
        Between views: `kl`, `jsd`, `l2` or `wasserstein`.
    constraint
        Weight of the projected views in the loss, 0 to 1.
    score
        `fused`: discrepancy of the views, residual of the reconstruction, and distances to the memory, of which the
        two strongest count; or `discrepancy` or `residual` alone.
    memory
        Numbers that the memory of normal windows may hold, about; 0: none. Only the fused score looks at it.
    scaling
        `range`: a channel's spread is at least a fourth of its range, and a channel of two values counts a fifth, so
        that what seldom moves does not look wild when it does; `zscore`: the standard deviation alone.
    adapt
        Rows of the past that say what is usual now: of what the fused score's witnesses have said for most of them only
        the root counts, so that a plant that has changed for good does not alarm for ever; 0: never. At the start of a
        series its first rows say it.
    orientation
        1: a large discrepancy is strange; -1: a small one; None: as the objective trains it.
    smoothing
        Rows of a trailing mean over the scores; 1 is none.
    threshold
        `auto`, `spot`, `dspot`, `quantile:q`, `sigma:k`, `mad:k`, `ratio:r`, a number, or a `Threshold`.
    risk
        Expected share of normal rows that alarm, for `auto`, `spot` and `dspot`.
    min_duration, merge_gap
        Shortest event, and the longest pause inside one, in rows.
    missing
        `interpolate` (hold the last value), `error`, or `drop`.
    max_gap
        Steps in time, in usual steps, over which a new segment starts; and rows without any value that are filled.
    max_steps
        Most training steps.
    epochs
        Passes over all windows; None: random windows until `max_steps`.
    stride
        Rows between the starts of two training windows.
    batch_size, learning_rate
        Of Adam.
    calibration
        Share of train, at its end, held out for early stopping, scales and thresholds.
    device
        `auto`, `cpu`, `cuda`, ...
    random_state
        Seed; the same seed on the same machine gives the same scores.
    verbose
        Show a progress bar.
    share_channel_mixer, channel_mixer, mixrep_mixer, positional_embedding, projection
        Parts of the net, to switch off for ablations.

    Examples
    --------
    >>> import numpy as np
    >>> from patchad import PatchAD
    >>> t = np.arange(600)
    >>> normal = np.column_stack([np.sin(t / 5), np.cos(t / 5)])
    >>> odd = normal.copy(); odd[300:310, 1] += 3
    >>> detector = PatchAD(window=30, max_steps=50).fit(normal)
    >>> event = max(detector.detect(odd).events, key=lambda event: event.severity)
    >>> 300 <= event.peak < 320, event.channels[0][0]
    (True, 'channel_1')
    """

    name = "patchad"

    window: int = 60
    patch_sizes: tuple[int, ...] = (3, 5)
    d_model: int = 16
    layers: int = 2
    layers_mode: LayersMode = "stacked"
    activation: Activation = "gelu"
    view_pooling: ViewPooling = "none"
    hop: int = 5
    fold: Fold = "mean"
    objective: Objective = "agreement"
    distance: DistanceName = "kl"
    constraint: float = 0.2
    score: Score = "fused"
    memory: int = 45_000
    scaling: Literal["range", "zscore"] = "range"
    adapt: int = 1000
    orientation: Literal[1, -1] | None = None
    smoothing: int = 2
    max_steps: int | None = 300
    batch_size: int = 32
    learning_rate: float = 3e-3
    share_channel_mixer: bool = True
    channel_mixer: bool = True
    mixrep_mixer: bool = True
    positional_embedding: bool = True
    projection: bool = True

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Give the detector with the settings of the paper; keywords change some of them.

        The paper does not state its training stride; it is 1 here. It trains on all of train, so nothing is held out.
        """
        settings: dict[str, Any] = {
            "window": 105,
            "patch_sizes": (3, 5),
            "d_model": 40,
            "layers": 3,
            "view_pooling": "mean",
            "constraint": 0.2,
            "learning_rate": 1e-4,
            "batch_size": 128,
            "epochs": 3,
            "max_steps": None,
            "stride": 1,
            "calibration": 0.0,
            "objective": "adversarial",
            "score": "discrepancy",
            "memory": 0,
            "scaling": "zscore",
            "adapt": 0,
            "fold": "newest",
            "smoothing": 1,
            "hop": 105,
            "threshold": "ratio:1",
        }
        if "window" in overrides:
            settings["hop"] = overrides["window"]
        return cls(**(settings | overrides))

    # -- fit -------------------------------------------------------------------------------------------------------

    @property
    def n_parameters_(self) -> int:
        """Trained numbers of the net, and those that the memory holds."""
        return super().n_parameters_ + (0 if self.memory_ is None else self.memory_.size)

    def _check_rules(self) -> None:
        super()._check_rules()
        if self.memory < 0:
            raise InputError(f"memory={self.memory} is out of range; it must be 0 for none, or a number of values")
        if self.adapt < 0:
            raise InputError(f"adapt={self.adapt} is out of range; it must be 0 for never, or a number of rows")

    def _scaler(self, known: list[FloatArray]) -> ZScore:
        plain = super()._scaler(known)
        return plain.with_ranges(known) if self.scaling == "range" else plain

    def _plan(self, lengths: Sequence[int]) -> float:
        self._net_config(self.window, tuple(self.patch_sizes))  # parameters that can never fit are refused here
        return super()._plan(lengths)

    def _shrink(self, most: int) -> None:
        self.window_, self.patch_sizes_ = shrink_window(most, self.window, tuple(self.patch_sizes))

    def _shape(self) -> str:
        return f"{self.window_} with patch sizes {self.patch_sizes_}"

    def _net_config(self, window: int, patch_sizes: tuple[int, ...]) -> NetConfig:
        return NetConfig(
            channels=len(self.channels_),
            window=window,
            patch_sizes=patch_sizes,
            d_model=self.d_model,
            layers=self.layers,
            layers_mode=self.layers_mode,
            activation=self.activation,
            view_pooling=self.view_pooling,
            share_channel_mixer=self.share_channel_mixer,
            channel_mixer=self.channel_mixer,
            mixrep_mixer=self.mixrep_mixer,
            positional_embedding=self.positional_embedding,
            projection=self.projection,
        )

    def _build(self, channels: int) -> PatchADNet:  # noqa: ARG002 - the configuration has them
        return PatchADNet(self._net_config(self.window_, self.patch_sizes_))

    def _goals(self, net: nn.Module) -> list[Goal]:
        self._asked = ObjectiveConfig(objective=self.objective, distance=self.distance, constraint=self.constraint)
        size = micro_batch_size(self.batch_size, self._values())
        return [Goal(list(net.parameters()), self._loss, micro_batch=size, capturable=True)]

    def _values(self) -> float:
        """Give the values of both views of a window, at a usual patch size."""
        places = sum(self.window_ // size + size for size in self.patch_sizes_) / len(self.patch_sizes_)
        return places * len(self.channels_) * self.d_model

    def _together(self) -> int:
        if self.device_.type != "cpu":
            return batch_size_for_gpu(self._values())
        return 2 * torch.get_num_threads() * batch_size_for_core(self._values())

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return loss(net(batch), batch, self._asked)

    def _learn(self, known: Sequence[FloatArray], unseen: Sequence[FloatArray]) -> None:
        self.__dict__.pop("graph_", None)  # of an earlier fit
        self.adapt_, self.emphasis_ = self.adapt, EMPHASIS
        super()._learn(known, unseen)
        self._remember(None)
        self.rule_ = self._learn_rule(unseen or [v for v in known if len(v) >= self.window_])
        if self.score == "fused":
            if self.memory:
                size = {"window": self.window_, "values": self.memory, "seed": self._seed()}
                self._remember(Memory.fit(known, self.scaler_, **size, held_out=unseen))
            self._learn_witnesses(unseen or [v for v in known if len(v) >= self.window_])

    def _remember(self, memory: Memory | None) -> None:
        self.memory_ = None if memory is None else memory.to(self.device_)
        self._replayed = GraphedFunction(self._said, warmup=2)  # what was recorded spoke without it

    @property
    def columns(self) -> int:
        """Witnesses of the fused score, or the one score that is asked for."""
        return 1 if self.score != "fused" else 2 + (0 if self.memory_ is None else PARTS)

    def _learn_witnesses(self, held_out: Sequence[FloatArray]) -> None:
        """Learn the scales of the witnesses from the newest rows of these series."""
        folded: list[FloatArray] = []
        left = CALIBRATION_ROWS
        for values in reversed(held_out):
            if left >= self.window_:
                folded.append(self._folded(values[-left:], explain=False)[0])
                left -= len(values)
        self.rule_ = self.rule_.with_witnesses(np.concatenate(folded))

    def _learn_rule(self, held_out: Sequence[FloatArray]) -> ScoreRule:
        """Learn the scales of the score from windows taken evenly from these series."""
        most = max(CALIBRATION_VALUES // (self.window_ * len(self.channels_)), 100)
        windows = torch.from_numpy(self._scaled_windows(held_out, most))
        parts = [self._evidence(some, self.window_) for some in torch.split(windows, self._together())]
        residuals, distances = (torch.cat(found).cpu().numpy() for found in zip(*parts, strict=True))
        return ScoreRule.fit(self.score, self._sign(), residuals, distances, windows.numpy())

    # -- score -----------------------------------------------------------------------------------------------------

    def set_orientation(self, orientation: Literal[1, -1] | None) -> Self:
        """Change which discrepancy is strange without another fit; only where it alone is the score."""
        check_is_fitted(self, "threshold_")
        if self.score != "discrepancy":
            raise UnsupportedError(
                f"score={self.score!r} has scales that depend on the orientation; set it and fit again, or use "
                "score='discrepancy'"
            )
        self.orientation = orientation
        if self._sign() != self.rule_.orientation:
            self.rule_ = replace(self.rule_, orientation=self._sign())
            self._set_scores(-self.train_scores_, self.held_out_)
        return self.set_threshold(self.threshold)

    def _sign(self) -> int:
        return self.orientation or (1 if self.objective == "agreement" else -1)

    def _said(self, windows: Tensor, steps: int, reconstruct: bool) -> tuple[Tensor, ...]:
        return evidence(self.net_, self.memory_, windows, self.distance, steps, reconstruct=reconstruct)

    def _evidence(self, windows: Tensor, steps: int, *, reconstruct: bool = True) -> tuple[Tensor, ...]:
        """Give the evidence of scaled windows `(b, t, c)`, a few of them at a time on each core."""

        @torch.inference_mode()
        def said(some: Tensor) -> tuple[Tensor, ...]:
            say = self._replayed if len(some) * self._values() <= MAX_GRAPH_VALUES else self._said
            return say(some, steps, reconstruct)

        if self.device_.type != "cpu":
            return said(windows.to(self.device_))
        parts = parallel_map(said, split_batch(windows, self._values()))
        return tuple(torch.cat(found) for found in zip(*parts, strict=True))

    def _cut(self, scaled: FloatArray, block: Block) -> Tensor:
        """Cut windows where the net is: to a GPU rows travel once, not with every window that has them."""
        rows, starts = (torch.from_numpy(a).to(self.device_) for a in (scaled, block.starts))
        return rows[starts[:, None] + torch.arange(self.window_, device=self.device_)]

    def _judge(self, windows: Any, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        windows, graph = torch.as_tensor(windows), getattr(self, "graph_", None)
        if graph is not None and (steps <= self.hop_ or self.fold == "mean"):
            found = tuple(torch.from_numpy(one[:, -steps:]) for one in graph(windows.cpu().numpy()))
        else:
            found = self._evidence(windows, steps, reconstruct=explain or self.score != "discrepancy")
        columns = self.rule_.columns(*found).cpu().numpy()
        if not explain:
            return columns, None
        residuals, distances, newest = (one.cpu().numpy() for one in (*found[:2], windows[:, -steps:]))
        return columns, self.rule_.blame(residuals, distances, newest)

    def _combine(self, folded: FloatArray) -> FloatArray:
        return self.rule_.combine(folded, self.adapt_, self.emphasis_)

    def _expect_rows(self, series: Series, rows: slice) -> tuple[FloatArray, FloatArray] | None:
        """Reconstruct these rows, each by the first window that covers it; the band holds 99 % of held-out errors."""
        window, hop = self.window_, self.hop_
        if len(series) < window:
            return None
        # Windows are anchored at the start of the series: cut it where the first and the last one needed stand.
        start = max(-(-(rows.start + 1 - window) // hop), 0) * hop
        stop = min(start + window + max(-(-(rows.stop - start - window) // hop), 0) * hop, len(series))
        values = series.values[start:stop]
        middle, reach = (Folder(len(values), len(self.channels_), "newest") for _ in range(2))
        for block in blocks(len(values), window, hop, self._together()):
            with torch.inference_mode():
                outputs = self.net_(self._cut(self.scaler_(values[block.rows]), block), project=False)
                said = torch.stack([out.reconstruction for out in outputs]).mean(0).cpu().numpy()
            middle.add(block, said)
            reach.add(block, np.broadcast_to(self.rule_.residual.high, said.shape))
        asked, scaler = slice(rows.start - start, rows.stop - start), self.scaler_
        return middle.result()[asked] * scaler.spread + scaler.mean, reach.result()[asked] * scaler.spread

    def use_graph(self, graph: Runtime) -> Self:
        """Score with an exported graph, as `patchad.detectors.backends.onnx` makes it, in place of net and memory."""
        self.graph_ = graph
        return self

    # -- file ------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, facts = super()._state()
        facts |= {"patch_sizes": list(self.patch_sizes_), "orientation": self.rule_.orientation}
        facts |= {"adapt": self.adapt_, "emphasis": self.emphasis_}
        memory = {} if self.memory_ is None else self.memory_.to_arrays()
        return arrays | self.rule_.to_arrays() | memory, facts

    def _restore(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
        self.patch_sizes_ = tuple(facts["patch_sizes"])
        # Files from before there were these score as they did.
        self.adapt_, self.emphasis_ = facts.get("adapt", 0), facts.get("emphasis", 1.0)
        self.rule_ = ScoreRule.from_arrays(self.score, facts["orientation"], arrays)
        super()._restore(arrays, facts)
        self._remember(Memory.from_arrays(arrays))

"""PatchAD: the detector of the paper, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from patchad.containers import FloatArray
from patchad.detector import Detector
from patchad.errors import InputError
from patchad.model import NetConfig, PatchADNet
from patchad.objective import Objective, ObjectiveConfig, discrepancy, loss, residual
from patchad.progress import training_bar
from patchad.scaling import ZScore
from patchad.scoring import Score, ScoreRule
from patchad.series import Missing, Series
from patchad.thresholds import Threshold
from patchad.training import Progress, TrainConfig, find_device, train
from patchad.windows import Block, Fold, Folder, WindowSampler, blocks, pad_left, shrink_window, trailing_mean

SCORED_TOGETHER = 64
"""Windows that go through the net at once on a CPU: more gain no speed there and cost memory."""
CALIBRATION_VALUES = 6_000_000
"""Values of held-out windows at most that the scales of the score are learned from."""
STORED_WINDOWS = 20_000
"""Windows at most that are scored in `fit` to keep the scores of train."""


class PatchAD(Detector):
    """Multi-scale, patch-based MLP-Mixer with two views of each window, trained to agree.

    Where the views disagree, or the window cannot be reconstructed, something is wrong.

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
        `fused`: discrepancy of the views and residual of the reconstruction; or one of the two.
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

    def __init__(
        self,
        *,
        window: int = 105,
        patch_sizes: tuple[int, ...] = (3, 5),
        d_model: int = 16,
        layers: int = 2,
        layers_mode: Literal["stacked", "parallel"] = "stacked",
        activation: Literal["gelu", "relu"] = "gelu",
        view_pooling: Literal["mean", "none"] = "none",
        hop: int = 5,
        fold: Fold = "newest",
        objective: Objective = "agreement",
        distance: Literal["kl", "jsd", "l2", "wasserstein"] = "kl",
        constraint: float = 0.2,
        score: Score = "fused",
        orientation: Literal[1, -1] | None = None,
        smoothing: int = 5,
        threshold: str | float | Threshold = "auto",
        risk: float = 1e-4,
        min_duration: int = 1,
        merge_gap: int = 0,
        missing: Missing = "interpolate",
        max_gap: float = 10,
        max_steps: int | None = 400,
        epochs: int | None = None,
        stride: int = 1,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        calibration: float = 0.2,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
        share_channel_mixer: bool = True,
        channel_mixer: bool = True,
        mixrep_mixer: bool = True,
        positional_embedding: bool = True,
        projection: bool = True,
    ) -> None:
        self.window = window
        self.patch_sizes = patch_sizes
        self.d_model = d_model
        self.layers = layers
        self.layers_mode = layers_mode
        self.activation = activation
        self.view_pooling = view_pooling
        self.hop = hop
        self.fold = fold
        self.objective = objective
        self.distance = distance
        self.constraint = constraint
        self.score = score
        self.orientation = orientation
        self.smoothing = smoothing
        self.threshold = threshold
        self.risk = risk
        self.min_duration = min_duration
        self.merge_gap = merge_gap
        self.missing = missing
        self.max_gap = max_gap
        self.max_steps = max_steps
        self.epochs = epochs
        self.stride = stride
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.calibration = calibration
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.share_channel_mixer = share_channel_mixer
        self.channel_mixer = channel_mixer
        self.mixrep_mixer = mixrep_mixer
        self.positional_embedding = positional_embedding
        self.projection = projection

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
            "smoothing": 1,
            "hop": 105,
            "threshold": "ratio:1",
        }
        if "window" in overrides:
            settings["hop"] = overrides["window"]
        return cls(**(settings | overrides))

    @property
    def delay(self) -> int:
        """Rows that a verdict waits for: hop - 1 for `newest`, window - 1 for `mean`.

        The rows of a segment's first window wait until that window is full.
        """
        window = getattr(self, "window_", self.window)
        return window - 1 if self.fold == "mean" else min(self.hop, window) - 1

    @property
    def n_parameters_(self) -> int:
        """Trained numbers of the net."""
        return self.net_.n_parameters()

    # -- fit -------------------------------------------------------------------------------------------------------

    def _plan(self, lengths: Sequence[int]) -> float:
        """Shrink the window to a train too short for it; then nothing is held out either."""
        self._check_scoring()
        self._net_config(self.window, tuple(self.patch_sizes))  # parameters that can never fit are refused here
        longest = max(lengths)
        self.window_, self.patch_sizes_ = self.window, tuple(self.patch_sizes)
        share = self.calibration
        if longest * (1 - share) < 2 * self.window:
            self.window_, self.patch_sizes_ = shrink_window(longest // 2, self.window, self.patch_sizes_)
            notes = [f"train is short ({longest} rows in one piece for window {self.window})"]
            if self.window_ < self.window:
                notes.append(f"window shrunk to {self.window_} with patch sizes {self.patch_sizes_}")
            if share > 0:
                notes.append("no rows held out: scales and threshold come from the rows trained on")
            self.fit_notes_ = (*self.fit_notes_, "; ".join(notes))
            share = 0.0
        self.hop_ = min(self.hop, self.window_)
        return share

    def _check_scoring(self) -> None:
        if not 1 <= self.hop <= self.window:
            raise InputError(f"hop={self.hop} is out of range; it must lie between 1 and the window, {self.window}")
        for name in ("smoothing", "stride"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")

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

    def _fit(self, train_series: Sequence[Series], tails: Sequence[int]) -> None:
        asked = ObjectiveConfig(objective=self.objective, distance=self.distance, constraint=self.constraint)
        budget = TrainConfig(
            max_steps=self.max_steps,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        known = [series.values[:tail] for series, tail in zip(train_series, tails, strict=True)]
        # A held-out window may reach back into rows that were trained on; what it is judged by is its own end.
        unseen = [
            series.values[max(tail - self.window_, 0) :] if tail < len(series) else series.values[:0]
            for series, tail in zip(train_series, tails, strict=True)
        ]
        self.scaler_ = ZScore.fit(known)
        self.net_ = self._new_net(seed)

        def batch_loss(net: nn.Module, batch: Tensor) -> Tensor:
            return loss(net(batch), batch, asked)

        with training_bar(self.verbose) as watch:
            self.history_: list[Progress] = train(
                self.net_,
                batch_loss,
                WindowSampler(known, self.window_, self.stride),
                WindowSampler(unseen, self.window_),
                self.scaler_,
                budget,
                seed=seed,
                device=self.device_,
                watch=watch,
            )
        held_out = [values for values in unseen if len(values) >= self.window_]
        self.rule_ = self._learn_rule(held_out or [v for v in known if len(v) >= self.window_])

    def _new_net(self, seed: int) -> PatchADNet:
        self.device_ = find_device(self.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = PatchADNet(self._net_config(self.window_, self.patch_sizes_))
        return net.to(self.device_)

    def _learn_rule(self, held_out: Sequence[FloatArray]) -> ScoreRule:
        """Learn the scales of the score from windows taken evenly from these series."""
        sampler = WindowSampler(held_out, self.window_)
        most = min(len(sampler), max(CALIBRATION_VALUES // (self.window_ * len(self.channels_)), 100))
        chosen = np.unique(np.linspace(0, len(sampler) - 1, most).astype(np.intp))
        parts = [
            self._evidence(
                torch.from_numpy(self.scaler_(sampler[chosen[first : first + SCORED_TOGETHER]])), self.window_
            )
            for first in range(0, len(chosen), SCORED_TOGETHER)
        ]
        residuals, distances = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        orientation = self.orientation or (1 if self.objective == "agreement" else -1)
        return ScoreRule.fit(self.score, orientation, residuals, distances)

    def _stored_rows(self) -> int:
        return STORED_WINDOWS * self.hop_

    # -- score -----------------------------------------------------------------------------------------------------

    def _evidence(self, windows: Tensor, steps: int) -> tuple[FloatArray, FloatArray]:
        """Run the net on `(b, t, c)`; give residual and discrepancy of the newest steps, `(b, step, channel or 1)`."""
        windows = windows.to(self.device_)
        with torch.inference_mode():
            outputs = self.net_(windows)
            errors = residual(outputs, windows)[:, -steps:]
            distances = discrepancy(outputs, self.distance)[:, -steps:]
        return errors.cpu().numpy(), distances.cpu().numpy()

    def _walk(self, values: FloatArray) -> Iterator[tuple[Block, FloatArray, FloatArray]]:
        """Run the net along a series, block by block."""
        together = SCORED_TOGETHER if self.device_.type == "cpu" else 32 * SCORED_TOGETHER
        for block in blocks(len(values), self.window_, self.hop_, together):
            rows = torch.from_numpy(self.scaler_(values[block.rows]))
            windows = rows.unfold(0, self.window_, 1)[torch.from_numpy(block.starts)].transpose(1, 2)
            steps = self.window_ if self.fold == "mean" else int(block.fresh.max())
            yield block, *self._evidence(windows, steps)

    def _score(self, series: Series, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        values = pad_left(series.values, self.window_)
        padding = len(values) - len(series)
        scores = Folder(len(values), 1, self.fold)
        blame = Folder(len(values), len(self.channels_), self.fold, np.float32) if explain else None
        for block, errors, distances in self._walk(values):
            scores.add(block, self.rule_.scores(errors, distances)[..., None])
            if blame is not None:
                blame.add(block, self.rule_.blame(errors, distances))
        smooth = trailing_mean(scores.result()[padding:, 0], self.smoothing)
        if blame is None:
            return smooth, None
        found = blame.result()[padding:]
        if self.smoothing > 1:
            for channel in range(found.shape[1]):  # a channel at a time: no second (time, channel) array
                found[:, channel] = trailing_mean(found[:, channel], self.smoothing)
        return smooth, found

    # -- file ------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays = {f"net.{name}": value.detach().cpu().numpy() for name, value in self.net_.state_dict().items()}
        arrays |= {"scaler.mean": self.scaler_.mean, "scaler.spread": self.scaler_.spread}
        arrays |= self.rule_.to_arrays()
        facts = {
            "window": self.window_,
            "patch_sizes": list(self.patch_sizes_),
            "hop": self.hop_,
            "orientation": self.rule_.orientation,
            "n_parameters": self.n_parameters_,
        }
        return arrays, facts

    def _restore(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
        self.window_, self.hop_ = facts["window"], facts["hop"]
        self.patch_sizes_ = tuple(facts["patch_sizes"])
        self.scaler_ = ZScore(arrays["scaler.mean"], arrays["scaler.spread"])
        self.rule_ = ScoreRule.from_arrays(self.score, facts["orientation"], arrays)
        self.net_ = self._new_net(seed=0)
        weights = {
            name.removeprefix("net."): torch.from_numpy(a) for name, a in arrays.items() if name.startswith("net.")
        }
        self.net_.load_state_dict(weights)
        self.net_.eval()

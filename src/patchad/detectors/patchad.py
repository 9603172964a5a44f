"""PatchAD: the detector of the paper, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from patchad._kernels.backend import Activation
from patchad._kernels.batching import micro_batch_size
from patchad.data.series import Series
from patchad.data.stages import Scored, Stage, TrailingMean
from patchad.data.table import FloatArray, Table
from patchad.data.windows import Block, Fold
from patchad.detectors.absent import absent_channels
from patchad.detectors.backends.base import Backend
from patchad.detectors.backends.torch import TorchBackend
from patchad.detectors.calibrating import calibrate
from patchad.detectors.expecting import expected_rows
from patchad.detectors.looking import Look, look, shows_enough
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.presets import CODE, PAPER, preset
from patchad.detectors.pretrained import check_tuning, pretrained_origin, shrunk, with_new_channels, with_weights
from patchad.detectors.state import State
from patchad.detectors.windowed import Scaling
from patchad.errors import InputError, UnsupportedError
from patchad.model.distances import DistanceName
from patchad.model.loss import Objective, ObjectiveConfig, loss
from patchad.model.net import (
    COMPARED,
    IntraView,
    LayersMode,
    MixerKind,
    NetConfig,
    PatchADNet,
    Positions,
    ViewPooling,
)
from patchad.model.pretrained import SHIPPED, Origin
from patchad.model.score import READS, Fusion, ScoreKind, ScoreRule
from patchad.model.training import Goal, TrainConfig
from patchad.model.witnesses import WITNESSES, Training, Witness
from patchad.model.witnesses.discrepancy import Discrepancy

Kind = TypeVar("Kind", bound=Witness)


@dataclass(kw_only=True, eq=False, repr=False)
class PatchAD(NeuralDetector):
    """Multi-scale, patch-based MLP-Mixer with two views of each window, trained to agree.

    Where the views disagree, the window cannot be reconstructed, or nothing like it was in train, something is wrong.

    Parameters
    ----------
    window
        Rows that the net sees at once.
    patch_sizes
        Divisors of the window; each gives one scale.
    d_model, layers
        Width and depth of the net.
    layers_mode
        `stacked`: each layer reads the one before; `parallel`: all read the embedding; `compared`: and each layer's
        views are compared on their own; `compared_relu`: all but the first read its ReLU.
    activation
        `gelu` or `relu`.
    view_pooling
        `none`: views are compared channel by channel; `mean`: after averaging the channels; `softmax`: after
        averaging the softmax of the channels.
    hop
        Rows between two windows when scoring.
    fold
        `newest`: the first window that covers a row scores it, `hop - 1` rows later at most; `mean`: all windows that
        cover it, `window - 1` rows later at most.
    objective
        `agreement` pulls the views together; `adversarial` is the difference of the paper's equations; `reversed` is
        minus that.
    distance
        Between views: `kl`, `jsd`, `l2` or `wasserstein`.
    constraint
        Weight of the projected views in the loss, 0 to 1.
    score
        `fused`: discrepancy of the views, residual of the reconstruction, distances to the memory, coupling of the
        channels and surprise, of which the two strongest count; `discrepancy` or `residual`: that alone; `softmax`: the
        softmax over the window of the discrepancy; `error`: the squared error of the reconstruction.
    memory
        Approximate memory size in values; 0 disables it. Only the fused score uses it.
    scaling
        `range`: a channel's spread is at least a fourth of its range, and a channel of two values counts a fifth, so
        that what seldom moves does not look wild when it does; `zscore`: the standard deviation alone.
    adapt
        Rows of the past that define what is usual now: of the evidence that has lasted for most of them only the
        square root counts in the fused score, so that a plant that has changed for good grows quieter; 0 disables it.
        At the start of a series only its first rows are known.
    orientation
        1: a large discrepancy is strange; -1: a small one; None: as the objective trains it.
    smoothing
        Rows of a trailing mean over the scores; 1 is none.
    threshold
        `auto`, `spot`, `dspot`, `spot_plain`, `quantile:q`, `sigma:k`, `mad:k`, `ratio:r`, a number, or a `Threshold`.
    false_alarms
        Expected false events per 10,000 normal rows, for `auto`.
    risk
        Expected share of normal rows over the level, for `spot`, `dspot` and `spot_plain`.
    min_duration, merge_gap
        Shortest event, and the longest pause inside one, in rows; None suits the window.
    direction
        Deviations that matter: `both`, only `up` or only `down`, of all channels or in a dict by channel.
    min_change
        Least deviation that matters, in units of the data: a number, or a dict by channel.
    ignore
        Channels that are of no interest: left out by `fit`, and no part of any event.
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
        Share of train, in blocks spread over it, held out for early stopping, scales and thresholds.
    contamination
        Share of the rows of train that are known to be faulty: the strangest are left out. None: not known, and only
        those that are clearly foreign to the rest are; 0: all are normal.
    device
        `auto`, `cpu`, `cuda`, ...
    random_state
        Seed; the same seed on the same machine gives the same scores.
    verbose
        Show a progress bar.
    share_channel_mixer, channel_mixer, mixrep_mixer, positional_embedding, projection
        Parts of the net, to switch off for ablations. `positional_embedding="cumulative"` adds positions once more for
        every further scale.
    mixer, instance_norm, intra_view, reconstruction, dropout, decay
        What the paper's public code does otherwise: the form of the mixers, whether windows are normalised one by one,
        whether the intra view embeds `phases` or `runs` of points, the weight of the reconstruction in the loss (0:
        none is trained), dropout, and the factor of the learning rate after every epoch but the first. See `code`.
    weights
        `pretrained`: the net comes trained and sees one channel at a time; `fit` learns all the rest, in a second. Its
        windows are 15, 30, 60 and 120 rows: with another one, or another shape or training of the net, it is trained
        on train as with None. A file of such weights has to fit.
    tune_steps
        Training steps on top of pretrained weights, in place of `max_steps` and `epochs`.

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
    learned: ClassVar[Mapping[str, Any] | None] = {
        "patch_sizes_": tuple[int, ...],
        "rule_": ScoreRule,
        "origin_": Origin | None,
    }

    window: int = 120
    patch_sizes: tuple[int, ...] = (3, 5)
    d_model: int = 16
    layers: int = 2
    layers_mode: LayersMode = "stacked"
    activation: Activation = "gelu"
    view_pooling: ViewPooling = "none"
    hop: int = 10
    fold: Fold = "mean"
    objective: Objective = "agreement"
    distance: DistanceName = "kl"
    constraint: float = 0.2
    score: ScoreKind = "fused"
    memory: int = 50_000
    scaling: Scaling = "range"
    adapt: int = 4000
    orientation: Literal[1, -1] | None = None
    smoothing: int = 2
    max_steps: int | None = 300
    batch_size: int = 16
    learning_rate: float = 3e-3
    share_channel_mixer: bool = True
    channel_mixer: bool = True
    mixrep_mixer: bool = True
    positional_embedding: Positions = True
    projection: bool = True
    mixer: MixerKind = "residual"
    instance_norm: bool = False
    intra_view: IntraView = "phases"
    reconstruction: float = 1.0
    dropout: float = 0.0
    decay: float = 1.0
    weights: str | None = SHIPPED
    tune_steps: int = 0

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return the detector with the settings of the paper; keywords change some of them.

        The paper does not state its training stride; it is 1 here. It trains on all of train, so nothing is held out.
        """
        return cls(**preset(PAPER, overrides))

    @classmethod
    def code(cls, trainer: Literal[1, 2] = 2, **overrides: Any) -> Self:
        """Return the detector as the paper's public code computes it, at the sizes of the paper.

        The code differs from the text in net, loss and score, and its two trainers from each other;
        `patchad.detectors.presets` lists how.

        Parameters
        ----------
        trainer
            1: the first; 2: the second, which the code's main script runs.
        overrides
            Parameters to change.
        """
        if trainer not in CODE:
            raise InputError(f"trainer={trainer!r} is unknown; the code has the trainers 1 and 2")
        return cls(**preset({**PAPER, **CODE[trainer]}, overrides))

    # -- fit -------------------------------------------------------------------------------------------------------

    @property
    def n_parameters_(self) -> int:
        """Trained parameters of the net, and values stored by the memory."""
        return super().n_parameters_ + sum(one.size for one in self.rule_.witnesses)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.memory < 0:
            raise InputError(f"memory={self.memory} is out of range; it must be 0 for none, or a number of values")
        if self.adapt < 0:
            raise InputError(f"adapt={self.adapt} is out of range; it must be 0 for never, or a number of rows")
        if self.reconstruction == 0 and READS.get(self.score) == "residual":
            raise InputError(f"score={self.score!r} needs a reconstruction, and reconstruction=0 trains none")
        check_tuning(self)

    def _with_new_channels(self, tables: list[Table]) -> tuple[list[Table], list[str]]:
        return (tables, []) if pretrained_origin(self) is None else with_new_channels(tables)

    def _plan(self, lengths: Sequence[int]) -> float:
        self.origin_ = pretrained_origin(self)
        self._net_config(self.window, tuple(self.patch_sizes))  # parameters that can never fit are refused here
        return super()._plan(lengths)

    def _shrink(self, most: int) -> None:
        self.window_, self.patch_sizes_ = shrunk(self, most)

    def _shape(self) -> str:
        return f"{self.window_} with patch sizes {self.patch_sizes_}"

    def _net_config(self, window: int, patch_sizes: tuple[int, ...]) -> NetConfig:
        origin: Origin | None = getattr(self, "origin_", None)
        if origin is not None:
            return origin.shape.config(len(self.channels_), window)
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
            mixer=self.mixer,
            instance_norm=self.instance_norm,
            intra_view=self.intra_view,
            reconstruction=self.reconstruction > 0,
            dropout=self.dropout,
        )

    def _build(self, channels: int) -> PatchADNet:  # noqa: ARG002 - the configuration has them
        return PatchADNet(self._net_config(self.window_, self.patch_sizes_))

    def _new_net(self, seed: int) -> nn.Module:
        return with_weights(self, super()._new_net(seed))

    def _is_trained(self) -> bool:
        return self.origin_ is not None and self.tune_steps == 0

    def _goals(self, net: nn.Module) -> list[Goal]:
        self._objective = ObjectiveConfig(
            objective=self.objective,
            distance=self.distance,
            constraint=self.constraint,
            reconstruction=self.reconstruction,
            averaged=self.layers_mode in COMPARED,
        )
        config = self._net_config(self.window_, self.patch_sizes_)
        # Dropout draws random numbers, which batches in parallel would draw in any order.
        micro_batch = None if self.dropout else micro_batch_size(self.batch_size, config.values)
        goal = Goal(list(net.parameters()), self._loss, micro_batch, capturable=True, draws=self.dropout > 0)
        return [goal]

    def _budget(self) -> TrainConfig:
        budget = replace(super()._budget(), decay=self.decay)
        return budget if self.origin_ is None else replace(budget, max_steps=self.tune_steps, epochs=None)

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return loss(net(batch), batch, self._objective)

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        super()._learn(known, held_out)
        self.__dict__.pop("alarm_rules_", None)  # those of an earlier fit: no channel is absent in this one
        training = Training(
            known=known,
            held_out=held_out,
            scaler=self.scaler_,
            window=self.window_,
            distance=self.distance,
            orientation=self._orientation(),
            # Rows that a memory stored do not tell how far from it normal rows lie: without held-out ones it has none.
            memory=self.memory if self.score == "fused" and held_out else 0,
            seed=self._seed(),
            coupling=self.score == "fused" and self.origin_ is not None,
            surprise=self.score == "fused",
        )
        trained = [kind for kind in WITNESSES.values() if self.reconstruction or not kind.from_reconstruction]
        witnesses = [one for one in (kind.fit(training) for kind in trained) if one is not None]
        if self.origin_ is not None and self.score == "fused" and shows_enough(held_out, self.window_, self.hop_):
            self._looked = look(self, witnesses, held_out, training.seed)
        else:
            calibration = held_out or [values for values in known if len(values) >= self.window_]
            calibrate(self, witnesses, calibration, training.seed)

    def _scores_of_train(
        self, segments: Sequence[Series], blocks: Sequence[Sequence[slice]]
    ) -> tuple[Scored, list[list[int]]]:
        looked: Look | None = getattr(self, "_looked", None)
        return super()._scores_of_train(segments, blocks) if looked is None else looked.of_train(self, blocks)

    def _take_columns(self) -> Sequence[FloatArray] | None:
        looked: Look | None = self.__dict__.pop("_looked", None)
        return None if looked is None else looked.columns

    def _set_rule(self, rule: ScoreRule) -> None:
        """Take a rule, and the backend that runs its witnesses."""
        self.rule_ = rule
        self.backend_: Backend = self._torch_backend(rule.witnesses)

    def _torch_backend(self, witnesses: Sequence[Witness]) -> TorchBackend:
        return TorchBackend(cast("PatchADNet", self.net_), witnesses, self.device_)

    # -- score -----------------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """The name of the runtime that scores windows, `torch` or `onnx`."""
        return self.backend_.name

    def use_backend(self, backend: Backend) -> Self:
        """Score with another runtime, as `patchad.load` does for `backend="onnx"`."""
        check_is_fitted(self, "threshold_")
        self.backend_ = backend
        return self

    def set_orientation(self, orientation: Literal[1, -1] | None) -> Self:
        """Change which discrepancy is strange without another fit; only where it alone is the score."""
        check_is_fitted(self, "threshold_")
        if self.score != "discrepancy":
            raise UnsupportedError(
                f"score={self.score!r} has scales that depend on the orientation; set it and fit again, or use "
                "score='discrepancy'"
            )
        self.orientation = orientation
        witness = self._witness(Discrepancy)
        if self._orientation() != witness.orientation:
            turned = replace(witness, orientation=self._orientation())
            others = (turned if one is witness else one for one in self.rule_.witnesses)
            self.rule_ = replace(self.rule_, witnesses=tuple(others))
            self._set_scores(-self.train_scores_, self.held_out_)
        return self.set_threshold(self.threshold)

    @property
    def context(self) -> int | None:
        """Rows before a row that its score can depend on: a window, what is smoothed, and what is adapted to."""
        window = int(getattr(self, "window_", self.window))
        adapted = self.adapt - 1 if self.score == "fused" and self.adapt else 0
        return window + self.smoothing - 2 + adapted

    def _orientation(self) -> int:
        return self.orientation or (1 if self.objective == "agreement" else -1)

    def _witness(self, kind: type[Kind]) -> Kind:
        return next(one for one in self.rule_.witnesses if isinstance(one, kind))

    def _batch(self) -> int:
        return self.backend_.batch

    def _row_stages(self) -> tuple[Stage[Scored], ...]:
        if self.score != "fused":
            return super()._row_stages()
        return (Fusion(self.rule_), TrailingMean(self.smoothing))

    def _steady_stages(self) -> tuple[Stage[Scored], ...]:
        if self.score != "fused":
            return self._row_stages()
        return (Fusion(replace(self.rule_, adapt=0)), TrailingMean(self.smoothing))

    def _score_block(self, block: Block, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        windows = self.backend_.cut(self.scaler_(block.rows), block.starts)
        observed = self.window_ if self.rule_.whole else steps
        evidence = self.backend_.observe(windows, observed, self.rule_.needed(explain=explain))
        absent = absent_channels(self, windows)
        if absent is not None:
            evidence = self.rule_.without(evidence, absent)
        columns = self.rule_.columns(evidence)
        attribution = self.rule_.attribution(evidence)[:, -steps:] if explain else None
        if absent is not None:
            columns = self.rule_.calmed(columns, absent.any(1))
            if attribution is not None:
                attribution[absent.cpu().numpy()[:, None].repeat(steps, 1)] = 0.0
        return columns.cpu().numpy()[:, -steps:], attribution

    def _expected_rows(self, series: Series, rows: slice) -> tuple[FloatArray, FloatArray] | None:
        return expected_rows(self, series, rows)

    def _sizes(self) -> dict[str, Any]:
        return super()._sizes() | ({} if self.origin_ is None else asdict(self.origin_.shape))

    def _rebuild(self, state: State) -> None:
        super()._rebuild(state)
        self._set_rule(self.rule_)

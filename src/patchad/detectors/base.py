"""Detector: one interface for PatchAD and every other method. A subclass writes `_fit` and `_scorer`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from patchad.alarms.early import EarlyRules
from patchad.alarms.events import Shape
from patchad.alarms.feedback import Judgement
from patchad.alarms.knowledge import Direction
from patchad.alarms.likeness import Likeness
from patchad.alarms.listing import AlarmStage
from patchad.alarms.rules import AlarmRules
from patchad.data.parameters import check_types
from patchad.data.periods import Periods
from patchad.data.preparing import Missing
from patchad.data.series import Prepared, Series, check_width
from patchad.data.stages import Scored, Stage, shares_of
from patchad.data.switches import SWITCH_RANGE, Switches
from patchad.data.table import FloatArray, Table, is_list_of_series
from patchad.data.windows import ScoreBlock
from patchad.detectors.cleaning import check_contamination
from patchad.detectors.conventions import Conventions
from patchad.detectors.early import learn_early
from patchad.detectors.judging import judge, retract
from patchad.detectors.listing import expectations_of, list_events
from patchad.detectors.operator import check_changeable, knowledge_of, quiet_rows
from patchad.detectors.planning import plan_of
from patchad.detectors.preparing import Train, prepare_train
from patchad.detectors.reading import notes_of, read
from patchad.detectors.saving import save_detector
from patchad.detectors.state import State
from patchad.detectors.storing import scores_of_train
from patchad.errors import InputError
from patchad.results.detection import Detection
from patchad.streaming.detector import StreamDetector
from patchad.thresholds.base import Threshold
from patchad.thresholds.registry import make_threshold

CHUNK_ROWS = 65_536
"""Rows that a batch call pushes through the stages at once."""
MIN_MERGE_GAP = 10
"""Shortest pause that ends an event, unless one is chosen."""


@dataclass(kw_only=True, eq=False, repr=False)
class Detector(Conventions, BaseEstimator):  # type: ignore[misc]
    """Fit on a series of normal operation; then score, alarm and explain rows of others.

    A subclass is a dataclass too: its fields are its parameters, after these, which every detector has. It writes
    `_fit` and `_scorer`, and names in `learned` what `_fit` sets.

    Parameters
    ----------
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
        Steps in time, in usual steps, over which a new segment starts; also the most rows without any value that are
        filled.
    calibration
        Share of train, in blocks spread over it, held out for the threshold and whatever else must not see what it
        learned from.
    contamination
        Share of the rows of train that are known to be faulty: the strangest are left out. None: not known, and only
        those that are clearly foreign to the rest are; 0: all are normal.
    random_state
        Seed; the same seed on the same machine gives the same scores.
    """

    name: ClassVar[str]
    """The detector's name in the registry, and in files."""
    learned: ClassVar[Mapping[str, Any] | None] = {
        "alarm_rules_": AlarmRules,
        "switches_": Switches,
        "likeness_": Likeness,
        "feedback_": tuple[Judgement, ...],
        "early_": EarlyRules | None,
    }
    """Attributes that a class adds in `fit`, with their types, for a model file; None: a file cannot hold them."""

    threshold: str | float | Threshold = "auto"
    false_alarms: float = 1.0
    risk: float = 1e-4
    min_duration: int | None = None
    merge_gap: int | None = None
    direction: Direction | dict[str, Direction] = "both"
    min_change: float | dict[str, float] = 0.0
    ignore: tuple[str, ...] = ()
    missing: Missing = "interpolate"
    max_gap: float = 10
    calibration: float = 0.2
    contamination: float | None = None
    random_state: int | np.random.RandomState | None = 0

    # -- what a subclass writes ------------------------------------------------------------------------------------

    def _plan(self, lengths: Sequence[int]) -> float:  # noqa: ARG002 - for detectors with a window
        """Look at the lengths of the train series before fitting; return the share of them to hold out."""
        return self.calibration

    @abstractmethod
    def _fit(self, train: Sequence[Series], held_out: Sequence[Sequence[slice]]) -> None:
        """Learn from these series; these rows of each are held out, for stopping and scales only."""

    @abstractmethod
    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        """Return a stage that scores the rows of one new segment, with attribution on request."""

    def _expected_rows(self, series: Series, rows: slice) -> tuple[FloatArray, FloatArray] | None:  # noqa: ARG002
        """Return the values expected in these rows and the reach of normal deviations: `(time, channel)` each.

        In the units of the series; None where a detector expects nothing in particular.
        """
        return None

    def _rebuild(self, state: State) -> None:
        """Build the nets whose weights a model file holds, once all other values are restored."""

    @property
    def delay(self) -> int:
        """Rows that a verdict waits for: the score of row k depends on no row after k + delay.

        Rows that were dropped do not count.
        """
        return 0

    @property
    def context(self) -> int | None:
        """Rows before a row that its score can depend on; None where state is carried for ever."""
        return 0

    @property
    def columns_(self) -> tuple[str, ...]:
        """Columns of a table that the channels come from; empty where they have no names."""
        return self.switches_.sources(self.channels_) if self.named_ else ()

    @property
    def n_parameters_(self) -> int | None:
        """Learned values; None where a count means nothing."""
        return None

    def _with_new_channels(self, tables: list[Table]) -> tuple[list[Table], list[str]]:
        """Return series of train that all have the same channels, and notes of what was done for that."""
        return tables, []

    def _seed(self) -> int:
        """Draw the seed of one fit from `random_state`."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    # -- what a user calls -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - y is scikit-learn's
        """Learn what is normal.

        Parameters
        ----------
        X
            One series, `(time, channel)` or `(time,)`, or a list of series.
        y
            Ignored.
        """
        self.switches_: Switches
        self.initial_: FloatArray
        self.fit_notes_: tuple[str, ...]
        self._check_parameters()
        train = prepare_train(self, X)
        self._fit(train.segments, train.blocks)
        return self._finish_fit(train)

    def _finish_fit(self, train: Train) -> Self:
        """Score train, and learn from its scores."""
        segments, blocks = train.segments, train.blocks
        self._score_train(segments, train.judged, train.values)
        self.early_ = learn_early(self, segments, blocks)
        self.likeness_ = Likeness.fit(segments, blocks, self._window())
        self.feedback_: tuple[Judgement, ...] = ()
        self.set_threshold(self.threshold)
        return self

    def decision_function(self, X: Any) -> Any:
        """Score every row, higher is stranger; in the container of X."""
        if is_list_of_series(X):
            return [self.decision_function(item) for item in X]
        known = read(self, X)
        return known.table.column(self._score_all(known.prepared, explain=False).scores, "score")

    def predict(self, X: Any) -> Any:
        """Return 1 for every anomalous row and 0 for every other; in the container of X."""
        if is_list_of_series(X):
            return [self.predict(item) for item in X]
        table, found = self._found(X)
        return table.column(found.alarms.astype(np.int64), "alarm")

    def explain(self, X: Any) -> Any:
        """Return each channel's share of the blame for each row: a frame, or an array where X is one.

        Rows sum to 1, or to 0 where nothing is to blame.
        """
        if is_list_of_series(X):
            return [self.explain(item) for item in X]
        known = read(self, X)
        scored = self._score_all(known.prepared, explain=True, since=known.since)
        return known.table.frame(np.asarray(scored.attribution), self.channels_)

    def detect(self, X: Any, *, quiet: Periods = ()) -> Any:
        """Find events.

        Parameters
        ----------
        X
            One series, or a list of series.
        quiet
            Periods without events, as for maintenance: `(from, to)` or `(from, to, channel)`, of times, or of row
            numbers where there are no times.

        Returns
        -------
        A `Detection`, or a list of them for a list.
        """
        if is_list_of_series(X):
            return [self.detect(item, quiet=quiet) for item in X]
        return self._found(X, quiet)[1]

    def set_threshold(self, threshold: str | float | Threshold) -> Self:
        """Change the threshold without another fit: it learns from the stored scores of train."""
        check_is_fitted(self, "train_scores_")
        fresh = self._make_threshold(threshold)
        self._fitted_threshold = fresh.fit(self.train_scores_ if fresh.uses_all_train else self.held_out_scores_)
        self.threshold = threshold
        self._fitted_for = self._threshold_settings()
        return self

    @property
    def threshold_(self) -> Threshold:
        """The fitted threshold; fitted anew where a parameter that it depends on was set since, as by `set_params`."""
        check_is_fitted(self, "train_scores_")
        if self._fitted_for != self._threshold_settings():
            check_changeable(self)
            self.set_threshold(self.threshold)
        return self._fitted_threshold

    def stream(self) -> StreamDetector:
        """Return a stream that judges rows as they come, as `detect` would judge them in the whole series."""
        return StreamDetector(self)

    plan_stream = plan_of

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file that holds everything; `patchad.load` reads it."""
        check_is_fitted(self, "threshold_")
        return save_detector(self, Path(path))

    def set_false_alarms(self, false_alarms: float) -> Self:
        """Change the promised number of false events per 10,000 normal rows without another fit."""
        check_types({"false_alarms": false_alarms}, type(self))
        before, self.false_alarms = self.false_alarms, false_alarms
        try:
            return self.set_threshold(self.threshold)
        except InputError:
            self.false_alarms = before
            raise

    def accept(self, X: Any, *, start: int = 0, stop: int | None = None) -> Self:
        """Take rows `start` to `stop` of X, or of each of a list, as normal: rows like them are no events any more."""
        return judge(self, X, accepted=True, start=start, stop=stop)

    def confirm(self, X: Any, *, start: int = 0, stop: int | None = None) -> Self:
        """Keep such rows strange: rows like them are events, whatever is accepted or adapted to, at any level."""
        return judge(self, X, accepted=False, start=start, stop=stop)

    def retract(self, X: Any = None, *, start: int = 0, stop: int | None = None) -> Self:
        """Take back the newest judgement, by `accept` or `confirm`, or the newest one of these very rows."""
        return retract(self, X, start=start, stop=stop)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_types(self.get_params(deep=False), type(self))
        check_changeable(self)
        if not 0 <= self.calibration < 1:
            raise InputError(
                f"calibration={self.calibration} is out of range; it is a share of train from 0 to under 1"
            )
        check_contamination(self.contamination)
        if not isinstance(self.random_state, np.random.RandomState | None) and self.random_state < 0:
            raise InputError(f"random_state={self.random_state} is negative; a seed is 0 or more")

    def _learn_channels(self, table: Table) -> None:
        check_width(table)
        names = table.channels or tuple(f"channel_{i}" for i in range(table.values.shape[1]))
        channels = tuple(name for name in names if name not in self.ignore)
        self._set_channels(channels, names, named=table.channels is not None)
        knowledge_of(self)

    def _set_channels(self, channels: tuple[str, ...], columns: tuple[str, ...], *, named: bool) -> None:
        self.channels_, self.named_ = channels, named
        self.fit_columns_ = columns
        """All columns of the fit, switches for text: the channels, and what `ignore` left out."""
        self.n_features_in_ = len(columns)
        if named:
            self.feature_names_in_ = np.array(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _chunks(self, length: int) -> Iterator[slice]:
        """Cut the rows of a segment into those that are pushed at once: RAM stays bounded whatever its length."""
        for first in range(0, length, CHUNK_ROWS):
            yield slice(first, first + CHUNK_ROWS)

    def _scored(self, values: FloatArray, *, explain: bool) -> Iterator[Scored]:
        """Score the rows of one segment, a part at a time."""
        scorer = self._scorer(explain=explain)
        for chunk in self._chunks(len(values)):
            yield scorer.push(values[chunk])
        yield scorer.flush()

    def _score_all(self, prepared: Prepared, *, explain: bool, since: NDArray[np.intp] | None = None) -> Scored:
        """Score every segment; return all rows of the table, NaN where there is no score.

        `since` is the first row in which each channel may bear blame, `(channel,)`.
        """
        rows = prepared.length
        scores, local, unadapted = (np.full(rows, np.nan) for _ in range(3))
        shares = np.zeros((rows, len(self.channels_) if explain else 0), dtype=np.float32)
        for segment, numbers in zip(prepared.segments, prepared.rows, strict=True):
            done = 0
            for part in self._scored(segment.values, explain=explain):
                where = numbers[done : done + len(part)]
                scores[where] = part.scores
                local[where] = part.scores if part.local is None else part.local
                unadapted[where] = part.scores if part.unadapted is None else part.unadapted
                if part.attribution is not None:
                    if since is not None:
                        part.attribution[where[:, None] < since] = 0.0
                    shares[where] = shares_of(part.attribution)
                done += len(part)
        return Scored(scores, shares, local if self._is_sharpened() else None, unadapted)

    def _found(self, X: Any, quiet: Periods = ()) -> tuple[Table, Detection]:
        """Score, find events, and collect what is known of them."""
        known = read(self, X)
        table = known.table
        hush = quiet_rows(self, table, quiet) if quiet else None
        scored = self._score_all(known.prepared, explain=True, since=known.since)
        levels = self.threshold_.levels(scored.scores)
        events, alarms = list_events(self, known, scored, levels, self.feedback_, quiet=hush)
        detection = Detection(
            scores=scored.scores,
            levels=levels,
            alarms=alarms,
            events=tuple(event.in_zone(table.zone) for event in events),
            channels=self.channels_,
            index=table.times,
            contributions=np.asarray(scored.attribution),
            notes=notes_of(self, known),
            observed=table if self.named_ else replace(table, channels=None),
            expected=expectations_of(self, known, events),
        )
        return table, detection

    def _make_threshold(self, threshold: str | float | Threshold) -> Threshold:
        gap = self._shape_of_events().merge_gap
        return make_threshold(threshold, risk=self.risk, false_alarms=self.false_alarms, gap=gap)

    def _threshold_settings(self) -> str:
        gap = self._shape_of_events().merge_gap
        return repr((self.threshold, self.risk, self.false_alarms, gap))

    def _shape_of_events(self) -> Shape:
        """Return how events are put together; where nothing was chosen, as suits the window."""
        usual = max(self._window(), MIN_MERGE_GAP)
        return Shape(
            merge_gap=usual if self.merge_gap is None else self.merge_gap,
            min_duration=1 if self.min_duration is None else self.min_duration,
            window=self._window(),
            before=self.delay,
            after=self._window() + int(getattr(self, "smoothing", 1)) - 2,
        )

    def _shared_windows(self) -> tuple[ScoreBlock | None, int]:
        """Return what scores windows of any stream, if they share any, and how many are best scored together."""
        return None, 1

    def _alarm_stage(self, feedback: Sequence[Judgement]) -> AlarmStage:
        """Return the stage from scores and levels to events, for one new series."""
        knowledge, rules = knowledge_of(self), self.alarm_rules_.judged(feedback)
        return AlarmStage(rules, self._shape_of_events(), self.channels_, knowledge=knowledge)

    def _window(self) -> int:
        """Return the rows that are scored together."""
        return int(getattr(self, "window_", getattr(self, "window", 1)))

    def _is_sharpened(self) -> bool:
        """Return whether local scores differ from the scores."""
        return getattr(self, "fold", "newest") == "mean"

    def _stored_rows(self) -> int:
        """Return how many rows of train, its newest, have their scores stored with the detector."""
        return 100_000

    _scores_of_train = scores_of_train

    def _score_train(
        self, segments: Sequence[Series], blocks: Sequence[Sequence[slice]], values: Sequence[FloatArray]
    ) -> None:
        """Score rows of train and store the scores: thresholds are fitted on them, now and later."""
        scored, held_out = self._scores_of_train(segments, blocks)
        self._set_scores(scored.scores, held_out)
        known = Scored.join([scored[slice(*rows)] for rows in held_out])
        rules = AlarmRules.fit(known, values)
        switches = self.switches_.mask(self.channels_)
        self.alarm_rules_ = replace(rules, sensors=rules.sensors.with_range(switches, SWITCH_RANGE))

    def _set_scores(self, train_scores: FloatArray, held_out: list[list[int]]) -> None:
        self.train_scores_ = train_scores
        self.held_out_ = held_out
        """Half-open ranges of `train_scores_` that come from held-out blocks."""
        parts = [part for a, b in held_out for part in (train_scores[a:b], [np.nan])]
        self.held_out_scores_ = np.concatenate(parts)
        """Scores of the held-out blocks, NaN between them."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

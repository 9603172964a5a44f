"""Detector: one interface for PatchAD and every other method. A subclass writes `_fit` and `_scorer`."""

from __future__ import annotations

import logging
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
from torch import nn

from patchad.alarms.events import find_events
from patchad.alarms.severity import Yardstick
from patchad.data.parameters import check_types
from patchad.data.series import Missing, Prepared, Series, match_channels, observed_medians, prepare
from patchad.data.stages import Scored, Stage
from patchad.data.table import BoolArray, FloatArray, Table, is_list_of_series, to_table
from patchad.detectors import checkpoint
from patchad.detectors.state import State
from patchad.errors import InputError, UnsupportedError, listed
from patchad.results.detection import Detection
from patchad.results.expectations import expectations
from patchad.thresholds import Threshold, describe, from_description, make_threshold

logger = logging.getLogger(__name__)

MIN_ROWS = 32
"""Rows of train below which nothing can be learned."""
CHUNK_ROWS = 65_536
"""Rows that a batch call pushes through the stages at once."""


@dataclass(kw_only=True, eq=False, repr=False)
class Detector(BaseEstimator):  # type: ignore[misc]
    """Fit on a series of normal operation; then score, alarm and explain rows of others.

    A subclass is a dataclass too: its fields are its parameters, after these, which every detector has. It writes
    `_fit` and `_scorer`, and names in `learned` what `_fit` sets.

    Parameters
    ----------
    threshold
        `auto`, `spot`, `dspot`, `quantile:q`, `sigma:k`, `mad:k`, `ratio:r`, a number, or a `Threshold`.
    risk
        Expected share of normal rows that alarm, for `auto`, `spot` and `dspot`.
    min_duration, merge_gap
        Shortest event, and the longest pause inside one, in rows.
    missing
        `interpolate` (hold the last value), `error`, or `drop`.
    max_gap
        Steps in time, in usual steps, over which a new segment starts; also the most rows without any value that are
        filled.
    calibration
        Share of train, at its end, held out for the threshold and whatever else must not see what it learned from.
    random_state
        Seed; the same seed on the same machine gives the same scores.
    """

    name: ClassVar[str]
    """The detector's name in the registry, and in files."""
    learned: ClassVar[Mapping[str, Any] | None] = {}
    """Attributes that a class adds in `fit`, with their types, for a model file; None: a file cannot hold them."""

    threshold: str | float | Threshold = "auto"
    risk: float = 1e-4
    min_duration: int = 1
    merge_gap: int = 0
    missing: Missing = "interpolate"
    max_gap: float = 10
    calibration: float = 0.2
    random_state: int | np.random.RandomState | None = 0

    # -- what a subclass writes ------------------------------------------------------------------------------------

    def _plan(self, lengths: Sequence[int]) -> float:  # noqa: ARG002 - for detectors with a window
        """Look at the lengths of the train series before fitting; return the share of them to hold out."""
        return self.calibration

    @abstractmethod
    def _fit(self, train: Sequence[Series], tails: Sequence[int]) -> None:
        """Learn from these series; the rows of each from its `tail` on are held out, for stopping and scales only."""

    @abstractmethod
    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        """Return a stage that scores the rows of one new segment, with attribution on request."""

    def _expected_rows(self, series: Series, rows: slice) -> tuple[FloatArray, FloatArray] | None:  # noqa: ARG002
        """Return the values expected in these rows and the reach of normal deviations: `(time, channel)` each.

        In the units of the series; None where a detector expects nothing in particular.
        """
        return None

    def _rebuild(self) -> None:
        """Build the nets that a model file fills with weights, once all other values are restored."""

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
    def n_parameters_(self) -> int | None:
        """Learned values; None where a count means nothing."""
        return None

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
        self._check_parameters()
        tables = [to_table(item) for item in (X if is_list_of_series(X) else [X])]
        self._learn_channels(tables[0])
        values = [self._match(table)[0] for table in tables]
        self.initial_ = np.median([observed_medians(v, self.channels_) for v in values], axis=0)
        prepared = [self._prepare(table, v) for table, v in zip(tables, values, strict=True)]
        segments = [segment for p in prepared for segment in p.segments]
        rows = max(len(segment) for segment in segments)
        if rows < MIN_ROWS:
            raise InputError(
                f"train has {rows} rows in one piece (n_samples = {rows}), at least {MIN_ROWS} are needed; "
                "pass more rows, or raise max_gap if gaps cut them"
            )
        self.fit_notes_: tuple[str, ...] = tuple(note for p in prepared for note in p.notes)
        share = self._plan([len(segment) for segment in segments])
        tails = [round(len(segment) * (1 - share)) for segment in segments]
        self._fit(segments, tails)
        self._score_train(segments, tails if share > 0 else [0] * len(tails))
        self.set_threshold(self.threshold)
        return self

    def decision_function(self, X: Any) -> Any:
        """Score every row, higher is stranger; in the container of X."""
        if is_list_of_series(X):
            return [self.decision_function(item) for item in X]
        table, prepared, _ = self._read(X)
        scores, _ = self._score_all(prepared, explain=False)
        return table.column(scores, "score")

    def predict(self, X: Any) -> Any:
        """Return 1 for every anomalous row and 0 for every other; in the container of X."""
        if is_list_of_series(X):
            return [self.predict(item) for item in X]
        table, prepared, _ = self._read(X)
        scores, _ = self._score_all(prepared, explain=False)
        alarms = self._alarms(scores, self.threshold_.levels(scores), prepared)
        return table.column(alarms.astype(np.int64), "alarm")

    def explain(self, X: Any) -> Any:
        """Return each channel's share of the blame for each row: a frame, or an array where X is one.

        Rows sum to 1, or to 0 where nothing is to blame.
        """
        if is_list_of_series(X):
            return [self.explain(item) for item in X]
        table, prepared, _ = self._read(X)
        _, shares = self._score_all(prepared, explain=True)
        return table.frame(shares, self.channels_)

    def detect(self, X: Any) -> Any:
        """Find events.

        Parameters
        ----------
        X
            One series, or a list of series.

        Returns
        -------
        A `Detection`, or a list of them for a list.
        """
        if is_list_of_series(X):
            return [self.detect(item) for item in X]
        table, prepared, ignored = self._read(X)
        scores, shares = self._score_all(prepared, explain=True)
        levels = self.threshold_.levels(scores)
        alarms = self._alarms(scores, levels, prepared)
        events = find_events(
            scores,
            levels,
            alarms,
            shares,
            self.channels_,
            self.yardstick_,
            index=table.index,
            min_duration=self.min_duration,
            merge_gap=self.merge_gap,
        )
        return Detection(
            scores=scores,
            levels=levels,
            alarms=alarms,
            events=events,
            channels=self.channels_,
            index=table.index,
            contributions=shares,
            notes=self._notes(prepared, ignored),
            observed=table if self.named_ else replace(table, channels=None),
            expected=expectations(self._expected_rows, prepared, events),
        )

    def set_threshold(self, threshold: str | float | Threshold) -> Self:
        """Change the threshold without another fit: it learns from the stored scores of train."""
        check_is_fitted(self, "train_scores_")
        fresh = make_threshold(threshold, risk=self.risk)
        self.threshold_ = fresh.fit(self.train_scores_ if fresh.uses_all_train else self.held_out_scores_)
        self.threshold = threshold
        return self

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file that holds everything; `patchad.load` reads it."""
        check_is_fitted(self, "threshold_")
        state = State({"train_scores": self.train_scores_, "initial": self.initial_})
        for name, kind in self._learned().items():
            value = getattr(self, name)
            state.put(name, np.asarray(value) if kind is np.ndarray else value)
        parameters = self.get_params(deep=False)
        if isinstance(self.threshold, Threshold):
            parameters["threshold"] = describe(self.threshold)
        if not isinstance(parameters.get("random_state"), int | None):
            parameters["random_state"] = None  # a generator's state is of no use to a fitted detector
        header = {
            "detector": type(self).name,
            "parameters": parameters,
            "channels": list(self.channels_),
            "named": self.named_,
            "held_out": self.held_out_,
            "level": self.threshold_.level,
            "notes": list(self.fit_notes_),
            "n_parameters": self.n_parameters_,
            "learned": state.facts,
        }
        checkpoint.write(Path(path), header, state.arrays)
        return Path(path)

    @classmethod
    def _from_file(cls, header: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """Make a fitted detector from what `save` wrote."""
        parameters: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in header["parameters"].items()
        }
        if isinstance(parameters["threshold"], dict):
            parameters["threshold"] = from_description(parameters["threshold"])
        detector = cls(**parameters)
        state = State(arrays, header["learned"])
        detector._set_channels(tuple(header["channels"]), named=header["named"])
        detector.initial_ = state.take("initial", np.ndarray)
        detector.fit_notes_ = tuple(header["notes"])
        detector._set_scores(state.take("train_scores", np.ndarray), header["held_out"])
        learned = detector._learned()
        for name, kind in learned.items():
            if kind is not nn.Module:
                setattr(detector, name, state.take(name, kind))
        detector._rebuild()
        for name, kind in learned.items():
            if kind is nn.Module:
                state.load_into(name, getattr(detector, name))
        return detector.set_threshold(detector.threshold)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_types(self.get_params(deep=False), type(self))
        make_threshold(self.threshold, risk=self.risk)
        for name, least in (("min_duration", 1), ("merge_gap", 0), ("max_gap", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least {least}")
        if not 0 <= self.calibration < 1:
            raise InputError(
                f"calibration={self.calibration} is out of range; it is a share of train from 0 to under 1"
            )

    @classmethod
    def _learned(cls) -> dict[str, Any]:
        """Collect what a model file holds from this class and its bases."""
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            own = vars(base).get("learned", {})
            if own is None:
                raise UnsupportedError(f"{cls.__name__} cannot be saved: its state is not made of arrays")
            found |= own
        return found

    def _learn_channels(self, table: Table) -> None:
        width = table.values.shape[1]
        if width == 0:
            raise InputError(f"X has 0 feature(s) (shape=({len(table.values)}, 0)) while a minimum of 1 is required.")
        names = table.channels or tuple(f"channel_{i}" for i in range(width))
        self._set_channels(names, named=table.channels is not None)

    def _set_channels(self, channels: tuple[str, ...], *, named: bool) -> None:
        self.channels_, self.named_, self.n_features_in_ = channels, named, len(channels)
        if named:
            self.feature_names_in_ = np.array(channels, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _match(self, table: Table) -> tuple[FloatArray, tuple[str, ...]]:
        return match_channels(table, self.channels_, named=self.named_, detector=type(self).__name__)

    def _prepare(self, table: Table, values: FloatArray) -> Prepared:
        return prepare(
            values, self.channels_, table.index, missing=self.missing, max_gap=self.max_gap, initial=self.initial_
        )

    def _read(self, X: Any) -> tuple[Table, Prepared, tuple[str, ...]]:
        check_is_fitted(self, "threshold_")
        table = to_table(X)
        values, ignored = self._match(table)
        return table, self._prepare(table, values), ignored

    def _chunks(self, length: int) -> Iterator[slice]:
        """Cut the rows of a segment into those that are pushed at once: memory stays bounded whatever its length."""
        for first in range(0, length, CHUNK_ROWS):
            yield slice(first, first + CHUNK_ROWS)

    def _scored(self, values: FloatArray, *, explain: bool) -> Iterator[Scored]:
        """Score the rows of one segment, a part at a time."""
        scorer = self._scorer(explain=explain)
        for chunk in self._chunks(len(values)):
            yield scorer.push(values[chunk])
        yield scorer.flush()

    def _score_all(self, prepared: Prepared, *, explain: bool) -> tuple[FloatArray, FloatArray]:
        """Score every segment; return scores and, on request, shares for all rows of the table."""
        scores = np.full(prepared.length, np.nan)
        shares = np.zeros((prepared.length, len(self.channels_) if explain else 0), dtype=np.float32)
        for segment, rows in zip(prepared.segments, prepared.rows, strict=True):
            done = 0
            for part in self._scored(segment.values, explain=explain):
                where = rows[done : done + len(part)]
                scores[where] = part.scores
                if part.attribution is not None:
                    shares[where] = _shares(part.attribution)
                done += len(part)
        return scores, shares

    def _alarms(self, scores: FloatArray, levels: FloatArray, prepared: Prepared) -> BoolArray:
        """Compare scores with levels; rows that are mostly filled, or scored beside padding, never alarm."""
        alarms = (scores > levels) & ~prepared.muted  # NaN is over no level
        for rows in self._padded(prepared):
            alarms[rows] = False
        return alarms

    def _padded(self, prepared: Prepared) -> list[NDArray[np.intp]]:
        """Return the rows of segments shorter than the window: they are scored beside made-up rows."""
        window = getattr(self, "window_", 1)
        return [rows for rows in prepared.rows if len(rows) < window]

    def _notes(self, prepared: Prepared, ignored: Sequence[str]) -> tuple[str, ...]:
        notes = [*(f"in fit: {note}" for note in self.fit_notes_), *prepared.notes]
        padded = sum(map(len, self._padded(prepared)))
        if padded:
            notes.append(f"{padded:,} rows stand in pieces shorter than the window, which are padded and never alarm")
        if ignored:
            notes.append(f"ignored columns that were not in the fit: {listed(ignored)}")
        return tuple(notes)

    def _stored_rows(self) -> int:
        """Return how many rows of train, its newest, have their scores stored with the detector."""
        return 100_000

    def _score_train(self, segments: Sequence[Series], tails: Sequence[int]) -> None:
        """Score the newest rows of train and store the scores: thresholds are fitted on them, now and later."""
        newest = max(self._stored_rows() // len(segments), MIN_ROWS)
        stored, held_out = [], []
        for segment, tail in zip(segments, tails, strict=True):
            skipped = max(len(segment) - newest, 0)
            stored.append(Scored.join(list(self._scored(segment.values[skipped:], explain=False))).scores)
            held_out.append([sum(map(len, stored[:-1])) + max(tail - skipped, 0), sum(map(len, stored))])
        self._set_scores(np.concatenate(stored), held_out)

    def _set_scores(self, train_scores: FloatArray, held_out: list[list[int]]) -> None:
        self.train_scores_ = train_scores
        self.held_out_ = held_out
        """Half-open ranges of `train_scores_` that come from the held-out tails."""
        self.held_out_scores_ = np.concatenate([train_scores[a:b] for a, b in held_out])
        self.yardstick_ = Yardstick.fit(self.held_out_scores_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _shares(attribution: FloatArray) -> FloatArray:
    """Divide each row of `(time, channel)` attribution by its sum, in place."""
    total = attribution.sum(axis=1, keepdims=True)
    np.divide(attribution, total, out=attribution, where=total > 0)
    return attribution

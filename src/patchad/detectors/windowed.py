"""WindowDetector: score windows, fold them into rows. A subclass writes `_learn` and `_judge`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from patchad.data.holdout import known_parts
from patchad.data.scaling import ZScore
from patchad.data.series import Series
from patchad.data.stages import Chain, Map, Scored, Stage, TrailingMean
from patchad.data.table import FloatArray
from patchad.data.windows import Block, Fold, ScoreBlock, WindowSampler, WindowStage, views
from patchad.detectors.base import CHUNK_ROWS, Detector
from patchad.errors import InputError

Scaling = Literal["range", "zscore"]
STORED_WINDOWS = 20_000
"""Most windows that `fit` scores to store the scores of train."""


@dataclass(kw_only=True, eq=False, repr=False)
class WindowDetector(Detector):
    """A detector of scaled windows of the series.

    Parameters
    ----------
    window
        Rows that are seen at once.
    hop
        Rows between two windows when scoring.
    fold
        `newest`: the first window that covers a row scores it, `hop - 1` rows later at most; `mean`: all windows that
        cover it, `window - 1` rows later at most.
    smoothing
        Rows of a trailing mean over the scores; 1 is none.
    stride
        Rows between the starts of two training windows.
    scaling
        `zscore`: by the standard deviation of each channel of train. `range`: by a fourth of its range where that is
        more, and a channel of two values counts a fifth.
    """

    learned: ClassVar[Mapping[str, Any] | None] = {"scaler_": ZScore, "window_": int, "hop_": int}

    shares_windows: ClassVar[bool] = True
    """Whether a window's score is the same in every stream."""

    window: int = 100
    hop: int = 1
    fold: Fold = "newest"
    smoothing: int = 1
    stride: int = 1
    scaling: Scaling = "zscore"

    # -- what a subclass writes ------------------------------------------------------------------------------------

    @abstractmethod
    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        """Learn from unscaled series `(time, channel)`; `held_out` is for stopping and scales only."""

    @abstractmethod
    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        """Score scaled windows `(b, t, c)`.

        Returns
        -------
        Scores `(b, step)` of the newest `steps` points, or `(b, 1)` where one score stands for all; and the
        attribution, `(b, step or 1, c)`, non-negative, or None if not requested or not known.
        """

    def _row_stages(self) -> tuple[Stage[Scored], ...]:
        """Return the stages from folded columns `(time, column)` to scores `(time,)`."""
        return (Map(lambda columns: columns[:, 0]), TrailingMean(self.smoothing))

    def _steady_stages(self) -> tuple[Stage[Scored], ...]:
        """Return the same stages, but none that adapts to what lasts."""
        return self._row_stages()

    def _scaler(self, known: list[FloatArray]) -> ZScore:
        """Fit the scale of the values on the rows that are learned from."""
        plain = ZScore.fit(known)
        return plain.with_ranges(known) if self.scaling == "range" else plain

    def _shrink(self, most: int) -> None:
        """Choose a window of at most `most` rows; a subclass whose window needs a certain form overrides this."""
        self.window_ = min(self.window, most)

    def _batch(self) -> int:
        """Return how many windows are scored together."""
        return 256

    # -- what it inherits ------------------------------------------------------------------------------------------

    @property
    def delay(self) -> int:
        """Rows that a verdict waits for: hop - 1 for `newest`, window - 1 for `mean`.

        The rows of a segment's first window wait until that window is full.
        """
        window = int(getattr(self, "window_", self.window))
        return window - 1 if self.fold == "mean" else min(int(getattr(self, "hop_", self.hop)), window) - 1

    @property
    def context(self) -> int | None:
        """Rows before a row that its score can depend on."""
        return int(getattr(self, "window_", self.window)) + self.smoothing - 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("window", "smoothing", "stride"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is too small; it must be at least 1")
        if not 1 <= self.hop <= self.window:
            raise InputError(f"hop={self.hop} is out of range; it must lie between 1 and the window, {self.window}")

    def _plan(self, lengths: Sequence[int]) -> float:
        """Shrink the window to a train too short for it; then nothing is held out either."""
        longest = max(lengths)
        share = self.calibration
        short = longest * (1 - share) < 2 * self.window
        self._shrink(longest // 2 if short else self.window)
        if short:
            notes = [f"train is short ({longest} rows in one piece for window {self.window})"]
            if self.window_ < self.window:
                notes.append(f"window shrunk to {self._shape()}")
            if share > 0:
                notes.append("no rows held out: scales and threshold come from the rows trained on")
            self.fit_notes_ = (*self.fit_notes_, "; ".join(notes))
            share = 0.0
        self.hop_ = min(self.hop, self.window_)
        return share

    def _shape(self) -> str:
        """Describe the window that was chosen."""
        return str(self.window_)

    def _fit(self, train: Sequence[Series], held_out: Sequence[Sequence[slice]]) -> None:
        self._learn(*self._parts(train, held_out))

    def _parts(
        self, train: Sequence[Series], held_out: Sequence[Sequence[slice]]
    ) -> tuple[Sequence[FloatArray], Sequence[FloatArray]]:
        """Fit the scale; return the rows to learn from, and those that are held out, with what windows need before."""
        known = known_parts(train, held_out)
        # A held-out window may reach back into rows that were trained on; it is judged by its own end.
        unknown = [
            series.values[max(block.start - self.window_, 0) : block.stop]
            for series, blocks in zip(train, held_out, strict=True)
            for block in blocks
        ]
        self.scaler_ = self._scaler(known)
        return known, [values for values in unknown if len(values) >= self.window_]

    def _take_columns(self) -> Sequence[FloatArray] | None:
        """Return the columns `(window, step, column)` of held-out rows that this fit has scored already, and forget."""
        return None

    def _scaled_windows(self, series: Sequence[FloatArray], most: int) -> FloatArray:
        """Take at most `most` windows evenly from these series, `stride` rows apart or more; scaled, `(b, t, c)`."""
        sampler = WindowSampler(series, self.window_, self.stride)
        chosen = np.unique(np.linspace(0, len(sampler) - 1, min(len(sampler), most)).astype(np.intp))
        return self.scaler_(sampler[chosen])

    def _stored_rows(self) -> int:
        return STORED_WINDOWS * self.hop_

    def _chunks(self, length: int) -> Iterator[slice]:
        """Cut a segment so that every chunk completes whole batches of windows."""
        batch = self._batch() * self.hop_
        rows = max(CHUNK_ROWS // batch, 1) * batch
        stop = self.window_ - self.hop_ + rows
        yield slice(0, stop)
        for first in range(stop, length, rows):
            yield slice(first, first + rows)

    def _scorer(self, *, explain: bool) -> Stage[FloatArray]:
        return Chain(self._window_stage(explain=explain), *self._row_stages())

    def _shared_windows(self) -> tuple[ScoreBlock | None, int]:
        return partial(self._score_block, explain=True) if self.shares_windows else None, self._batch()

    def _window_stage(self, *, explain: bool) -> WindowStage:
        score = partial(self._score_block, explain=explain)
        return WindowStage(self.window_, self.hop_, self.fold, self._batch(), score)

    def _score_block(self, block: Block, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        """Score the newest steps of the windows of a block: `(window, step, column)`, `(window, step, channel)`."""
        windows = np.ascontiguousarray(views(self.scaler_(block.rows), self.window_)[block.starts])
        scores, attribution = self._judge(windows, steps, explain=explain)
        shape = (len(windows), steps)
        if attribution is not None:
            attribution = np.broadcast_to(attribution, (*shape, attribution.shape[2]))
        return np.broadcast_to(scores, shape)[..., None], attribution

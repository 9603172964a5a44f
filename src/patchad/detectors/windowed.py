"""WindowDetector: judge windows, and give every row one score. A subclass writes `_learn` and `_judge`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchad.data.scaling import ZScore
from patchad.data.series import Series
from patchad.data.table import FloatArray
from patchad.data.windows import Block, Fold, Folder, WindowSampler, blocks, pad_left, trailing_mean, views
from patchad.detectors.base import Detector
from patchad.errors import InputError

STORED_WINDOWS = 20_000
"""Windows at most that are scored in `fit` to keep the scores of train."""


@dataclass(kw_only=True, eq=False, repr=False)
class WindowDetector(Detector):
    """A detector that looks at z-scored windows of the series.

    Parameters
    ----------
    window
        Rows that are seen at once.
    hop
        Rows between two windows when scoring: a row waits at most `hop - 1` rows for its score.
    fold
        `newest`: the first window that covers a row scores it; `mean`: all windows that cover it.
    smoothing
        Rows of a trailing mean over the scores; 1 is none.
    stride
        Rows between the starts of two training windows.
    """

    window: int = 100
    hop: int = 1
    fold: Fold = "newest"
    smoothing: int = 1
    stride: int = 1

    # -- what a subclass writes ------------------------------------------------------------------------------------

    @abstractmethod
    def _learn(self, known: Sequence[FloatArray], unseen: Sequence[FloatArray]) -> None:
        """Learn from series `(time, channel)`, not scaled yet; `unseen` is held out, for stopping and scales only."""

    @abstractmethod
    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        """Judge scaled windows `(b, t, c)`.

        Returns
        -------
        Scores `(b, step)` of the newest `steps` points, or `(b, 1)` where one score stands for all, or several,
        `(b, step, column)`, that `_combine` makes one of; and the blame of each channel, `(b, step or 1, c)`, not
        negative, or None if not asked for or not known.
        """

    @property
    def columns(self) -> int:
        """Scores that `_judge` gives for a point."""
        return 1

    def _combine(self, folded: FloatArray) -> FloatArray:
        """Make one score of each row of the folded ones, `(time, column)`."""
        return folded[:, 0]

    def _scaler(self, known: list[FloatArray]) -> ZScore:
        """Say how values are scaled, from the rows that are learned from."""
        return ZScore.fit(known)

    def _shrink(self, most: int) -> None:
        """Take a window of at most `most` rows; a subclass whose window must have some form says which."""
        self.window_ = min(self.window, most)

    def _together(self) -> int:
        """Give how many windows `_judge` gets at once."""
        return 256

    # -- what it inherits ------------------------------------------------------------------------------------------

    @property
    def delay(self) -> int:
        """Rows that a verdict waits for: hop - 1 for `newest`, window - 1 for `mean`.

        The rows of a segment's first window wait until that window is full.
        """
        window = getattr(self, "window_", self.window)
        return window - 1 if self.fold == "mean" else min(self.hop, window) - 1

    def _check_rules(self) -> None:
        super()._check_rules()
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
        """Describe the window that was taken."""
        return str(self.window_)

    def _fit(self, train: Sequence[Series], tails: Sequence[int]) -> None:
        known = [series.values[:tail] for series, tail in zip(train, tails, strict=True)]
        # A held-out window may reach back into rows that were trained on; what it is judged by is its own end.
        unseen = [
            series.values[max(tail - self.window_, 0) :] if tail < len(series) else series.values[:0]
            for series, tail in zip(train, tails, strict=True)
        ]
        self.scaler_ = self._scaler(known)
        self._learn(known, [values for values in unseen if len(values) >= self.window_])

    def _scaled_windows(self, series: Sequence[FloatArray], most: int) -> FloatArray:
        """Take at most `most` windows evenly from these series, `stride` rows apart or more; scaled, `(b, t, c)`."""
        sampler = WindowSampler(series, self.window_, self.stride)
        chosen = np.unique(np.linspace(0, len(sampler) - 1, min(len(sampler), most)).astype(np.intp))
        return self.scaler_(sampler[chosen])

    def _stored_rows(self) -> int:
        return STORED_WINDOWS * self.hop_

    def _cut(self, scaled: FloatArray, block: Block) -> Any:
        """Give the windows of a block of scaled rows, as `_judge` takes them."""
        return np.ascontiguousarray(views(scaled, self.window_)[block.starts])

    def _judged(self, values: FloatArray, *, explain: bool) -> Iterator[tuple[Block, FloatArray, FloatArray | None]]:
        """Judge all windows of a series, block by block."""
        for block in blocks(len(values), self.window_, self.hop_, self._together()):
            windows = self._cut(self.scaler_(values[block.rows]), block)
            steps = self.window_ if self.fold == "mean" else int(block.fresh.max())
            scores, blame = self._judge(windows, steps, explain=explain)
            shape = (len(windows), steps)
            blamed = None if blame is None else np.broadcast_to(blame, (*shape, blame.shape[2]))
            yield block, scores if scores.ndim == 3 else np.broadcast_to(scores, shape)[..., None], blamed

    def _folded(self, values: FloatArray, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        """Give what the windows of a series say of each row: `(time, column)` scores, `(time, channel)` blame."""
        rows = len(values)
        values = pad_left(values, self.window_)
        folded = Folder(len(values), self.columns, self.fold)
        blamed = Folder(len(values), len(self.channels_), self.fold, np.float32) if explain else None
        for block, scores, blame in self._judged(values, explain=explain):
            folded.add(block, scores)
            if blame is None:
                blamed = None  # not asked for, or the detector does not tell channels apart
            elif blamed is not None:
                blamed.add(block, blame)
        return folded.result()[-rows:], None if blamed is None else blamed.result()[-rows:]

    def _score(self, series: Series, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        folded, found = self._folded(series.values, explain=explain)
        smooth = trailing_mean(self._combine(folded), self.smoothing)
        if found is None:
            return smooth, None
        if self.smoothing > 1:
            for channel in range(found.shape[1]):  # a channel at a time: no second (time, channel) array
                found[:, channel] = trailing_mean(found[:, channel], self.smoothing)
        return smooth, found

    # -- file ------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, facts = super()._state()
        return arrays, facts | {"window": self.window_, "hop": self.hop_}

    def _restore(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
        super()._restore(arrays, facts)
        self.window_, self.hop_ = facts["window"], facts["hop"]

"""Preparing: rows as they were measured to segments of finite rows, row by row with bounded state."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import BoolArray, FloatArray
from patchad.data.times import localized
from patchad.errors import InputError

Missing = Literal["interpolate", "error", "drop"]

USUAL_STEPS = 101
"""Steps in time, the newest, whose median is the usual step: it depends on no later row, and follows a new rate."""

LARGEST = 1e300
"""Largest value of a channel in float64; in float32 a fourth of what it holds. Sums of larger ones may overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Rows of one segment that follow each other."""

    rows: NDArray[np.intp]
    """(time,), numbers of the rows, counted from the first that came."""
    values: FloatArray
    """(time, channel), finite."""
    begins: bool
    """Whether they begin a segment; else they go on with the one before."""


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """What became of the rows that were pushed."""

    parts: tuple[Part, ...]
    muted: BoolArray
    """(time,), rows that are mostly filled or left out, which never alarm."""
    kept: BoolArray
    """(time,), rows that are in a part; others have no score."""
    gaps: int
    """Long steps in time."""
    ended: bool
    """Whether the last segment is known to have ended."""
    plain: bool = False
    """Whether it is one row that lacks nothing and goes on with the segment."""

    @classmethod
    def of(cls, values: FloatArray, seen: int) -> Ready:
        """Return the same of several plain rows, the last that were seen."""
        rows = np.arange(seen - len(values), seen)
        none = np.zeros(len(values), dtype=bool)
        return cls((Part(rows, values, begins=False),), none, ~none, 0, ended=False)


_NO: BoolArray = np.zeros(1, dtype=bool)
_YES: BoolArray = np.ones(1, dtype=bool)


class Preparer:
    """Check rows, fill what is missing, and tell where a segment ends.

    A missing value is held at the last one observed in the segment, so that a row's filling never depends on later
    rows; before the first observation it is `initial`. A run of more than `max_gap` rows without any value ends the
    segment, as does a step in time of over `max_gap` usual steps, the median of the last 101. Rows that cannot be used
    are refused, and leave everything as it was.

    Examples
    --------
    >>> preparer = Preparer(("a",), np.zeros(1))
    >>> [part.values.tolist() for part in preparer.push(np.array([[np.nan], [1.0], [np.nan]])).parts]
    [[[0.0], [1.0], [1.0]]]
    """

    state = ("seen", "time", "_steps", "_last", "_silent", "_skipped", "_open")

    def __init__(
        self,
        channels: Sequence[str],
        initial: FloatArray,
        *,
        missing: Missing = "interpolate",
        max_gap: float = 10,
        zone: dt.tzinfo | None = None,
    ) -> None:
        if missing not in ("interpolate", "error", "drop"):
            raise InputError(f"missing={missing!r} is unknown; use 'interpolate', 'error' or 'drop'")
        self._channels, self._initial, self._missing, self._max_gap = channels, initial, missing, max_gap
        self._zone = zone
        """Time zone of the data, for messages; the times themselves are in UTC then."""
        self.seen = 0
        self.time: Any = None
        """Time of the newest row."""
        self._steps = np.empty(0)
        """The newest steps in time."""
        self._last: FloatArray = initial
        """Last value of each channel in this segment."""
        self._silent = 0
        """Rows without any value until now."""
        self._skipped = 0
        """Rows since the last one that was kept."""
        self._open = False
        """Whether the last row that was kept is followed by the next one."""

    def push(self, values: FloatArray, times: NDArray[Any] | None = None) -> Ready:
        """Take the next rows, `(time, channel)`, with their times where they have any."""
        some = _lacks_values(values)
        gaps: BoolArray | None = None
        if some:
            check_finite(values, self._channels, self.seen)
            gaps = np.isnan(values)
            if self._missing == "error":
                self._refuse(gaps)
        long = self._check_times(times, len(values))
        if self._open and len(values) == 1 and not some and not long[0]:  # as nearly always along a stream
            return self._one_more(values)
        keep, muted = self._keep(gaps, len(values))
        parts = self._cut(values, keep, long, some=some)
        self.seen += len(values)
        return Ready(tuple(parts), muted, keep, int(long.sum()), not self._open)

    def _one_more(self, values: FloatArray) -> Ready:
        """Take a row that lacks nothing and follows the last."""
        self._last, self._silent, self._skipped = values[0], 0, 0
        self.seen += 1
        return Ready((Part(np.array([self.seen - 1]), values, begins=False),), _NO, _YES, 0, ended=False, plain=True)

    def end_segment(self) -> None:
        """Let the next row begin a new segment."""
        self._open = False

    def _refuse(self, gaps: BoolArray) -> None:
        row, channel = np.argwhere(gaps)[0]
        count = int(gaps.sum())
        raise InputError(
            f"X has {count:,} missing value{'' if count == 1 else 's'} (NaN), the first in row {self.seen + row}, "
            f"channel {self._channels[channel]!r}; use missing='interpolate' or missing='drop'"
        )

    def _check_times(self, times: NDArray[Any] | None, rows: int) -> BoolArray:
        """Check that times increase, and note the newest; return which rows come after a long step."""
        if times is None:
            return _NO if rows == 1 else np.zeros(rows, dtype=bool)
        unknown = np.isnat(times) if times.dtype.kind in "mM" else ~np.isfinite(times.astype(np.float64))
        if unknown.any():
            row = self.seen + int(unknown.argmax())
            raise InputError(f"row {row} has no time; every row needs one, so fill it or drop the row")
        if times.dtype.kind not in "mM" and (np.abs(times.astype(np.float64)) > LARGEST).any():
            row = int(np.argmax(np.abs(times.astype(np.float64)) > LARGEST))
            raise InputError(f"row {self.seen + row} has the time {times[row]:g}, which is too large to compute with")
        before = times if self.time is None else np.concatenate([np.array([self.time], dtype=times.dtype), times])
        steps = np.diff(before)
        backward = steps <= np.zeros(1, dtype=steps.dtype)
        if backward.any():
            at = int(backward.argmax())
            raise _backward(before[at : at + 2], self.seen + len(times) - len(steps) + at, self._zone)
        self.time = times[-1]
        long = np.zeros(rows, dtype=bool)
        long[rows - len(steps) :] = self._long_steps(steps.astype(np.float64))
        return long

    def _long_steps(self, steps: FloatArray) -> BoolArray:
        """Mark the steps that are over `max_gap` usual ones."""
        known = np.concatenate([self._steps, steps])
        self._steps = known[-(USUAL_STEPS - 1) :].copy()
        if not len(steps) or known.max() <= self._max_gap * known.min():  # as nearly always: then none can be
            return np.zeros(len(steps), dtype=bool)
        if len(steps) == 1:
            usual = np.array([np.median(known[-USUAL_STEPS:])])
        else:
            import pandas as pd

            usual = pd.Series(known).rolling(USUAL_STEPS, min_periods=1).median().to_numpy()[len(known) - len(steps) :]
        return np.asarray(steps > self._max_gap * usual)

    def _keep(self, gaps: BoolArray | None, rows: int) -> tuple[BoolArray, BoolArray]:
        """Mark the rows that are kept, and those that are muted; `gaps` is None where there are none."""
        if gaps is None:
            self._silent = 0
            return np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool)
        silent = np.asarray(gaps.all(axis=1))
        position = np.arange(len(gaps))
        heard = np.maximum.accumulate(np.where(silent, -1 - self._silent, position))
        run = position - heard
        self._silent = int(run[-1]) if silent[-1] else 0
        if self._missing == "drop":
            keep: BoolArray = ~np.asarray(gaps.any(axis=1))
            return keep, ~keep
        return ~(silent & (run > self._max_gap)), np.asarray(gaps.mean(axis=1) > 0.5)

    def _cut(self, values: FloatArray, keep: BoolArray, long: BoolArray, *, some: bool) -> list[Part]:
        """Cut the rows that are kept where a segment ends; fill what is missing in them."""
        bridge = self._max_gap if self._missing == "drop" else 0
        kept = np.flatnonzero(keep)
        before = np.concatenate([[-1 - self._skipped], kept])
        breaks = np.concatenate([[0], np.cumsum(long)])  # long steps up to and with each row
        since = np.concatenate([[0], breaks[kept + 1]])
        begins = (np.diff(before) - 1 > bridge) | (np.diff(since) > 0)
        if len(begins):
            begins[0] |= not self._open
        parts = []
        for first, stop in zip(bounds := [0, *(np.flatnonzero(begins[1:]) + 1)], [*bounds[1:], len(kept)], strict=True):
            if stop > first:
                parts.append(self._part(values, kept[first:stop], begins=bool(begins[first]), some=some))
        tail = len(values) - 1 - int(before[-1])
        self._skipped = tail
        ended = tail > bridge or breaks[-1] > since[-1]
        self._open = not ended and (self._open or len(kept) > 0)
        return parts

    def _part(self, values: FloatArray, rows: NDArray[np.intp], *, begins: bool, some: bool) -> Part:
        whole = int(rows[-1]) + 1 - int(rows[0]) == len(rows)
        own = values[int(rows[0]) : int(rows[-1]) + 1] if whole else values[rows]  # a view where that is possible
        if self._missing != "drop":
            filled = hold_last(own, self._initial if begins else self._last) if some else own
            self._last = filled[-1].copy()
            own = filled
        return Part(rows + self.seen, own, begins)


def _backward(pair: NDArray[Any], row: int, zone: dt.tzinfo | None) -> InputError:
    """Say where time goes back, and, if it is by an hour, that the end of daylight-saving time looks so."""
    before, after = localized(pair, zone)
    word = "repeats" if before == after else "goes back"
    text = f"time {word} at row {row}: {after} after {before}; times must increase, so "
    if pair.dtype.kind == "M" and zone is None and np.timedelta64(0) < before - after <= np.timedelta64(1, "h"):
        text += (
            "if these are local times at the end of daylight-saving time, write them with their offset (+02:00) or in "
            "UTC; else "
        )
    return InputError(text + "sort the rows (--sort) and drop duplicates (--dedupe first)")


def _lacks_values(values: FloatArray) -> bool:
    """Return whether some values are missing, infinite or too large."""
    low, high = (limit.reduce(values, axis=None, initial=0.0) for limit in (np.minimum, np.maximum))  # NaN if any is
    return not -_largest(values.dtype) <= low <= high <= _largest(values.dtype)


@cache
def _largest(dtype: np.dtype[Any]) -> float:
    return min(LARGEST, float(np.finfo(dtype).max) / 4)


def check_finite(values: FloatArray, channels: Sequence[str], first: int = 0) -> None:
    """Refuse infinite values, and those too large to compute with; rows are counted from `first`."""
    largest = _largest(values.dtype)
    extremes = (limit.reduce(values, axis=None, initial=0.0) for limit in (np.fmin, np.fmax))  # no copy, no NaN
    if all(abs(extreme) <= largest for extreme in extremes):
        return
    for i, name in enumerate(channels):
        large = np.abs(values[:, i]) > largest
        if large.any():
            row = int(large.argmax())
            value = values[row, i]
            what = (
                f"an infinite value ({value:g})"
                if np.isinf(value)
                else f"the value {value:g}, too large to compute with,"
            )
            raise InputError(
                f"X has {what} in row {first + row}, channel {name!r}; "
                "replace it by a number, or by NaN if it is unknown"
            )


def hold_last(values: FloatArray, initial: FloatArray) -> FloatArray:
    """Hold every missing value at the last one observed, or at `initial` before the first."""
    filled = values.copy()
    position = np.arange(len(values))
    for i in np.flatnonzero(np.isnan(values).any(axis=0)):
        gaps = np.isnan(values[:, i])
        last = np.maximum.accumulate(np.where(gaps, -1, position))
        filled[:, i] = np.where(last < 0, initial[i], values[last, i])
    return filled

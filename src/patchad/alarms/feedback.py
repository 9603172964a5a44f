"""Feedback: rows that people called normal (`accept`) or strange (`confirm`), and later rows that are like them.

A judgement holds patterns: the strange stretches of the rows that were judged, cut so that each of them is near one.
Later rows that are as near to a pattern as held-out rows of train are to their neighbours are judged alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from patchad.alarms.likeness import PIECE, Likeness, slack
from patchad.data.table import BoolArray, FloatArray
from patchad.errors import InputError
from patchad.results.detection import alarm_runs

MAX_PATTERNS = 2_000
"""Patterns that a detector holds, at most; what needs more is better learned in a new fit."""
BLOCK = 256
"""Rows that are compared with train at once."""
EDGE_ROWS = 5
"""Rows by which the edge of a stretch may be told wrongly."""
STEPS_PER_WINDOW = 6
"""Patterns are cut this fraction of a window apart, where one is not like the next."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A stretch of rows that was judged."""

    values: FloatArray
    """(step, channel), scaled."""
    first: int
    stop: int
    """The steps that are judged; the others, if any, only tell where such steps are."""
    strange: BoolArray
    """(channel,), which of them are not like train: these have to be alike, others may be like train as well."""
    blamed: BoolArray
    """(channel,), the strange ones, and those that lead in these rows."""

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Judgement:
    """Rows that were called normal or strange."""

    accepted: bool
    """Whether they are normal from now on; else they stay strange."""
    rows: int
    since: str
    until: str
    """Where they were: times, or row numbers."""
    digest: str
    """Hash of their values."""
    patterns: tuple[Pattern, ...]
    freeze: FloatArray
    """(channel,), rows for which each channel was stuck in them; 0: it was not."""
    silence: FloatArray
    """(channel,), rows for which it was missing."""
    low: FloatArray
    high: FloatArray
    """(channel,), its range; the largest float and its negative where nothing is known of it."""

    def __str__(self) -> str:
        verb, count = "accepted" if self.accepted else "confirmed", len(self.patterns)
        where = f"{self.since} to {self.until}" if self.rows > 1 else self.since
        return f"{verb} {where} ({self.rows:,} rows, {count} window{'' if count == 1 else 's'})"


def fits_channels(likeness: Likeness, judgements: Sequence[Judgement], channels: int) -> bool:
    """Return whether the arrays of a model file fit each other and so many channels."""
    shapes: list[NDArray[np.generic]] = [
        likeness.centre,
        likeness.spread,
        likeness.radius,
        likeness.peak,
        likeness.piece_radius,
    ]
    known = likeness.pieces.ndim == 3 and likeness.pieces.shape[2] == channels and likeness.pieces.size > 0
    for one in judgements:
        shapes += [one.freeze, one.silence, one.low, one.high]
        for pattern in one.patterns:
            shapes += [pattern.strange, pattern.blamed]
            known &= pattern.values.ndim == 2 and pattern.values.shape[1] == channels
            known &= 0 <= pattern.first < pattern.stop <= len(pattern.values)
    return known and all(array.shape == (channels,) for array in shapes)


def digest(values: FloatArray) -> str:
    """Return a hash of `(time, channel)` values."""
    return hashlib.sha256(np.asarray(values, dtype=np.float64).tobytes()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, eq=False)
class Strangeness:
    """What the score says of rows."""

    active: BoolArray
    """(time,), over the closing level."""
    lead: NDArray[np.intp]
    """(time,), the channel most to blame; -1 where that is not known."""

    @classmethod
    def join(cls, parts: Sequence[Strangeness]) -> Strangeness:
        """Concatenate consecutive parts."""
        return cls(np.concatenate([p.active for p in parts]), np.concatenate([p.lead for p in parts]))

    def __getitem__(self, rows: slice) -> Strangeness:
        return Strangeness(self.active[rows], self.lead[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """What feedback says of rows, each `(time,)`."""

    accepted: BoolArray
    confirmed: BoolArray

    @classmethod
    def none(cls, rows: int) -> Self:
        """Mark nothing."""
        return cls(np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool))

    @classmethod
    def join(cls, parts: Sequence[Marks]) -> Marks:
        """Concatenate consecutive parts."""
        return cls(np.concatenate([p.accepted for p in parts]), np.concatenate([p.confirmed for p in parts]))

    def __len__(self) -> int:
        return len(self.accepted)

    def __getitem__(self, rows: slice) -> Marks:
        return Marks(self.accepted[rows], self.confirmed[rows])


class FeedbackStage:
    """Mark the rows of one segment that are like rows that were judged.

    Accepted is a row over the closing level inside a stretch like an accepted pattern, one that lies just beside it,
    one like train that scores may smear to from there, and one in which a channel rests that may, and that is like
    train in all others. Confirmed is a row inside a stretch like a confirmed pattern; it is not accepted.

    Parameters
    ----------
    likeness
        What is alike.
    judgements
        What was judged.
    before, after
        Rows before and after a strange row that it makes look strange.
    """

    state = ("_values", "_strangeness", "_known")

    def __init__(self, likeness: Likeness, judgements: Sequence[Judgement], *, before: int, after: int) -> None:
        self._likeness, self._before, self._after = likeness, before, after
        self._accepted = [p for j in judgements if j.accepted for p in j.patterns]
        self._resting = [rest for rest in map(_resting, judgements) if rest.any()]
        self._confirmed = [p for j in judgements if not j.accepted for p in j.patterns]
        length = max([PIECE * bool(self._resting), *map(len, self._accepted + self._confirmed)])
        reach = length + PIECE + EDGE_ROWS
        self._wait = before + reach if length else 0
        """Rows that a row waits for."""
        self._context = after + reach if length else 0
        """Rows before a row that it depends on."""
        self._values: FloatArray | None = None
        self._strangeness = Strangeness(np.zeros(0, dtype=bool), np.zeros(0, dtype=np.intp))
        self._known = 0
        """Rows of these whose marks were returned."""

    def push(self, values: FloatArray, strangeness: Strangeness) -> Marks:
        """Take the next rows, `(time, channel)`; return the marks of the rows that became final."""
        if not self._wait:
            return Marks.none(len(values))
        scaled = self._likeness.scaled(values)
        self._values = scaled if self._values is None else np.concatenate([self._values, scaled])
        self._strangeness = Strangeness.join([self._strangeness, strangeness])
        found = self._take(len(self._values) - self._wait)
        dropped = max(self._known - self._context, 0)
        self._values, self._strangeness = self._values[dropped:].copy(), self._strangeness[slice(dropped, None)]
        self._known -= dropped
        return found

    def flush(self) -> Marks:
        """End the segment; return the marks of the rows that were still open."""
        found = Marks.none(0) if self._values is None else self._take(len(self._values))
        self._values, self._strangeness, self._known = None, self._strangeness[slice(0, 0)], 0
        return found

    def _take(self, stop: int) -> Marks:
        """Return the marks of rows that were not returned yet, up to one."""
        if stop <= self._known or self._values is None:
            return Marks.none(0)
        rows = slice(self._known, stop)
        self._known = stop
        return self._marks(self._values, self._strangeness)[rows]

    def _marks(self, values: FloatArray, strange: Strangeness) -> Marks:
        rows = Rows(values, self._likeness)
        confirmed = rows.like(self._confirmed, np.ones(len(values), dtype=bool))
        near = _reached(strange.active, self._after, self._before)  # rows whose score may smear to a strange one
        matched = rows.like(self._accepted, near, strange.lead)
        for channels in self._resting:
            matched |= rows.resting(channels, near & ~matched)
        for row in np.flatnonzero(matched & ~strange.active):
            matched[row] = not rows.is_usual(int(row))
        accepted = (matched & strange.active) | _beside(matched, strange)
        for row in np.flatnonzero(_reached(matched, self._before, self._after) & strange.active & ~accepted):
            accepted[row] = rows.is_usual(int(row))
        return Marks(accepted & ~confirmed, confirmed)


class Rows:
    """Consecutive scaled rows, and what they are like."""

    def __init__(self, values: FloatArray, likeness: Likeness) -> None:
        self._values, self._likeness = values, likeness
        self._usual: BoolArray = np.zeros(values.shape, dtype=bool)
        self._looked: BoolArray = np.zeros(-(-len(values) // BLOCK), dtype=bool)
        """Blocks of rows that were compared with train."""

    def usual(self, rows: slice) -> BoolArray:
        """Mark the values of these rows, `(time, channel)`, that are like train."""
        for block in range(rows.start // BLOCK, -(-rows.stop // BLOCK)):
            if not self._looked[block]:
                first, stop = block * BLOCK, (block + 1) * BLOCK
                start = max(first - PIECE, 0)
                near = self._likeness.normal(self._values[start : stop + PIECE])
                self._usual[first:stop] = near[first - start :][:BLOCK]
                self._looked[block] = True
        return self._usual[rows]

    def is_usual(self, row: int) -> bool:
        """Return whether all values of a row are like train."""
        return bool(self.usual(slice(row, row + 1)).all())

    def like(self, patterns: Sequence[Pattern], wanted: BoolArray, lead: NDArray[np.intp] | None = None) -> BoolArray:
        """Mark the wanted rows that lie in stretches like one of these patterns.

        Parameters
        ----------
        patterns
            What to look for.
        wanted
            (time,), rows that matter.
        lead
            (time,), the channel most to blame, -1 where it is not known. If given, one that is not strange in a pattern
            may lead only where every channel is like the pattern, and short stretches may vary more.
        """
        found: BoolArray = np.zeros(len(self._values), dtype=bool)
        for pattern in patterns:
            if len(pattern) > len(self._values):
                continue
            total = np.concatenate([[0], np.cumsum(wanted & ~found)])
            last = len(wanted) - len(pattern) + 1
            judged = total[pattern.stop : pattern.stop + last] > total[pattern.first : pattern.first + last]
            starts, alike = self._matches(np.flatnonzero(judged), pattern, loose=lead is not None)
            rows = starts[:, None] + np.arange(pattern.first, pattern.stop)
            found[rows[alike].ravel()] = True
            rest = rows[~alike].ravel()
            blamed = slice(None) if lead is None else (lead[rest] < 0) | pattern.blamed[lead[rest]]
            found[rest[blamed]] = True
        return found & wanted

    def unlike(
        self, starts: NDArray[np.intp], length: int, pattern: Pattern, lead: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return where of these places no stretch of so many rows begins that is like a pattern."""
        if len(pattern) > len(self._values) or pattern.stop - pattern.first != length:
            return starts
        places = starts - pattern.first
        found, alike = self._matches(places[(places >= 0) & (places <= len(self._values) - len(pattern))], pattern)
        leads = lead[(found + pattern.first)[:, None] + np.arange(length)]
        found = found[alike | ((leads < 0) | pattern.blamed[leads]).all(axis=1)]
        return starts[~np.isin(starts, found + pattern.first)]

    def resting(self, channels: BoolArray, wanted: BoolArray) -> BoolArray:
        """Mark the wanted rows in which some of these channels rest, in the range of train, and others are like it."""
        rest: BoolArray = np.zeros(self._values.shape, dtype=bool)
        if len(rest) >= PIECE:
            for channel in np.flatnonzero(channels):
                cut = sliding_window_view(self._values[:, channel], PIECE)
                known = self._likeness.pieces[:, :, channel]
                still = (cut == cut[:, :1]).all(axis=1) & (cut[:, 0] >= known.min()) & (cut[:, 0] <= known.max())
                for step in range(PIECE):
                    rest[step : step + len(still), channel] |= still
        found: BoolArray = wanted & rest.any(axis=1)
        for row in np.flatnonzero(found):
            found[row] = (self.usual(slice(row, row + 1)) | rest[row]).all()
        return found

    def _matches(
        self, starts: NDArray[np.intp], pattern: Pattern, *, loose: bool = True
    ) -> tuple[NDArray[np.intp], BoolArray]:
        """Return where stretches like the pattern begin, and in which of them every channel is like it."""
        for channel in np.flatnonzero(pattern.strange):
            starts = starts[self._near(starts, pattern, int(channel), loose=loose)]
        alike: BoolArray = np.ones(len(starts), dtype=bool)
        kept = alike.copy()
        for channel in np.flatnonzero(~pattern.strange):
            near = self._near(starts, pattern, int(channel), loose=loose)
            for place in np.flatnonzero(~near & kept) if pattern.strange.any() else ():
                first = int(starts[place])
                near[place] = self.usual(slice(first + pattern.first, first + pattern.stop))[:, channel].all()
                alike[place] = False
            kept &= near
        return starts[kept], alike[kept]

    def _near(self, starts: NDArray[np.intp], pattern: Pattern, channel: int, *, loose: bool) -> BoolArray:
        cut = sliding_window_view(self._values[:, channel], len(pattern))
        apart = np.abs(cut[starts] - pattern.values[:, channel])
        factor = slack(len(pattern)) if loose and len(pattern) < self._likeness.window else 1.0
        within: BoolArray = np.sqrt(np.square(apart).mean(axis=1)) <= factor * self._likeness.radius[channel]
        return np.asarray(within & (apart.max(axis=1) <= self._likeness.peak[channel]))


def _reached(marked: BoolArray, before: int, after: int) -> BoolArray:
    """Mark the rows at most so many before or after a marked one."""
    total = np.concatenate([[0], np.cumsum(marked)])
    rows = np.arange(len(marked))
    first, stop = np.maximum(rows - after, 0), np.minimum(rows + before + 1, len(marked))
    return np.asarray(total[stop] > total[first])


def _beside(accepted: BoolArray, strange: Strangeness) -> BoolArray:
    """Mark the strange rows just beside accepted ones that blame the same channel: edges are told to a few rows."""
    found: BoolArray = np.zeros(len(accepted), dtype=bool)
    for rows in range(1, EDGE_ROWS + 1):
        same = (strange.lead[rows:] == strange.lead[:-rows]) | (strange.lead[rows:] < 0) | (strange.lead[:-rows] < 0)
        found[rows:] |= accepted[:-rows] & same
        found[:-rows] |= accepted[rows:] & same
    return found & strange.active


def _resting(judgement: Judgement) -> BoolArray:
    """Return the channels that may rest by a judgement: while they do, their values say nothing."""
    return np.asarray(judgement.accepted & ((judgement.freeze > 0) | (judgement.silence > 0)))


def cut_patterns(
    values: FloatArray, lead: NDArray[np.intp], rows: BoolArray, known: Sequence[Pattern], likeness: Likeness
) -> tuple[Pattern, ...]:
    """Cut patterns from a segment so that every stretch of these rows is like a known pattern or one of them.

    Parameters
    ----------
    values
        (time, channel), scaled.
    lead
        (time,), the channel most to blame; -1 where that is not known.
    rows
        (time,), which rows to cover.
    known
        Patterns that were cut before.
    likeness
        What is alike.
    """
    segment = Rows(values, likeness)
    made: list[Pattern] = []
    for first, stop in alarm_runs(rows, PIECE - 1):
        length = min(stop - first, likeness.window)
        step = max(length // STEPS_PER_WINDOW, 1)
        left = np.unique([*range(first, stop - length + 1, step), stop - length])
        leads = np.unique(lead[first:stop])
        for pattern in known:
            left = segment.unlike(left, length, pattern, lead)
        while len(left):
            made.append(_pattern(segment, values, slice(int(left[0]), int(left[0]) + length), leads[leads >= 0]))
            left = segment.unlike(left[1:], length, made[-1], lead)
    if len(known) + len(made) > MAX_PATTERNS:
        raise InputError(
            f"these rows need {len(made):,} windows to be known again, and at most {MAX_PATTERNS:,} can be stored "
            f"({len(known):,} are); judge fewer rows, or fit a new model with them"
        )
    return tuple(made)


def _pattern(segment: Rows, values: FloatArray, own: slice, leads: NDArray[np.intp]) -> Pattern:
    """Make a pattern of these rows; a short one with rows around it, by which it is told from train."""
    missing = max(PIECE - (own.stop - own.start), 0)
    start = max(own.start - (missing + 1) // 2, 0)
    stop = min(max(own.stop + missing // 2, start + PIECE), len(values))
    strange: BoolArray = np.asarray(~segment.usual(own).all(axis=0))
    blamed = strange.copy()
    blamed[leads] = True
    return Pattern(values[start:stop].copy(), own.start - start, own.stop - start, strange, blamed)

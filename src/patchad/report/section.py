"""One series laid out on a page: its time axis, the events it lists, and how much of it is drawn."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray
from patchad.data.times import localized, without_zone, zone_name
from patchad.report.truth import LabelComparison
from patchad.report.wording import moment
from patchad.results.detection import Detection, by_severity


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper bounds on what is drawn of one detection; several series on a page share them."""

    overview: int = 20_000
    """Points of the score curve over the whole series."""
    detail: int = 100_000
    """Rows near listed events whose scores are all kept."""
    events: int = 300
    """Listed events, each with a card: the most severe ones."""
    curves: int = 100
    """Cards with curves."""
    lanes: int = 60_000
    """Points of the raw values in the lanes."""
    bands: int = 20_000
    """Events shaded in the timeline."""

    def shared_by(self, series: int) -> Budget:
        """Return the budget of each of several series."""
        return Budget(*(max(getattr(self, name) // series, 10) for name in Budget.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Positions of the rows along the time axis."""

    kind: str
    """`date`, `seconds`, `number` or `row`."""
    positions: FloatArray
    """(time,), float64: milliseconds since 1970, seconds of a duration, the index's own numbers, or row numbers."""
    step: float
    """Median distance between consecutive rows."""
    zone: str | None = None
    """Time zone of the data; None where it has none."""
    offsets: tuple[tuple[float, int], ...] = ()
    """With a zone, positions from which on local time is this many minutes ahead of UTC."""
    whole_minutes: bool = False
    """Whether all rows are dates without seconds."""

    @classmethod
    def of(cls, index: Any, rows: int) -> Axis:
        """Build the axis of an index; without one, positions are row numbers.

        Examples
        --------
        >>> axis = Axis.of(np.array(["1970-01-01T00:00:01", "1970-01-01T00:00:03"], "datetime64[s]"), 2)
        >>> axis.kind, axis.positions.tolist(), axis.step
        ('date', [1000.0, 3000.0], 2000.0)
        """
        zone = getattr(index, "tz", None)
        index = None if index is None else without_zone(index)
        if index is None:
            kind, positions = "row", np.arange(rows, dtype=np.float64)
        elif index.dtype.kind == "M":
            kind, positions = "date", index.astype("datetime64[us]").astype(np.int64) / 1e3
        elif index.dtype.kind == "m":
            kind, positions = "seconds", index.astype("timedelta64[us]").astype(np.int64) / 1e6
        else:
            kind, positions = "number", index.astype(np.float64)
        step = float(np.median(np.diff(positions))) if rows > 1 else 1.0
        whole_minutes = kind == "date" and not (positions % 60_000).any()
        return cls(kind, positions, step, zone_name(zone), _offsets(index, zone, positions), whole_minutes)

    def edges(self, start: int, stop: int) -> tuple[float, float]:
        """Return the positions of the first and the last of rows `start` to `stop - 1`."""
        return float(self.positions[start]), float(self.positions[stop - 1])

    def span(self, start: int, stop: int) -> tuple[float, float]:
        """Return the positions where rows `start` to `stop - 1` begin and end, with half a step on either side."""
        return float(self.positions[start] - self.step / 2), float(self.positions[stop - 1] + self.step / 2)


def _offsets(
    index: NDArray[np.generic] | None, zone: dt.tzinfo | None, positions: FloatArray
) -> tuple[tuple[float, int], ...]:
    if index is None or zone is None or len(positions) == 0:
        return ()
    local = without_zone(localized(index, zone).tz_localize(None))
    minutes = np.subtract(local, index).astype("timedelta64[m]").astype(np.int64)
    changes = np.flatnonzero(np.diff(minutes, prepend=minutes[0] - 1))
    return tuple((float(positions[row]), int(minutes[row])) for row in changes)


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """What the panels of one series share."""

    number: int
    """Position on the page, from 0; keeps element ids unique."""
    name: str
    detection: Detection
    comparison: LabelComparison | None
    budget: Budget
    axis: Axis
    listed: tuple[int, ...]
    """Indices of the listed events, most severe first."""

    @classmethod
    def of(
        cls, number: int, name: str, detection: Detection, comparison: LabelComparison | None, budget: Budget
    ) -> Section:
        """Lay out a detection within a budget."""
        axis = Axis.of(detection.index, len(detection.scores))
        listed = tuple(by_severity(detection.events)[: budget.events])
        return cls(number, name, detection, comparison, budget, axis, listed)

    def moment(self, row: int) -> str:
        """Return the time of a row as text, or its number where there is no time."""
        index, axis = self.detection.index, self.axis
        time = None if index is None else index[row]
        return moment(time, row, whole_minutes=axis.whole_minutes, one_offset=len(axis.offsets) == 1)

    def raw_values(self, channel: str) -> FloatArray | None:
        """Return the values of a channel as they were given, or None where they are not known."""
        return self.detection.observed_values(channel)

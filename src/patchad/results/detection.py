"""What a detector found: scores, levels, alarms, and events with the channels to blame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import tzinfo
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from patchad.data.files import write_whole
from patchad.data.table import BoolArray, FloatArray, Table
from patchad.data.times import localized, zone_name

MIN_MARGIN, MAX_MARGIN = 30, 150
"""Rows that are drawn before and after an event: as many as it has itself, within these bounds."""
MAX_DRAWN_ROWS = 600
"""Rows that are drawn of an event and its margins; of a longer one, those around its peak."""

EventState = Literal["suspected", "open", "closed", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Event:
    """Rows `start` to `stop - 1` that belong together and need attention."""

    start: int
    stop: int
    peak: int
    """The row with the highest score."""
    peak_score: float
    severity: float
    """0 to 100, by height over the level, length and number of channels; see `patchad.alarms.severity`."""
    channels: tuple[tuple[str, float], ...]
    """Names with their shares of the blame, most responsible first."""
    start_time: Any = None
    stop_time: Any = None
    """Time of the event's last row, as in the data: with a zone a pandas `Timestamp`, without one a datetime64."""
    kind: Literal["anomaly", "stuck", "missing", "range", "regime"] = "anomaly"
    repeats: int = 0
    """Like events that followed, and are not listed themselves."""
    id: str = ""
    """Hash of series, kind and opening row: the same in batch, stream and shards."""
    state: EventState = "closed"
    """In a stream also `suspected`, `open` or `withdrawn`."""
    suspected_id: str | None = field(default=None, compare=False)
    """In a stream, the id that it had while its rows had no final score; None where it was not suspected by then."""

    def in_zone(self, zone: tzinfo | None) -> Event:
        """Return the event with its times, which are in UTC, in a time zone; None leaves them as they are."""
        if zone is None or self.start_time is None:
            return self
        start, stop = localized(np.array([self.start_time, self.stop_time]), zone)
        return replace(self, start_time=start, stop_time=stop)

    def __len__(self) -> int:
        return self.stop - self.start

    def withdrawn(self) -> Event:
        """Return the event as one that turned out to be none."""
        return replace(self, state="withdrawn")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON knows them; times in ISO 8601, `suspected_id` where there is one."""
        fields = asdict(self)
        if self.suspected_id is None:
            del fields["suspected_id"]
        fields["channels"] = [[name, round(share, 4)] for name, share in self.channels]
        for name in ("start_time", "stop_time"):
            fields[name] = time_text(fields[name])
        return fields


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """Expected values of the channels most to blame for an event, in the rows around it."""

    event: int
    """Which of the detection's events."""
    start: int
    """Row of the first value."""
    channels: tuple[str, ...]
    values: FloatArray
    """(time, channel), in the units of the data; NaN where nothing can be expected."""
    reach: FloatArray
    """(time, channel), how far from there a normal value may be."""


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """The result of `detect`: one value per row, and the events."""

    scores: FloatArray
    """(time,), higher is stranger; NaN where a row could not be scored."""
    levels: FloatArray
    """(time,), the opening level of each row."""
    alarms: BoolArray
    """(time,), inside an event; of a regime, before it was recognised."""
    events: tuple[Event, ...]
    channels: tuple[str, ...]
    index: Any
    """(time,), the times, where the input had any: an array, or a pandas `DatetimeIndex` where they have a zone."""
    contributions: FloatArray
    """(time, channel), shares of the blame; a row sums to 1, or to 0 where nothing is to blame."""
    notes: tuple[str, ...] = ()
    """What was filled, dropped, shrunk or ignored."""
    observed: Table | None = None
    """The data that was analysed, not a copy of it; for the report."""
    expected: Sequence[Expectation] = ()
    """What was expected around the most severe events, most severe first; for the report."""

    @property
    def zone(self) -> str | None:
        """Name of the time zone, or its offset from UTC; None where times have none."""
        return zone_name(getattr(self.index, "tz", None))

    def observed_values(self, channel: str) -> FloatArray | None:
        """Return the values of a channel as they were given, or None where they are not known."""
        if self.observed is None:
            return None
        columns = self.channels if self.observed.channels is None else self.observed.channels
        return self.observed.values[:, columns.index(channel)] if channel in columns else None

    def to_frame(self) -> Any:
        """Return a pandas frame with score, level and alarm of every row, indexed by time where there is one."""
        import pandas as pd

        columns = {"score": self.scores, "level": self.levels, "alarm": self.alarms}
        index = None if self.index is None else pd.Index(self.index, name="time")
        return pd.DataFrame(columns, index=index)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return everything but the contributions as JSON text, and write it to `path` if given."""
        text = json.dumps(
            {
                "channels": list(self.channels),
                "events": [event.to_dict() for event in self.events],
                "notes": list(self.notes),
                "zone": self.zone,
                "index": None if self.index is None else [time_text(time) for time in self.index],
                "scores": [None if np.isnan(score) else float(score) for score in self.scores],
                "levels": [None if np.isnan(level) else float(level) for level in self.levels],
                "alarms": self.alarms.tolist(),
            }
        )
        if path is not None:
            write_whole({Path(path): text.encode()})
        return text

    def severe(self, least: float) -> Detection:
        """Return the same with the events of this severity and more; rows of no other event alarm.

        Examples
        --------
        >>> events = (Event(0, 1, 0, 2.0, 10.0, ()), Event(5, 6, 5, 9.0, 80.0, ()))
        >>> alarms = np.array([True, False, False, False, False, True])
        >>> found = Detection(np.zeros(6), np.ones(6), alarms, events, (), None, np.zeros((6, 0))).severe(50)
        >>> len(found.events), np.flatnonzero(found.alarms).tolist()
        (1, [5])
        """
        kept = [number for number, event in enumerate(self.events) if event.severity >= least]
        inside = np.zeros(len(self.alarms), dtype=bool)
        for number in kept:
            inside[self.events[number].start : self.events[number].stop] = True
        expected = tuple(replace(one, event=kept.index(one.event)) for one in self.expected if one.event in kept)
        events = tuple(self.events[number] for number in kept)
        return replace(self, events=events, alarms=self.alarms & inside, expected=expected)

    def report(self, path: str | Path, labels: ArrayLike | None = None) -> Path:
        """Write a self-contained HTML page for people.

        Parameters
        ----------
        path
            Where to write.
        labels
            Ground truth, one per row, 1 or True where anomalous: adds hits, misses, false alarms and metrics.
        """
        from patchad.report.page import Chapter, render_page

        write_whole({Path(path): render_page([Chapter.of("", self, labels)])})
        return Path(path)


def by_severity(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the events, most severe first.

    Examples
    --------
    >>> by_severity([Event(0, 1, 0, 2.0, 10.0, ()), Event(5, 6, 5, 9.0, 80.0, ())])
    [1, 0]
    """
    return sorted(range(len(events)), key=lambda i: (-events[i].severity, -events[i].peak_score, i))


def surroundings(event: Event, length: int) -> slice:
    """Return the rows to draw for an event of a series of `length` rows: the event and a margin, or its peak.

    Examples
    --------
    >>> surroundings(Event(100, 110, 105, 2.0, 10.0, ()), 2000)
    slice(70, 140, None)
    """
    margin = min(max(len(event), MIN_MARGIN), MAX_MARGIN)
    start, stop = event.start - margin, event.stop + margin
    if stop - start > MAX_DRAWN_ROWS:
        start = max(start, min(event.peak - MAX_DRAWN_ROWS // 2, stop - MAX_DRAWN_ROWS))
        stop = start + MAX_DRAWN_ROWS
    return slice(max(start, 0), min(stop, length))


def alarm_runs(alarms: BoolArray, merge_gap: int = 0) -> list[tuple[int, int]]:
    """Return the half-open runs of alarms, those at most `merge_gap` rows apart as one.

    Examples
    --------
    >>> alarm_runs(np.array([True, False, True, False, False, True]), merge_gap=1)
    [(0, 3), (5, 6)]
    """
    edges = np.flatnonzero(np.diff(alarms.astype(np.int8), prepend=0, append=0))
    runs: list[tuple[int, int]] = []
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if runs and start - runs[-1][1] <= merge_gap:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return runs


def time_text(time: Any) -> str | float | None:
    """Write a time for JSON and CSV: ISO 8601, or the number it is."""
    if time is None:
        return None
    if isinstance(time, np.datetime64 | np.timedelta64):
        import pandas as pd

        time = pd.Timestamp(time) if isinstance(time, np.datetime64) else pd.Timedelta(time)
    return str(time.isoformat()) if hasattr(time, "isoformat") else float(time)

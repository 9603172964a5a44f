"""Incidents: events of several series that begin at one time, and what these series share.

Events that begin within ten usual steps of the first one are one incident. In a large fleet some events coincide by
chance, so an incident says whether so many are more than that. The promise: where the events of all series are
independent and equally likely at any time, at most one run in twenty has an incident that is called `unlikely`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import poisson

from patchad.fleet.results import Result

REACH = 10.0
"""Usual steps after the first event of an incident within which the others begin."""
CLOSE = 1.0
"""Usual steps within which fewer events are more than chance."""
RISK = 0.05
"""Share of runs without a common cause that may call an incident unlikely."""
MOST_CHANNELS = 5


@dataclass(frozen=True, slots=True)
class Incident:
    """Events that begin at one time."""

    start: str | float | int
    """When the first event begins: a time, or a row where there are no times."""
    stop: str | float | int
    """When the last event ends."""
    series: tuple[str, ...]
    """Whose events these are, the most severe first."""
    events: tuple[tuple[str, str], ...]
    """Series and id of each event, the most severe first."""
    severity: float
    """Of the worst event."""
    unlikely: bool
    """Whether so many series at one time are more than chance."""
    shared: Mapping[str, str]
    """What only these series have in common: columns of the data that have one value in each of them."""
    channels: tuple[tuple[str, int], ...]
    """Channels most to blame, with the number of series whose events they lead."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """An event on the common clock of the fleet."""

    at: float
    until: float
    result: Result
    event: Mapping[str, Any]


def find_incidents(results: Sequence[Result]) -> list[Incident]:
    """Put the events of a fleet that begin at one time together; the worst first, those of several series before all.

    Examples
    --------
    >>> event = {"start": 50, "stop": 60, "start_time": None, "severity": 70.0, "id": "a", "channels": [["flow", 1.0]]}
    >>> run = [Result(series=name, rows=1000, events=[event] if name < "d" else []) for name in "abcdef"]
    >>> (found,) = find_incidents(run)
    >>> found.series, found.unlikely, found.channels
    (('a', 'b', 'c'), True, (('flow', 3),))
    """
    done = [one for one in results if not one.error]
    clocks = [[one for one in done if (one.first_time is None) == rows] for rows in (False, True)]
    found = [incident for own in clocks for incident in _incidents(own, done)]
    return sorted(found, key=lambda one: (-len(one.series) if one.unlikely else 0, -one.severity, one.series))


def incidents_json(incidents: Sequence[Incident]) -> bytes:
    """Return incidents as a JSON list."""
    return json.dumps([asdict(one) for one in incidents], indent=1).encode()


def _incidents(results: Sequence[Result], fleet: Sequence[Result]) -> list[Incident]:
    """Find the incidents of series with one kind of clock: times, or rows."""
    begun = sorted((one for result in results for one in _begun(result)), key=lambda one: (one.at, one.result.series))
    if not begun:
        return []
    spans = [_span(result) for result in results if result.rows > 1]
    step = float(np.median([(last - first) / (result.rows - 1) for result, (first, last) in spans])) if spans else 1.0
    length = max((last for _, (_, last) in spans), default=1.0) - min((first for _, (first, _) in spans), default=0.0)
    rate = len(begun) / max(length, step)
    groups: list[list[_Begun]] = []
    for one in begun:
        if groups and one.at - groups[-1][0].at <= REACH * step:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [_incident(group, fleet, _is_unlikely(group, rate, step, len(begun))) for group in groups]


def _is_unlikely(group: Sequence[_Begun], rate: float, step: float, events: int) -> bool:
    """Return whether so many series within so short a time are more than chance, at this rate of events.

    Every event could begin an incident, and two reaches are looked at: the probability counts that often.
    """
    first = group[0].at
    for reach in (CLOSE * step, REACH * step):
        others = len({one.result.series for one in group if one.at - first <= reach}) - 1
        if others > 0 and 2 * events * poisson.sf(others - 1, rate * reach) < RISK:
            return True
    return False


def _incident(group: Sequence[_Begun], fleet: Sequence[Result], unlikely: bool) -> Incident:
    worst = sorted(group, key=lambda one: (-one.event["severity"], one.result.series))
    members = {one.result.series: one.result for one in worst}
    leading = Counter(name for name in (_leader(one) for one in {m.result.series: m for m in worst}.values()) if name)
    last = max(group, key=lambda one: one.until)
    timed = group[0].event["start_time"] is not None
    return Incident(
        start=group[0].event["start_time"] if timed else group[0].event["start"],
        stop=last.event["stop_time"] if timed else last.event["stop"],
        series=tuple(members),
        events=tuple((one.result.series, one.event["id"]) for one in worst),
        severity=worst[0].event["severity"],
        unlikely=unlikely,
        shared=_shared(list(members.values()), fleet) if len(members) > 1 else {},
        channels=tuple(leading.most_common(MOST_CHANNELS)),
    )


def _leader(one: _Begun) -> str | None:
    return one.event["channels"][0][0] if one.event["channels"] else None


def _shared(members: Sequence[Result], fleet: Sequence[Result]) -> dict[str, str]:
    """Return the columns that have one value in all members, and another one somewhere else in the fleet."""
    first, *others = (one.groups for one in members)
    common = {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}
    return {name: value for name, value in common.items() if any(one.groups.get(name) != value for one in fleet)}


def _begun(result: Result) -> list[_Begun]:
    return [
        _Begun(
            _clock(event["start_time"], event["start"]), _clock(event.get("stop_time"), event["stop"]), result, event
        )
        for event in result.events
    ]


def _span(result: Result) -> tuple[Result, tuple[float, float]]:
    return result, (_clock(result.first_time, 0), _clock(result.last_time, result.rows - 1))


def _clock(time: Any, row: int) -> float:
    """Return a time as a number: seconds, or what it is; the row where there is none."""
    if time is None:
        return float(row)
    if not isinstance(time, str):
        return float(time)
    import pandas as pd

    moment = pd.Timedelta(time) if time.startswith(("P", "-P")) else pd.Timestamp(time)
    return float(moment.value) / 1e9

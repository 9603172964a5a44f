"""What is normal of scores and sensors, learned in `fit`; and how a finding is told as an event."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from patchad.alarms.edges import BLUNT_CLOSING, CLOSING, closing_level
from patchad.alarms.events import Finding
from patchad.alarms.feedback import Judgement, Strangeness
from patchad.alarms.sensors import SensorFinding, SensorRules
from patchad.alarms.severity import severity
from patchad.alarms.suspicion import Suspicion
from patchad.alarms.usual import Usual
from patchad.data.stages import Scored
from patchad.data.table import FloatArray
from patchad.results.detection import Event, EventState

EDGE_QUANTILE = 0.999
"""Share of held-out rows whose local score is below that of an unusual row."""
EDGE_ROWS = 1000
"""Held-out rows that show that score; of fewer, it is further from normal by the root of how many times fewer."""
MAX_EDGE = 4.0
"""How many times as far, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class AlarmRules:
    """What is normal of scores and sensors."""

    base: float
    """Median held-out score."""
    edge: float
    """Local score over which a row is unusual."""
    sensors: SensorRules
    usual: Usual
    closing: float = CLOSING
    """Height of the closing level between `base` and the level."""

    @classmethod
    def fit(cls, held_out: Scored, train: Sequence[FloatArray]) -> Self:
        """Learn from held-out scores, and from the values of train as they were measured."""
        local = held_out.scores if held_out.local is None else held_out.local
        base, edge = float(np.median(held_out.scores)), float(np.quantile(local, EDGE_QUANTILE))
        if edge > base:
            edge = base + (edge - base) * min(max(EDGE_ROWS / len(local), 1.0) ** 0.5, MAX_EDGE)
        closing = BLUNT_CLOSING if held_out.local is None else CLOSING
        return cls(base, edge, SensorRules.fit(train), Usual.fit(train), closing)

    def judged(self, feedback: Sequence[Judgement]) -> Self:
        """Return the rules with the limits of sensors as wide as what was accepted."""
        sensors = self.sensors
        for one in feedback:
            if one.accepted:
                sensors = sensors.extended(one.freeze, one.silence, one.low, one.high)
        return replace(self, sensors=sensors)

    def strangeness(self, scored: Scored, levels: FloatArray) -> Strangeness:
        """Say which rows are over the closing level, adaptation to what lasts left out, and what leads in them."""
        closing = closing_level(self.base, levels, self.closing)
        lasting = scored.scores if scored.unadapted is None else scored.unadapted
        shares = scored.attribution
        with np.errstate(invalid="ignore"):  # NaN is over no level
            active = (scored.scores > closing) | (lasting > closing)
        if shares is None or not shares.shape[1]:
            return Strangeness(active, np.full(len(scored), -1))
        return Strangeness(active, np.where(shares.any(axis=1), shares.argmax(axis=1), -1))


@dataclass(frozen=True, slots=True)
class Teller:
    """Makes events of findings.

    Parameters
    ----------
    base
        Median held-out score.
    channels
        Names of the channels.
    series
        Name of the series, part of the id of every event.
    """

    base: float
    channels: tuple[str, ...]
    series: str = ""

    def event(self, found: Finding, state: EventState) -> Event:
        """Tell what was found by score."""
        start, stop = found.rows
        shares = _shares(found.attribution, self.channels)
        excess = (found.peak_score - self.base) / max(found.level - self.base, 1e-12)
        return Event(
            start=start,
            stop=stop,
            peak=min(max(found.peak, start), stop - 1),
            peak_score=found.peak_score,
            severity=severity(excess, stop - start, [share for _, share in shares]),
            channels=shares,
            start_time=found.start_time,
            stop_time=found.stop_time,
            kind=found.kind,
            repeats=found.repeats,
            id=self._identifier("anomaly", found.opened),
            state=state,
            suspected_id=found.suspected_id,
        )

    def suspicion(self, found: Suspicion, state: EventState) -> Event:
        """Tell what is suspected before scores are final."""
        shares = _shares(found.attribution, self.channels)
        excess = (found.peak_score - self.base) / max(found.level - self.base, 1e-12)
        return Event(
            start=found.start,
            stop=found.last + 1,
            peak=min(max(found.peak, found.start), found.last),
            peak_score=found.peak_score,
            severity=severity(excess, found.last + 1 - found.start, [share for _, share in shares]),
            channels=shares,
            start_time=found.start_time,
            stop_time=found.stop_time,
            id=self.suspected_id(found),
            state=state,
        )

    def suspected_id(self, found: Suspicion) -> str:
        """Return the id of a suspicion, which no event has."""
        return self._identifier("anomaly\x00suspected", found.opened)

    def sensor_event(self, found: SensorFinding, state: EventState) -> Event:
        """Tell what breaks a rule for sensors."""
        share = 1 / len(found.channels)
        names = tuple((self.channels[channel], share) for channel in found.channels)
        scored = found.peak >= 0
        return Event(
            start=found.first,
            stop=found.stop,
            peak=found.peak if scored else found.first,
            peak_score=found.peak_score if scored else 0.0,
            severity=severity(found.excess, found.stop - found.first, [share] * len(names)),
            channels=names,
            start_time=found.start_time,
            stop_time=found.stop_time,
            kind=found.kind if found.recognised is None else "regime",
            repeats=found.repeats,
            id=self._identifier(found.kind, found.first),
            state=state,
        )

    def _identifier(self, kind: str, row: int) -> str:
        return hashlib.sha256(f"{self.series}\x00{kind}\x00{row}".encode()).hexdigest()[:12]


def _shares(attribution: FloatArray | None, channels: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    if attribution is None or not attribution.sum() > 0:
        return ()
    shares = attribution / attribution.sum()
    order = np.argsort(-shares, kind="stable")
    return tuple((channels[i], float(shares[i])) for i in order if shares[i] > 0)

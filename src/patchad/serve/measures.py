"""Measures: what Prometheus can ask the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from patchad.live.streams import Batch

if TYPE_CHECKING:
    from patchad.serve.station import Station

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
HALF_LIFE = 1_000
"""Rows after which a score counts half for drift."""


class Measures:
    """Counters and gauges of one service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"patchad_{name}", text, labels, registry=self.registry)

        self.rows = counter("rows", "Rows taken.")
        self.refused = counter("rows_refused", "Rows refused.")
        self.verdicts = counter("verdicts", "Verdicts that became final.")
        self.alarms = counter("alarm_rows", "Final verdicts that alarm.")
        self.events = counter("events", "Changes of events.", "kind", "state")
        self.turned_away = counter("requests_turned_away", "Requests answered 429.")
        self.requests = counter("requests", "Requests.", "method", "route", "status")
        self.latency = Histogram(
            "patchad_verdict_latency_seconds",
            "Time from the arrival of rows to their answer.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.listeners = Gauge("patchad_listeners", "Open pages.", registry=self.registry)
        self._strange = 0.5
        self._center = float("nan")

    def follow(self, station: Station) -> None:
        """Also tell what a station knows when it is asked."""
        self._center = float(np.nanmedian(station.detector.held_out_scores_))
        self.registry.register(_StationCollector(station, self))

    def count(self, batch: Batch) -> None:
        """Count what became of rows."""
        self.rows.inc(sum(len(kept.rows) for kept in batch.rows.values()))
        for kept in batch.verdicts.values():
            self.verdicts.inc(len(kept.rows))
            self.alarms.inc(sum(row["alarm"] for row in kept.rows))
            self._weigh([row["score"] for row in kept.rows])
        for event in batch.events:
            self.events.labels(event["kind"], event["state"]).inc()

    @property
    def drift(self) -> float:
        """0 where as many scores as in train are over its median; 1 where all or none are."""
        return abs(self._strange - 0.5) * 2

    def _weigh(self, scores: list[float]) -> None:
        kept = [score > self._center for score in scores if score == score]
        if kept:
            weight = 0.5 ** (len(kept) / HALF_LIFE)
            self._strange = weight * self._strange + (1 - weight) * sum(kept) / len(kept)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return bytes(generate_latest(self.registry))


class _StationCollector:
    def __init__(self, station: Station, measures: Measures) -> None:
        self._station, self._measures = station, measures

    def collect(self) -> Iterator[Any]:
        station = self._station
        promised, measured = promise_of(station)
        values = {
            "queue_requests": ("Requests with rows that wait.", station.queued),
            "streams": ("Streams.", len(station.streams)),
            "open_events": ("Events that are open or suspected.", len(station.store.living())),
            "drift": ("0: scores are as in train; 1: all or none are over its median.", self._measures.drift),
            "promised_events_per_10000_rows": ("Promise of the model: false events.", promised),
            "measured_events_per_10000_rows": ("Events so far, without confirmed ones.", measured),
        }
        for name, (text, value) in values.items():
            yield GaugeMetricFamily(f"patchad_{name}", text, value=value)


def promise_of(station: Station) -> tuple[float, float]:
    """Return the promised and the measured number of events in 10,000 rows; NaN where there is none."""
    rows = sum(station.streams.count(key) for key in tuple(station.streams))
    confirmed = {(one.key, one.event) for one in station.store.remarks() if one.kind == "confirm"}
    listed = [
        event
        for event in station.store.events()
        if event["state"] in ("open", "closed") and (event["key"], event["id"]) not in confirmed
    ]
    promised = float(station.detector.false_alarms) if station.detector.threshold == "auto" else float("nan")
    return promised, 1e4 * len(listed) / rows if rows else float("nan")

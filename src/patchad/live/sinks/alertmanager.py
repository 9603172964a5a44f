"""Events as alerts of Alertmanager: firing while they last, resolved when they are over."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.history import axis
from patchad.live.sinks.base import DeliveryError, RemoteSink, whole_number
from patchad.live.sinks.http import Http, without_secrets
from patchad.live.sinks.webhook import TRIES
from patchad.live.sinks.wording import BEGUN, details, headline, severity_class
from patchad.live.store import StoredLine

RESOLVE = 300
"""Seconds after which an alert that is not sent again counts as resolved."""
AGAIN = 4
"""An alert is sent again so many times in that time."""


class AlertmanagerSink(RemoteSink):
    """`/api/v2/alerts` of an Alertmanager.

    An alert keeps the labels that it began with, so that it stays one: `alertname`, `key`, `kind`, `channel` (most to
    blame), `severity` (info, warning, critical) and `event`, the id of the event, or the one that it had while it was
    suspected. What changes is in the annotations. An event that is over when it is first heard of fires for as long as
    an alert lasts that is not sent again.
    """

    def __init__(self, address: Address) -> None:
        address.check_options(["tries", "resolve", "alertname"])
        scheme = address.scheme.removeprefix("alertmanager+")
        if not address.place.removeprefix("//").rpartition("@")[2].strip("/"):
            raise InputError(f"{address.text!r} names no server; write {address.scheme}://HOST:PORT")
        base = f"{scheme}:{address.place.rstrip('/')}"
        super().__init__(
            f"alertmanager+{without_secrets(base)}", whole_number(address, address.options, "tries", TRIES)
        )
        self._base, self._resolve = base, whole_number(address, address.options, "resolve", RESOLVE)
        self._alertname = address.options.get("alertname", "PatchAD")
        self._http = Http()
        self._due: float | None = None
        """When, by the monotonic clock, alerts are sent again; None before the first time."""

    def check(self) -> str:
        """Ask for its status."""
        answer = self._http.ask("GET", f"{self._base}/api/v2/status")
        if not answer.is_success:
            raise DeliveryError(f"answered {answer.status_code} to GET /api/v2/status; is it an Alertmanager?")
        return f"is Alertmanager {answer.json()['versionInfo']['version']}"

    def send(self, line: StoredLine, store: str) -> None:  # noqa: ARG002
        """Let an alert fire, change or end."""
        event = json.loads(line.text)
        name = json.dumps([event["key"], event.get("suspected_id") or event["id"]])
        known = self.state.get(name)
        now = clock.time()
        alert = self._alert(event, now) if known is None else known | {"annotations": _annotations(event)}
        living = event["state"] in BEGUN
        if known is None and event["state"] == "withdrawn":
            return
        self._post([alert | {"endsAt": _text(now + self._resolve if living or known is None else now)}])
        if living:
            self.state[name] = alert
        else:
            self.state.pop(name, None)

    def refresh(self) -> float | None:
        """Send what fires again, before it counts as resolved."""
        pause = self._resolve / AGAIN
        now = clock.monotonic()
        if self._due is None or now >= self._due:
            ends = {"endsAt": _text(clock.time() + self._resolve)}
            if self.state:
                self._post(alert | ends for alert in self.state.values())
            self._due = now + pause
        return self._due - now

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _post(self, alerts: Iterable[Mapping[str, Any]]) -> None:
        content = json.dumps(list(alerts)).encode()
        self._http.send(f"{self._base}/api/v2/alerts", content, {"Content-Type": "application/json"})

    def _alert(self, event: Mapping[str, Any], now: float) -> dict[str, Any]:
        channels = event["channels"]
        labels = {
            "alertname": self._alertname,
            "key": "" if event["key"] is None else str(event["key"]),
            "kind": event["kind"],
            "channel": channels[0][0] if channels else "",
            "severity": severity_class(event["severity"]),
            "event": event.get("suspected_id") or event["id"],
        }
        begun = event.get("start_time")
        starts = axis(begun) if isinstance(begun, str) else now
        return {
            "labels": {name: text for name, text in labels.items() if text},
            "annotations": _annotations(event),
            "startsAt": _text(min(starts, now)),
        }


def _annotations(event: Mapping[str, Any]) -> dict[str, str]:
    return {"summary": headline(event), "description": details(event)}


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

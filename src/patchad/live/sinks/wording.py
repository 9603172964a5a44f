"""Events in words, for alerts and chats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLASSES = ((70.0, "critical"), (30.0, "warning"), (0.0, "info"))
"""Classes of severity, from what it is up."""
BEGUN = {"suspected": "suspected", "open": "found"}
ENDED = {"closed": "over", "withdrawn": "withdrawn: it was none"}


def severity_class(severity: float) -> str:
    """Return what a severity from 0 to 100 is called.

    Examples
    --------
    >>> severity_class(71.5), severity_class(3)
    ('critical', 'info')
    """
    return next(name for least, name in CLASSES if severity >= least)


def headline(event: Mapping[str, Any]) -> str:
    """Say what happened where, in a line.

    Examples
    --------
    >>> headline({"key": "pump 1", "kind": "anomaly", "state": "open", "channels": [["flow", 0.8]]})
    'pump 1: anomaly in flow, found'
    """
    where = "" if event["key"] is None else f"{event['key']}: "
    channels = [name for name, _ in event["channels"][:1]]
    inside = f" in {channels[0]}" if channels else ""
    return f"{where}{event['kind']}{inside}, {(BEGUN | ENDED)[event['state']]}"


def details(event: Mapping[str, Any]) -> str:
    """Say who is to blame, how severe it is, and how long it lasts."""
    blamed = ", ".join(f"{name} {share:.0%}" for name, share in event["channels"][:3]) or "nobody"
    rows = event["stop"] - event["start"]
    since = "" if event.get("start_time") is None else f" since {event['start_time']}"
    until = f" until {event['stop_time']}" if since and event["state"] == "closed" else ""
    return f"to blame: {blamed}; severity {event['severity']:.0f} of 100; {rows} row{'s' * (rows != 1)}{since}{until}"

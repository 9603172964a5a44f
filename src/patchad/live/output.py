"""What `patchad watch` writes: a JSON object a line, for each verdict and for each change of an event."""

from __future__ import annotations

import json
import math
from typing import Any

from patchad.live.rows import Key
from patchad.results.detection import Event
from patchad.streaming.verdict import Verdict


def verdict_line(key: Key, time: str | float | None, verdict: Verdict) -> str:
    """Write what is said of one row; its time as it came."""
    fields = {"type": "verdict", "key": key, "index": verdict.index, "time": time}
    return json.dumps(_plain(fields | {"score": verdict.score, "level": verdict.level, "alarm": verdict.alarm}))


def event_fields(key: Key, event: Event) -> dict[str, Any]:
    """Return what a line says of an event as it is now."""
    return _plain({"type": "event", "key": key, "state": event.state} | event.to_dict())


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields as JSON knows them, which has no NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in fields.items()
    }

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
    return _line(fields | {"score": verdict.score, "level": verdict.level, "alarm": verdict.alarm})


def event_line(key: Key, event: Event) -> str:
    """Write an event as it is now."""
    return _line({"type": "event", "key": key, "state": event.state} | event.to_dict())


def _line(fields: dict[str, Any]) -> str:
    """Write JSON, which knows no NaN."""
    plain = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in fields.items()
    }
    return json.dumps(plain)

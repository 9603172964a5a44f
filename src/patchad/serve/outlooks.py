"""Outlooks: what can be told of the newest rows of a stream that somebody looks at; a final word comes later."""

from __future__ import annotations

import logging
import time as clock
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchad.live.rows import Key
from patchad.live.streams import LiveStreams

logger = logging.getLogger(__name__)

LOOKED_AT = 60.0
"""Seconds for which somebody who looked at a stream is taken to look at it still."""


@dataclass(slots=True, eq=False)
class Outlook:
    """What was said ahead of the newest rows of one stream."""

    asked: float = field(default_factory=clock.monotonic)
    """When somebody last looked."""
    due: float = 0.0
    """When the next is due: they may take a tenth of the time."""
    said: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=1_000))
    """Where a row is on the axis of times, and its score so far."""
    undecided: list[tuple[float, float, float]] = field(default_factory=list)
    """Where rows are that have a score but no verdict, their scores and levels."""


class Outlooks:
    """Of the streams that somebody looks at: what is said of their newest rows as far as can be told."""

    def __init__(self) -> None:
        self._own: dict[Key, Outlook] = {}

    def look_at(self, key: Key) -> Outlook:
        """Return what was said of a stream, and go on saying it for a while; from any thread."""
        own = self._own.setdefault(key, Outlook())
        own.asked = clock.monotonic()
        return own

    def tell(self, streams: LiveStreams, newest: Mapping[Key, float]) -> None:
        """Say what can be told, of the streams that have new rows; `newest`: where the last is on the axis of times."""
        now = clock.monotonic()
        for key, at in newest.items():
            own = self._own.get(key)
            if own is not None and now - own.asked > LOOKED_AT:
                del self._own[key]
            elif own is not None and now >= own.due:
                try:
                    self._add(own, streams, key, at)
                except Exception:
                    logger.exception("nothing could be told ahead of %r", key)

    def _add(self, own: Outlook, streams: LiveStreams, key: Key, at: float) -> None:
        began: Any = clock.monotonic()
        own.undecided = streams.undecided(key)
        verdict = streams.outlook(key)
        known = verdict is not None and abs(verdict.score) < float("inf")
        own.said.append((at, verdict.score if verdict is not None and known else None))
        own.due = clock.monotonic() + 9 * (clock.monotonic() - began)

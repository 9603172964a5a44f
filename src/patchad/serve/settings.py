"""Settings of the service: what it admits at most."""

from __future__ import annotations

from dataclasses import dataclass, fields

from patchad.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one caller may ask for."""

    body: int = 2**24
    """Bytes of a request."""
    rows: int = 100_000
    """Rows of a request."""
    channels: int = 4_096
    """Columns of a request."""
    streams: int = 10_000
    """Streams in all."""
    queue: int = 32
    """Requests with rows that wait; one more is told to come back."""
    detections: int = 4
    """Requests for `/v1/detect` that run or wait."""
    listeners: int = 100
    """Open pages and others that listen to `/v1/live`."""
    seconds: float = 60.0
    """Time in which a request has to be answered."""
    patience: float = 30.0
    """Time in which a body has to arrive."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InputError(f"limit {field.name}={getattr(self, field.name)} is out of range; it must be over 0")

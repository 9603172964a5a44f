"""Schemas: what `/openapi.json` says of requests and answers, with examples."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from patchad.serve.problems import MEDIA_TYPE

DESCRIPTION = """Time-series anomaly detection: rows in, verdicts and events out.

Send rows of a system to a stream (`POST /v1/streams/{key}/rows`) and listen to what is said of them
(`GET /v1/live`), or send rows at once (`POST /v1/detect`). Errors are problem details (RFC 9457)."""

ROW = {"flow": 12.5, "pressure": 3.1}
TIME = "2026-01-01T00:00:00+00:00"


class Event(BaseModel):
    """Rows `start` to `stop - 1` that belong together and need attention."""

    model_config = ConfigDict(extra="allow")

    id: str
    start: int
    stop: int
    start_time: str | float | None
    stop_time: str | float | None
    peak: int
    peak_score: float | None
    severity: float = Field(description="0 to 100.")
    channels: list[tuple[str, float]] = Field(description="Names with their shares of the blame, largest first.")
    kind: Literal["anomaly", "stuck", "missing", "range", "regime"]
    repeats: int
    state: Literal["suspected", "open", "closed", "withdrawn"]


class Remark(BaseModel):
    """What somebody said of an event."""

    kind: Literal["acknowledge", "accept", "confirm", "comment"]
    author: str
    text: str
    at: float = Field(description="Seconds since 1970.")


class StreamEvent(Event):
    """An event of a stream, and what was said of it."""

    key: str
    acknowledged: bool
    accepted: bool
    confirmed: bool
    remarks: list[Remark]


class Verdict(BaseModel):
    """What is said of one row; final."""

    index: int
    time: str | float | None
    score: float | None
    level: float | None
    alarm: bool


class Found(BaseModel):
    """What was found in rows that were sent at once."""

    scores: list[float | None] = Field(description="One for each row; null where a row could not be scored.")
    levels: list[float | None]
    alarms: list[bool]
    events: list[Event]
    channels: list[str]
    notes: list[str] = Field(description="What was filled, dropped or ignored.")


class Told(BaseModel):
    """Verdicts that became final."""

    verdicts: list[Verdict]


class Stream(BaseModel):
    """A stream as it is now."""

    key: str
    rows: int
    verdicts: int
    state: Literal["well", "suspected", "open"]
    severity: float
    events: int
    unacknowledged: int
    newest_time: str | float | None
    newest_at: float | None
    last_event: int | None = Field(description="Row after the newest event.")
    last_event_time: str | float | None
    scores: list[float | None] = Field(description="The newest ones.")
    levels: list[float | None]


class Streams(BaseModel):
    """All streams, worst first."""

    streams: list[Stream]
    since: float = Field(description="When the service started, in seconds since 1970.")


class Events(BaseModel):
    """Events of a stream."""

    events: list[StreamEvent]


class Said(BaseModel):
    """An event after something was said of it."""

    event: StreamEvent


class Curves(BaseModel):
    """Scores, levels and channels over a time, thinned out."""

    model_config = ConfigDict(extra="allow")


class ExpectedChannel(BaseModel):
    """Observed and expected values of a channel; null where nothing can be expected."""

    name: str
    at: list[float | None]
    observed: list[float | None]
    expected: list[float | None]
    low: list[float | None] = Field(description="From here to `high` a value is normal.")
    high: list[float | None]


class Expected(BaseModel):
    """What was observed and what was expected; no channels where the model expects nothing in particular."""

    key: str
    channels: list[ExpectedChannel]


class Model(BaseModel):
    """The model in force."""

    model_config = ConfigDict(extra="allow")

    detector: str
    checksum: str
    channels: list[str]
    level: float | None
    false_alarms: float
    promised: float | None = Field(description="False events in 10,000 normal rows.")
    measured: float | None = Field(description="Events in 10,000 rows so far, without confirmed ones.")
    drift: float | None


class Swapped(BaseModel):
    """The model that took over, and how it did on the newest rows."""

    checksum: str
    trial: dict[str, float]


class Sign(BaseModel):
    """A sign of life."""

    status: str


class ProblemDetails(BaseModel):
    """An error, after RFC 9457."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


def _problem(text: str) -> dict[str, Any]:
    schema = ProblemDetails.model_json_schema()
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _problem("The connection was closed before the body had arrived."),
    401: _problem("A token is needed."),
    403: _problem("The token may only read, or the request comes from another site."),
    404: _problem("There is no such thing."),
    405: _problem("The method is not one of this address."),
    408: _problem("The body took too long to arrive."),
    409: _problem("It does not fit what is there: rows are missing before these, or the model is refused."),
    413: _problem("The body, or what it holds, is too large."),
    415: _problem("The body is of a kind that is not known here."),
    421: _problem("The service is asked under a name that is not its own."),
    422: _problem("What was sent cannot be used; the detail says what is needed."),
    429: _problem("There is too much to do; come back after Retry-After seconds."),
    500: _problem("An error of the service itself."),
    503: _problem("The service stops, or there was no answer in time."),
    507: _problem("There is no room to store anything."),
}

_CELL = {"type": ["number", "string", "null"]}
_ROWS = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "object", "additionalProperties": True, "description": "Values by channel; null: missing."},
            {"type": "array", "items": _CELL, "description": "Values in the order of the channels."},
        ]
    },
}
_TIMES = {
    "type": ["array", "null"],
    "items": {"type": ["string", "number"]},
    "description": "One for each row: ISO 8601, or numbers.",
}


def _body(properties: dict[str, Any], example: dict[str, Any], *, required: list[str], **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        "examples": [example],
    }
    content = {"application/json": {"schema": schema, "example": example}} | more
    return {"requestBody": {"required": bool(required), "content": content}}


DETECT = _body(
    {"rows": _ROWS, "times": _TIMES},
    {"rows": [ROW, {"flow": None, "pressure": 3.0}], "times": [TIME, "2026-01-01T00:01:00+00:00"]},
    required=["rows"],
    **{
        "text/csv": {"schema": {"type": "string"}, "example": "time,flow,pressure\n2026-01-01T00:00:00,12.5,3.1\n"},
        "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
    },
)
ROWS = _body(
    {
        "rows": _ROWS,
        "times": _TIMES,
        "first_index": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "Number of the first of these rows in the stream; rows that are there already are left out.",
        },
    },
    {"rows": [ROW], "times": [TIME], "first_index": 0},
    required=["rows"],
)
_TEXT = {"type": ["string", "null"], "maxLength": 10_000}
REMARK = _body({"text": _TEXT, "author": _TEXT}, {"text": "a filter was changed", "author": "Ada"}, required=[])
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            name: {"schema": {"type": "string", "format": "binary"}}
            for name in ("application/octet-stream", "application/vnd.safetensors")
        },
    }
}
LIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "Messages without an end.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
METRICS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Text for Prometheus.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}

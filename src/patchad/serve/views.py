"""Views: what the state has, as callers get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from patchad import __version__
from patchad.detectors.saving import fingerprint
from patchad.live.history import Rows
from patchad.live.records import LIVING, Records, Remark
from patchad.live.rows import Key
from patchad.results.detection import Detection
from patchad.serve.measures import promise_of
from patchad.serve.problems import Problem

if TYPE_CHECKING:
    from patchad.serve.station import Station

SPARK = 60
"""Newest scores of a stream that the list of streams has."""
SHOWN_KEY = "-"
"""What a stream is called whose rows have no key."""


def detection_fields(found: Detection) -> dict[str, Any]:
    """Return a detection as JSON knows it."""
    return {
        "scores": numbers(found.scores),
        "levels": numbers(found.levels),
        "alarms": found.alarms.tolist(),
        "events": [finite(event.to_dict()) for event in found.events],
        "channels": list(found.channels),
        "notes": list(found.notes),
    }


def numbers(values: Any) -> list[float | None]:
    """Return numbers as JSON knows them, which has no NaN."""
    array = np.asarray(values, dtype=np.float64)
    if np.isfinite(array).all():
        return list(array.tolist())
    return [value if np.isfinite(value) else None for value in array.tolist()]


def finite(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with null where a number is none."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in fields.items()
    }


def verdict_fields(index: int, time: Any, score: float, level: float, alarm: bool) -> dict[str, Any]:
    """Return a verdict as callers get it."""
    return finite({"index": index, "time": time, "score": score, "level": level, "alarm": bool(alarm)})


def verdicts_of(rows: Rows) -> Iterator[dict[str, Any]]:
    """Return stored verdicts as callers get them."""
    if len(rows):
        columns = (rows.numbers[name].tolist() for name in ("score", "level", "alarm"))
        for index, time, *said in zip(rows.index.tolist(), rows.times, *columns, strict=True):
            yield verdict_fields(index, time, *said)


def shown(key: Key) -> str:
    """Return what a stream is called in addresses."""
    return SHOWN_KEY if key is None else str(key)


def streams_of(station: Station, records: Records) -> list[dict[str, Any]]:
    """Return all streams, worst first: those with open events, then suspected ones, then by the newest event."""
    remarks = _by_event(records.remarks())
    found = [_stream(station, records, key, remarks) for key in tuple(station.streams)]
    rank = {"open": 0, "suspected": 1, "well": 2}
    return sorted(found, key=lambda one: (rank[one["state"]], -one["severity"], one["key"]))


def _stream(station: Station, records: Records, key: Key, remarks: Mapping[Any, list[Remark]]) -> dict[str, Any]:
    living = [event for event in station.current.get(key, ()) if event["state"] in LIVING]
    newest = records.verdicts(key, last=SPARK)
    last = records.rows(key, last=1)
    events = [event for event in records.events(key) if event["state"] != "withdrawn"]
    known = {event["id"]: _with_remarks(event, remarks) for event in events}
    unseen = sum(not event["acknowledged"] for event in known.values() if event["state"] == "open")
    state = "open" if any(e["state"] == "open" for e in living) else "suspected" if living else "well"
    return {
        "key": shown(key),
        "rows": station.streams.count(key),
        "verdicts": station.streams.decided(key),
        "state": state,
        "severity": max((event["severity"] for event in living), default=0.0),
        "events": len(events),
        "unacknowledged": unseen,
        "newest_time": last.times[-1] if len(last) else None,
        "newest_at": float(last.at[-1]) if len(last) else None,
        "last_event": max((event["stop"] for event in events), default=None),
        "last_event_time": max(events, key=lambda event: event["stop"])["stop_time"] if events else None,
        "scores": numbers(newest.numbers["score"]) if len(newest) else [],
        "levels": numbers(newest.numbers["level"]) if len(newest) else [],
    }


def events_of(station: Station, records: Records, key: Key, *, withdrawn: bool = False) -> list[dict[str, Any]]:
    """Return the events of a stream as they are now, in the order of their rows, with what was said of them."""
    if key not in station.streams and key not in records.keys():  # noqa: SIM118 - a method of its own
        raise Problem(404, f"there is no stream {shown(key)!r}; GET /v1/streams lists them")
    found = {event["id"]: event for event in records.events(key)}
    found |= {event["id"]: event for event in station.current.get(key, ())}
    remarks = _by_event(records.remarks())
    chosen = [event for event in found.values() if withdrawn or event["state"] != "withdrawn"]
    return [_with_remarks(event, remarks) for event in sorted(chosen, key=lambda e: (e["start"], e["stop"]))]


def newest_events(station: Station, records: Records, states: Sequence[str], most: int) -> list[dict[str, Any]]:
    """Return the newest events of all streams, newest first; no states: all but withdrawn ones."""
    found = {(event["key"], event["id"]): event for event in records.events()}
    for own in tuple(station.current.values()):
        found |= {(event["key"], event["id"]): event for event in own}
    wanted = states or ("suspected", "open", "closed")
    chosen = [event for event in found.values() if event["state"] in wanted][::-1][:most]
    remarks = _by_event(records.remarks()) if chosen else {}
    return [_with_remarks(event, remarks) for event in chosen]


def find_event(station: Station, records: Records, name: str, key: str | None) -> dict[str, Any]:
    """Return the event with this id; of the stream that is named, where several have one."""
    found = {event["key"]: event for event in records.event(name)}
    for own in tuple(station.current.values()):
        found |= {event["key"]: event for event in own if event["id"] == name}
    if key is not None:
        found = {own: event for own, event in found.items() if shown(own) == key}
    if not found:
        raise Problem(404, f"there is no event {name!r}{'' if key is None else f' of the stream {key!r}'}")
    if len(found) > 1:
        raise Problem(
            409,
            f"several streams have an event {name!r}; say which with ?key=",
            streams=[shown(own) for own in found],
        )
    (event,) = found.values()
    return _with_remarks(event, _by_event(records.remarks(name)))


def _by_event(remarks: Sequence[Remark]) -> dict[Any, list[Remark]]:
    found: dict[Any, list[Remark]] = {}
    for remark in remarks:
        found.setdefault((remark.key, remark.event), []).append(remark)
    return found


def _with_remarks(event: Mapping[str, Any], remarks: Mapping[Any, list[Remark]]) -> dict[str, Any]:
    own = remarks.get((event["key"], event["id"]), [])
    kinds = {remark.kind for remark in own}
    said = [{"kind": one.kind, "author": one.author, "text": one.text, "at": one.at} for one in own]
    flags = {"acknowledged": bool(kinds - {"comment"}), "accepted": "accept" in kinds, "confirmed": "confirm" in kinds}
    fields = {name: value for name, value in event.items() if name != "type"} | {"key": shown(event["key"])}
    return finite(fields) | flags | {"remarks": said}


def model_of(station: Station, records: Records) -> dict[str, Any]:
    """Return what the model in force is, what it promises and what came of it."""
    detector = station.detector
    promised, measured = promise_of(station)
    known = records.models()
    facts: dict[str, Any] = {
        "detector": type(detector).name,
        "checksum": fingerprint(detector),
        "version": __version__,
        "channels": list(detector.channels_),
        "columns": list(detector.columns_),
        "parameters": detector.n_parameters_,
        "window": int(getattr(detector, "window_", 1)),
        "delay": detector.delay,
        "threshold": str(detector.threshold),
        "level": float(detector.threshold_.level),
        "false_alarms": float(detector.false_alarms),
        "held_out_rows": int(np.isfinite(detector.held_out_scores_).sum()),
        "feedback": [str(one) for one in detector.feedback_],
        "notes": list(detector.fit_notes_),
        "promised": promised,
        "measured": measured,
        "drift": station.measures.drift,
        "history": [{"checksum": one.checksum, "why": one.why, "at": one.at} for one in known],
    }
    return finite(facts)

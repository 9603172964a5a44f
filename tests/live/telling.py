"""What lines of `patchad watch` say, and whether it is what `detect` says."""

from __future__ import annotations

import json

import numpy as np


def read(text: str) -> tuple[list[dict], list[dict]]:
    """Return the verdicts and the event lines."""
    lines = [json.loads(line) for line in text.splitlines()]
    return [one for one in lines if one["type"] == "verdict"], [one for one in lines if one["type"] == "event"]


def number(value: float | None) -> float:
    return np.nan if value is None else value


def assert_equals_batch(text: str, batch, key=None) -> None:
    """Check that each row has one verdict, and that the last word of each event is that of batch."""
    verdicts, told = read(text)
    verdicts = [one for one in verdicts if one["key"] == key]
    assert [one["index"] for one in verdicts] == list(range(len(batch.scores)))
    assert [one["alarm"] for one in verdicts] == batch.alarms.tolist()
    np.testing.assert_allclose([number(one["score"]) for one in verdicts], batch.scores, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose([number(one["level"]) for one in verdicts], batch.levels, rtol=1e-6)
    last = {one["id"]: one for one in told if one["key"] == key}
    events = [one for one in last.values() if one["state"] != "withdrawn"]
    expected = [event.to_dict() for event in batch.events]
    assert [(one["start"], one["stop"], one["id"], one["state"]) for one in events] == [
        (one["start"], one["stop"], one["id"], "closed") for one in expected
    ]
    assert [one["start_time"] for one in events] == [one["start_time"] for one in expected]

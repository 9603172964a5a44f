"""Rows that come again are known, however they come."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from patchad.live.intake import Intake
from patchad.live.messages import Message, MessageReader
from patchad.live.store import Store
from patchad.live.streams import Batch, LiveStreams


def told(minute: int, *, again: bool = True) -> Message:
    line = Message(json.dumps({"key": "pump", "time": f"2026-01-01T00:{minute:02}:00", "flow": 1.0}).encode())
    line.again = again
    return line


@pytest.mark.parametrize("together", [True, False])
def test_a_message_that_a_broker_sends_twice_is_one_row_also_if_both_are_taken_together(watched_model, together):
    streams, batch = LiveStreams(watched_model), Batch()
    source = SimpleNamespace(name="broker", position={}, resumed=False)
    with Store() as store:
        intake = Intake([], store)
        intake._readers["broker"] = MessageReader(streams.columns)
        lines = [told(1), told(2), told(2), told(1), told(3)]
        for taken in [lines] if together else [[line] for line in lines]:
            intake.take(source, taken, streams, batch)
    assert (intake.counts.rows, intake.counts.redelivered, intake.counts.refused) == (3, 2, 0)
    assert {line.kind for line in batch.lines} <= {"verdict", "event"}

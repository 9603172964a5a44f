"""What is seen of a stream: observed against expected values, and the report of rows that are stored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.conftest import waves
from tests.serve.conftest import push, service

from patchad.serve.seen import detection_of, seen_of


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    found = waves(400, seed=1).round(4)
    found[250:270, 1] += 4.0
    return found


@pytest.fixture(scope="module")
def times() -> list[str]:
    return [str(time) for time in pd.date_range("2026-01-01", periods=400, freq="min", tz="Europe/Berlin")]


@pytest.fixture
def watching(fitted, rows, times):
    with service(fitted) as client:
        push(client, "pump/<1>", rows.tolist(), times)
        yield client


STREAM = "/v1/streams/pump%2F%3C1%3E"


def test_observed_against_expected_around_an_event(watching, fitted, rows, times):
    (event,) = watching.get(f"{STREAM}/events").json()["events"]
    found = watching.get(f"{STREAM}/expected?event={event['id']}").json()["channels"]
    batch = fitted.detect(rows)
    (expected,) = batch.expected
    assert [one["name"] for one in found] == [name for name, _ in event["channels"]][:3]
    assert found[0]["name"] == "channel_1"
    assert len(found[0]["at"]) == len(expected.values)
    assert found[0]["at"][0] == pd.Timestamp(times[expected.start]).timestamp()
    for one in found:
        column = expected.channels.index(one["name"])
        place = fitted.channels_.index(one["name"])
        observed = rows[expected.start : expected.start + len(expected.values), place]
        np.testing.assert_allclose(one["observed"], observed)
        np.testing.assert_allclose(one["expected"], expected.values[:, column], atol=1e-4)
        np.testing.assert_allclose(one["high"], expected.values[:, column] + expected.reach[:, column], atol=1e-4)
    inside = slice(250 - expected.start, 270 - expected.start)
    assert np.mean(np.array(found[0]["observed"][inside]) > np.array(found[0]["high"][inside])) > 0.9


def test_observed_against_expected_of_a_channel(watching, times):
    begin = pd.Timestamp(times[0]).timestamp()
    (found,) = watching.get(f"{STREAM}/expected?channel=channel_2&until={begin + 6000}").json()["channels"]
    assert (found["name"], found["at"][0]) == ("channel_2", begin)
    assert found["at"][-1] >= begin + 6000
    low, value, high = (np.array(found[name]) for name in ("low", "observed", "high"))
    assert np.mean((low <= value) & (value <= high)) > 0.9


@pytest.mark.parametrize(
    ("question", "status", "part"),
    [
        ("expected", 422, "one of them"),
        ("expected?event=a&channel=b", 422, "one of them"),
        ("expected?event=none", 404, "no event"),
        ("expected?channel=none", 404, "no channel"),
        ("expected?channel=channel_1&since=1e300", 404, "no rows there"),
        ("export.html?since=1e300", 404, "no rows there"),
    ],
)
def test_what_cannot_be_seen(watching, question, status, part):
    answer = watching.get(f"{STREAM}/{question}")
    assert answer.status_code == status
    assert part in answer.json()["detail"]
    assert watching.get(f"/v1/streams/none/{question}").status_code in (404, 422)


def test_rows_that_are_no_longer_stored(watching):
    (event,) = watching.get(f"{STREAM}/events").json()["events"]
    watching.station.store._run("DELETE FROM history")
    assert watching.get(f"{STREAM}/expected?event={event['id']}").status_code == 409


def test_a_model_that_expects_nothing(client, watched_rows):
    rows, times = watched_rows
    push(client, "pump", rows, times)
    assert client.get("/v1/streams/pump/expected?channel=heat").json() == {"key": "pump", "channels": []}
    assert client.get("/v1/streams/pump/export.html").status_code == 200


def test_what_is_seen_is_what_was_told(watching, fitted, rows, times):
    (event,) = watching.get(f"{STREAM}/events").json()["events"]
    watching.post(f"/v1/events/{event['id']}/comment", json={"text": "who is <b>there</b>?", "author": "Ada"})
    begin = pd.Timestamp(times[0]).timestamp()
    with watching.station.records() as records:
        seen = seen_of(watching.station, records, "pump/<1>", begin + 60 * 200, None, 10**6)
    found, batch = detection_of(seen, fitted), fitted.detect(rows)
    told = len(watching.station.store.verdicts("pump/<1>")) - 200
    np.testing.assert_allclose(found.scores[:told], batch.scores[200 : 200 + told], atol=1e-4)
    assert np.isnan(found.scores[told:]).all()
    assert found.alarms[:told].tolist() == batch.alarms[200 : 200 + told].tolist()
    (own,), (whole,) = found.events, batch.events
    assert (own.start, own.stop, own.id) == (whole.start - 200, whole.stop - 200, whole.id)
    assert str(own.start_time) == times[whole.start]
    assert found.zone == "+01:00"
    assert found.notes[1].endswith("comment by Ada: who is <b>there</b>?")
    answer = watching.get(f"{STREAM}/export.html?since={begin + 60 * 200}")
    assert answer.headers["content-type"].startswith("text/html")
    assert "attachment" in answer.headers["content-disposition"]
    assert "&lt;b&gt;there" in answer.text
    assert "<b>there" not in answer.text

"""What people say of events, models that take over, curves, and what is told as it happens."""

from __future__ import annotations

import csv
import io
import json
import threading
import time

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, waves
from tests.serve.conftest import push, service

from patchad import load, make
from patchad.live.records import StoreFullError


@pytest.fixture
def faulty() -> list[dict]:
    """Rows with two faults that are alike."""
    rows = waves(700, seed=1)
    rows[250:262, 1] += 6.0
    rows[500:512, 1] += 6.0
    return pd.DataFrame(rows.round(4), columns=WATCHED).to_dict(orient="records")


@pytest.fixture(scope="module")
def clock() -> list[str]:
    return [str(time) for time in pd.date_range("2026-01-01", periods=700, freq="min", tz="Europe/Berlin")]


def starts(client, key="pump") -> list[int]:
    return [event["start"] for event in client.get(f"/v1/streams/{key}/events").json()["events"]]


def say(client, event: str, verb: str, code=200, **body):
    answer = client.post(f"/v1/events/{event}/{verb}", json=body)
    assert answer.status_code == code, answer.text
    return answer.json()["event"] if code == 200 else answer.json()


def test_both_faults_are_events_if_nothing_is_said(client, faulty, clock):
    push(client, "pump", faulty, clock)
    assert starts(client) == [250, 500]


def test_accepted_is_in_force_at_once_and_after_a_restart(watched_model, faulty, clock, tmp_path):
    with service(watched_model, tmp_path / "state") as client:
        push(client, "pump", faulty[:450], clock[:450])
        (event,) = client.get("/v1/streams/pump/events").json()["events"]
        said = say(client, event["id"], "accept", text="cleaning", author="Ada")
        assert (said["accepted"], said["acknowledged"], said["confirmed"]) == (True, True, False)
        assert [(one["kind"], one["author"], one["text"]) for one in said["remarks"]] == [("accept", "Ada", "cleaning")]
        model = client.get("/v1/model").json()
        assert model["feedback"][0].startswith("accepted")
        assert [one["why"] for one in model["history"]] == ["accept", "start"]
        push(client, "other", faulty, clock)
        assert starts(client, "other") == []
    with service(watched_model, tmp_path / "state") as client:
        assert client.get("/v1/model").json()["checksum"] == model["checksum"]
        told = push(client, "pump", faulty[450:], clock[450:], 450)
        assert starts(client) == [250]
        assert client.get("/v1/streams/pump/events").json()["events"][0]["accepted"]
        assert told[0]["index"] > 250
    assert watched_model.feedback_ == ()


def test_confirmed_stays_strange(client, faulty):
    push(client, "pump", faulty[:450])
    (event,) = client.get("/v1/streams/pump/events").json()["events"]
    assert say(client, event["id"], "confirm")["confirmed"]
    assert client.get("/v1/model").json()["measured"] == 0.0
    push(client, "pump", faulty[450:])
    assert starts(client) == [250, 500]


def test_acknowledge_and_comment(client, faulty):
    push(client, "pump", faulty)
    event, _ = client.get("/v1/streams/pump/events").json()["events"]
    assert not say(client, event["id"], "comment", text="who is on it?")["acknowledged"]
    assert say(client, event["id"], "acknowledge", author="Ada")["acknowledged"]
    assert len(client.get("/v1/streams/pump/events").json()["events"][0]["remarks"]) == 2
    assert client.get("/v1/model").json()["feedback"] == []


def test_streams_that_share_an_id(client, faulty):
    push(client, "a", faulty)
    push(client, "b", faulty)
    event, _ = client.get("/v1/streams/a/events").json()["events"]
    assert say(client, event["id"], "acknowledge", code=409)["streams"] == ["a", "b"]
    answer = client.post(f"/v1/events/{event['id']}/acknowledge?key=b")
    assert answer.json()["event"]["key"] == "b"
    assert not client.get("/v1/streams/a/events").json()["events"][0]["acknowledged"]
    assert client.post(f"/v1/events/{event['id']}/acknowledge?key=c").status_code == 404


def test_the_newest_events_of_all_streams(client, faulty, clock, watched_rows):
    push(client, "a", faulty, clock)
    push(client, "b", *(column[:200] for column in watched_rows))  # in the middle of a fault
    found = client.get("/v1/events").json()["events"]
    assert [(one["key"], one["start"]) for one in found if one["state"] == "closed"] == [("a", 500), ("a", 250)]
    assert {one["key"] for one in found if one["state"] in ("suspected", "open")} == {"b"}
    assert [one["start"] for one in client.get("/v1/events?state=closed&most=1").json()["events"]] == [500]
    assert client.get("/v1/events?state=open&state=suspected").json()["events"][0]["key"] == "b"
    assert client.get("/v1/events?state=none").status_code == 422


def test_what_cannot_be_stored_is_not_in_force(client, faulty, monkeypatch):
    push(client, "pump", faulty[:450])
    (event,) = client.get("/v1/streams/pump/events").json()["events"]
    before = client.get("/v1/model").json()["checksum"]

    def fail(*_):
        raise StoreFullError("there is no room for the state")

    monkeypatch.setattr(client.station.store, "commit", fail)
    say(client, event["id"], "accept", code=507)
    monkeypatch.undo()
    assert client.get("/v1/model").json()["checksum"] == before
    assert not client.get("/v1/streams/pump/events").json()["events"][0]["accepted"]
    told = push(client, "pump", faulty[450:], first=450)
    assert told[0]["index"] > 250
    assert starts(client) == [250, 500]


def test_rows_that_are_no_longer_stored_cannot_be_judged(client, faulty):
    push(client, "pump", faulty)
    event, _ = client.get("/v1/streams/pump/events").json()["events"]
    client.station.store._run("DELETE FROM history")
    assert "no longer stored" in say(client, event["id"], "accept", code=409)["detail"]
    assert client.get("/v1/model").json()["feedback"] == []


# -- models ------------------------------------------------------------------------------------------------------------


def upload(client, content: bytes, code=200) -> dict:
    answer = client.post("/v1/models", content=content, headers={"Content-Type": "application/octet-stream"})
    assert answer.status_code == code, answer.text
    return answer.json()


def test_a_new_model_is_tried_and_takes_over(client, faulty, tmp_path, watched_model):
    push(client, "pump", faulty[:450])
    before = client.get("/v1/model").json()["checksum"]
    train = pd.DataFrame(waves(600, seed=9), columns=WATCHED)
    fresh = make("moving_zscore").fit(train)
    found = upload(client, fresh.save(tmp_path / "fresh").read_bytes())
    assert found["trial"]["rows"] == 450
    assert client.get("/v1/model").json()["checksum"] == found["checksum"] != before
    told = push(client, "pump", faulty[450:])
    assert told[0]["index"] > 250
    assert starts(client) == [250, 500]
    for level, gap in ((1.0, None), (1.0, 0)):
        nervous = make("moving_zscore", merge_gap=gap).fit(train).set_threshold(level)
        refused = upload(client, nervous.save(tmp_path / "nervous").read_bytes(), code=409)
        trial = refused["trial"]
        assert trial["new_events"] > trial["allowed"] or trial["new_alarm_rows"] > 0.1 * trial["rows"]
    assert client.get("/v1/model").json()["checksum"] == found["checksum"]


def test_models_that_cannot_take_over(client, faulty, tmp_path, train):
    push(client, "pump", faulty[:450])
    before = client.get("/v1/model").json()["checksum"]
    assert "is not a PatchAD model" in upload(client, b"x" * 100, code=422)["detail"]
    assert "empty" not in upload(client, b"", code=422)["detail"]
    other = make("moving_zscore").fit(train)
    assert "start anew" in upload(client, other.save(tmp_path / "other").read_bytes(), code=409)["detail"]
    wide = make("sub_pca", window=20).fit(pd.DataFrame(waves(600), columns=WATCHED))
    assert "cannot go on" in upload(client, wide.save(tmp_path / "wide").read_bytes(), code=422)["detail"]
    assert client.get("/v1/model").json()["checksum"] == before
    assert client.post("/v1/models", json={}).status_code == 415
    push(client, "pump", faulty[450:])
    assert starts(client) == [250, 500]


def test_another_file_at_the_next_start(watched_model, faulty, tmp_path, train):
    with service(watched_model, tmp_path / "state") as client:
        push(client, "pump", faulty[:450])
    fresh = make("moving_zscore").fit(pd.DataFrame(waves(600, seed=9), columns=WATCHED))
    with service(fresh, tmp_path / "state") as client:
        assert [one["why"] for one in client.get("/v1/model").json()["history"]] == ["start", "start"]
        push(client, "pump", faulty[450:])
        assert starts(client) == [250, 500]
    with (
        pytest.raises(ValueError, match="belongs to another model"),
        service(make("moving_zscore").fit(train), tmp_path / "state"),
    ):
        pass


# -- curves and csv ----------------------------------------------------------------------------------------------------


def test_curves_are_thinned_out_and_have_the_worst_channel_first(client, faulty, clock):
    push(client, "pump", faulty, clock)
    found = client.get("/v1/streams/pump/history?points=100").json()
    assert len(found["score"]["at"]) <= 104
    assert max(score for score in found["score"]["score"] if score is not None) > 3
    assert found["channels"][0]["name"] == "heat"
    assert found["channels"][0]["low"] < found["channels"][0]["high"]
    begin = pd.Timestamp(clock[0]).timestamp()
    assert found["first_at"] == begin
    part = client.get(f"/v1/streams/pump/history?since={begin + 600}&until={begin + 1200}&channels=load,none").json()
    assert [one["name"] for one in part["channels"]] == ["load"]
    assert len(part["channels"][0]["at"]) == 11
    assert client.get("/v1/streams/pump/history?since=1e300").json()["score"]["at"] == []


def test_scores_without_a_verdict_are_those_of_the_rows_that_are_seen(client, faulty, clock):
    push(client, "pump", faulty[:258], clock[:258])  # in the middle of a fault
    at = [pd.Timestamp(time).timestamp() for time in clock[:258]]
    outlook = client.station.outlooks.look_at("pump")
    client.station.run(lambda: None).result(10)  # what follows the rows is over
    outlook.said.clear()
    outlook.undecided = [(at[place], float(place), 3.0) for place in range(245, 257)]
    outlook.said.extend([(at[250], 1.0), (at[257], 2.0)])
    found = client.get("/v1/streams/pump/history?rows=5").json()
    assert found["score"]["index"] == found["score"]["score"] == list(range(253, 257))
    assert found["score"]["at"] == at[253:257]
    assert found["outlook"] == {"at": [at[257]], "score": [2.0]}


def test_outlooks_end_when_nobody_looks_and_harm_nothing(client, faulty, monkeypatch, caplog):
    push(client, "pump", faulty[:100])
    outlook = client.station.outlooks.look_at("pump")
    monkeypatch.setattr(client.station.streams, "outlook", lambda key: 1 / 0)
    push(client, "pump", faulty[100:101])
    client.station.run(lambda: None).result(10)
    assert "nothing could be told ahead of 'pump'" in caplog.text
    outlook.asked -= 61.0
    push(client, "pump", faulty[101:102])
    client.station.run(lambda: None).result(10)
    assert client.station.outlooks.look_at("pump") is not outlook


def test_rows_with_their_verdicts_as_csv(client, faulty, clock):
    faulty[3]["flow"] = None
    push(client, "pump", faulty, clock)
    answer = client.get("/v1/streams/pump/export.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert (len(rows), rows[0]["time"], rows[3]["flow"]) == (700, clock[0], "")
    assert (rows[255]["alarm"], rows[-1]["score"]) == ("1", "")
    assert rows[5]["heat"] == str(faulty[5]["heat"])


# -- what is told as it happens ----------------------------------------------------------------------------------------


def test_the_hub_tells_of_rows_events_and_remarks(client, faulty):
    hub = client.app.state.service.hub
    told: list[tuple[str, dict]] = []
    hub.tell = lambda kind, content: told.append((kind, content))
    hub._queues.add(None)
    push(client, "pump", faulty[:300])
    hub._queues.discard(None)
    kinds = [kind for kind, _ in told]
    assert kinds[0] == "rows"
    assert "event" in kinds
    rows = told[0][1]
    assert (rows["key"], rows["rows"], rows["first"], len(rows["values"])) == ("pump", 300, 100, 200)
    assert rows["verdicts"][-1]["at"] > 1e9
    json.dumps(told, allow_nan=False)


async def _first_messages(hub, work) -> list[str]:
    messages = await hub.listen()
    found = [await anext(messages)]
    work.start()
    found.append(await anext(messages))
    hub.close()
    found += [message async for message in messages]
    return found


def test_live_is_a_stream_of_events(client, faulty):
    hub = client.app.state.service.hub
    work = threading.Thread(target=push, args=(client, "pump", faulty[:5]))
    found = client.portal.call(_first_messages, hub, work)
    work.join()
    assert found[0].startswith("retry:")
    assert "event: rows\ndata: {" in found[1]
    assert hub._queues == set()


def test_listeners_that_are_slow_or_too_many(watched_model, faulty, monkeypatch):
    monkeypatch.setattr("patchad.serve.hub.BACKLOG", 2)
    monkeypatch.setattr("patchad.serve.hub.HEARTBEAT", 0.05)
    with service(watched_model, listeners=1) as client:
        hub = client.app.state.service.hub

        async def slow() -> list[str]:
            messages = await hub.listen()
            found = [await anext(messages), await anext(messages)]
            for number in range(4):
                hub._spread(f"data: {number}\n\n")
            found += [await anext(messages), await anext(messages)]
            assert hub._queues
            await messages.aclose()
            return found

        found = client.portal.call(slow)
        assert found[1] == ": alive\n\n"
        assert found[2].startswith("event: reset")
        hub._queues.add(None)
        assert client.get("/v1/live").status_code == 429
        hub._queues.clear()


def test_a_stream_that_falls_silent_is_an_event(watched_model, faulty, monkeypatch):
    monkeypatch.setattr("patchad.serve.station.LISTENING", 0.02)
    with service(watched_model) as client:
        monkeypatch.setattr("patchad.live.silence.Pace.is_silent", lambda _: True)
        push(client, "pump", faulty[:5])
        until = time.monotonic() + 300
        while not (events := client.get("/v1/streams/pump/events").json()["events"]) and time.monotonic() < until:
            time.sleep(0.02)
        assert (events[0]["kind"], events[0]["state"]) == ("missing", "open")


def test_a_model_file_of_the_state_is_the_one_in_force(watched_model, faulty, tmp_path):
    with service(watched_model, tmp_path / "state") as client:
        push(client, "pump", faulty[:450])
        say(client, client.get("/v1/streams/pump/events").json()["events"][0]["id"], "accept")
        (tmp_path / "model").write_bytes(client.station.store.model().file)
    rows = pd.DataFrame(faulty)
    assert [event.start for event in load(tmp_path / "model").detect(rows).events] == []
    assert np.isfinite(load(tmp_path / "model").threshold_.level)

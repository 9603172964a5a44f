"""What the service answers: detection, streams, events, signs of life."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from tests.serve.conftest import push, service

from patchad import PatchAD, make
from patchad.serve.bodies import PARQUET


def finite(values):
    return [np.nan if value is None else value for value in values]


def assert_equals(found: dict, batch) -> None:
    np.testing.assert_allclose(finite(found["scores"]), batch.scores, rtol=1e-5)
    np.testing.assert_allclose(finite(found["levels"]), batch.levels, rtol=1e-5)
    assert found["alarms"] == batch.alarms.tolist()
    assert found["events"] == [json.loads(json.dumps(event.to_dict())) for event in batch.events]


def test_detect_takes_json_csv_and_parquet(client, watched, watched_rows, watched_batch):
    rows, times = watched_rows
    answer = client.post("/v1/detect", json={"rows": rows, "times": times})
    assert answer.status_code == 200
    assert_equals(answer.json(), watched_batch)
    csv = client.post("/v1/detect", content=watched.to_csv(index=False), headers={"Content-Type": "text/csv"})
    assert_equals(csv.json(), watched_batch)
    file = io.BytesIO()
    watched.to_parquet(file)
    packed = client.post("/v1/detect", content=file.getvalue(), headers={"Content-Type": PARQUET})
    assert_equals(packed.json(), watched_batch)


def test_detect_without_times_with_lists_and_with_columns_that_are_none(client, watched_model, watched, watched_rows):
    plain = watched.drop(columns="time")
    batch = watched_model.detect(plain)
    rows = [row | {"note": "x", "more": {"deep": [1]}} for row in watched_rows[0]]
    assert_equals(client.post("/v1/detect", json={"rows": rows}).json(), batch)
    lists = [list(row.values()) for row in watched_rows[0]]
    assert_equals(client.post("/v1/detect", json={"rows": lists, "times": None}).json(), batch)


def test_detect_with_numbers_as_times_and_a_model_without_names(train):
    detector = make("moving_zscore").fit(train)
    rows = train[:100].round(4)
    epochs = [1_700_000_000 + 60 * n for n in range(100)]
    with service(detector) as client:
        named = [dict(zip("abc", row, strict=True)) for row in rows.tolist()]
        found = client.post("/v1/detect", json={"rows": named, "times": epochs}).json()
        assert_equals(client.post("/v1/detect", json={"rows": rows.tolist()}).json(), detector.detect(rows))
        np.testing.assert_allclose(finite(found["scores"]), detector.decision_function(rows), rtol=1e-5)
        assert push(client, "x", named, epochs) == push(client, "y", rows.tolist(), epochs)


def test_a_missing_channel_is_an_event_of_its_own(client, watched_rows):
    rows = [{name: value for name, value in row.items() if name != "load"} for row in watched_rows[0]]
    found = client.post("/v1/detect", json={"rows": rows}).json()
    assert "missing" in [event["kind"] for event in found["events"]]
    assert any("'load'" in note for note in found["notes"])


def test_a_stream_says_what_batch_says(client, watched_rows, watched_batch):
    rows, times = watched_rows
    told = push(client, "pump", rows[:150], times[:150]) + push(client, "pump", rows[150:], times[150:])
    assert [verdict["index"] for verdict in told] == list(range(len(told)))
    assert len(told) > 200
    assert [verdict["alarm"] for verdict in told] == watched_batch.alarms[: len(told)].tolist()
    np.testing.assert_allclose(finite([v["score"] for v in told]), watched_batch.scores[: len(told)], rtol=1e-4)
    assert [verdict["time"] for verdict in told] == times[: len(told)]
    event = client.get("/v1/streams/pump/events").json()["events"][0]
    assert (event["id"], event["start"]) == (watched_batch.events[0].id, watched_batch.events[0].start)
    (stream,) = client.get("/v1/streams").json()["streams"]
    assert (stream["key"], stream["rows"], stream["verdicts"], stream["events"]) == ("pump", 300, len(told), 2)
    assert len(stream["scores"]) == 60
    assert push(client, "pump", []) == []


def test_rows_that_come_again_are_not_counted_twice(client, watched_rows):
    rows, times = watched_rows
    first = push(client, "pump", rows[:105], times[:105], 0)
    assert len(first) > 0
    assert push(client, "pump", rows[:105], times[:105], 0) == first
    second = push(client, "pump", rows[90:118], times[90:118], 90)
    assert second[0]["index"] == first[-1]["index"] + 1
    assert push(client, "pump", rows[105:118], times[105:118], 105) == second
    assert push(client, "pump", rows[95:110], times[95:110], 95) == first + second
    gap = push(client, "pump", rows[250:], times[250:], 250, code=409)
    assert (gap["rows"], gap["status"]) == (118, 409)
    assert client.get("/v1/streams").json()["streams"][0]["rows"] == 118
    assert push(client, "new", rows[:2], times[:2], 1, code=409)["rows"] == 0
    assert client.get("/v1/streams/new/events").status_code == 404


def test_rows_are_taken_all_or_none(client, watched_rows):
    rows, times = watched_rows
    push(client, "pump", rows[:50], times[:50])
    for bad_rows, bad_times in (
        (rows[50:60], [*times[50:59], times[40]]),
        ([*rows[50:59], rows[59] | {"flow": 1e308}], times[50:60]),
        ([*rows[50:59], {"other": 1}], times[50:60]),
        (rows[50:60], None),
        (rows[50:60], [5] * 10),
        (rows[50:52], ["2026-01-02", None]),
    ):
        problem = push(client, "pump", bad_rows, bad_times, code=422)
        assert problem["detail"]
    assert client.get("/v1/streams").json()["streams"][0]["rows"] == 50
    push(client, "pump", rows[50:60], times[50:60], 50)
    push(client, "bad", rows[:2], ["x", "y"], code=422)
    assert [one["key"] for one in client.get("/v1/streams").json()["streams"]] == ["pump"]


def test_keys_may_have_slashes_and_other_letters(client, watched_rows):
    for key, name in (("plant/pump 1", "plant/pump%201"), ("Pümpe", "P%C3%BCmpe"), ("a/rows", "a%2Frows")):
        push(client, name, watched_rows[0][:3])
        assert client.get(f"/v1/streams/{name}/events").json() == {"events": []}
        assert key in [one["key"] for one in client.get("/v1/streams").json()["streams"]]
    push(client, "%01", watched_rows[0][:3], code=422)
    push(client, "k" * 201, watched_rows[0][:3], code=422)


def test_numbers_that_are_none_are_null(train):
    detector = PatchAD(window=12, patch_sizes=(3,), d_model=4, layers=1, max_steps=2, missing="drop").fit(train)
    with service(detector) as client:
        rows = [[0.1, 0.2, None if n % 7 == 0 else 0.3] for n in range(60)]
        scores = client.post("/v1/detect", json={"rows": rows}).json()["scores"]
        assert scores[7] is None
        assert scores[8] is not None
        assert push(client, "x", rows)[0]["score"] is None


def test_signs_of_life_and_metrics(client, watched_rows):
    rows, times = watched_rows
    push(client, "pump", rows, times)
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    assert [client.head(path).status_code for path in ("/healthz", "/readyz", "/")] == [200, 200, 200]
    text = client.get("/metrics").text
    for line in (
        "patchad_rows_total 300.0",
        "patchad_streams 1.0",
        "patchad_queue_requests 0.0",
        'patchad_events_total{kind="anomaly",state="closed"} 1.0',
        "patchad_verdict_latency_seconds_count 1.0",
        "patchad_promised_events_per_10000_rows 1.0",
    ):
        assert line in text, text
    assert "patchad_drift" in text
    model = client.get("/v1/model").json()
    assert (model["channels"], model["promised"]) == (["flow", "heat", "load"], 1.0)
    assert model["measured"] == pytest.approx(1e4 / 300)
    client.station.stop()
    assert client.get("/healthz").status_code == 503
    assert client.get("/readyz").status_code == 503
    problem = push(client, "pump", rows, times, code=503)
    assert "stopping" in problem["detail"]


def test_the_description_has_examples(client):
    found = client.get("/openapi.json").json()
    assert {"/v1/detect", "/v1/streams/{key}/rows", "/v1/events/{event_id}/{verb}", "/v1/live"} <= set(found["paths"])
    for path in found["paths"].values():
        for one in path.values():
            assert "application/problem+json" in one["responses"]["422"]["content"]
            if "application/json" in one.get("requestBody", {}).get("content", {}):
                assert one["requestBody"]["content"]["application/json"]["example"]

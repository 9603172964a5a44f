"""What the sinks far away send."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys

import pytest
from tests.live.receiver import receiving

from patchad.errors import InputError, MissingExtraError
from patchad.live.sinks import alertmanager
from patchad.live.sinks.base import DeliveryError
from patchad.live.sinks.registry import make_sink
from patchad.live.store import StoredLine

EVENT = {
    "type": "event",
    "key": "pump",
    "state": "open",
    "id": "e1",
    "kind": "anomaly",
    "start": 3,
    "stop": 9,
    "severity": 71.0,
    "channels": [["flow", 0.75], ["heat", 0.25]],
    "start_time": "2026-01-01T00:03:00",
    "stop_time": "2026-01-01T00:08:00",
}


def line(**changes) -> StoredLine:
    return StoredLine(7, "event", json.dumps(EVENT | changes))


@pytest.fixture
def receiver():
    with receiving() as found:
        yield found


@pytest.fixture
def made():
    """Make sinks, and close them."""
    sinks = []

    def make(text: str):
        sinks.append(make_sink(text))
        return sinks[-1]

    yield make
    for sink in sinks:
        sink.close()


def test_a_webhook_signs_what_it_sends(receiver, made, monkeypatch):
    monkeypatch.setenv("HOOK", "secret")
    sink = made(f"{receiver.url}/hook?secret_env=HOOK&verdicts=1&tries=5")
    assert (sink.kinds, sink.tries, sink.name) == (("event", "verdict"), 5, f"{receiver.url}/hook")
    sink.send(line(), "abc")
    (request,) = receiver.taken
    assert request.headers["Idempotency-Key"] == "abc-7"
    stamp = request.headers["X-PatchAD-Timestamp"]
    code = hmac.new(b"secret", stamp.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-PatchAD-Signature"] == f"sha256={code}"
    assert sink.check() == "answers (200); lines are signed"


def test_a_webhook_without_a_secret_and_without_an_answer(receiver, made, monkeypatch):
    monkeypatch.delenv("PATCHAD_WEBHOOK_SECRET", raising=False)
    sink = made(receiver.url)
    sink.send(line(), "abc")
    assert "X-PatchAD-Signature" not in receiver.taken[0].headers
    assert sink.check() == "answers (200); lines are not signed"
    assert sink.kinds == ("event",)
    receiver.answer = lambda request: 503
    with pytest.raises(DeliveryError, match=r"answered 503 \(no\)") as caught:
        sink.send(line(), "abc")
    assert not caught.value.final
    nobody = made("http://127.0.0.1:9/hook")
    with pytest.raises(DeliveryError, match="no answer"):
        nobody.check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://", "names no server"),
        ("https:///hook", "names no server"),
        ("http://host?tries=0", "tries=0"),
        ("http://host?verdicts=all", "verdicts=0 or 1"),
        ("http://host?secret_env=NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE"),
        ("alertmanager+http://", "names no server"),
        ("alertmanager+http://host?resolve=soon", "resolve=soon"),
        ("alertmanager+http://host?again=1", "use tries or resolve or alertname"),
        ("apprise:nonsense://x", "does not know the address of 'nonsense'"),
    ],
)
def test_addresses_that_make_no_sense(text, message):
    with pytest.raises(InputError, match=message):
        make_sink(text)


@pytest.mark.parametrize(("library", "text"), [("httpx", "http://host/hook"), ("apprise", "apprise:json://host")])
def test_a_library_that_is_not_there(monkeypatch, library, text):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"{library} is not installed.*patchad\[live\]"):
        make_sink(text)


def test_an_alert_fires_while_the_event_lasts_and_stays_one(receiver, made, monkeypatch):
    now = [1e9 * 1.8]
    monkeypatch.setattr(alertmanager.clock, "time", lambda: now[0])
    steady = [0.0]
    monkeypatch.setattr(alertmanager.clock, "monotonic", lambda: steady[0])
    sink = made(f"alertmanager+{receiver.url}?resolve=100&alertname=Plant")
    assert sink.check() == "is Alertmanager 0"
    sink.send(line(state="suspected", id="s1", severity=20.0), "abc")
    sink.send(line(suspected_id="s1", channels=[["heat", 1.0]]), "abc")
    assert len(sink.state) == 1
    assert sink.refresh() == 25.0
    steady[0] += 10
    assert sink.refresh() == 15.0
    posted = len(receiver.taken)
    steady[0] += 16
    sink.refresh()
    assert len(receiver.taken) == posted + 1
    sink.send(line(state="closed", suspected_id="s1"), "abc")
    steady[0] += 30
    sink.refresh()
    sent = [alert for request in receiver.taken if request.method == "POST" for alert in request.json]
    assert {json.dumps(alert["labels"], sort_keys=True) for alert in sent} == {
        json.dumps(
            {
                "alertname": "Plant",
                "key": "pump",
                "kind": "anomaly",
                "channel": "flow",
                "severity": "info",
                "event": "s1",
            },
            sort_keys=True,
        )
    }
    assert [alert["endsAt"] > alert["startsAt"] for alert in sent] == [True] * len(sent)
    assert sent[0]["startsAt"] == "2026-01-01T00:03:00.000+00:00"
    assert sent[-1]["endsAt"] == "2027-01-15T08:00:00.000+00:00"
    assert sent[-1]["annotations"]["summary"] == "pump: anomaly in flow, over"
    assert {alert["endsAt"] for alert in sent[:-1]} == {"2027-01-15T08:01:40.000+00:00"}
    assert sink.state == {}


def test_an_alert_of_what_is_over_or_was_none(receiver, made):
    sink = made(f"alertmanager+{receiver.url}/prefix/")
    sink.send(line(state="withdrawn"), "abc")
    assert receiver.taken == []
    sink.send(line(state="closed", start_time=None, key=None, channels=[]), "abc")
    (request,) = receiver.taken
    assert request.path == "/prefix/api/v2/alerts"
    (alert,) = request.json
    assert set(alert["labels"]) == {"alertname", "kind", "severity", "event"}
    assert sink.state == {}
    receiver.answer = lambda request: 404
    with pytest.raises(DeliveryError, match="is it an Alertmanager"):
        sink.check()


def test_people_are_told_in_words(receiver, made):
    sink = made(f"apprise:{receiver.url.replace('http', 'json')}/chat")
    assert receiver.url.partition("//")[2] not in sink.name  # a name has no secrets, and an address may be one
    assert "no message was sent" in sink.check()
    sink.send(line(), "abc")
    assert receiver.taken[0].json["title"] == "pump: anomaly in flow, found"
    assert receiver.taken[0].json["message"] == (
        "to blame: flow 75%, heat 25%; severity 71 of 100; 6 rows since 2026-01-01T00:03:00"
    )
    receiver.answer = lambda request: 500
    with pytest.raises(DeliveryError, match="apprise could not"):
        sink.send(line(state="closed"), "abc")

"""Events fire and resolve in a real Alertmanager."""

from __future__ import annotations

import json
import threading

import httpx
import pytest
from tests.live import servers

from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Watch

pytestmark = pytest.mark.live


def alerts(server) -> dict[str, dict]:
    """Return what fires now, by the label of the event."""
    found = httpx.get(f"http://{server.place}/api/v2/alerts", params={"active": "true"}).json()
    return {alert["labels"]["event"]: alert for alert in found}


def test_an_alert_fires_while_the_event_lasts_and_outlives_a_restart(watched_model, watched_json, tmp_path):
    folder = tmp_path / "alertmanager"
    folder.mkdir()
    lines = watched_json.splitlines(keepends=True)
    rows = tmp_path / "rows"
    rows.write_text("".join(lines[:123]))
    with servers.alertmanager(folder) as server:
        stop = threading.Event()
        failed: list[BaseException] = []

        def watch() -> None:
            try:
                with Store(tmp_path / "state") as store:
                    sinks = [make_sink(f"alertmanager+http://{server.place}?resolve=40")]
                    Watch(watched_model, [make_source(f"file:{rows}")], sinks, store).run(stop.is_set)
            except BaseException as error:
                failed.append(error)
                raise

        thread = threading.Thread(target=watch)
        thread.start()
        servers.wait_for(lambda: alerts(server), what="an alert")
        ((name, alert),) = alerts(server).items()
        assert (alert["labels"]["key"], alert["labels"]["channel"], alert["status"]["state"]) == (
            "pump",
            "heat",
            "active",
        )
        assert alert["startsAt"].startswith("2026-01-01T02:00")
        updated = alert["updatedAt"]
        servers.wait_for(lambda: alerts(server).get(name, alert)["updatedAt"] > updated, what="the alert again")
        stop.set()
        thread.join()
        with Store(tmp_path / "state") as store:
            (known,) = json.loads(store.meta(f"sink alertmanager+http://{server.place}")).values()
            assert known["labels"] == alert["labels"]
        stop.clear()
        thread = threading.Thread(target=watch)
        thread.start()
        with rows.open("a") as file:
            file.writelines(lines[123:230])  # the fault lasts, and is steady
        servers.wait_for(lambda: name not in alerts(server), what="the end of the alert")
        stop.set()
        thread.join()
        assert not failed
        history = httpx.get(f"http://{server.place}/api/v2/alerts").json()
        assert len({alert["labels"]["event"] for alert in history} | {name}) <= 2

"""A service without a network, and its callers."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from patchad.live.session import make_ends
from patchad.live.store import Store
from patchad.serve.app import make_app
from patchad.serve.measures import Measures
from patchad.serve.models import open_station
from patchad.serve.settings import Limits


@contextmanager
def service(detector, path=None, guard=None, configuration=None, **limits):
    """Run a service; gives its client, which has the station."""
    store = Store(path)
    try:
        station = open_station(detector, store, Limits(**limits), Measures(), configuration)
        if configuration is not None:
            station.attach(*make_ends(configuration))
        app = make_app(station, guard)
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            client.station = station
            yield client
    finally:
        store.close()


@pytest.fixture
def client(watched_model):
    with service(watched_model) as client:
        yield client


@pytest.fixture(scope="session")
def watched_rows(watched) -> tuple[list[dict], list[str]]:
    """The rows and times of `watched`, as JSON has them."""
    rows = json.loads(watched.drop(columns="time").to_json(orient="records"))
    return rows, watched["time"].tolist()


def push(client, key, rows, times=None, first=None, code=200):
    """Send rows; gives the verdicts, or the problem."""
    body = {"rows": rows} | ({} if times is None else {"times": times})
    answer = client.post(f"/v1/streams/{key}/rows", json=body | ({} if first is None else {"first_index": first}))
    assert answer.status_code == code, answer.text
    return answer.json()["verdicts"] if code == 200 else answer.json()

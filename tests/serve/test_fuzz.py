"""Random requests: no error of the service, and what it has taken stays whole."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.serve.conftest import service
from tests.serve.fuzzing import Requests, check


def fuzz(model, count: int, seed: int) -> None:
    with service(model, rows=30, streams=5) as client:
        for number, request in enumerate(islice(Requests(seed), count)):
            try:
                check(client.request(**request))
            except Exception as error:
                raise AssertionError(f"request {number} of seed {seed}: {request}") from error
        for stream in client.get("/v1/streams").json()["streams"]:
            key = client.station.find_key(stream["key"])
            stored = client.station.store.rows(key)
            assert stored.index.tolist() == list(range(stream["rows"]))
            verdicts = client.station.store.verdicts(key)
            assert verdicts.index.tolist() == list(range(stream["verdicts"]))
        assert client.get("/readyz").status_code == 200


def test_some_hundred_random_requests(watched_model):
    fuzz(watched_model, 400, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_thousand_random_requests(watched_model, seed):
    fuzz(watched_model, 1_000, seed)

"""The brokers and servers that other tests need start, keep what they have over a kill, and end."""

from __future__ import annotations

import pytest
from tests.live import servers

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", ["nats", "mosquitto", "prometheus", "alertmanager"])
def test_a_server_starts_is_killed_and_starts_again(name, tmp_path):
    more = {"prometheus": ["scrape_configs: []\n"]}.get(name, [])
    with getattr(servers, name)(tmp_path, *more) as server:
        server.kill()
        assert not servers.answers(server.port)
        server.start()
        assert servers.answers(server.port)
    assert not servers.answers(server.port)

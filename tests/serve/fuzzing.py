"""Random requests, most of them wrong, for the fuzz tests of the service and `benchmarks.serve`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

CHANNELS = ("flow", "heat", "load")
KEYS = ("pump", "a/b", "%2e%2e", "..", "é", "k" * 300, "", "-", "%00", "rows", "3")
VERBS = ("acknowledge", "accept", "confirm", "comment", "praise")
KINDS = (
    "application/json",
    "text/csv",
    "application/vnd.apache.parquet",
    "application/octet-stream",
    "text/plain",
    "",
    "x/y; q",
)
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    -1e308,
    10**400,
    "",
    "x",
    "NaN",
    "\u0000",
    "\ud83d",
    [],
    {},
    [1],
    {"a": 1},
)
TIMES: tuple[Any, ...] = (
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+02:00",
    "1677-01-01",
    "9999-12-31",
    "x",
    "",
    0,
    5,
    1.7e9,
    1e300,
    -1,
    None,
    "24:00",
)


class Requests:
    """Makes requests, each as the arguments of `httpx2.Client.request`."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._sent = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self.make()

    def make(self) -> dict[str, Any]:
        """Return a random request."""
        pick = self._random
        method = pick.choices(("POST", "GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"), (12, 6, 1, 1, 1, 1, 1))[0]
        headers = {"Content-Type": pick.choices(KINDS, (12, 2, 2, 1, 1, 1, 1))[0]}
        if pick.random() < 0.05:
            headers |= pick.choice(({"Origin": "http://x"}, {"Authorization": "Bearer x"}, {"Expect": "100-continue"}))
        content = self._body(headers["Content-Type"])
        return {
            "method": method,
            "url": self._path(),
            "headers": headers,
            "content": content if method != "GET" else b"",
        }

    def _path(self) -> str:
        pick = self._random
        key = pick.choices(KEYS, (8, *(1 for _ in KEYS[1:])))[0]
        number = pick.choice(("0", "-1", "1e300", "nan", "inf", "x", "", "5"))
        paths = (
            "/v1/detect",
            f"/v1/streams/{key}/rows",
            f"/v1/streams/{key}/events?withdrawn={number}",
            f"/v1/streams/{key}/history?since={number}&until={number}&points={number}",
            f"/v1/streams/{key}/history?points=50&channels={pick.choice(('flow', 'x', ',', '%00'))}",
            f"/v1/streams/{key}/export.csv?rows={number}",
            f"/v1/events/{pick.choice(('x', '%00', '..', 'c37eba03406f'))}/{pick.choice(VERBS)}?key={key}",
            pick.choice(
                ("/v1/streams", "/v1/model", "/v1/models", "/metrics", "/healthz", "/readyz", "/openapi.json", "/")
            ),
            pick.choice(("/static/live.js", "/static/../x", "/static/%2e%2e%2fx", "/v1", "//", "/v1/live/x")),
        )
        return pick.choices(paths, (6, 8, 2, 2, 2, 1, 2, 2, 1))[0]

    def _body(self, kind: str) -> bytes:
        pick = self._random
        if pick.random() < 0.1:
            return pick.randbytes(pick.randrange(200))
        if kind == "text/csv":
            lines = [
                ",".join(pick.choice(("1", "x", "", "1e999", '"')) for _ in range(pick.randrange(5))) for _ in range(4)
            ]
            return "\n".join([pick.choice(("time,flow,heat", "flow", "", "a;b")), *lines]).encode()
        text = json.dumps(self._object())
        if pick.random() < 0.1:
            place = pick.randrange(len(text))
            text = text[:place] + pick.choice(("NaN", "[", "}", "\x00", "1e999", "")) + text[place + 1 :]
        return text.encode(errors="surrogatepass")

    def _object(self) -> Any:
        pick = self._random
        if pick.random() < 0.08:
            return pick.choice(ODD)
        count = pick.choice((0, 1, 1, 2, 5, 40))
        found: dict[str, Any] = {"rows": [self._row() for _ in range(count)]}
        if pick.random() < 0.4:
            found["times"] = [pick.choice(TIMES) for _ in range(pick.choice((count, count, count, 3)))]
        elif pick.random() < 0.5:
            self._sent += count
            found["times"] = [1_700_000_000 + 60 * (self._sent + n) for n in range(count)]
        if pick.random() < 0.3:
            found["first_index"] = pick.choice((0, 1, 5, -1, 10**9, None, "0", True, 2.0, 10**30))
        if pick.random() < 0.1:
            found[pick.choice(("text", "author", "rows", "x"))] = pick.choice(ODD)
        return found

    def _row(self) -> Any:
        pick = self._random
        if pick.random() < 0.05:
            return pick.choice(ODD)
        if pick.random() < 0.1:
            return [pick.gauss(0, 1) for _ in range(pick.choice((3, 3, 2)))]
        row = {name: round(pick.gauss(0, 1), 3) for name in CHANNELS if pick.random() < 0.9}
        if pick.random() < 0.08:
            row[pick.choice((*CHANNELS, "other", ""))] = pick.choice(ODD)
        return row


def check(answer: Any) -> None:
    """Refuse an answer that is an error of the service, or no problem where it is an error."""
    assert answer.status_code < 500, (answer.status_code, answer.text)
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json", answer.headers
        assert answer.json()["status"] == answer.status_code

"""Rows from points of the Influx line protocol, over HTTP: what Telegraf sends to InfluxDB."""

from __future__ import annotations

import hmac
import json
import logging
import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from patchad.errors import InputError, reason_of
from patchad.live.address import Address
from patchad.live.endpoint import Endpoint
from patchad.live.messages import Message, MessageReader
from patchad.live.rows import Columns
from patchad.live.sources.base import Position
from patchad.live.sources.influx import Points, check_precision

logger = logging.getLogger(__name__)

LARGEST = 2**24
"""Bytes of a request, unpacked."""
ANSWER = 30.0
"""Seconds that a sender waits for its rows to be stored; then it is asked to send them again."""
DOUBT = 300.0
"""Seconds in which senders may repeat rows that they did not hear to be stored."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(slots=True)
class _Request:
    """Points that somebody sent, and waits to hear that they are stored."""

    lines: list[bytes]
    precision: str
    again: bool
    stored: threading.Event = field(default_factory=threading.Event)


class InfluxHttpSource:
    """A server that takes points; a request is answered 204 when its rows are stored.

    Points of one key and time in one request are a row.
    """

    path: Path | None = None
    resumed, ended = False, False

    def __init__(self, address: Address) -> None:
        address.check_options(["key", "precision"])
        self._endpoint = Endpoint.of(address, 8086, "influx+http://HOST:PORT")
        self._token = os.environ.get("PATCHAD_INFLUX_TOKEN", "")
        if self._endpoint.host not in LOOPBACK and not self._token:
            raise InputError(
                f"influx+http://{self._endpoint.place} listens to other machines; set PATCHAD_INFLUX_TOKEN to the "
                "token that senders have, or listen on 127.0.0.1"
            )
        self.name = f"influx+http://{self._endpoint.place}"
        self._points = Points(address)
        self._waiting: deque[_Request] = deque()
        self._taken: list[_Request] = []
        self._doubt = time.monotonic() + DOUBT
        """Until when rows may come again: after a start, or when a sender did not hear that its rows were stored."""
        self._server: ThreadingHTTPServer | None = None

    def open(self, position: Position | None) -> None:
        """Go on: senders send again what was not stored."""

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> MessageReader:
        """Return what reads the rows."""
        self._points.begin(columns)
        return MessageReader(columns, state)

    def connect(self, owner: str | None) -> None:  # noqa: ARG002
        """Listen."""
        handler = type("Handler", (_Handler,), {"source": self})
        try:
            self._server = ThreadingHTTPServer((self._endpoint.host, self._endpoint.port), handler)
        except OSError as error:
            raise InputError(f"{self.name} cannot be listened on ({reason_of(error)}); choose another port") from None
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        logger.info("%s: ready", self.name)

    def poll(self) -> list[bytes]:
        """Return the rows of the requests that came."""
        self._taken, lines = [], list[Message]()
        while self._waiting:
            request = self._waiting.popleft()
            own = self._points.push(request.lines, request.precision) + self._points.release()
            for line in own:
                line.again = request.again
            lines += own
            self._taken.append(request)
        if not lines:
            self.acknowledge()  # there is nothing to store
        return list[bytes](lines)

    @property
    def position(self) -> Position:
        """Nothing: senders know what was stored."""
        return {}

    def acknowledge(self) -> None:
        """Let the requests be answered."""
        for request in self._taken:
            request.stored.set()
        self._taken = []

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    # -- called by the threads of the server ---------------------------------------------------------------------------

    def is_allowed(self, authorization: str) -> bool:
        """Return whether a sender has the token: `Token T` or `Bearer T`."""
        return not self._token or hmac.compare_digest(authorization.partition(" ")[2].encode(), self._token.encode())

    def take(self, body: bytes, precision: str | None) -> bool:
        """Hand over points, and wait until they are stored; return whether they were."""
        unit = self._points.precision if precision is None else check_precision(precision)
        request = _Request(body.split(b"\n"), unit, time.monotonic() < self._doubt)
        self._waiting.append(request)
        stored = request.stored.wait(ANSWER)
        if not stored:
            self._doubt = time.monotonic() + DOUBT
        return stored


class _Handler(BaseHTTPRequestHandler):
    """Answers as InfluxDB does, versions 1 and 2."""

    source: InfluxHttpSource
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Say that the server is there."""
        self._discard()
        if urlsplit(self.path).path == "/ping":
            self._answer(204)
        elif urlsplit(self.path).path == "/health":
            self._answer(200, {"name": "patchad", "status": "pass"})
        else:
            self._answer(404, {"error": "not found: points are sent to /write or /api/v2/write"})

    def do_HEAD(self) -> None:
        """Say so without more words."""
        self.do_GET()

    def do_POST(self) -> None:
        """Take points."""
        url = urlsplit(self.path)
        if not self.source.is_allowed(self.headers.get("Authorization", "")):
            self._refuse(401, "unauthorized: the token is missing or wrong")
        elif url.path == "/query":  # Telegraf asks for its database to be made
            self._discard()
            self._answer(200, {"results": [{"statement_id": 0}]})
        elif url.path not in ("/write", "/api/v2/write"):
            self._refuse(404, "not found: points are sent to /write or /api/v2/write")
        else:
            self._write(parse_qs(url.query).get("precision", [None])[-1])

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002
        """Say little."""
        logger.debug(format, *values)

    def _write(self, precision: str | None) -> None:
        try:
            body = self._body()
            stored = self.source.take(body, precision)
        except InputError as error:
            self._refuse(400, str(error))
        except _TooLargeError:
            self._refuse(413, f"a request may have {LARGEST:,} bytes, unpacked; send fewer points at once")
        else:
            self._answer(204) if stored else self._answer(
                503, {"error": "the rows are not stored yet; send them again"}
            )

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise InputError("the request has no Content-Length; send it")
        if int(length) > LARGEST:
            raise _TooLargeError
        data = self.rfile.read(int(length))
        packing = self.headers.get("Content-Encoding", "identity")
        if packing == "identity":
            return data
        if packing != "gzip":
            raise InputError(f"Content-Encoding {packing!r} is unknown; use gzip or none")
        unpacking = zlib.decompressobj(wbits=31)
        try:
            found = unpacking.decompress(data, LARGEST + 1)
        except zlib.error as error:
            raise InputError(f"the gzip data are damaged ({reason_of(error)})") from None
        if len(found) > LARGEST:
            raise _TooLargeError
        if not unpacking.eof:
            raise InputError("the gzip data end too early")
        return found

    def _refuse(self, status: int, message: str) -> None:
        """Answer without having read the request."""
        self.close_connection = True
        self._answer(status, {"code": "invalid", "message": message, "error": message})

    def _discard(self) -> None:
        length = self.headers.get("Content-Length", "0")
        self.rfile.read(min(int(length), LARGEST) if length.isdecimal() else 0)

    def _answer(self, status: int, content: Mapping[str, Any] | None = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        try:
            self.send_response(status)
            self.send_header("X-Influxdb-Version", "2.0")
            if content is not None:
                self.send_header("Content-Type", "application/json")
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")
        except OSError as error:
            self.close_connection = True
            logger.info("an answer was not heard (%s)", reason_of(error))


class _TooLargeError(Exception):
    """A request has more bytes than it may have."""

"""A web server that keeps what it is sent, and fails when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Receiver:
    url: str
    came: list[Request] = field(default_factory=list)
    """What came, also what was refused."""
    taken: list[Request] = field(default_factory=list)
    answer: Callable[[Request], int] = lambda request: 200
    """Says what is answered; 0: the connection is closed after the request was taken, without an answer."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run the server on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers), body)
            code = receiver.answer(request)
            receiver.came.append(request)
            if code in (0, 200):
                receiver.taken.append(request)
            if code == 0:
                self.close_connection = True
                return
            said = b'{"versionInfo": {"version": "0"}}' if code == 200 else b"no"
            self.send_response(code)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET = do_OPTIONS = _take  # noqa: N815

        def log_message(self, *_) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

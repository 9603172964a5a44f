"""Metrics of a simulated plant, for Prometheus to scrape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def exporting(values: Callable[[], Mapping[str, float]]) -> Iterator[int]:
    """Serve what a function returns at each scrape, as gauges; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in values().items()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *values: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def scraping(port: int, every: str = "1s") -> str:
    """Return a configuration of Prometheus that scrapes such a plant."""
    return (
        f"global: {{scrape_interval: {every}}}\n"
        f"scrape_configs: [{{job_name: plant, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )

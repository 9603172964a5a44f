"""`patchad serve`: the HTTP service and its live page."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchad.cli.console import notify
from patchad.cli.live import LogLevel, Stop
from patchad.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from patchad.serve.station import Station

GRACE = 10
"""Seconds that connections have to end when the service stops."""


def serve(
    model: Annotated[Path | None, typer.Argument(help="Model file written by `patchad fit`.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8000,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the state in this file, and go on from it.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tokens, one a line, `read:` or `write:` before it.")
    ] = None,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate, for https.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the certificate.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a simulated plant whose faults arrive.")] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much is said on stderr.")] = LogLevel.warning,
) -> None:
    """Judge rows that are sent over HTTP, and show them on a live page.

    Listens on loopback unless tokens are given. What was answered is stored where `--state` names a file. Ctrl-C and
    SIGTERM end it; requests that wait are taken before.
    """
    _check_extra()
    from patchad.serve.security import Guard, is_loopback, read_tokens
    from patchad.serve.settings import Limits

    logging.getLogger().setLevel(log_level.upper())
    if (model is None) != demo:
        raise InputError("give a model file, or --demo" if model is None else "give a model file or --demo, not both")
    if token_file is None and not is_loopback(host):
        raise InputError(f"--host {host!r} can be reached from elsewhere; give tokens with --token-file")
    if (cert is None) != (key is None):
        raise InputError("--cert and --key go together; give both")
    for name, path in (("--cert", cert), ("--key", key)):
        if path is not None and not path.is_file():
            raise InputError(f"{name} {str(path)!r} is no file; give a PEM file")
    guard = Guard() if token_file is None else Guard(read_tokens(token_file))
    stop = Stop()
    with stop.listening(), _listening(host, port) as bound:
        if demo:
            notify("A pumping station with 16 sensors: learning from 8,000 minutes of normal operation.")
        with _station(model, state, Limits()) as station:
            address = f"{'http' if cert is None else 'https'}://{_shown(host)}:{bound.getsockname()[1]}"
            _run(station, guard, bound, {"ssl_certfile": cert, "ssl_keyfile": key}, stop, address, demo=demo)


def _check_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(str(error.name), "serve") from None


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Hold the address from the start, so that nobody waits for a model in vain."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio lets packets go at once only where the protocol is named: else answers wait 40 ms
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise InputError(f"--host {host!r} is no address of this machine ({error.strerror}); give another") from None
    with bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot listen on {host}:{port} ({reason}); choose another --port or --host") from None
        yield bound


@contextlib.contextmanager
def _station(model: Path | None, state: Path | None, limits: Any) -> Iterator[Station]:
    from patchad.data.files import check_outputs
    from patchad.detectors.registry import load
    from patchad.live.store import Store
    from patchad.serve.measures import Measures
    from patchad.serve.models import open_station

    check_outputs({"--state": state}, [] if model is None else [model])
    if model is None:
        from patchad.serve.demo import demo_model

        detector = demo_model()
    else:
        detector = load(model)
    store = Store(state)
    try:
        yield open_station(detector, store, limits, Measures())
    finally:
        store.close()


def _run(
    station: Station,
    guard: Any,
    bound: socket.socket,
    certificate: dict[str, Path | None],
    stop: Stop,
    address: str,
    *,
    demo: bool,
) -> None:
    """Run the service in a thread, until it is to stop."""
    import uvicorn

    from patchad.serve.app import make_app

    app = make_app(station, guard)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=2**16,
        **{name: str(path) for name, path in certificate.items() if path is not None},  # type: ignore[arg-type]
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="patchad-http")
    thread.start()
    try:
        while thread.is_alive() and not server.started and not stop():
            clock.sleep(0.02)
        if server.started:
            notify(f"listening on {address}; Ctrl-C ends it")
        if demo:
            from patchad.serve.demo import Plant

            Plant(station).start()
        while thread.is_alive() and not stop():
            clock.sleep(0.05)
    finally:
        app.state.service.hub.close()
        server.should_exit = True
        thread.join()
    count = sum(station.streams.count(key) for key in station.streams)
    notify(f"stopped; {len(station.streams)} streams with {count:,} rows")


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host

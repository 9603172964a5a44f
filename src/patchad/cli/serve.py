"""`patchad serve`: the HTTP service and its live page."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchad.cli.console import notify
from patchad.cli.live import LogLevel, ModelArgument, SinksOption, SourcesOption, StateOption, Stop, configured
from patchad.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from patchad.live.config import Configuration
    from patchad.serve.station import Station

GRACE = 10
"""Seconds that connections have to end when the service stops."""


def serve(
    model: ModelArgument = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8000,
    sources: SourcesOption = None,
    sinks: SinksOption = None,
    state: StateOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, as patchad.toml; other options win.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tokens, one a line, `read:` or `write:` before it.")
    ] = None,
    open_metrics: Annotated[bool, typer.Option("--open-metrics", help="Let /metrics be read without a token.")] = False,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate, for https.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the certificate.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a simulated plant whose faults arrive.")] = False,
    log_level: Annotated[LogLevel | None, typer.Option(help="How much is said on stderr.")] = None,
) -> None:
    """Judge rows that are sent over HTTP, and show them on a live page.

    Listens on loopback unless tokens are given. Rows also come from sources, and sinks are told of all rows, as with
    `watch`. What was answered is stored where `--state` names a file. Ctrl-C and SIGTERM end it; requests that wait are
    taken before.
    """
    _check_extra()
    from patchad.serve.security import FREE, METRICS, Guard, is_loopback, read_tokens

    settings = configured(config, model=model, sources=sources, sinks=sinks, state=state, log_level=log_level)
    logging.getLogger().setLevel((settings.log_level or "warning").upper())
    if (settings.model is None) != demo:
        given = settings.model is not None
        raise InputError("give a model file or --demo, not both" if given else "give a model file, or --demo")
    if token_file is None and not is_loopback(host):
        raise InputError(f"--host {host!r} can be reached from elsewhere; give tokens with --token-file")
    if (cert is None) != (key is None):
        raise InputError("--cert and --key go together; give both")
    for name, path in (("--cert", cert), ("--key", key)):
        if path is not None and not path.is_file():
            raise InputError(f"{name} {str(path)!r} is no file; give a PEM file")
    free = (*FREE, METRICS) if open_metrics else FREE
    guard = Guard() if token_file is None else Guard(read_tokens(token_file), free)
    stop = Stop()
    with stop.listening(), _listening(host, port) as bound:
        if demo:
            notify("A pumping station with 16 sensors: learning from 8,000 minutes of normal operation.")
        with _station(settings) as station:
            address = f"{'http' if cert is None else 'https'}://{_shown(host)}:{bound.getsockname()[1]}"
            _run(station, guard, bound, {"ssl_certfile": cert, "ssl_keyfile": key}, stop, address, demo=demo)
            _raise(station.failure)


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
def _station(settings: Configuration) -> Iterator[Station]:
    from patchad.detectors.registry import load
    from patchad.live.session import make_ends
    from patchad.live.store import Store
    from patchad.serve.measures import Measures
    from patchad.serve.models import open_station
    from patchad.serve.settings import Limits

    sources, sinks = make_ends(settings)
    if settings.model is None:
        from patchad.serve.demo import demo_model

        detector = demo_model()
    else:
        detector = load(Path(settings.model))
    settings.alarms.apply(detector)
    with Store(None if settings.state is None else Path(settings.state), settings.retention) as store:
        station = open_station(detector, store, Limits(), Measures(), settings)
        station.attach(sources, sinks)
        try:
            yield station
        finally:
            station.stop()


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
        while thread.is_alive() and not stop() and station.failure is None:
            clock.sleep(0.05)
    finally:
        app.state.service.hub.close()
        server.should_exit = True
        thread.join()
    count = sum(station.streams.count(key) for key in station.streams)
    notify(f"stopped; {len(station.streams)} streams with {count:,} rows")


def _raise(failure: BaseException | None) -> None:
    """Raise what ended a station; a reader of stdout that is gone is no error, as with `watch`."""
    if isinstance(failure, BrokenPipeError):
        getattr(sys.stdout, "mute", lambda: None)()
    elif failure is not None:
        raise failure


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host

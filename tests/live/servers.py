"""Real brokers and servers for tests: each on a free port with a folder of its own, and ended by its process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

UNPACKED = Path(__file__).parents[2] / ".venv" / "live"
"""Where `scripts/install-live` puts what the machine does not have."""
TEMPLATES = Path("/usr/share/prometheus/alertmanager")
"""What Debian's Alertmanager reads when it starts."""
PATIENCE = 300.0
"""Seconds that something has to happen; a machine with other work to do may take minutes over it."""


class Server:
    """A server on a port of this machine; it keeps its port and folder over a kill and a restart."""

    def __init__(self, program: str, arguments: list[str], port: int, folder: Path) -> None:
        self.port, self.folder = port, folder
        self._arguments, self._environment = [located(program), *arguments], environment()
        self.start()

    @property
    def place(self) -> str:
        """Host and port, as addresses have them."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(self._arguments, stdout=log, stderr=log, env=self._environment)
        wait_for(lambda: answers(self.port) or self._process.poll() is not None)
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._arguments[0]} ended: {(self.folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()


def located(program: str) -> str:
    """Return the path of a program; skip the test where it is absent."""
    folders = [os.environ.get("PATH", ""), "/usr/sbin", str(UNPACKED / "usr/bin"), str(UNPACKED / "usr/sbin")]
    found = shutil.which(program, path=os.pathsep.join(folders))
    if found is None:
        pytest.skip(f"{program} is not there; scripts/install-live gets it")
    return found


def environment() -> dict[str, str]:
    """Return an environment in which programs find the libraries that were unpacked beside them."""
    libraries = [str(path) for path in sorted(UNPACKED.glob("**/lib/*-linux-gnu"))]
    return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether somebody listens on a port of this machine."""
    with socket.socket() as connection:
        connection.settimeout(10)
        return connection.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE, what: str = "a server") -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {seconds:g} s")
        time.sleep(0.05)


@contextmanager
def running(program: str, arguments: list[str], port: int, folder: Path) -> Iterator[Server]:
    """Run a server, and end it afterwards."""
    server = Server(program, arguments, port, folder)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def nats(folder: Path) -> Iterator[Server]:
    """Run NATS with JetStream and its MQTT listener; `port` is the one of MQTT."""
    port = free_port()
    (folder / "nats.conf").write_text(
        f'server_name: "test"\nlisten: "127.0.0.1:{free_port()}"\n'
        f'jetstream {{ store_dir: "{folder / "jetstream"}" }}\n'
        f'mqtt {{ listen: "127.0.0.1:{port}", ack_wait: "5s", max_ack_pending: 1000 }}\n'
    )
    with running("nats-server", ["-c", str(folder / "nats.conf")], port, folder) as server:
        yield server


@contextmanager
def mosquitto(folder: Path, settings: str = "allow_anonymous true") -> Iterator[Server]:
    """Run Mosquitto, which keeps sessions over a restart."""
    port = free_port()
    folder.chmod(0o777)  # it leaves the rights of root behind
    (folder / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\npersistence true\npersistence_location {folder}/\nmax_queued_messages 0\n"
        f"{settings}\n"
    )
    with running("mosquitto", ["-c", str(folder / "mosquitto.conf")], port, folder) as server:
        yield server


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[Server]:
    """Run Prometheus by the text of its configuration."""
    port = free_port()
    (folder / "prometheus.yml").write_text(config)
    arguments = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    arguments.append(f"--web.listen-address=127.0.0.1:{port}")
    with running("prometheus", arguments, port, folder) as server:
        yield server


@contextmanager
def alertmanager(
    folder: Path, config: str = "route: {receiver: none}\nreceivers: [{name: none}]\n"
) -> Iterator[Server]:
    """Run Alertmanager by the text of its configuration."""
    located("prometheus-alertmanager")
    if not TEMPLATES.is_dir():
        pytest.skip(f"Alertmanager needs {TEMPLATES}; scripts/install-live makes it, as root")
    port = free_port()
    (folder / "alertmanager.yml").write_text(config)
    arguments = [f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'data'}"]
    arguments += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    with running("prometheus-alertmanager", arguments, port, folder) as server:
        yield server

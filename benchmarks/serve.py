"""Measure `patchad serve` under load, and kill it at random moments. Starts the service as a process of its own.

python -m benchmarks.serve load --connections 4 --seconds 60     rows/s, latency, lost rows; beside a bare FastAPI echo
python -m benchmarks.serve load --connections 64 --seconds 30    429s, and memory
python -m benchmarks.serve streams --streams 100 --rate 10 --seconds 600
python -m benchmarks.serve kills --kills 20                      no row lost or doubled, events as in an undisturbed run
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from patchad import PatchAD, load
from patchad.data.table import Table
from patchad.datasets.plant import FAULTS, simulate_plant
from patchad.live.records import Records

ROWS_PER_REQUEST = 10
GROWTH = 1.1
"""How much the memory may grow in the last two thirds of a run."""
BEGIN = np.datetime64("2026-01-01T00:00:00", "s")
ECHO = """
import sys, uvicorn
from fastapi import FastAPI, Request
app = FastAPI()

@app.post("/v1/streams/{key}/rows")
async def rows(key: str, request: Request):
    return {"verdicts": (await request.json())["rows"][:0]}

import socket
bound = socket.socket(proto=socket.IPPROTO_TCP); bound.bind(("127.0.0.1", 0)); bound.listen()
print(f"listening on http://127.0.0.1:{bound.getsockname()[1]};", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[bound])
"""


class Service:
    """A service in a process of its own."""

    def __init__(self, *command: str) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, *command], text=True, env=environment, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+);", line):
                self.port = int(found[1])
                return
        raise RuntimeError(said)

    def memory(self) -> float:
        """Return the resident memory in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    def cpu(self) -> float:
        """Return the seconds that processors have worked for it, whatever else they did."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process."""
        self.process.send_signal(number)
        self.process.communicate(timeout=300)


class Caller:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Send JSON; return status and answer."""
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def get(self, path: str) -> Any:
        """Ask for something."""
        self._connection.request("GET", path)
        return json.loads(self._connection.getresponse().read())

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def body_of(run: Any, first: int, count: int) -> dict[str, Any]:
    """Return rows of a plant as a request."""
    numbers = [n % len(run.values) for n in range(first, first + count)]
    rows = [dict(zip(run.channels, run.values[n].round(4).tolist(), strict=True)) for n in numbers]
    times = [f"{BEGIN + np.timedelta64(60 * n, 's')}Z" for n in range(first, first + count)]
    return {"rows": rows, "times": times, "first_index": first}


def model_file(folder: Path, given: Path | None) -> Path:
    """Return a model of the plant; a fit takes a second or two."""
    if given is not None:
        return given
    train = simulate_plant(4_000, seed=0)
    detector = PatchAD().fit(Table(train.values, train.channels, train.times))
    return detector.save(folder / "model.safetensors")


def quantiles(seconds: list[float]) -> str:
    """Write the middle and the slow end of latencies."""
    low, high, most = (1e3 * np.quantile(seconds, q) for q in (0.5, 0.99, 1.0))
    return f"p50 {low:.1f} ms, p99 {high:.1f} ms, most {most:.1f} ms"


def pound(port: int, run: Any, connections: int, seconds: float) -> tuple[Counter[int], list[float], dict[str, int]]:
    """Send rows over several connections, each to a stream of its own, as fast as answers come."""
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    sent: dict[str, int] = {}
    until = time.monotonic() + seconds

    def work(number: int) -> None:
        caller, first, key = Caller(port), 0, f"load-{number}"
        while time.monotonic() < until:
            body = body_of(run, first, ROWS_PER_REQUEST)
            began = time.monotonic()
            status, _ = caller.post(f"/v1/streams/{key}/rows", body)
            statuses[status] += 1
            if status == 200:
                latencies.append(time.monotonic() - began)
                first += ROWS_PER_REQUEST
            else:
                time.sleep(0.05)
        sent[key] = first
        caller.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, latencies, sent


def measure_load(options: argparse.Namespace) -> None:
    """Print what a service takes, and what a bare echo does."""
    run = simulate_plant(5_000, seed=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = model_file(folder, options.model)
        service = Service("-m", "patchad", "serve", str(model), "--port", "0", "--state", str(folder / "state"))
        before = service.memory()
        statuses, latencies, sent = pound(service.port, run, options.connections, options.seconds)
        after = service.memory()
        service.stop()
        with Records(folder / "state") as records:
            lost = {key: count for key, count in sent.items() if len(records.rows(key)) != count}
        rows = sum(sent.values())
        print(
            f"{options.connections} connections, {ROWS_PER_REQUEST} rows of 16 channels a request, "
            f"{options.seconds:g} s: {rows / options.seconds:,.0f} rows/s; {quantiles(latencies)}; "
            f"answers {dict(statuses)}; streams with lost or doubled rows {len(lost)}; "
            f"memory {before:.0f} to {after:.0f} MB"
        )
        echo = Service("-c", ECHO)
        statuses, latencies, sent = pound(echo.port, run, options.connections, min(options.seconds, 10.0))
        echo.stop(signal.SIGKILL)
        print(f"a bare echo: {sum(sent.values()) / min(options.seconds, 10.0):,.0f} rows/s; {quantiles(latencies)}")


def measure_streams(options: argparse.Namespace) -> None:
    """Print latencies of many streams that send at a steady rate; exit 1 where a request failed or memory grew."""
    run = simulate_plant(5_000, seed=1)
    latencies: list[float] = []
    statuses: Counter[int] = Counter()
    late = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = model_file(folder, options.model)
        service = Service("-m", "patchad", "serve", str(model), "--port", "0", "--state", str(folder / "state"))
        until, worked = time.monotonic() + options.seconds, service.cpu()
        memory: list[float] = []

        def work(worker: int) -> None:
            nonlocal late
            caller, first = Caller(service.port), 0
            own = range(worker, options.streams, options.callers)
            due = time.monotonic() + worker / options.callers
            time.sleep(worker / options.callers)
            while time.monotonic() < until:
                for number in own:
                    began = time.monotonic()
                    status, _ = caller.post(f"/v1/streams/s{number}/rows", body_of(run, first, options.rate))
                    statuses[status] += 1
                    latencies.append(time.monotonic() - began)
                first += options.rate
                due += 1.0
                late += time.monotonic() > due
                time.sleep(max(due - time.monotonic(), 0))
            caller.close()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(options.callers)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            memory.append(service.memory())
            time.sleep(1)
        worked = service.cpu() - worked
        service.stop()
    # compared with itself after a third of the time: buffers of streams fill up at first
    begin, end = float(np.median(memory[len(memory) // 3 :][:30])), float(np.median(memory[-30:]))
    print(
        f"{options.streams} streams, {options.rate} rows/s each in one request a second, {options.seconds:g} s: "
        f"{sum(statuses.values()) * options.rate / options.seconds:,.0f} rows/s; {quantiles(latencies)}; "
        f"{1e3 * worked / (sum(statuses.values()) * options.rate):.2f} s of a core for 1,000 rows; "
        f"answers {dict(statuses)}; {late} of {int(options.callers * options.seconds)} seconds late; "
        f"memory {begin:.0f} MB after a third, {end:.0f} MB at the end; load average {os.getloadavg()[0]:.0f}"
    )
    if set(statuses) != {200} or end > GROWTH * begin:
        sys.exit(1)


def measure_kills(options: argparse.Namespace) -> None:
    """Kill the service at random moments under load; print whether a row was lost or doubled."""
    pick = random.Random(options.seed)
    kinds = tuple(FAULTS)
    run = simulate_plant(400 * len(kinds), seed=2, kinds=kinds)
    keys = [f"plant-{number}" for number in range(options.streams)]
    done: dict[str, list[dict[str, Any]]] = {key: [] for key in keys}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = model_file(folder, options.model)
        command = ("-m", "patchad", "serve", str(model), "--port", "0", "--state", str(folder / "state"))
        taken, kills, remarks = dict.fromkeys(keys, 0), 0, 0
        while kills < options.kills:
            service = Service(*command)
            stopped = threading.Event()
            threads = [
                threading.Thread(target=_feed, args=(service.port, key, run, taken, done[key], stopped)) for key in keys
            ]
            for thread in threads:
                thread.start()
            time.sleep(pick.uniform(0.2, options.longest))
            remarks += _acknowledge(service.port, keys[0])
            service.stop(signal.SIGKILL)
            stopped.set()
            for thread in threads:
                thread.join()
            kills += 1
        with Records(folder / "state") as records:
            wrong = [key for key in keys if not _is_whole(records, key, taken[key], done[key], run, model)]
            kept = sum(one.kind == "acknowledge" for one in records.remarks())
    print(
        f"{kills} kills, {sum(taken.values()):,} rows answered in {len(keys)} streams: streams with a row or verdict "
        f"lost, doubled or other than undisturbed {len(wrong)}; acknowledgements {remarks} answered, {kept} kept"
    )
    if wrong or kept < remarks:
        sys.exit(1)


def _feed(
    port: int, key: str, run: Any, taken: dict[str, int], told: list[dict[str, Any]], stopped: threading.Event
) -> None:
    """Send rows until the service is gone; rows without an answer are sent again to the next one."""
    caller = Caller(port)
    try:
        while not stopped.is_set():
            status, answer = caller.post(f"/v1/streams/{key}/rows", body_of(run, taken[key], 7))
            if status == 200:
                taken[key] += 7
                told += answer["verdicts"]
    except (OSError, http.client.HTTPException, ValueError):
        return
    finally:
        caller.close()


def _acknowledge(port: int, key: str) -> int:
    caller = Caller(port)
    try:
        events = caller.get(f"/v1/streams/{key}/events").get("events", [])
        if not events:
            return 0
        status, _ = caller.post(f"/v1/events/{events[-1]['id']}/acknowledge?key={key}", {})
    except (OSError, http.client.HTTPException, ValueError):
        return 0
    finally:
        caller.close()
    return int(status == 200)


def _is_whole(records: Records, key: str, taken: int, told: list[dict[str, Any]], run: Any, model: Path) -> bool:
    """Return whether all answered rows are stored once, and verdicts and events are those of an undisturbed stream."""
    rows = records.rows(key)
    count = len(rows)
    if rows.index.tolist() != list(range(count)) or not taken <= count <= taken + 7:
        return False
    live = load(model).stream()
    verdicts = []
    for first in range(0, count, 7):
        body = body_of(run, first, 7)
        verdicts += live.push_many(body["rows"], body["times"])
    stored = records.verdicts(key)
    same = stored.index.tolist() == [one.index for one in verdicts]
    same = same and np.allclose(stored.numbers["score"], [one.score for one in verdicts], rtol=1e-4, atol=1e-4)
    indices = [one["index"] for one in told]
    events = {one["id"]: one["state"] for one in records.events(key) if one["state"] != "withdrawn"}
    expected = {one.id: one.state for one in live.events if one.state != "withdrawn"}
    return bool(same) and indices == sorted(set(indices)) and events == expected


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("load")
    one.add_argument("--connections", type=int, default=4)
    one.add_argument("--seconds", type=float, default=60)
    one.set_defaults(work=measure_load)
    many = commands.add_parser("streams")
    many.add_argument("--streams", type=int, default=100)
    many.add_argument("--rate", type=int, default=10)
    many.add_argument("--callers", type=int, default=10)
    many.add_argument("--seconds", type=float, default=600)
    many.set_defaults(work=measure_streams)
    kills = commands.add_parser("kills")
    kills.add_argument("--kills", type=int, default=20)
    kills.add_argument("--streams", type=int, default=3)
    kills.add_argument("--longest", type=float, default=3.0)
    kills.add_argument("--seed", type=int, default=0)
    kills.set_defaults(work=measure_kills)
    for command in (one, many, kills):
        command.add_argument("--model", type=Path, help="a model of the plant; by default a small fit")
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()

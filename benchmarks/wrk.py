"""Load `patchad serve` with wrk, beside a bare FastAPI echo on the same machine. `scripts/install-live` installs wrk.

python -m benchmarks.wrk --connections 4 --seconds 60     no error, no lost row
python -m benchmarks.wrk --connections 64 --seconds 60    429s, bounded memory, no crash
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serve import ECHO, ROWS_PER_REQUEST, Service, body_of, model_file

from patchad.datasets.plant import simulate_plant
from patchad.live.records import Records

UNPACKED = Path(__file__).parents[1] / ".venv" / "live" / "usr"
STREAMS = 16
"""Streams of each of wrk's threads; their requests take turns."""
BODIES = 50
PATIENCE = 2.0
"""Seconds that wrk waits for an answer."""
SCRIPT = """
local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local threads, count = 0, 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function request()
  count = count + 1
  local path = "/v1/streams/load-" .. number .. "-" .. count % tonumber(os.getenv("STREAMS")) .. "/rows"
  return wrk.format("POST", path, {["Content-Type"] = "application/json"}, bodies[count % #bodies + 1])
end
function done(summary, latency)
  local errors = summary.errors
  print(string.format("DONE %d %d %d %d %d %d %f %f %f", summary.requests, errors.status, errors.connect, errors.read,
    errors.write, errors.timeout, latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk says of a run."""

    answers: int
    refused: int
    """Answers that are neither 2xx nor 3xx."""
    broken: int
    """Connections, reads and writes that failed, and answers that took longer than was to be waited."""
    p50: float
    p99: float
    longest: float
    """Milliseconds."""

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, most {self.longest:.1f} ms"


def find_wrk() -> str | None:
    """Return where wrk is, if it is installed."""
    unpacked = UNPACKED / "bin" / "wrk"
    return shutil.which("wrk") or (str(unpacked) if unpacked.exists() else None)


def pound(port: int, connections: int, seconds: float, folder: Path, patience: float = PATIENCE) -> Load:
    """Send rows over several connections, as fast as answers come; `patience` seconds are waited for each."""
    run = simulate_plant(BODIES * ROWS_PER_REQUEST, seed=1)
    bodies = [body_of(run, first * ROWS_PER_REQUEST, ROWS_PER_REQUEST)["rows"] for first in range(BODIES)]
    (folder / "bodies").write_text("".join(json.dumps({"rows": rows}) + "\n" for rows in bodies))
    (folder / "load.lua").write_text(SCRIPT)
    libraries = os.pathsep.join(map(str, (UNPACKED / "lib").glob("*-linux-gnu")))
    environment = {"BODIES": str(folder / "bodies"), "STREAMS": str(STREAMS), "LD_LIBRARY_PATH": libraries}
    threads = min(2, connections)
    call = [
        f"-t{threads}",
        f"-c{connections}",
        f"-d{seconds:g}s",
        f"--timeout={patience:g}s",
        "-s",
        str(folder / "load.lua"),
    ]
    told = subprocess.run(
        [find_wrk() or "wrk", *call, f"http://127.0.0.1:{port}"],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.search(r"DONE (.+)", told)
    assert found is not None, told
    counts, latencies = found[1].split()[:6], [float(one) for one in found[1].split()[6:]]
    answers, refused, *broken = map(int, counts)
    return Load(answers, refused, sum(broken[:3]), *latencies)


def statuses(port: int) -> dict[str, int]:
    """Return how many requests with rows were answered so, by the service's own count."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found = re.findall(r'patchad_requests_total\{method="POST",route="[^"]*rows",status="(\d+)"\} (\S+)', text)
    return {status: int(float(count)) for status, count in found}


def measure(model: Path, connections: int, seconds: float, patience: float = PATIENCE) -> tuple[bool, str]:
    """Load a service; return whether it is well, and what came of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = Service("-m", "patchad", "serve", str(model), "--port", "0", "--state", str(folder / "state"))
        try:
            before, worked = service.memory(), service.cpu()
            load = pound(service.port, connections, seconds, folder, patience)
            worked = service.cpu() - worked
            known, after = statuses(service.port), service.memory()
        finally:
            service.stop()
        with Records(folder / "state") as records:
            stored = [records.rows(key).index.tolist() for key in records.keys()]  # noqa: SIM118 - a method of its own
        whole = all(index == list(range(len(index))) for index in stored)
        rows, taken = sum(map(len, stored)), known.get("200", 0) * ROWS_PER_REQUEST
    # what was on its way when wrk hung up is stored, and was not answered
    fits = taken <= rows <= taken + connections * ROWS_PER_REQUEST
    well = whole and fits and not load.broken and set(known) <= {"200", "429"}
    return well, (
        f"{connections} connections, {ROWS_PER_REQUEST} rows of 16 channels a request, {seconds:g} s: "
        f"{taken / seconds:,.0f} rows/s; {load}; {1e3 * worked / max(rows, 1):.2f} s of a core for 1,000 rows; "
        f"answers {known}; {load.broken} connections broken; "
        f"{rows:,} rows stored, {taken:,} answered; memory {before:.0f} to {after:.0f} MB"
    )


def measure_echo(connections: int, seconds: float) -> str:
    """Load an echo; say what came of it."""
    echo = Service("-c", ECHO)
    try:
        with tempfile.TemporaryDirectory() as name:
            load = pound(echo.port, connections, seconds, Path(name))
    finally:
        echo.stop(signal.SIGKILL)
    return f"a bare FastAPI echo: {load.answers * ROWS_PER_REQUEST / seconds:,.0f} rows/s; {load}"


def main() -> None:
    """Measure what the command line asks for; exit 1 where a row was lost or an answer was an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--model", type=Path, help="a model of the plant; by default a small fit")
    options = parser.parse_args()
    if find_wrk() is None:
        sys.exit("wrk is not installed; scripts/install-live installs it")
    with tempfile.TemporaryDirectory() as name:
        well, text = measure(model_file(Path(name), options.model), options.connections, options.seconds)
    print(text)
    print(measure_echo(options.connections, min(options.seconds, 10.0)))
    print(f"load average {os.getloadavg()[0]:.0f}")
    sys.exit(not well)


if __name__ == "__main__":
    main()

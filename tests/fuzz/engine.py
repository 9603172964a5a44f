"""Run hostile inputs in a process of their own, with a limit on the time of each; count what happens."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
RAM_DISK = Path("/dev/shm")
SECONDS = 180.0
"""An input that takes longer hangs; the machine may be busy."""


@dataclass(slots=True)
class Tally:
    """What came of inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """By kind of input and exit code or error."""
    problems: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    ram: int = 0
    """Most bytes that a process took."""

    def add(self, found: dict[str, Any]) -> None:
        """Count one input."""
        self.inputs += 1
        self.outcomes[f"{found['kind']} {found['code']}"] += 1
        self.seconds += found["seconds"]
        self.slowest = max(self.slowest, found["seconds"])
        self.ram = max(self.ram, found["ram"])
        if found["problem"] is not None:
            self.problems.append(found)


def run_inputs(
    seed: int, start: int, stop: int, *, workers: int = 1, limit: float = SECONDS, patience: float = 300.0
) -> Tally:
    """Run the inputs of a seed from one number to another.

    Parameters
    ----------
    seed, start, stop
        Which inputs.
    workers
        Processes; each has its own share of the numbers.
    limit
        Seconds that an input may take.
    patience
        Further seconds for the first answer of a process, which imports and fits.
    """
    bounds = [start + (stop - start) * i // workers for i in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        shares = [pool.submit(_run_share, seed, *share, limit, patience) for share in pairwise(bounds)]
        tally = Tally()
        for share in shares:
            for found in share.result():
                tally.add(found)
    return tally


def _run_share(seed: int, start: int, stop: int, limit: float, patience: float) -> list[dict[str, Any]]:
    every: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=RAM_DISK if RAM_DISK.is_dir() else None) as folder:
        while start < stop:
            for found in _answers(Path(folder), seed, start, stop, limit, patience):
                every.append(found)
                start = found["n"] + 1
    return every


def _answers(folder: Path, seed: int, start: int, stop: int, limit: float, patience: float) -> Iterator[dict[str, Any]]:
    """Yield what a worker answers; when it hangs or dies, say so and stop."""
    command = [sys.executable, "-m", "tests.fuzz.worker", str(folder), str(seed), str(start), str(stop)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    worker = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    lines: queue.Queue[str] = queue.Queue()
    errors: list[str] = []
    readers = [
        threading.Thread(target=_forward, args=(worker.stdout, lines.put), daemon=True),
        threading.Thread(target=_forward, args=(worker.stderr, errors.append), daemon=True),
    ]
    for reader in readers:
        reader.start()
    number, left = start, limit + patience
    try:
        while number < stop:
            try:
                line = lines.get(timeout=left)
            except queue.Empty:
                yield _failure(number, "hang", f"no answer in {left:.0f} s")
                return
            if not line:
                worker.wait()
                yield _failure(number, "crash", f"exit code {worker.returncode}: {''.join(errors)[-1000:]}")
                return
            found = json.loads(line)
            yield found
            number, left = found["n"] + 1, limit
    finally:
        worker.kill()
        worker.wait()
        for reader in readers:
            reader.join()


def _forward(stream: IO[str] | None, take: Any) -> None:
    assert stream is not None
    with stream:
        for line in stream:
            take(line)
    take("")


def _failure(number: int, code: str, problem: str) -> dict[str, Any]:
    return {"n": number, "kind": "any", "code": code, "what": "", "problem": problem, "seconds": 0.0, "ram": 0}

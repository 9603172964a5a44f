"""Kill runs of fit, detect and bench at random moments; the next run must leave whole files of one set.

`python -m tests.fuzz.kills SEED START STOP` forks a child for every number from this process, which has loaded
everything, and prints a line of JSON for each. Half of the kills fall while the child writes its files.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from patchad import load
from patchad.bench.records import identity, read_records
from patchad.cli.main import run
from patchad.data import files
from tests.fuzz.engine import RAM_DISK
from tests.fuzz.worker import make_workshop

SET = ("scores.csv", "events.json", "report.html")
BENCH = ("--detectors", "random,last_difference", "--seeds", "1", "--workers", "1", "--limit", "4")


@dataclass(frozen=True, slots=True)
class Target:
    """A command to kill, and how to tell whether what it left is whole."""

    arguments: Callable[[Path, Path], list[str]]
    """From the model and the folder to write to."""
    prepare: Callable[[Path, Path], None]
    """Leaves in the folder what an earlier run would have."""
    problem: Callable[[Path, Path], str | None]
    """What is wrong after the next run."""


def _detect(model: Path, out: Path) -> list[str]:
    names = [text for pair in zip(("-o", "--events", "--report"), SET, strict=True) for text in pair]
    return ["detect", str(model), str(model.with_name("odd.csv")), *(str(out / n) if "." in n else n for n in names)]


def _old_set(_: Path, out: Path) -> None:
    for name in SET:
        (out / name).write_text("old")


def _mixed(_: Path, out: Path) -> str | None:
    files.write_whole({out / "next": b"1"})
    contents = [(out / name).read_bytes() for name in SET]
    old = [content == b"old" for content in contents]
    whole = b"</html>" in contents[2][-20:] and contents[1].endswith(b"]") and contents[0].count(b"\n") == 81
    if any(old) and not all(old):
        return f"a mixed set: {old}"
    return None if all(old) or whole else "a torn file"


def _fit(model: Path, out: Path) -> list[str]:
    settings = ("window=12", "max_steps=5", "d_model=4", "layers=1", "memory=400", "verbose=False")
    sets = [text for one in settings for text in ("--set", one)]
    return ["fit", str(model.with_name("calm.csv")), "-o", str(out / "model.safetensors"), *sets]


def _old_model(model: Path, out: Path) -> None:
    shutil.copy(model, out / "model.safetensors")


def _no_model(_: Path, out: Path) -> str | None:
    files.write_whole({out / "next": b"1"})
    load(out / "model.safetensors")
    return None


def _bench(_: Path, out: Path) -> list[str]:
    return ["bench", "run", "smoke", "-o", str(out / "records.jsonl"), *BENCH]


def _nothing(_: Path, out: Path) -> None:
    pass


def _lost_records(model: Path, out: Path) -> str | None:
    path = out / "records.jsonl"
    before = {identity(record) for record in read_records(path)} if path.exists() else set()
    if run(_bench(model, out)) != 0:
        return "the run cannot be resumed"
    after = [identity(record) for record in read_records(path)]
    if not before <= set(after) or len(after) != 4 or len(set(after)) != 4:
        return f"{len(before)} records before, {len(after)} after"
    return None


TARGETS = {
    "detect": Target(_detect, _old_set, _mixed),
    "fit": Target(_fit, _old_model, _no_model),
    "bench": Target(_bench, _nothing, _lost_records),
}


def kill_one(seed: int, number: int, model: Path, durations: dict[str, float]) -> dict[str, object]:
    """Start one command, kill it, and look at what the next run leaves."""
    rng = random.Random(f"{seed} {number}")
    name = rng.choice(["detect", "detect", "fit", "bench"])
    target = TARGETS[name]
    with tempfile.TemporaryDirectory(dir=RAM_DISK if RAM_DISK.is_dir() else None) as folder:
        out = Path(folder)
        target.prepare(model, out)
        if name not in durations:
            began = time.monotonic()
            _run_and_kill(target.arguments(model, out), lambda _: None)
            durations[name] = time.monotonic() - began
            target.prepare(model, out)
        moment = rng.random()
        writing = name != "bench" and rng.random() < 0.5

        def wait(begun: int) -> None:
            if writing:
                select.select([begun], [], [], 60)
                time.sleep(moment**2 * 0.02)
            else:
                time.sleep(moment * durations[name])

        killed = _run_and_kill(target.arguments(model, out), wait, kill=True)
        try:
            problem = target.problem(model, out)
        except Exception as error:  # noqa: BLE001 - whatever it is, the files are no good
            problem = repr(error)
        left = [path.name for path in out.glob(".patchad-*")]
        return {"n": number, "command": name, "killed": killed, "problem": f"left {left}" if left else problem}


def _run_and_kill(arguments: list[str], wait: Callable[[int], None], *, kill: bool = False) -> bool:
    """Run a command in a child; wait, and kill it. Return whether it was still running."""
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(begun)
        _tell_when_writing(begins)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):  # noqa: PTH123
            code = run(arguments)
        os._exit(code)
    os.close(begins)
    wait(begun)
    if kill:
        os.kill(child, signal.SIGKILL)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(begun)
    return ended == -signal.SIGKILL


def _tell_when_writing(begins: int) -> None:
    original = files._stage

    def stage(contents):
        os.write(begins, b"1")
        return original(contents)

    files._stage = stage


def main(arguments: list[str]) -> None:
    """Kill the runs from START to STOP."""
    seed, start, stop = map(int, arguments)
    torch.set_num_threads(1)  # a fork of a process with more threads would hang
    durations: dict[str, float] = {}
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with tempfile.TemporaryDirectory(dir=RAM_DISK if RAM_DISK.is_dir() else None) as folder:
        model = make_workshop(Path(folder))
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):  # noqa: PTH123
            run(
                ["detect", str(model), str(model.with_name("odd.csv")), "--report", str(Path(folder) / "r.html")]
            )  # imports
            for number in range(start, stop):
                answers.write(json.dumps(kill_one(seed, number, model, durations)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

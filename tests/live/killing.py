"""`patchad watch` as a process that is killed at random moments, and what it must have stored in the end."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import WATCHED, waves
from tests.live.servers import PATIENCE, wait_for
from tests.live.telling import read

from patchad.detectors.base import Detector
from patchad.live.sinks.file import FileSink
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Watch


def faulty_lines(rows: int, key: str | None = "pump") -> list[str]:
    """Return rows with a fault in every 500, as JSON."""
    values = waves(rows, seed=1)
    for start in range(200, rows, 500):
        values[start : start + 40, 1] += 6.0
    times = np.datetime64("2026-01-01T00:00:00") + np.arange(rows)
    names = {} if key is None else {"key": key}
    return [
        json.dumps(names | {"time": str(time), "values": dict(zip(WATCHED, row.round(4).tolist(), strict=True))})
        for time, row in zip(times, values, strict=True)
    ]


class Watcher:
    """A process of `patchad watch`, or `serve`, with a state, which is started again after each kill."""

    def __init__(self, model: Path, source: str, folder: Path, command: str = "watch", *more: str) -> None:
        self.out, self.state = folder / "out.jsonl", folder / "watch.db"
        self._log = folder / "watch.log"
        self._arguments = [sys.executable, "-m", "patchad", command, str(model), "--from", source, *more]
        self._arguments += ["--to", f"file:{self.out}", "--state", str(self.state), "--log-level", "info"]
        settings = folder / "watch.toml"
        settings.write_text("[streams]\nsilence = 0\n")  # kills, and a busy machine, are silent for longer
        self._arguments += ["--config", str(settings)]
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._before = log.tell()
            self._process = subprocess.Popen(self._arguments, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and check that it did so in order."""
        self._process.terminate()
        assert self._process.wait(PATIENCE) == 0, self.log()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        return self._log.read_text()

    def wait_until_said(self, words: str) -> None:
        """Wait until the process that runs now has said something."""
        wait_for(lambda: words in self._log.read_bytes()[self._before :].decode(), what=words)

    def told(self) -> int:
        """Return how many lines there are."""
        return self.out.read_bytes().count(b"\n") if self.out.exists() else 0

    def wait_until_ready(self) -> None:
        """Wait until its source is connected."""
        wait_for(lambda: not self.runs or ": ready" in self.log(), what="a connection")
        assert self.runs, self.log()

    def wait_for(self, count: int) -> None:
        """Wait until that many verdicts are there."""

        def enough() -> bool:
            assert self.runs, self.log()
            return self.told() >= count and len(read(self.out.read_text())[0]) >= count

        try:
            wait_for(enough, what=f"verdict {count}")
        except TimeoutError as error:
            raise AssertionError(f"{error}, but {self.told()} lines; the end of its log: {self.log()[-800:]}") from None


def undisturbed(model: Detector, lines: Sequence[str], folder: Path) -> tuple[list[dict], list[dict]]:
    """Return the verdicts and event lines of a run that nothing disturbs, stopped after the last row."""
    (folder / "rows").write_text("".join(f"{line}\n" for line in lines))
    watch = Watch(model, [make_source(f"file:{folder / 'rows'}")], [make_sink(f"file:{folder / 'whole'}")], Store())
    watch._flush = lambda: None  # type: ignore[method-assign]
    watch.run(lambda: watch.counts.rows == len(lines))
    return read((folder / "whole").read_text())


def assert_equals(out: Path, expected: tuple[list[dict], list[dict]]) -> None:
    """Check that each row has one verdict, and that events are those of an undisturbed run, each line once."""
    verdicts, told = read(out.read_text())
    whole, events = expected
    assert [one["time"] for one in verdicts] == [one["time"] for one in whole]
    assert verdicts == whole
    assert told == events


def disturb(watcher: Watcher, rows: int, actions: Sequence[Callable[[], None]], rng: random.Random) -> None:
    """Do each of some things, in a random order, when random numbers of rows are done."""
    marks = sorted(rng.randint(rows // 20, rows * 17 // 20) for _ in actions)
    for mark, action in zip(marks, rng.sample(list(actions), len(actions)), strict=True):
        wait_for(lambda mark=mark: watcher.told() >= mark or not watcher.runs, what=f"line {mark}")
        assert watcher.runs, watcher.log()
        time.sleep(rng.uniform(0.0, 0.3))
        action()


class KilledError(BaseException):
    """Stands for the end of the process."""


def make_deadly(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> list[int]:
    """Let one of the calls that store and write be the last; return how many are left, to be set.

    It is not done, done, or half done when the process ends.
    """
    left = [0]

    def deadly(owner: type, name: str, *, torn: bool = False) -> None:
        original = getattr(owner, name)

        def call(self, *values, **named):
            left[0] -= 1
            if left[0] == 0 and rng.random() < 0.5:
                original(self, *values, **named)  # killed right after it
            elif left[0] == 0 and torn:
                original(self, [line[:-3] for line in values[0]])
            if left[0] <= 0:
                raise KilledError
            return original(self, *values, **named)

        monkeypatch.setattr(owner, name, call)

    deadly(Store, "commit")
    deadly(Store, "confirm")
    deadly(FileSink, "write", torn=True)
    return left

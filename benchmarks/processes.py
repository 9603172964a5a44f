"""Follow this process and its children: CPU seconds and RAM."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class Watch:
    """Follow this process and its children: CPU seconds, and RAM, what is their own and once what they share."""

    def __init__(self, *, ram: bool = True) -> None:
        self._ram = ram

    def __enter__(self) -> Watch:
        self.peak, self._stopped = 0, threading.Event()
        self._seconds: dict[int, float] = {}
        self._look()
        self._before = sum(self._seconds.values())
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._look()

    @property
    def cpu(self) -> float:
        """CPU seconds since the start."""
        return sum(self._seconds.values()) - self._before

    def _follow(self) -> None:
        while not self._stopped.wait(0.2):
            self._look()

    def _look(self) -> None:
        family = _family(os.getpid())
        for number in family:
            self._seconds[number] = max(self._seconds.get(number, 0.0), _cpu_seconds(number))
        if self._ram:
            self.peak = max(self.peak, sum(_proportional(number) for number in family))


def _cpu_seconds(number: int) -> float:
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _family(parent: int) -> list[int]:
    found = [parent]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def _proportional(number: int) -> int:
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))

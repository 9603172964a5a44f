"""Memory that fitting and scoring add to the loaded data, at 1,000,000 rows x 38 channels. Prints the peaks.

python benchmarks/memory.py [--rows 1000000] [--channels 38]
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np

from patchad import PatchAD

MIB = 2**20


class Peak:
    """The highest resident memory of this process while the block runs, looked at every 5 ms."""

    def __enter__(self) -> Peak:
        self.start = self.highest = resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.highest = max(self.highest, resident())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def added(self) -> float:
        """In MiB, over what there was at the start."""
        return (self.highest - self.start) / MIB


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    fields = Path("/proc/self/status").read_text().split()
    return 1024 * int(fields[fields.index("VmRSS:") + 1])


def main() -> None:
    """Measure fit, decision_function and detect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--channels", type=int, default=38)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    data = np.empty((arguments.rows, arguments.channels), dtype=np.float32)
    for channel in range(arguments.channels):
        data[:, channel] = np.sin(np.arange(arguments.rows) / (5 + channel)) + 0.1 * rng.standard_normal(arguments.rows)
    PatchAD().fit(data[:1000])  # loads torch and warms its threads
    print(f"data: {data.nbytes / MIB:.0f} MiB ({arguments.rows:,} x {arguments.channels} float32)")
    detector = PatchAD()
    for name, call in (
        ("fit", lambda: detector.fit(data)),
        ("decision_function", lambda: detector.decision_function(data)),
        ("detect", lambda: detector.detect(data)),
    ):
        with Peak() as peak:
            began = time.perf_counter()
            call()
        print(f"{name}: {peak.added:.0f} MiB added at the peak, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()

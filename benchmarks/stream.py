"""How fast streams are, how long verdicts wait, and how much memory they need.

    python -m benchmarks.stream speed                  # one stream beside batch, in rows per second
    python -m benchmarks.stream pool --streams 1000    # a pool beside single streams
    python -m benchmarks.stream latency                # milliseconds from a row to its verdicts
    python -m benchmarks.stream memory --rows 1000000  # resident memory along the rows
    python -m benchmarks.stream early --hop 10 --data DIR  # rows from a fault to the first word

Every part prints a line of JSON for each figure; compare figures of one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.early import studies

from patchad import PatchAD, StreamPool
from patchad.datasets.backgrounds import calm

BACKGROUND = "waves"
TRAIN_ROWS = 2_000


def tell(**figures: Any) -> None:
    """Print figures as a line of JSON."""
    print(json.dumps({name: round(x, 4) if isinstance(x, float) else x for name, x in figures.items()}), flush=True)


def fitted(channels: int, hop: int) -> tuple[PatchAD, Callable[[int, int], np.ndarray]]:
    """Return a fitted detector, and what makes normal rows of the same process."""
    detector = PatchAD(hop=hop).fit(series(TRAIN_ROWS, channels, 0))
    return detector, lambda rows, stream: series(rows, channels, stream)


def series(rows: int, channels: int, stream: int) -> np.ndarray:
    """Make normal rows of one process."""
    return calm(BACKGROUND, rows, channels, seed=0, stream=stream)


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows per second, by the clock and by the work of all cores: the latter holds on a busy machine too."""

    wall: float
    cpu: float

    @classmethod
    def of(cls, rows: int, call: Callable[[], object]) -> Rate:
        """Measure a call that works on so many rows."""
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        return cls(rows / (time.perf_counter() - wall), rows / (time.process_time() - cpu))

    def beside(self, other: Rate) -> dict[str, float]:
        """Return the rates, and their ratios to others."""
        return {
            "rows_per_second": self.wall,
            "rows_per_cpu_second": self.cpu,
            "ratio": self.wall / other.wall,
            "cpu_ratio": self.cpu / other.cpu,
        }


def speed(rows: int, channels: int, hop: int) -> None:
    """Measure rows per second of one stream, for several rows at once, beside batch."""
    detector, make_rows = fitted(channels, hop)
    data = make_rows(rows, 1)
    detector.decision_function(data[:500])
    batch = Rate.of(rows, lambda: detector.decision_function(data))
    tell(part="speed", what="batch decision_function", channels=channels, hop=hop, **batch.beside(batch))
    detect = Rate.of(rows, lambda: detector.detect(data))
    tell(part="speed", what="batch detect", channels=channels, hop=hop, **detect.beside(batch))
    for many in (1, 10, 100, 1000):
        live = detector.stream()
        live.push_many(data[:200])
        own = data[200 : max(rows // (4 if many == 1 else 1), 500)]
        rate = Rate.of(len(own), lambda: [live.push_many(own[a : a + many]) for a in range(0, len(own), many)])  # noqa: B023
        tell(part="speed", what=f"stream, {many} at once", channels=channels, hop=hop, **rate.beside(batch))


def pool(streams: int, rows: int, channels: int, hop: int) -> None:
    """Measure rows per second of a pool beside single streams, a row of each stream at a time."""
    detector, make_rows = fitted(channels, hop)
    data = make_rows(rows + 100, 1)
    few = min(streams, 20)
    singles = [detector.stream() for _ in range(few)]
    for live in singles:
        live.push_many(data[:100])
    single = Rate.of(few * rows, lambda: [live.push(row) for row in data[100:] for live in singles])
    tell(part="pool", what="single streams", streams=few, channels=channels, hop=hop, **single.beside(single))
    together = StreamPool(detector)
    together.push_many(dict.fromkeys(range(streams), data[:100]))
    push = lambda: [together.push_many(dict.fromkeys(range(streams), row[None])) for row in data[100:]]  # noqa: E731
    rate = Rate.of(streams * rows, push)
    tell(part="pool", what="pool", streams=streams, channels=channels, hop=hop, **rate.beside(single))


def latency(rows: int, channels: int, hop: int) -> None:
    """Measure the time of a push and of an outlook, and the rows that a verdict waits."""
    detector, make_rows = fitted(channels, hop)
    data = make_rows(rows, 1)
    live = detector.stream()
    pushes, outlooks, waits = [], [], []
    for number, row in enumerate(data):
        start = time.perf_counter()
        found = live.push(row)
        pushes.append(time.perf_counter() - start)
        waits += [number - verdict.index for verdict in found]
        if number % 20 == 0:
            start = time.perf_counter()
            live.outlook()
            outlooks.append(time.perf_counter() - start)
    for what, taken in (("push", pushes[100:]), ("outlook", outlooks[5:])):
        p50, p99 = 1e3 * np.quantile(taken, [0.5, 0.99])
        tell(part="latency", what=what, channels=channels, p50_ms=float(p50), p99_ms=float(p99))
    p50, p99 = np.quantile(waits, [0.5, 0.99])
    tell(part="latency", what="rows until the final verdict", channels=channels, p50=float(p50), p99=float(p99))


def memory(rows: int, channels: int, hop: int) -> None:
    """Measure resident memory after a tenth of the rows and after each further tenth."""
    detector, make_rows = fitted(channels, hop)
    data = make_rows(20_000, 1)
    live = detector.stream()
    sizes = []
    for start in range(0, rows, 1000):
        live.push_many(data[start % 20_000 : start % 20_000 + 1000])
        if (start + 1000) % max(rows // 10, 1000) == 0:
            sizes.append(resident())
            tell(part="memory", rows=start + 1000, megabytes=sizes[-1], snapshot=len(live.snapshot()))
    tell(part="memory", growth=sizes[-1] / sizes[0] - 1, events=len(live.events))


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "pool", "latency", "memory", "early"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--hop", type=int, default=5)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", type=Path, help="folder of the real series, for `early`")
    asked = parser.parse_args()
    channels = asked.channels or (10 if asked.part == "pool" else 38)
    if asked.part == "early":
        for what, words in studies(asked.data, asked.hop, asked.seeds):
            tell(part="early", what=what, hop=asked.hop, **words.figures())
    elif asked.part == "pool":
        pool(asked.streams, asked.rows or 100, channels, asked.hop)
    else:
        work = {"speed": speed, "latency": latency, "memory": memory}[asked.part]
        work(asked.rows or {"speed": 8_000, "latency": 2_000, "memory": 1_000_000}[asked.part], channels, asked.hop)


if __name__ == "__main__":
    main()

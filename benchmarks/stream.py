"""How fast streams are, how long verdicts wait, and how much memory they need.

    python -m benchmarks.stream speed                  # one stream beside batch, in rows per second
    python -m benchmarks.stream pool --streams 1000    # a pool beside single streams
    python -m benchmarks.stream latency                # milliseconds from a row to its verdicts
    python -m benchmarks.stream memory --rows 1000000  # resident memory along the rows
    python -m benchmarks.stream memory --streams 1000 --rows 10000 --method moving_zscore  # of a pool
    python -m benchmarks.stream early --hop 10 --data DIR  # rows from a fault to the first word
    python -m benchmarks.stream river                  # beside River's HalfSpaceTrees: rows per second and event F1

Every part prints a line of JSON for each figure; compare figures of one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.early import studies

from patchad import PatchAD, StreamPool, make
from patchad.datasets.backgrounds import calm
from patchad.datasets.faults import FAULT_KINDS, PlannedFault, faulty
from patchad.metrics import event_f1
from patchad.streaming.verdict import Verdict

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
        wall, cpu = timed(call)[1]
        return cls(rows / wall, rows / cpu)

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
    many = make_rows(4_000, 2)
    batch = Rate.of(len(many), lambda: detector.decision_function(many))
    tell(part="pool", what="batch decision_function", channels=channels, hop=hop, **batch.beside(single))
    tell(part="pool", what="pool", streams=streams, channels=channels, hop=hop, **rate.beside(single))


def latency(rows: int, channels: int, hop: int) -> None:
    """Measure how long a row waits for the first word and for its final verdict, in rows and in the time of a push."""
    detector, make_rows = fitted(channels, hop)
    live = detector.stream()
    taken: dict[str, list[tuple[float, float]]] = {"provisional": [], "final": [], "outlook": []}
    waits: dict[str, list[int]] = {"provisional": [], "final": []}
    unseen = 0
    for number, row in enumerate(make_rows(rows, 1)):
        found, clocks = timed(lambda: live.push(row))  # noqa: B023
        if number < 3 * detector.window_:
            continue
        unseen += 1
        if (number + 1 - detector.window_) % hop == 0:  # a window is due, and sees the rows since the one before
            taken["provisional"].append(clocks)
            waits["provisional"] += range(unseen)
            unseen = 0
            taken["outlook"].append(timed(live.outlook)[1])
        if found:
            taken["final"].append(clocks)
            waits["final"] += [number - verdict.index for verdict in found]
    for what, both in taken.items():
        (few, few_cpu), (many, many_cpu) = 1e3 * np.quantile(both, [0.5, 0.99], axis=0)
        figures = {"p50_ms": few, "p99_ms": many, "p50_cpu_ms": few_cpu, "p99_cpu_ms": many_cpu}
        if what in waits:
            figures |= zip(("p50_rows", "p99_rows"), np.quantile(waits[what], [0.5, 0.99]), strict=True)
        tell(part="latency", what=what, channels=channels, hop=hop, **{name: float(x) for name, x in figures.items()})


def timed(call: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Return what a call returns, and its seconds by the clock and by the work of all cores."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, (time.perf_counter() - wall, time.process_time() - cpu)


def memory(rows: int, channels: int, hop: int, streams: int, method: str) -> None:
    """Measure resident memory after a tenth of the rows and after each further tenth."""
    many = streams > 1
    train = series(TRAIN_ROWS, channels, 0)
    detector = (PatchAD(hop=hop) if method == "patchad" else make(method)).fit(train)
    data = series(20_000, channels, 1)
    live, part = StreamPool(detector), 250 if many else 1000
    sizes = []
    for start in range(0, rows, part):
        own = data[start % len(data) : start % len(data) + part]
        live.push_many(dict.fromkeys(range(streams), own))
        if (start + part) % max(rows // 10 // part * part, part) == 0:
            sizes.append(resident())
            about = {"rows": start + part, "streams": streams, "megabytes": sizes[-1]}
            tell(part="memory", method=method, channels=channels, **about, snapshot=len(live.snapshot_stream(0)))
    events = sum(map(len, live.events.values()))
    tell(part="memory", method=method, streams=streams, rows=rows, growth=sizes[-1] / sizes[0] - 1, events=events)


def beside_river(channels: int, hop: int) -> None:
    """Measure rows per second and event F1 of a stream and of River's HalfSpaceTrees, on the same rows with faults.

    Both learn from the same train. A score of HalfSpaceTrees alarms over the highest of the last fifth of train.
    """
    try:
        from river.anomaly import HalfSpaceTrees
        from river.compose import Pipeline
        from river.preprocessing import MinMaxScaler
    except ImportError:
        raise SystemExit(
            "river is not installed; run `pip install river`, or use the environment .venv-river"
        ) from None
    plan = [PlannedFault(kind, 100, 4.0 if FAULT_KINDS[kind].sized else None) for kind in FAULT_KINDS]
    train = series(TRAIN_ROWS, channels, 0)
    test, faults = faulty(BACKGROUND, channels, plan, spacing=400)
    labels = np.zeros(len(test), dtype=bool)
    for one in faults:
        labels[one.start : one.stop] = True
    trees = Pipeline(MinMaxScaler(), HalfSpaceTrees(seed=0, window_size=250))

    def score(values: np.ndarray) -> np.ndarray:
        found = []
        for row in values:
            named = dict(enumerate(row.tolist()))
            found.append(trees.score_one(named))
            trees.learn_one(named)
        return np.array(found)

    level = score(train)[-TRAIN_ROWS // 5 :].max()
    scores: list[np.ndarray] = []
    rate = Rate.of(len(test), lambda: scores.append(score(test)))
    found = event_f1(labels=labels, alarms=scores[0] > level)
    tell(part="river", what="HalfSpaceTrees", channels=channels, rows=len(test), event_f1=found, **asdict(rate))
    live = PatchAD(hop=hop).fit(train).stream()
    verdicts: list[Verdict] = []
    rate = Rate.of(len(test), lambda: verdicts.extend(one for row in test for one in live.push(row)))
    verdicts += live.flush()
    found = event_f1(labels=labels, alarms=np.array([one.alarm for one in verdicts]))
    tell(part="river", what="PatchAD", channels=channels, rows=len(test), event_f1=found, **asdict(rate))


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "pool", "latency", "memory", "early", "river"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--hop", type=int, default=5)
    parser.add_argument("--streams", type=int, help="of the pool; 1,000, and 1 for memory")
    parser.add_argument("--method", default="patchad", help="the detector, for `memory`")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", type=Path, help="folder of the real series, for `early`")
    asked = parser.parse_args()
    channels = asked.channels or (38 if asked.part in ("speed", "latency") else 10)
    if asked.part == "early":
        for what, words in studies(asked.data, asked.hop, asked.seeds):
            tell(part="early", what=what, hop=asked.hop, **words.figures())
    elif asked.part == "pool":
        pool(asked.streams or 1000, asked.rows or 100, channels, asked.hop)
    elif asked.part == "memory":
        memory(asked.rows or 1_000_000, channels, asked.hop, asked.streams or 1, asked.method)
    elif asked.part == "river":
        beside_river(channels, asked.hop)
    else:
        work = {"speed": speed, "latency": latency}[asked.part]
        work(asked.rows or {"speed": 8_000, "latency": 2_000}[asked.part], channels, asked.hop)


if __name__ == "__main__":
    main()

"""Measure a fleet: engines, very long series in shards, training many nets at once, and what sharing a net costs.

    OMP_NUM_THREADS=1 python -m benchmarks.fleet efficiency [--series 40] [--rows 10000] [--rounds 5]
    OMP_NUM_THREADS=1 python -m benchmarks.fleet long [--rows 20000000] [--channels 10] [--detector patchad] [--compare]
    python -m benchmarks.fleet together [--nets 200] [--channels 10] [--steps 300] [--device cuda] [--workers 16]
    OMP_NUM_THREADS=1 python -m benchmarks.fleet modes --data DIR [--entities 3] [--steps 300] [--workers 16]
    OMP_NUM_THREADS=1 python -m benchmarks.fleet promise [--series 100] [--rows 10000] [--rate 10] [--rounds 5]

`efficiency` judges the same series with one process, two processes of joblib and two workers of Ray, one after the
other in every round, and prints the median time of each, the start of the workers included, and the CPU seconds of all
processes, which tell the cost of an engine also where other programs keep the machine busy.

`long` writes a parquet file of that many rows, judges it in shards by two workers, and prints rows per second and the
peak RAM of all processes; with `--compare` it also judges the file in one pass and compares scores, alarms and events.
A file of 8,700,000 rows and 100 channels has 5 GB.

`together` fits detectors at once and one after the other, in turns, the latter in this process; `--workers` are the
processes that prepare the series and learn all but the nets, whose start is not counted, and `--alone` the detectors
that are fitted one after the other, whose time is scaled.

`modes` fits families of equal channels with a net for each series, one for all, and one for all that is tuned, and
prints VUS-PR and the seconds of a series, those of the fleet over the number of its series. With `--weights`, a folder
that `training.leave_one_out` made, each series is also fitted with a pretrained net that never saw the family.
`--entities` takes the series with the fewest rows only, `--records` is a file for a line of JSON for each. DIR holds
datasets.

`promise` judges fault-free fleets under `--fleet-false-alarms` and counts their events.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from benchmarks.processes import Watch

from patchad import load, make

CHANNELS = 10
ENGINES = {"one process": ("local", 1), "joblib, 2 workers": ("local", 2), "Ray, 2 workers": ("ray", 2)}


def values(rows: int, seed: int, faults: int = 3, channels: int = CHANNELS) -> np.ndarray:
    """Give correlated channels with a few steps."""
    random = np.random.default_rng(seed)
    phases = np.arange(rows, dtype=np.float32)[:, None] / 30 + np.arange(channels, dtype=np.float32) * 0.7
    found = np.sin(phases) + 0.1 * random.standard_normal((rows, channels), dtype=np.float32)
    for start in random.integers(0, max(rows - 60, 1), faults):
        found[start : start + 50, random.integers(channels)] += 4.0
    return found.astype(np.float32)


def frame(rows: int, seed: int, first: int = 0, channels: int = CHANNELS) -> pd.DataFrame:
    """Give rows of a second each."""
    table = pd.DataFrame(values(rows, seed, channels=channels), columns=[f"c{number}" for number in range(channels)])
    table.insert(0, "time", pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(first, first + rows), unit="s"))
    return table


def model(folder: Path, name: str = "patchad", channels: int = CHANNELS) -> Path:
    """Fit a model with the default settings."""
    train = pd.DataFrame(
        values(6000, 0, faults=0, channels=channels), columns=[f"c{number}" for number in range(channels)]
    )
    return make(name).fit(train).save(folder / "model.safetensors")


def efficiency(series: int, rows: int, rounds: int) -> None:
    """Compare the engines."""
    from patchad.fleet.detecting import Job, detect_fleet
    from patchad.fleet.runner import make_runner

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        for number in range(series):
            frame(rows, number + 1).to_parquet(folder / "data" / f"s{number}.parquet", index=False)
        path = model(folder)
        seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        cpu: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for turn in range(rounds):
            for engine, (kind, workers) in ENGINES.items():
                out = folder / f"{kind}{workers}-{turn}"
                job = Job(model=path, data=(str(folder / "data"),), out=out)
                began = time.perf_counter()
                with Watch(ram=False) as watch, make_runner(kind, workers, None) as runner:
                    detect_fleet(job, runner)
                seconds[engine].append(time.perf_counter() - began)
                cpu[engine].append(watch.cpu)
                print(f"round {turn + 1} {engine:<18} {seconds[engine][-1]:7.1f} s, CPU {watch.cpu:.1f} s", flush=True)
    alone = median(seconds["one process"])
    print(f"\n{series} series of {rows:,} rows x {CHANNELS} channels; load average {os.getloadavg()[0]:.1f}")
    print(f"{'engine':<20}{'seconds':>9}{'rows/s':>10}{'efficiency':>12}{'CPU s':>8}{'rows per CPU s':>16}")
    for engine, (_, workers) in ENGINES.items():
        own = median(seconds[engine])
        used = median(cpu[engine])
        print(
            f"{engine:<20}{own:>9.1f}{series * rows / own:>10,.0f}{alone / own / workers:>12.0%}"
            f"{used:>8.1f}{series * rows / used:>16,.0f}"
        )


def write_long(path: Path, rows: int, channels: int) -> None:
    """Write a parquet file of one series, a part at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    part = 10_000_000 // channels
    writer = None
    for first in range(0, rows, part):
        own = frame(min(part, rows - first), first + 1, first, channels)
        table = pa.Table.from_pandas(own, preserve_index=False)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=1_000_000 // channels)
    if writer is not None:
        writer.close()


def long(rows: int, channels: int, detector: str, *, compare: bool) -> None:
    """Judge a very long series."""
    from patchad.fleet.detecting import Job, detect_fleet
    from patchad.fleet.runner import make_runner

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "long.parquet"
        write_long(path, rows, channels)
        fitted = model(folder, detector, channels)
        job = Job(model=fitted, data=(str(path),), out=folder / "out", long_rows=1)
        began = time.perf_counter()
        with Watch() as watch, make_runner("local", 2, None) as runner:
            outcome = detect_fleet(job, runner)
        own = time.perf_counter() - began
        events = [dict(event) for event in outcome.results[0].events]
        size = f"{detector}, {rows:,} rows x {channels} channels, {path.stat().st_size / 1e6:,.0f} MB"
        print(f"{size}: {own:.0f} s, {rows / own:,.0f} rows/s with two workers; {watch.cpu:.0f} CPU seconds")
        ram = f"at most {watch.peak / 1e9:.2f} GB of RAM in all"
        print(f"{len(events)} events; {ram}; load average {os.getloadavg()[0]:.1f}")
        if compare:
            one = load(fitted).detect(pd.read_parquet(path))
            found = pd.read_parquet(folder / "out" / "scores" / "long.parquet", columns=["score", "alarm"])
            print(f"greatest difference of scores {np.abs(found['score'] - one.scores).max():.2g}")
            print("alarms equal:", bool((found["alarm"] == one.alarms).all()))
            wanted = json.loads(json.dumps([event.to_dict() for event in one.events]))
            same = [{k: v for k, v in event.items() if k in ("id", "start", "stop", "kind")} for event in events]
            print("events equal:", same == [{k: event[k] for k in same[0]} for event in wanted] if same else not wanted)


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("efficiency")
    first.add_argument("--series", type=int, default=40)
    first.add_argument("--rows", type=int, default=10_000)
    first.add_argument("--rounds", type=int, default=5)
    second = commands.add_parser("long")
    second.add_argument("--rows", type=int, default=20_000_000)
    second.add_argument("--channels", type=int, default=CHANNELS)
    second.add_argument("--detector", default="patchad")
    second.add_argument("--compare", action="store_true")
    third = commands.add_parser("together")
    third.add_argument("--nets", type=int, default=200)
    third.add_argument("--channels", type=int, default=CHANNELS)
    third.add_argument("--rows", type=int, default=2000)
    third.add_argument("--steps", type=int, default=300)
    third.add_argument("--rounds", type=int, default=3)
    third.add_argument("--device", default="cuda")
    third.add_argument("--workers", type=int, default=os.cpu_count())
    third.add_argument("--alone", type=int, default=None)
    fourth = commands.add_parser("modes")
    fourth.add_argument("--data", type=Path, required=True)
    fourth.add_argument("--families", nargs="+", default=["MSL", "SMAP", "SMD", "NAB"])
    fourth.add_argument("--entities", type=int, default=None)
    fourth.add_argument("--steps", type=int, default=300)
    fourth.add_argument("--device", default="auto")
    fourth.add_argument("--workers", type=int, default=1)
    fourth.add_argument("--weights", type=Path, default=None)
    fourth.add_argument("--records", type=Path, default=None)
    fifth = commands.add_parser("promise")
    fifth.add_argument("--series", type=int, default=100)
    fifth.add_argument("--rows", type=int, default=10_000)
    fifth.add_argument("--rate", type=float, default=10.0)
    fifth.add_argument("--rounds", type=int, default=5)
    fifth.add_argument("--detector", default="moving_zscore")
    given = vars(parser.parse_args())
    command = given.pop("command")
    if command in ("efficiency", "long"):
        {"efficiency": efficiency, "long": long}[command](**given)
    elif command == "together":
        from benchmarks.fleet_training import together

        together(**given)
    else:
        from benchmarks import fleet_quality

        {"modes": fleet_quality.modes, "promise": fleet_quality.promise}[command](**given)


if __name__ == "__main__":
    main()

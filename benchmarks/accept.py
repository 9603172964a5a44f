"""What `accept` does to the events of the fault grid: what was accepted is silent, and everything else is found.

    python -m benchmarks.accept run -o accept.jsonl
    python -m benchmarks.accept table accept.jsonl

Of the faults of a series that are found, every second one is accepted, each as one event would be: the rows of its
events. Then all are looked for again: in the same rows, with other noise, and with other noise at another place of the
pattern (another phase of a wave, another hour of the day). A fault is silent where no listed event overlaps it.
A further fault of 8 deviations is put into the middle of each accepted one of 300 rows or more, in another channel;
those count that are found in the calm rows before it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patchad import Detector, make
from patchad.datasets.backgrounds import BACKGROUNDS
from patchad.datasets.faults import FaultSeries, GridFault, PlannedFault, fault_grid, faulty

AGAIN = 500
"""Added to the stream of a series for other noise, and once more for other rows."""
AROUND = 300
"""Rows around the accepted ones that are shown to the detector."""
INSIDE_ROWS, INSIDE_FROM = 30, 300
"""Length of a fault inside an accepted one, and the shortest of those."""
Record = dict[str, Any]


def run(name: str, background: str, channels: int, seed: int) -> list[Record]:
    """Fit on one process; accept every second fault that is found in each of its test series."""
    detector, records = None, []
    for series in fault_grid(channels=(channels,), seed=seed):
        if series.background == background:
            detector = detector or make(name).fit(series.train)
            records += _series(detector, series, seed)
            detector.feedback_ = ()
    return [{"part": "accept", "detector": name, "background": background, "channels": channels} | r for r in records]


def _series(detector: Detector, series: FaultSeries, seed: int) -> list[Record]:
    stream = int(series.name.rsplit("-", 1)[1])
    again = {"noise": _again(series, seed, stream, None), "rows": _again(series, seed, stream, stream + 2 * AGAIN)}
    before = {"same": _found(detector, series.test, series.faults)}
    before |= {key: _found(detector, rows, series.faults) for key, rows in again.items()}
    places = np.flatnonzero(before["same"])
    accepted = set(places[::2].tolist())
    events = detector.detect(series.test).events
    inside = {
        i: _fault_inside(series, series.faults[i], seed)
        for i in accepted
        if len(series.deviation) > 1 and series.faults[i].stop - series.faults[i].start >= INSIDE_FROM
    }
    calm = {i: _fault_inside(series, series.faults[i], seed, calm=True) for i in inside}
    inside = {i: found for i, found in inside.items() if _finds(detector, *calm[i])}
    for i in sorted(accepted):
        fault = series.faults[i]
        own = [event for event in events if event.start < fault.stop and event.stop > fault.start]
        start, stop = min(event.start for event in own), max(event.stop for event in own)
        first = max(start - AROUND, 0)
        detector.accept(series.test[first : stop + AROUND], start=start - first, stop=stop - first)
    after = {"same": _found(detector, series.test, series.faults)}
    after |= {key: _found(detector, rows, series.faults) for key, rows in again.items()}
    return [
        {
            "kind": fault.kind,
            "amplitude": fault.amplitude,
            "rows": fault.stop - fault.start,
            "accepted": i in accepted,
            "before": {key: bool(found[i]) for key, found in before.items()},
            "after": {key: bool(found[i]) for key, found in after.items()},
            "inside": _finds(detector, *inside[i]) if i in inside else None,
            "windows": sum(len(one.patterns) for one in detector.feedback_),
        }
        for i, fault in enumerate(series.faults)
    ]


def _again(series: FaultSeries, seed: int, stream: int, pattern_stream: int | None) -> Any:
    """Put the same faults into other rows."""
    plan = [PlannedFault(fault.kind, fault.stop - fault.start, fault.amplitude) for fault in series.faults]
    rows, faults = faulty(
        series.background,
        len(series.deviation),
        plan,
        seed=seed,
        stream=stream,
        pattern_stream=pattern_stream,
        noise_stream=stream + AGAIN,
    )
    assert faults == series.faults
    return rows


def _found(detector: Detector, rows: Any, faults: Sequence[GridFault]) -> list[bool]:
    events = detector.detect(rows).events
    return [any(event.start < fault.stop and event.stop > fault.start for event in events) for fault in faults]


def _fault_inside(series: FaultSeries, fault: GridFault, seed: int, *, calm: bool = False) -> tuple[Any, GridFault]:
    """Shift another channel in the middle of a fault, or in the calm rows before it."""
    channel = (fault.channel + 1 + seed) % len(series.deviation)
    stop = fault.start - AROUND if calm else fault.stop + AROUND
    rows = series.test[max(fault.start - 3 * AROUND, 0) : stop].copy()
    middle = fault.start - 2 * AROUND if calm else (fault.start + fault.stop) // 2
    first = middle - max(fault.start - 3 * AROUND, 0)
    rows[first : first + INSIDE_ROWS, channel] += 8 * series.deviation[channel]
    inner = GridFault("offset", series.background, rows.shape[1], first, first + INSIDE_ROWS, channel, 8.0)
    return rows, inner


def _finds(detector: Detector, rows: Any, fault: GridFault) -> bool:
    return _found(detector, rows, [fault])[0]


def table(records: Sequence[Record]) -> str:
    """Write the shares as Markdown."""
    lines = ["| faults | silent, or found | of | share |", "| --- | ---: | ---: | ---: |"]

    def line(title: str, outcomes: Sequence[bool]) -> None:
        share = f"{np.mean(outcomes):.1%}" if len(outcomes) else ""
        lines.append(f"| {title} | {sum(outcomes)} | {len(outcomes)} | {share} |")

    titles = {"same": "the same rows", "noise": "other noise", "rows": "other noise, another place of the pattern"}
    for key, title in titles.items():
        own = [one for one in records if one["accepted"] and one["before"][key]]
        line(f"accepted, {title}: silent", [not one["after"][key] for one in own])
    for key, title in titles.items():
        own = [one for one in records if not one["accepted"] and one["before"][key]]
        line(f"not accepted, {title}: still found", [one["after"][key] for one in own])
    inside = [one["inside"] for one in records if one["inside"] is not None]
    line("inside an accepted one, another channel: found", inside)
    for kind in dict.fromkeys(one["kind"] for one in records):
        own = [one for one in records if one["accepted"] and one["kind"] == kind and one["before"]["noise"]]
        line(f"accepted {kind}, other noise: silent", [not one["after"]["noise"] for one in own])
    return "\n".join(lines)


def main() -> None:
    """Run, or print the table of records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("run", "table"))
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--detectors", nargs="+", default=["patchad"])
    parser.add_argument("--channels", nargs="+", type=int, default=[1, 5, 20])
    parser.add_argument("--backgrounds", nargs="+", default=list(BACKGROUNDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    if asked.part == "table":
        print(table([json.loads(line) for path in asked.records for line in path.read_text().splitlines()]))
        return
    for name in asked.detectors:
        for background in asked.backgrounds:
            for channels in asked.channels:
                found = run(name, background, channels, asked.seed)
                with asked.output.open("a") as file:
                    file.write("".join(json.dumps(one) + "\n" for one in found))
                print(f"{name}: {background}, {channels} channels", file=sys.stderr)


if __name__ == "__main__":
    main()

"""How well `direction` and `min_change` keep the faults that matter and drop the others, on the grid of plain faults.

    python -m benchmarks.directions --detectors patchad sub_knn

Counted are the faults of 8 residual deviations, and zeros, that an event overlaps with `direction="both"`. Under the
direction of the fault (where the channel moves on the average) such an event is to be kept, under the opposite one
no event is to overlap the fault. `min_change` is 4 and 16 residual deviations, for faults that move by 8.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

import numpy as np

from patchad import Detection, make
from patchad.datasets.backgrounds import calm
from patchad.datasets.faults import FaultSeries, GridFault, fault_grid
from patchad.detectors.base import Detector

ABRUPT = ("level", "offset", "spike", "dip")
SLOW = ("zero", "drift")
BY_SIZE = ("offset", "spike", "dip")
TWO_SIDED = ("noisy",)


def overlaps(found: Detection, fault: GridFault) -> bool:
    """Return whether an event that can be judged overlaps the fault."""
    judged = (event for event in found.events if event.kind not in ("stuck", "missing"))
    return any(event.start < fault.stop and event.stop > fault.start for event in judged)


def direction(series: FaultSeries, fault: GridFault) -> str:
    """Return where the fault moves its channel on the average."""
    normal = calm(series.background, len(series.test), fault.channels, stream=int(series.name.split("-")[-1]))
    moved = (series.test - normal)[fault.start : fault.stop, fault.channel]
    return "up" if moved.mean() > 0 else "down"


def outcomes(detector: Detector, series: FaultSeries) -> Iterator[tuple[str, str, bool]]:
    """Give kind of fault, question and answer for every fault that is found."""
    names = [f"channel_{i}" for i in range(series.test.shape[1])]
    found = {way: detector.set_params(direction=way).detect(series.test) for way in ("up", "down", "both")}
    sized = {}
    for times in (4, 16):
        least = dict(zip(names, (times * series.deviation).tolist(), strict=True))
        sized[times] = detector.set_params(min_change=least).detect(series.test)
    detector.set_params(min_change=0.0)
    for fault in series.faults:
        if not overlaps(found["both"], fault):
            continue
        if fault.kind in ABRUPT + SLOW:
            right = direction(series, fault)
            wrong = "down" if right == "up" else "up"
            yield fault.kind, "right direction kept", overlaps(found[right], fault)
            yield fault.kind, "wrong direction dropped", not overlaps(found[wrong], fault)
        if fault.kind in BY_SIZE:
            yield fault.kind, "half its size asked, kept", overlaps(sized[4], fault)
            yield fault.kind, "twice its size asked, dropped", not overlaps(sized[16], fault)
        if fault.kind in TWO_SIDED:
            yield fault.kind, "right direction kept", overlaps(found["up"], fault) and overlaps(found["down"], fault)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detectors", nargs="+", default=["patchad", "sub_knn"])
    parser.add_argument("--channels", nargs="+", type=int, default=[1, 5])
    arguments = parser.parse_args()
    good: Counter[tuple[str, str, str]] = Counter()
    asked: Counter[tuple[str, str, str]] = Counter()
    for name in arguments.detectors:
        fitted: dict[tuple[str, int], Detector] = {}
        for series in fault_grid(channels=arguments.channels, amplitudes=(8.0,)):
            key = (series.background, series.test.shape[1])
            if key not in fitted:
                fitted = {key: make(name).fit(series.train)}
            for kind, question, answer in outcomes(fitted[key], series):
                for group in (kind,) if kind not in ABRUPT else (kind, "level, offset, spike, dip"):
                    asked[name, group, question] += 1
                    good[name, group, question] += answer
    print("| detector | fault | question | share | faults |\n| --- | --- | --- | ---: | ---: |")
    for (name, group, question), number in sorted(asked.items()):
        share = np.round(good[name, group, question] / number, 3)
        print(f"| {name} | {group} | {question} | {share} | {number} |")


if __name__ == "__main__":
    main()

"""Time and peak memory of every metric, beside slow twins and public packages, and the values of random scores.

Run it from the root of the repository, on one core::

    OMP_NUM_THREADS=1 python benchmarks/metrics.py            # time and peak memory, as Markdown tables
    OMP_NUM_THREADS=1 python benchmarks/metrics.py --random   # values of random scores

Nothing is extrapolated: a rival is run at growing sizes until the next would take longer than about ``--patience``
seconds, and the largest size is reported.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import tracemalloc
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.reference import metrics_slow, ranges_slow

from patchad import metrics
from patchad.metrics.checks import BoolArray, FloatArray

SIZES = (10_000, 100_000, 430_000, 4_000_000)
RIVAL_SIZES = (100, 1_000, 10_000, 100_000, 430_000)
OF_SCORES = ("roc_auc", "pr_auc", "range_auc", "vus", "pate", "oracle_f1", "oracle_pa_f1", "oracle_affiliation_f1")
OF_ALARMS = ("f1", "mcc", "affiliation", "range_based", "etapr", "event_f1", "composite_f1", "detection_delay", "pa_f1")

Case = tuple[BoolArray, FloatArray, BoolArray]
Call = Callable[[BoolArray, FloatArray, BoolArray], object]


def series(size: int, kind: str = "long") -> Case:
    """Return labels, scores and alarms: long events on a tenth of the points, or events of 1 to 3 points on half."""
    rng = np.random.default_rng(0)
    if kind == "short":
        labels = np.repeat(np.arange(size) % 2 == 0, rng.integers(1, 4, size))[:size]
    else:
        length = max(size // 1000, 2)
        labels = np.zeros(size, np.bool_)
        for start in rng.choice(size // (2 * length), 100, replace=False) if size >= 10_000 else range(2):
            labels[2 * length * start + length : 2 * length * start + 2 * length] = True
    scores = rng.random(size) + 0.3 * labels * rng.random(size)
    return labels, scores, scores > np.quantile(scores, 0.97)


def calls() -> dict[str, Call]:
    """Return every function with its default parameters."""

    def of_scores(name: str) -> Call:
        return lambda labels, scores, _: getattr(metrics, name)(labels=labels, scores=scores)

    def of_alarms(name: str) -> Call:
        return lambda labels, _, alarms: getattr(metrics, name)(labels=labels, alarms=alarms)

    return {
        **{name: of_scores(name) for name in OF_SCORES},
        "vus, legacy": lambda y, s, _: metrics.vus(labels=y, scores=s, family="legacy"),
        **{name: of_alarms(name) for name in OF_ALARMS},
        "evaluate": lambda y, s, a: metrics.evaluate(labels=y, scores=s, alarms=a),
    }


def rivals() -> dict[str, dict[str, Call]]:
    """Return the slow twins of the tests and the installed public packages."""
    twins: dict[str, Call] = {
        "vus": lambda y, s, _: ranges_slow.vus(y, s),
        "vus, legacy": lambda y, s, _: ranges_slow.vus(y, s, family="legacy"),
        "range_auc": lambda y, s, _: ranges_slow.range_auc(y, s),
        "pate": lambda y, s, _: ranges_slow.pate(y, s),
        "oracle_pa_f1": lambda y, s, _: metrics_slow.oracle_pa_f1(y, s),
        "oracle_affiliation_f1": lambda y, s, _: metrics_slow.oracle_affiliation_f1(y, s),
        "affiliation": lambda y, _, a: metrics_slow.affiliation(y, a),
        "range_based": lambda y, _, a: metrics_slow.range_based(y, a),
        "etapr": lambda y, _, a: metrics_slow.etapr(y, a),
    }
    found = {"slow twin": twins}
    if importlib.util.find_spec("vus"):
        from vus.utils.metrics import metricor

        found[f"vus {version('vus')}"] = {
            "vus": lambda y, s, _: metricor().RangeAUC_volume_opt(y.astype(int), s, 100, 250)[-2:],
            "range_auc": lambda y, s, _: metricor().RangeAUC(y.astype(int), s, window=100, plot_ROC=True)[:2],
        }
    if importlib.util.find_spec("prts"):
        from prts import ts_precision, ts_recall

        found[f"prts {version('prts')}"] = {
            "range_based": lambda y, _, a: (
                ts_precision(y.astype(int), a.astype(int), alpha=0, cardinality="reciprocal", bias="flat"),
                ts_recall(y.astype(int), a.astype(int), alpha=0.2, cardinality="reciprocal", bias="flat"),
            )
        }
    return found


def seconds(call: Call, case: Case, repeats: int = 3) -> float:
    """Return the shortest processor time of a few runs; of one run if it is long."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        call(*case)
        best = min(best, time.process_time() - begin)
        if best > 1.0:
            break
    return best


def peak(call: Call, case: Case) -> float:
    """Return the peak memory on top of the input, as a multiple of the input: labels, scores and alarms."""
    tracemalloc.start()
    try:
        call(*case)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return held / sum(array.nbytes for array in case)


def print_times() -> None:
    """Print one row per metric: seconds at each size, seconds with very many events, peak memory."""
    print(
        "| metric | " + " | ".join(f"{size:,}" for size in SIZES) + " | 430,000, short events | memory, short events |"
    )
    print("| --- |" + " ---: |" * (len(SIZES) + 2))
    cases, short = [series(size) for size in SIZES], series(430_000, "short")
    for name, call in calls().items():
        cells = [f"{seconds(call, case):.4f}" for case in [*cases, short]]
        print(f"| {name} | {' | '.join(cells)} | {peak(call, short):.1f}x |", flush=True)


def print_rivals(patience: float) -> None:
    """Print one row per rival and metric, at the largest size it finished within the time limit."""
    ours = calls()
    print("| metric | rival | points | rival, s | patchad, s | times faster | largest difference |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for rival, functions in rivals().items():
        for name, function in functions.items():
            case, taken, theirs = _largest(function, patience)
            own = seconds(ours[name], case)
            gap = np.max(np.abs(np.subtract(np.ravel(ours[name](*case))[: np.size(theirs)], np.ravel(theirs))))
            row = f"| {name} | {rival} | {case[0].size:,} | {taken:.3f} | {own:.5f} | {taken / own:,.0f} | {gap:.0e} |"
            print(row, flush=True)


def _largest(function: Call, patience: float) -> tuple[Case, float, object]:
    """Run a rival at growing sizes while its growth so far predicts an end within the time limit."""
    sizes: list[int] = []
    times: list[float] = []
    for size in RIVAL_SIZES:
        if len(sizes) > 1:
            growth = max(np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2]), 1.0)
            if times[-1] * (size / sizes[-1]) ** growth > patience:
                break
        case = series(size)
        begin = time.process_time()
        theirs = function(*case)
        sizes.append(size)
        times.append(max(time.process_time() - begin, 1e-4))
    return case, times[-1], theirs


def print_random(seeds: int = 5) -> None:
    """Print one row per key of `evaluate`: mean over seeds of uniform random scores that alarm on one percent."""
    kinds = {
        "long events": np.isin(np.arange(100_000) // 500, np.arange(5, 200, 10)),
        "short events": np.isin(np.arange(100_000) // 10, np.arange(50, 10_000, 100)),
    }
    columns = []
    for labels in kinds.values():
        alarms = np.arange(labels.size) < labels.size // 100
        runs = [metrics.evaluate_random(labels=labels, alarms=alarms, seed=seed) for seed in range(seeds)]
        columns.append({key: np.array([run[key] for run in runs]) for key in runs[0]})
        print(f"{len(columns)}: {labels.mean():.1%} anomalous, {np.count_nonzero(np.diff(labels)) // 2} events")
    print("\n| key | " + " | ".join(kinds) + " |\n| --- |" + " ---: |" * len(kinds))
    for key in columns[0]:
        print(f"| `{key}` | " + " | ".join(f"{column[key].mean():.3f}" for column in columns) + " |")


def main() -> None:
    """Print the tables selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", action="store_true", help="print only the table of random scores")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="approximate time limit of one run of a rival, in seconds"
    )
    options = parser.parse_args()
    if options.random:
        print_random()
        return
    print_times()
    print()
    print_rivals(options.patience)


if __name__ == "__main__":
    main()

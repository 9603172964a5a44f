"""What a changed setting does to methods whose rows looked wrong, on a few telemetry channels of MSL, or on all.

    python -m benchmarks.readings DATA --entities C-1 F-7 --methods bocpd dcdetector
    python -m benchmarks.readings DATA --entities MSL --methods lstm deep_svdd itad

The entity `MSL` is all channels joined, as in the paper. `docs/baselines.md` has the result. One seed; PA-F1 at the
paper's threshold and at the best one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from patchad import make
from patchad.bench.fits import fit_and_score
from patchad.bench.protocols import judge
from patchad.datasets import load
from patchad.datasets.entity import join

CHANGES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "bocpd": ({}, {"switches": True}),
    "dcdetector": ({}, {"softmax": False}),
    "ncad": ({}, {"suspect": 5, "hop": 5, "kernel": 7, "layers": 5, "d_model": 20, "code": 120, "batch_size": 32}),
    "ts_cp2": ({}, {"window": 200, "code": 10}),
    "lstm": ({}, {"span": 1}),
    "deep_svdd": ({}, {"fold": "newest"}, {"fold": "newest", "window": 10}),
    "itad": ({}, {"fold": "newest"}),
}
"""Settings of each method: ours, and others. Those of `ncad` and `ts_cp2` are as published; those of the last three
methods make scores that change from row to row."""
JOINED = "MSL"


def rows(data: str, names: list[str], methods: list[str]) -> Iterator[str]:
    """Give a row of a Markdown table for every entity, method and setting."""
    every = load("MSL", data)
    for entity in [*every, join(every, JOINED)]:
        if entity.name not in names:
            continue
        for method in methods:
            for settings in CHANGES[method]:
                fit = fit_and_score(make(method, random_state=0, **settings), entity)
                found, ours = judge(fit, entity, "paper", "ratio:1"), judge(fit, entity, "open", "quantile:0.99")
                values = [ours["roc_auc"], ours["vus_pr_opt"], found["pa_f1"], found["oracle_pa_f1"]]
                text = ", ".join(f"{key}={value}" for key, value in settings.items()) or "default"
                yield f"| {entity.name} | `{method}` | {text} | {' | '.join(f'{value:.2f}' for value in values)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="folder with the datasets")
    parser.add_argument("--entities", nargs="+", default=["C-1", "F-7"])
    parser.add_argument("--methods", nargs="+", default=list(CHANGES), choices=list(CHANGES))
    options = parser.parse_args()
    print("| entity | method | setting | ROC-AUC | VUS-PR | PA-F1 | best PA-F1 |", flush=True)
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows(options.data, options.entities, options.methods):
        print(row, flush=True)


if __name__ == "__main__":
    main()

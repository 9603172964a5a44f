"""What the state of `patchad watch` costs: bytes of a stored row, and rows per second with and without a state.

    python -m benchmarks.state --rows 4000 --channels 16

Every part prints a line of JSON for each figure; compare figures of one run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from patchad import make
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.watch import Watch


def series(rows: int, channels: int, digits: int) -> pd.DataFrame:
    """Return noisy waves with so many decimals, a minute apart."""
    noise = np.random.default_rng(0).standard_normal((rows, channels))
    values = np.sin((np.arange(rows)[:, None] + 7 * np.arange(channels)) / 8) + 0.1 * noise
    times = pd.date_range("2026-01-01", periods=rows, freq="min").strftime("%Y-%m-%dT%H:%M:%S")
    found = pd.DataFrame(values.round(digits), columns=[f"c{i}" for i in range(channels)])
    found.insert(0, "time", times)
    return found


def main() -> None:
    """Watch the same rows with and without a state."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--channels", type=int, default=16)
    asked = parser.parse_args()
    for digits in (4, 16):
        table = series(asked.rows, asked.channels, digits)
        model = make("moving_zscore").fit(table.drop(columns="time")[:2000])
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            table.to_csv(place / "rows.csv", index=False)
            for state in (None, place / "state"):
                with Store(state) as store:
                    sinks = [make_sink(f"file:{place / 'out'}{state is None}")]
                    began = time.perf_counter()
                    Watch(model, [make_source(f"file:{place / 'rows.csv'}?follow=0")], sinks, store).run()
                    speed = asked.rows / (time.perf_counter() - began)
                    figures: dict[str, float | bool] = {"digits": digits, "state": state is not None}
                    for kind, size in store._run("SELECT kind, 1.0 * sum(length(data)) FROM history GROUP BY kind"):
                        figures[f"{kind}_bytes"] = round(size / asked.rows, 1)
                    print(json.dumps(figures | {"rows_per_second": round(speed)}), flush=True)


if __name__ == "__main__":
    main()

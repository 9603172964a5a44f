"""Send rows over brokers while detector and broker are killed, and look whether any is lost or told of twice.

    python -m benchmarks.live [--rows 20000] [--seed 0] [mqtt] [kafka]

Prints a line for each broker: rows, how often the detector was killed, seconds, rows with exactly one verdict, and
whether events are those of an undisturbed run. Needs the brokers that `scripts/install-live` gets.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pandas as pd
from tests.conftest import WATCHED, waves
from tests.live.telling import read
from tests.live.test_kills import kill_over_kafka, kill_over_mqtt

from patchad.detectors.registry import make

TROUBLE = {"mqtt": "1 of the broker", "kafka": "a cluster that does not answer for 2 s"}
RUNS = {"mqtt": kill_over_mqtt, "kafka": kill_over_kafka}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="*", metavar="BROKER", help="mqtt, kafka; both by default")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    model = make("moving_zscore").fit(pd.DataFrame(waves(600), columns=WATCHED))
    for broker in given.brokers or RUNS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model.save(folder / "model.safetensors")
            begin = time.monotonic()
            watcher = RUNS[broker](
                model, folder / "model.safetensors", folder, rows=given.rows, seconds=given.rows / 300, seed=given.seed
            )
            verdicts, told = read(watcher.out.read_text())
            once, seconds = len({one["index"] for one in verdicts}), time.monotonic() - begin
            print(
                f"{broker}: {given.rows:,} rows in {seconds:.0f} s, 3 kills of the detector, {TROUBLE[broker]}; "
                f"{once:,} verdicts, {len(verdicts) - once} repeated; {len(told)} event lines, as undisturbed",
                flush=True,
            )


if __name__ == "__main__":
    main()

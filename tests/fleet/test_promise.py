"""Fault-free fleets: all series together have no more false events than was promised for the fleet."""

from __future__ import annotations

import pandas as pd
import pytest

from patchad import make
from patchad.datasets.backgrounds import BACKGROUNDS, calm
from patchad.fleet.detecting import Job, Options, detect_fleet
from patchad.fleet.local import LocalRunner

SERIES, ROWS = 20, 4000


def frame(number: int, stream: int) -> pd.DataFrame:
    background = list(BACKGROUNDS)[number % len(BACKGROUNDS)]
    return pd.DataFrame(calm(background, ROWS, 3, seed=number, stream=stream), columns=["a", "b", "c"])


@pytest.mark.slow
def test_a_fault_free_fleet_has_no_more_events_than_promised_for_all_of_it(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "data").mkdir()
    for number in range(SERIES):
        detector = make("moving_zscore").fit(frame(number, 0))
        detector.save(tmp_path / "models" / f"s{number}.safetensors")
        frame(number, 1).to_parquet(tmp_path / "data" / f"s{number}.parquet", index=False)
    counts = {}
    for rate in (10, 2000):  # per 10,000 rows of each series, of all series together
        options = Options(fleet_false_alarms=str(rate))
        job = Job(model=tmp_path / "models", data=(str(tmp_path / "data"),), out=tmp_path / str(rate), options=options)
        outcome = detect_fleet(job, LocalRunner(1))
        assert not outcome.failed
        counts[rate] = sum(len(one.events) for one in outcome.results)
    for rate, count in counts.items():
        promised = rate * ROWS / 10_000
        assert count <= promised + 3 * promised**0.5  # a Poisson number of this mean is larger once in 700
    assert counts[2000] > counts[10]  # the rate decides, and not that there is nothing to find

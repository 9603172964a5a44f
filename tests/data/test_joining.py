from __future__ import annotations

import numpy as np
import pytest

from patchad.data.joining import join_tables
from patchad.data.table import Table


def part(first: int, rows: int, channels: tuple[str, ...] = ("x",), unit: str = "m") -> Table:
    times = np.arange(first, first + rows).astype(f"datetime64[{unit}]")
    return Table(np.full((rows, len(channels)), float(first)), channels, times)


def test_files_that_follow_each_other_are_one_series_in_the_order_of_their_times():
    ((name, joined),) = join_tables([("c", part(200, 50)), ("a", part(0, 100)), ("b", part(100, 100))])
    assert (name, len(joined.values)) == ("a", 250)
    assert (np.diff(joined.index) == np.timedelta64(1, "m")).all()
    assert joined.values[[0, 100, 200], 0].tolist() == [0, 100, 200]


@pytest.mark.parametrize(
    "other",
    [part(99, 50), part(0, 50), part(111, 50), part(100, 50, ("y",)), Table(np.ones((50, 1)), ("x",))],
    ids=["overlaps", "the same times", "a long gap", "other channels", "no times"],
)
def test_what_does_not_follow_stays_apart(other):
    tables = [("a", part(0, 100)), ("b", other)]
    assert [name for name, _ in join_tables(tables)] == ["a", "b"]
    assert all(one is two for (_, one), (_, two) in zip(join_tables(tables), tables, strict=True))


def test_a_short_pause_does_not_keep_files_apart():
    assert len(join_tables([("a", part(0, 100)), ("b", part(109, 50))])) == 1

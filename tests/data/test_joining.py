from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from patchad.data.columns import States
from patchad.data.joining import join_tables
from patchad.data.table import Table
from patchad.data.times import zone_name


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


def zoned(table: Table, hours: int) -> Table:
    return replace(table, zone=dt.timezone(dt.timedelta(hours=hours)))


def test_joined_files_keep_their_zone_or_come_out_in_utc():
    ((_, same),) = join_tables([("a", zoned(part(0, 100), 2)), ("b", zoned(part(100, 100), 2))])
    assert (zone_name(same.zone), same.notes) == ("+02:00", ())
    ((_, mixed),) = join_tables([("a", zoned(part(0, 100), 1)), ("b", zoned(part(100, 100), 2))])
    assert zone_name(mixed.zone) == "UTC"
    assert mixed.notes == ("the files have several time zones (+01:00, +02:00), joined in UTC",)
    assert len(join_tables([("a", zoned(part(0, 100), 0)), ("b", part(100, 100))])) == 2


def test_joined_files_keep_their_states_and_notes():
    valves = [States(np.zeros(100, np.intp), (name,)) for name in ("on", "off")]
    tables = [replace(part(100 * i, 100), texts={"valve": valves[i]}, notes=("read so",)) for i in (0, 1)]
    ((_, joined),) = join_tables([("a", tables[0]), ("b", tables[1])])
    assert joined.texts["valve"].names == ("on", "off")
    assert joined.texts["valve"].codes.tolist() == [0] * 100 + [1] * 100
    assert joined.notes == ("read so",)
    assert len(join_tables([("a", tables[0]), ("b", part(100, 100))])) == 2


@pytest.mark.parametrize("missing", [np.nan, np.inf])
def test_a_table_without_all_its_times_joins_no_other(missing):
    times = np.array([0.0, missing, 2.0])
    tables = [("a", Table(np.ones((3, 1)), ("x",), times)), ("b", Table(np.ones((3, 1)), ("x",), np.arange(3.0) + 3))]
    assert [name for name, _ in join_tables(tables)] == ["a", "b"]


def test_a_file_of_a_single_row_joins_those_around_it():
    tables = [("a", part(0, 100)), ("b", part(100, 1)), ("c", part(101, 50)), ("d", part(151, 1))]
    ((name, joined),) = join_tables(tables)
    assert (name, len(joined.values)) == ("a", 152)
    apart = [("a", part(0, 1)), ("b", part(1, 1))]
    assert [name for name, _ in join_tables(apart)] == ["a", "b"], "nobody knows their step"

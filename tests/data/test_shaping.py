"""Columns chosen, long layouts pivoted, rows sorted, merged and brought to a grid."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.data import long, ordering
from patchad.data.ordering import on_grid
from patchad.data.reading import Grid, Reading, parse_long, parse_names
from patchad.data.shaping import shape
from patchad.data.table import Table
from patchad.errors import InputError

TIMES = pd.to_datetime(["2024-01-01 00:00:10", "2024-01-01 00:00:50", "2024-01-01 00:02:00", "2024-01-01 00:04:01"])
FRAME = pd.DataFrame({"when": TIMES, "a": [1.0, 3.0, np.nan, 7.0], "b": [5, 4, 3, 2], "label": [1, 0, 0, 0]})


def gridded(text: str, frame: pd.DataFrame = FRAME, **options) -> Table:
    return shape(frame, Reading(every=Grid.parse(text), **options))


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [("1min", 3, 4), ("1min:mean", 2, 4.5), ("1min:max", 3, 5), ("60s:last", 3, 4), ("60000 ms", 3, 4)],
)
def test_a_row_of_the_grid_stands_for_what_came_since_the_row_before(text, first, second):
    table = gridded(text, labels="label")
    minutes = ["00:01", "00:02", "00:03", "00:04", "00:05"]
    assert [str(time)[11:16] for time in table.index] == minutes
    np.testing.assert_array_equal(table.values[:, 0], [first, np.nan, np.nan, np.nan, 7])
    np.testing.assert_array_equal(table.values[:, 1], [second, 3, np.nan, np.nan, 2])
    np.testing.assert_array_equal(table.values[:, 2], [1, 0, np.nan, np.nan, 0])


@given(
    seconds=st.lists(st.integers(0, 600), min_size=1, max_size=30),
    cut=st.integers(0, 600),
    aggregate=st.sampled_from(["last", "mean", "max"]),
)
def test_a_row_of_the_grid_depends_on_nothing_later(seconds, cut, aggregate):
    grid = Grid(1, "min", aggregate)
    times = np.array(seconds).astype("datetime64[s]")
    values = np.arange(float(len(times)))[:, None]
    whole = on_grid(Table(values, ("a",), times), grid)
    known = times <= np.datetime64(cut, "s")
    if known.any():
        part = on_grid(Table(values[known], ("a",), times[known]), grid)
        final = part.index <= np.datetime64(cut, "s")
        shift = int((part.index[0] - whole.index[0]) / np.timedelta64(60, "s"))
        np.testing.assert_array_equal(part.values[final], whole.values[shift : shift + len(part.index)][final])


def test_a_table_without_rows_has_no_grid():
    assert len(on_grid(Table(np.ones((0, 1)), ("a",), np.array([], "datetime64[s]")), Grid(1, "s")).values) == 0


def test_order_and_repeats_do_not_matter_to_a_grid():
    shuffled = pd.concat([FRAME, FRAME]).sample(frac=1, random_state=1)
    for text in ("1min:mean", "1min:max"):
        np.testing.assert_array_equal(gridded(text, shuffled).values, gridded(text).values)


@pytest.mark.parametrize(
    ("times", "every", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.7], "0.1", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        ([1, 2, 14], "5", [5, 10, 15]),
        (np.array([1, 61], dtype="timedelta64[s]"), "1min", np.array([60, 120], dtype="timedelta64[s]")),
        (np.array([1, 2], dtype="datetime64[s]"), "500ms", np.array([1000, 1500, 2000], dtype="datetime64[ms]")),
        (np.array(["2024-01-01", "2024-01-03"], dtype="datetime64[D]"), "1d", None),
    ],
)
def test_grids_of_numbers_durations_and_fine_steps(times, every, expected):
    table = on_grid(Table(np.ones((len(times), 1)), ("a",), np.asarray(times)), Grid.parse(every))
    if expected is None:
        assert table.index.astype(str).tolist() == ["2024-01-01", "2024-01-02", "2024-01-03"]
    elif isinstance(expected, list):
        np.testing.assert_allclose(table.index, expected)
    else:
        np.testing.assert_array_equal(table.index, expected)


@pytest.mark.parametrize(
    ("frame", "reading", "match"),
    [
        (FRAME.drop(columns="when"), Reading(sort=True), "--sort needs times"),
        (FRAME.drop(columns="when"), Reading(every=Grid(1, "s")), "--every needs times"),
        (FRAME, Reading(every=Grid(10)), "has no unit, and the times are dates"),
        (FRAME.assign(when=[1, 2, 3, 4]), Reading(time="when", every=Grid(1, "min")), "plain numbers"),
        (FRAME, Reading(every=Grid(1, "ns")), "use a longer interval"),
        (FRAME.assign(when=[TIMES[0], pd.NaT, *TIMES[2:]]), Reading(dedupe="last"), "row 1 has no time"),
        (
            FRAME.assign(when=TIMES.to_numpy().astype("datetime64[s]") + 10**10),
            Reading(every=Grid(1, "ms")),
            "too fine",
        ),
        (FRAME, Reading(columns=("z",)), "no column 'z'; the columns are 'when', 'a', 'b', 'label'"),
        (FRAME, Reading(exclude=("z",)), "no column 'z'"),
        (FRAME, Reading(long=("when", "z", "a")), "no column 'z' for --long"),
        (FRAME.rename(columns={"b": "a"}), Reading(long=("when", "a", "label")), "several columns are named 'a'"),
        (np.zeros((3, 2)), Reading(columns=("2",)), "no column '2'; the columns are '0', '1'"),
        (np.zeros((3, 2, 2)), Reading(columns=("2",)), "no column '2'"),
    ],
)
def test_what_cannot_be_shaped_is_refused(frame, reading, match):
    with pytest.raises(InputError, match=match):
        shape(frame, reading)


def test_rows_are_sorted_and_those_of_one_time_merged():
    frame = pd.DataFrame({"time": [3, 1, 1, 2], "a": [30.0, np.nan, 12.0, 20.0], "label": [0, 1, 0, 0]})
    assert shape(frame, Reading(sort=True)).index.tolist() == [1, 1, 2, 3]
    merged = shape(frame, Reading(dedupe="first", labels="label"))
    assert merged.index.tolist() == [3, 1, 2]
    assert merged.values.tolist() == [[30, 0], [12, 1], [20, 0]]
    again = shape(frame.assign(a=[1.0, 2.0, 4.0, 5.0]), Reading(dedupe="mean", sort=True))
    assert again.values[:, 0].tolist() == [3, 5, 1]
    assert shape(frame, Reading(dedupe="last", sort=True)).values[:, 0].tolist() == [12, 20, 30]
    assert shape(frame.iloc[[1, 3]], Reading(dedupe="last")).index.tolist() == [1, 2]


def test_columns_are_chosen_and_the_time_is_kept():
    assert shape(FRAME, Reading(columns=("b",))).channels == ("b",)
    assert shape(FRAME, Reading(columns=("b",))).index is not None
    assert shape(FRAME, Reading(columns=("b", "a"), exclude=("a",), labels="label")).channels == ("b", "label")
    assert shape(FRAME, Reading(exclude=("a", "when"))).index is None
    assert shape(FRAME, Reading(columns=("b",)), only=("a", "b")).channels == ("b",)
    assert shape(FRAME.assign(c=1), Reading(columns=("b", "c")), only=("a", "b")).ignored == ("c",)
    assert shape(FRAME.assign(c="x"), Reading(columns=("b",), time="when")).ignored == ()
    assert shape(np.arange(6.0).reshape(3, 2), Reading(columns=("1",))).values.ravel().tolist() == [1, 3, 5]
    assert shape(np.arange(6.0).reshape(3, 2), Reading(time="0")).index.tolist() == [0, 2, 4]


LONG = pd.DataFrame(
    {
        "t": [2, 1, 1, 3, 2, 3],
        "tag": ["a", "a", "b", "a", "b", "c"],
        "v": [12.0, 11.0, 21.0, 13.0, 22.0, 33.0],
    }
)
NAMES = ("t", "tag", "v")


def test_a_long_file_becomes_a_table_in_the_order_of_its_times():
    table = shape(LONG, Reading(long=NAMES))
    assert table.channels == ("a", "b", "c")
    np.testing.assert_array_equal(table.index, [1, 2, 3])
    np.testing.assert_array_equal(table.values, [[11, 21, np.nan], [12, 22, np.nan], [13, np.nan, 33]])
    assert shape(LONG, Reading(long=NAMES, exclude=("b",))).channels == ("a", "c")
    assert shape(LONG, Reading(long=NAMES, columns=("b",), labels="c")).channels == ("b", "c")
    chosen = shape(LONG, Reading(long=NAMES), only=("a", "z"))
    assert (chosen.channels, chosen.ignored) == (("a",), ("b", "c"))
    text = LONG.assign(v=LONG["v"].astype(str))
    np.testing.assert_array_equal(shape(text, Reading(long=NAMES)).values, table.values)


def states_of(table: Table, name: str) -> list[str | None]:
    states = table.texts[name]
    return [None if code < 0 else states.names[code] for code in states.codes]


def test_of_text_the_last_or_the_first_stands():
    frame = FRAME.assign(valve=["open", "shut", None, "open"])
    assert states_of(gridded("1min:mean", frame), "valve") == ["shut", None, None, None, "open"]
    twice = frame.assign(when=[*TIMES[:1], *TIMES[:1], *TIMES[2:]])
    assert states_of(shape(twice, Reading(dedupe="first")), "valve") == ["open", None, "open"]
    assert states_of(shape(twice, Reading(dedupe="mean", sort=True)), "valve") == ["shut", None, "open"]


def test_a_long_file_may_hold_numbers_and_text_and_any_names():
    mixed = pd.DataFrame({"t": [1, 1, 1, 2], "tag": ["date", "valve", "row", "valve"], "v": ["7.5", "ON", "3", "OFF"]})
    table = shape(mixed, Reading(long=NAMES))
    assert table.channels == ("date", "row")
    assert states_of(table, "valve") == ["ON", "OFF"]
    grid = shape(mixed, Reading(long=NAMES, every=Grid.parse("2:max")))
    assert states_of(grid, "valve") == ["OFF"]
    np.testing.assert_array_equal(grid.values, [[7.5, 3]])
    assert states_of(shape(mixed.assign(t=1), Reading(long=NAMES, dedupe="first")), "valve") == ["ON"]


def test_the_time_zone_of_a_long_file_is_kept():
    times = pd.date_range("2024-01-01", periods=6, freq="min", tz="Asia/Tokyo")
    for reading in (Reading(long=NAMES), Reading(long=NAMES, every=Grid.parse("1min"))):
        assert str(shape(LONG.assign(t=times), reading).times[0]) == "2024-01-01 00:00:00+09:00"


def test_several_values_of_one_time_in_a_long_file():
    twice = pd.concat([LONG, LONG.assign(v=LONG["v"] + 2)])
    with pytest.raises(InputError, match="channel 'a' has several values of one time; add --dedupe"):
        shape(twice, Reading(long=NAMES))
    assert shape(twice, Reading(long=NAMES, dedupe="first")).values[:, 0].tolist() == [11, 12, 13]
    assert shape(twice, Reading(long=NAMES, dedupe="mean")).values[:, 0].tolist() == [12, 13, 14]
    grid = shape(LONG, Reading(long=NAMES, every=Grid.parse("2:max"), labels="c"))
    np.testing.assert_array_equal(grid.values, [[12, 22, np.nan], [13, np.nan, 33]])


def test_a_few_rows_make_no_grid_of_millions():
    with pytest.raises(InputError, match="gives 40,000,001 rows from 2; use a longer interval"):
        shape(pd.DataFrame({"time": [0.0, 4e4], "a": [1.0, 2.0]}), Reading(time="time", every=Grid.parse("0.001")))


def test_a_long_file_that_would_not_fit_is_brought_to_a_grid(monkeypatch):
    monkeypatch.setattr(long, "MOST_CELLS", 6)
    monkeypatch.setattr(ordering, "MOST_CELLS", 6)
    with pytest.raises(InputError, match="too large for RAM; bring it to regular times with --every"):
        shape(LONG, Reading(long=NAMES))
    assert shape(LONG, Reading(long=NAMES, every=Grid.parse("2"))).values.shape == (2, 3)


@pytest.mark.parametrize(
    ("frame", "reading", "match"),
    [
        (LONG.assign(v=np.nan), Reading(long=NAMES), "holds no value"),
        (LONG.assign(tag=None), Reading(long=NAMES), "holds no value"),
        (LONG, Reading(long=NAMES, columns=("z",)), "no channel 'z'; the channels are 'a', 'b', 'c'"),
        (LONG.assign(t=None), Reading(long=NAMES), "'t'"),
    ],
)
def test_long_files_that_cannot_be_read(frame, reading, match):
    with pytest.raises(InputError, match=match):
        shape(frame, reading)


@pytest.mark.parametrize("text", ["", "min", "0s", "-1s", "1 fortnight", "1min:median", "1e9d", "nan", "99999999d"])
def test_intervals_that_are_none(text):
    with pytest.raises(InputError, match="--every"):
        Grid.parse(text)


def test_names_that_are_none():
    with pytest.raises(InputError, match="--columns has an empty name"):
        parse_names(["a,,b"], "--columns")
    with pytest.raises(InputError, match="--columns cannot be read"):
        parse_names(["a\nb"], "--columns")
    with pytest.raises(InputError, match="--long needs three different columns"):
        parse_long("a,b")
    assert parse_names([], "--columns") == ()

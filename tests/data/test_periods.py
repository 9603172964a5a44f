from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from patchad import make
from patchad.data.periods import Period, exclude_periods, mark_periods, read_periods
from patchad.errors import InputError

MINUTES = np.datetime64("2024-05-01T00:00", "ns") + np.arange(10) * np.timedelta64(1, "m")


def rows_in(*periods, index=None, length=10) -> list[int]:
    return np.flatnonzero(mark_periods(periods, ("a",), index, range(length))[:, 0]).tolist()


def test_rows_are_half_open_and_times_are_not():
    assert rows_in((2, 5)) == [2, 3, 4]
    assert rows_in(("2", "5.0")) == [2, 3, 4]
    assert rows_in((None, 2), (8, None)) == [0, 1, 8, 9]
    assert rows_in(("2024-05-01 00:02", "2024-05-01 00:05"), index=MINUTES) == [2, 3, 4, 5]
    assert rows_in((MINUTES[3], pd.Timestamp("2024-05-01T01:05+01:00")), index=MINUTES) == [3, 4, 5]
    assert rows_in(("0 days 00:02:00", np.timedelta64(4, "m")), index=MINUTES - MINUTES[0]) == [2, 3, 4]
    assert rows_in((2.5, 4), index=np.arange(10.0)) == [3, 4]


def test_times_are_in_the_zone_of_the_data_unless_they_name_another():
    times = [f"2024-05-01T00:{minute:02}+02:00" for minute in range(10)]
    plant = pd.DataFrame({"time": times, "a": np.arange(10.0), "b": np.arange(10.0)})
    for bound in ("2024-05-01 00:06", "2024-04-30T22:06Z"):
        (left,) = exclude_periods(plant, [(bound, None)])
        assert left.values[:, 0].tolist() == [0, 1, 2, 3, 4, 5], bound
        assert str(left.times[0]) == "2024-05-01 00:00:00+02:00"


def test_rows_may_come_in_parts():
    periods = [(3, 7)]
    parts = [mark_periods(periods, ("a",), None, range(i, i + 2)) for i in range(0, 10, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), mark_periods(periods, ("a",), None, range(10)))


@pytest.mark.parametrize(
    ("period", "index", "message"),
    [
        ((5, 2), None, "ends before it begins"),
        (("2024-05-01", None), None, "'2024-05-01' is no row number, and the data has no times"),
        ((2.5, None), None, "'2.5' is no row number"),
        (("1e400", None), None, "'1e400' is no row number"),
        (("31.12.9999", None), MINUTES, "'31.12.9999' cannot be read as a time"),
        (("1500", "1600"), MINUTES, "'1500' is a plain number, and the data has times"),
        (("noon", None), MINUTES, "'noon' cannot be read as a time; write it as 2024-01-31T12:00:00"),
        (("NaT", None), MINUTES, "'NaT' cannot be read as a time"),
        (("noon", None), MINUTES - MINUTES[0], "write it as 1 day"),
        (("noon", None), np.arange(10.0), "'noon' is no number, as the times of the data are"),
        ((1, 2, "b"), None, r"\(1 to 2, b\) names a channel that is not there; there are 'a'"),
        ((1,), None, r"\(1,\) is no period"),
        ("12", None, "is no period"),
    ],
)
def test_wrong_periods_are_refused(period, index, message):
    with pytest.raises(InputError, match=message):
        rows_in(period, index=index)


def test_periods_are_read_from_a_csv_file(tmp_path):
    path = tmp_path / "periods.csv"
    path.write_text("from, to, channel, reason\n2024-05-01, 2024-05-02, flow, filter\n5, , ,\n")
    first, second = read_periods(path)
    assert (first.start, first.stop, first.channel) == ("2024-05-01", "2024-05-02", "flow")
    assert (second.start, second.stop, second.channel) == ("5", None, None)
    assert str(first) == f"{path}, line 2 (2024-05-01 to 2024-05-02, flow)"
    path.write_text("from,to\n1,2\n")
    assert str(read_periods(path)[0]) == f"{path}, line 2 (1 to 2)"
    path.write_text("from,to\n")
    assert read_periods(path) == ()


@pytest.mark.parametrize(
    "text",
    [
        "from;to;channel\n2024-05-01 10:00;2024-05-01 11:00;Öl\n".encode("latin-1"),
        "from;to;channel\n2024-05-01 10:00;2024-05-01 11:00;Öl\n".encode("utf-16"),
        "\n From,To,Channel\n\n2024-05-01 10:00,2024-05-01 11:00,Öl\n,, \n".encode("utf-8-sig"),
        "channel\tto\tfrom\r\nÖl\t2024-05-01 11:00\t2024-05-01 10:00\t\t\r\n".encode(),
    ],
)
def test_periods_are_written_as_data_files_are(tmp_path, text):
    path = tmp_path / "periods.csv"
    path.write_bytes(text)
    (period,) = read_periods(path)
    assert (period.start, period.stop, period.channel) == ("2024-05-01 10:00", "2024-05-01 11:00", "Öl")


def test_separators_at_the_end_of_lines_do_not_shift_the_bounds(tmp_path):
    path = tmp_path / "periods.csv"
    path.write_text("from,to\n1,2,\n")
    assert [(period.start, period.stop) for period in read_periods(path)] == [("1", "2")]


def test_dates_with_dots_begin_with_the_day_as_in_data():
    assert rows_in(("01.05.2024 00:02", "1.5.24 00:04"), index=MINUTES) == [2, 3, 4]
    assert rows_in(("04/30/2024", "30/05/2024"), index=MINUTES) == list(range(10)), "a number over 12 is a day"
    with pytest.raises(InputError, match="'01/05/2024' can be read in two ways; write it as 2024-01-31T12:00:00"):
        rows_in(("01/05/2024", None), index=MINUTES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty; a header `from,to`"),
        (b"start,stop\n1,2\n", "there is no column 'from', 'to', only 'start', 'stop'; a header `from,to`"),
        (b"from,to\n1,2,3\n4,5,6,7\n", "line 2: there are 3 cells under a header of 2"),
        (b"from,to,channel\n2024-05-01\n", "line 2: there is '2024-05-01' and no second bound"),
        (b"from,to\n\n" + b"1" * 200_000 + b",2\n", r"not a csv file of periods \(field larger than"),
        (b"\xff\xfe\x00", "looks like UTF-16 and is damaged"),
    ],
)
def test_files_that_hold_no_periods_are_refused(tmp_path, text, message):
    path = tmp_path / "periods.csv"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message):
        read_periods(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none\.csv'; check the path"):
        read_periods(tmp_path / "none.csv")


def test_what_is_excluded_cuts_a_series():
    frame = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0)}, index=pd.DatetimeIndex(MINUTES))
    periods = [Period("2024-05-01 00:03", "2024-05-01 00:04"), (None, "2024-05-01 00:01", "b")]
    first, second = exclude_periods(frame, periods)
    np.testing.assert_array_equal(first.values, [[0, np.nan], [1, np.nan], [2, 2]])
    assert (second.values[0, 0], second.index[0]) == (5.0, MINUTES[5])
    assert frame.notna().all(axis=None), "the input is left alone"


def test_a_series_without_any_row_left_is_refused():
    with pytest.raises(InputError, match="cover every row"):
        exclude_periods(np.arange(10.0), [(None, None)])


def test_of_several_series_one_may_be_left_out_altogether():
    pieces = exclude_periods([np.arange(10.0), np.arange(20.0)], [(None, 10)])
    assert [piece.values[:, 0].tolist() for piece in pieces] == [list(range(10, 20))]


def test_a_fit_does_not_learn_from_what_is_excluded():
    rows = np.random.default_rng(0).normal(size=(600, 2))
    unclean = rows.copy()
    unclean[200:260] += 50
    pieces = exclude_periods(unclean, [(200, 260)])
    detector = make("sensor_range").fit(pieces)
    expected = make("sensor_range").fit([rows[:200], rows[260:]])
    np.testing.assert_array_equal(detector.decision_function(unclean), expected.decision_function(unclean))


def test_the_median_of_a_channel_does_not_depend_on_how_a_series_is_cut():
    rows = np.random.default_rng(0).normal(loc=50, size=(600, 2))
    pieces = exclude_periods(rows, [(300, 310), (None, 300, "channel_1")])
    assert make("sensor_range").fit(pieces).initial_ == pytest.approx([50, 50], abs=0.5)

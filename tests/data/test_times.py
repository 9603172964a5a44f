from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from patchad.data.table import to_table
from patchad.data.times import zone_name
from patchad.errors import InputError

BERLIN = pd.date_range("2024-03-31", periods=4, freq="h", tz="Europe/Berlin")
"""Over the start of daylight-saving time."""


def read(times, name="time", **settings):
    return to_table(pd.DataFrame({name: times, "a": np.arange(float(len(times)))}), **settings)


def texts(times) -> list[str]:
    return [time.isoformat() for time in times]


# -- zones -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "container",
    [
        pd.DataFrame({"a": range(4)}, index=BERLIN),
        pd.Series(range(4), index=BERLIN),
        pd.DataFrame({"t": BERLIN, "a": range(4)}),
        pd.DataFrame({"t": pd.Series([t.to_pydatetime() for t in BERLIN], dtype=object), "a": range(4)}),
        pl.DataFrame({"t": pl.from_pandas(BERLIN.to_series().reset_index(drop=True)), "a": range(4)}),
        pa.table({"t": pa.array(BERLIN), "a": range(4)}),
        pa.table({"t": pa.array(BERLIN), "a": range(4)}).to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=["index", "series", "column", "objects", "polars", "pyarrow", "arrow dtype"],
)
def test_a_named_zone_is_kept_by_name(container):
    table = to_table(container)
    assert zone_name(table.zone) == "Europe/Berlin"
    assert texts(table.times) == texts(BERLIN)
    np.testing.assert_array_equal(table.index, BERLIN.tz_convert("UTC").tz_localize(None).to_numpy())


@pytest.mark.parametrize(
    ("times", "zone"),
    [
        (["2024-01-01T00:00:00+02:00", "2024-01-01T01:00:00+02:00"], "+02:00"),
        (["2024-01-01 00:00-0330", "2024-01-01 01:00-0330"], "-03:30"),
        (["2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"], "UTC"),
        (["01.04.2024 00:00 +02:00", "01.04.2024 01:00 +02:00"], "+02:00"),
        (["2024-01-01T00:00:00", "2024-01-01T01:00:00"], None),
    ],
)
def test_an_offset_is_kept(times, zone):
    table = read(times)
    assert zone_name(table.zone) == zone
    first = table.times[0]
    assert str(first).endswith({"UTC": "+00:00", None: ""}.get(zone, zone))
    assert "00:00" in str(first)


@pytest.mark.parametrize(
    "times",
    [
        ["2024-03-31T01:30:00+01:00", "2024-03-31T03:30:00+02:00", "2024-03-31T04:30:00+02:00"],
        ["31.03.2024 01:30 +01:00", "31.03.2024 03:30 +02:00", "31.03.2024 04:30 +02:00"],
        [
            dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            dt.datetime(2024, 3, 31, 3, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2024, 3, 31, 4, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ],
    ],
    ids=["iso", "dots", "objects"],
)
def test_several_offsets_are_one_line_of_time_in_utc(times):
    table = read(times)
    assert zone_name(table.zone) == "UTC"
    assert np.diff(table.index).tolist() == [dt.timedelta(hours=1)] * 2
    assert table.notes == ("the times have several offsets from UTC (+01:00, +02:00), and come out in UTC",)


def test_times_with_and_without_an_offset_do_not_mix():
    with pytest.raises(InputError, match="some have none, as '2024-01-01T01:00:00' in row 1"):
        read(["2024-01-01T00:00:00+02:00", "2024-01-01T01:00:00"])


def test_zones_have_names():
    class Odd(dt.tzinfo):
        def utcoffset(self, when):
            return None if when is None else dt.timedelta(hours=1)

        def __str__(self):
            return "odd"

    assert zone_name(Odd()) == "odd"
    assert zone_name(ZoneInfo("Asia/Tokyo")) == "Asia/Tokyo"
    assert zone_name(None) is None


# -- the order of day and month ----------------------------------------------------------------------------------------


def days(table) -> list[str]:
    return table.index.astype("datetime64[D]").astype(str).tolist()


@pytest.mark.parametrize(
    ("times", "first"),
    [
        (["01/04/2024 10:00", "13/04/2024 10:00"], "2024-04-01"),
        (["04/01/2024 10:00", "04/13/2024 10:00"], "2024-04-01"),
        (["04/01/2024 1:00 PM", "04/13/2024 1:00 PM"], "2024-04-01"),
        (["4/1/2024, 1:00:00\u202fPM", "4/13/2024, 1:00:00\u202fPM"], "2024-04-01"),
        (["01-04-24 10:00", "13-04-24 10:00:00.5"], "2024-04-01"),
        (["01/04/98", "13/04/98"], "1998-04-01"),
        (["1/4/2024, 10:00", "13/4/2024, 10:00"], "2024-04-01"),
        (["01.04.2024", "02.04.2024"], "2024-04-01"),
        (["01.04.2024 10:00", None, "02.04.2024 10:00"], "2024-04-01"),
        (["04.13.2024", "04.14.2024"], "2024-04-13"),
        (["04/04/2024 10:00", "05/05/2024 10:00"], "2024-04-04"),
    ],
)
def test_a_number_over_12_and_dots_decide(times, first):
    table = read(times)
    assert days(table)[0] == first
    assert table.notes == ()


def test_minutes_over_days_decide():
    moments = pd.date_range("2024-04-01", periods=11 * 1440, freq="min")
    for written in ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d-%m-%y %H:%M"):
        table = read(moments.strftime(written))
        np.testing.assert_array_equal(table.index, moments.to_numpy())
        assert table.notes == ()


def test_times_that_go_back_less_often_decide():
    table = read(["05/01/2024", "06/01/2024", "01/02/2024", "02/02/2024"])  # as months first, the third goes back
    assert days(table) == ["2024-01-05", "2024-01-06", "2024-02-01", "2024-02-02"]
    assert table.notes == ()


def test_what_is_ambiguous_is_noted_with_the_remedy():
    table = read(["01/04/2024 10:00", "01/04/2024 10:01", "01/04/2024 10:02"])
    assert days(table)[0] == "2024-01-04"
    assert (
        "'01/04/2024 10:00' can be read in two ways, and were read as month/day/year; --time-format" in table.notes[0]
    )
    steady = read(["01/04/2024", "02/04/2024", "03/04/2024"])
    assert days(steady)[1] == "2024-04-02"
    assert "were read as day/month/year" in steady.notes[0]
    assert read(["01/04/2024", None]).notes != ()


def test_a_format_decides():
    assert days(read(["01/04/2024", "02/04/2024"], time_format="%d/%m/%Y")) == ["2024-04-01", "2024-04-02"]
    assert days(read(["01/04/2024", "02/04/2024"], time_format="%m/%d/%Y")) == ["2024-01-04", "2024-02-04"]
    assert days(read([1042024, 2042024], time_format="%d%m%Y")) == ["2024-04-01", "2024-04-02"]
    assert days(read([20240401.0, 20240402.0], time_format="%Y%m%d")) == ["2024-04-01", "2024-04-02"]
    zoned = read(["1 Apr 2024 10 +0200", "1 Apr 2024 11 +0200"], "when", time="when", time_format="%d %b %Y %H %z")
    assert texts(zoned.times) == ["2024-04-01T10:00:00+02:00", "2024-04-01T11:00:00+02:00"]
    mixed = read(["2024-03-31 01 +0100", "2024-03-31 03 +0200"], time_format="%Y-%m-%d %H %z")
    assert np.diff(mixed.index).tolist() == [dt.timedelta(hours=1)]


@pytest.mark.parametrize(
    ("times", "time_format", "message"),
    [
        (["01/04/2024", "20/04/2024"], "%m/%d/%Y", "has '20/04/2024' in row 1, which is not of the time format"),
        (["01/04/2024", None], "%Q", "has '01/04/2024' in row 0, which is not of the time format '%Q'"),
        ([1.5, 2.5], "%Y", "holds fractions, which fit no time format"),
        ([np.inf, 2.0], "%Y", "holds fractions, which fit no time format"),
        (["on", "off"], "%Y", "has 'on' in row 0"),
        (["2024", "2025"], "%Y%Y", "which is not of the time format '%Y%Y'"),
    ],
)
def test_what_does_not_fit_the_format_is_refused(times, time_format, message):
    with pytest.raises(InputError, match=message):
        read(times, time_format=time_format)


def test_a_format_needs_a_column():
    with pytest.raises(InputError, match=r"no column is known to hold times; name it \(--time\)"):
        read(["01|04|2024", "02|04|2024"], "when", time_format="%d|%m|%Y")


# -- numbers and what is no time ---------------------------------------------------------------------------------------


def test_epochs_are_times_where_the_column_is_named_as_one():
    stamps = [1_711_929_600_000, 1_711_929_660_000]
    assert texts(read(stamps).times)[0] == "2024-04-01T00:00:00+00:00"
    assert texts(read(stamps, "tick", time="tick").times)[0] == "2024-04-01T00:00:00+00:00"
    assert texts(read([str(stamp) for stamp in stamps]).times)[0] == "2024-04-01T00:00:00+00:00"
    assert read(stamps, "tick").index is None
    assert np.isnat(read(pd.array([1_711_929_600, None], dtype="Int64")).index).tolist() == [False, True]
    assert np.isnat(read(["1711929600", None]).index).tolist() == [False, True]
    exact = to_table(pa.table({"time": [1_711_929_600_000_000_001], "a": [1.0]}))
    assert exact.index.astype(np.int64).tolist() == [1_711_929_600_000_000_001]


@pytest.mark.parametrize(
    "times",
    [
        ["10:00:00", "10:01:00"],
        ["13/01/2024", "01/13/2024"],
        ["31/02/2024", "30/02/2024"],
        ["2024-01-01", "soon"],
        ["1.5", "x1"],
        [None, None],
        [True, False],
        [[1], [2]],
        pd.Series(["2024-01-01", "\ud83d"], dtype=object),
        [np.inf, "2024-01-01"],
        pd.Series(["2024-01-01", dt.date(2024, 1, 2), 3], dtype=object),
    ],
)
def test_what_is_no_time_is_refused_by_name(times):
    with pytest.raises(InputError, match=r"column 'time' cannot be read as times.*--time-format"):
        read(times)


def test_columns_that_are_no_times_are_not_taken_for_it():
    assert read(["pump 1", "pump 2"], "state").index is None
    assert read(["may", "june"], "month").index is None
    assert read(["1", "2"], "count").channels == ("count", "a")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"Date": ["01/04/2024", "13/04/2024"], "Time": ["9:00:00", "10:30:00"], "a": [1.0, 2.0]}),
        pd.DataFrame({"time": ["9:00", "10:30"], "a": [1.0, 2.0], "date": [dt.date(2024, 4, 1), dt.date(2024, 4, 13)]}),
        pl.DataFrame(
            {
                "date": [dt.date(2024, 4, 1), dt.date(2024, 4, 13)],
                "time": [dt.time(9), dt.time(10, 30)],
                "a": [1.0, 2.0],
            }
        ),
    ],
    ids=["text", "objects", "types"],
)
def test_a_date_and_a_time_of_day_are_one_time(frame):
    table = to_table(frame)
    assert table.channels == ("a",)
    assert table.index.astype("datetime64[m]").astype(str).tolist() == ["2024-04-01T09:00", "2024-04-13T10:30"]


def test_a_pair_of_columns_may_have_a_format_and_need_not_be_a_date_and_a_time():
    pair = pd.DataFrame({"date": ["01|04|2024", "02|04|2024"], "time": ["9:00", "9:00"], "a": [1.0, 2.0]})
    table = to_table(pair, time_format="%d|%m|%Y %H:%M")
    assert days(table) == ["2024-04-01", "2024-04-02"]
    with pytest.raises(InputError, match="'time', 'date' all hold times"):
        to_table(
            pd.DataFrame({"time": ["2024-01-01", "2024-01-02"], "date": ["2024-01-01", "2024-01-02"], "a": [1, 2]})
        )
    for odd in ([1, 2], [None, "10:00"], ["7", "8"], ["1/1/2024", "\ud83d"]):
        frame = pd.DataFrame({"time": pd.Series(odd, dtype=object), "date": ["9:00", "9:01"], "a": [1.0, 2.0]})
        assert to_table(frame).index is None

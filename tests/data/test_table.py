from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from patchad.data.table import is_list_of_series, to_table
from patchad.errors import InputError

VALUES = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
TIMES = pd.date_range("2024-01-01", periods=3, freq="h")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(VALUES, columns=["a", "b"]),
        pl.DataFrame(VALUES, schema=["a", "b"], orient="row"),
        pa.table({"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]}),
        pa.RecordBatch.from_pydict({"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]}),
    ],
    ids=["pandas", "polars", "pyarrow", "batch"],
)
def test_frames_of_every_library_hold_the_same(frame):
    table = to_table(frame)
    assert table.values.tolist() == VALUES
    assert table.channels == ("a", "b")
    assert table.index is None


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.0, 2.0]),
        [1.0, 2.0],
        pd.Series([1.0, 2.0]),
        pl.Series([1.0, 2.0]),
        pa.array([1.0, 2.0]),
        pa.chunked_array([[1.0], [2.0]]),
    ],
    ids=["numpy", "list", "pandas", "polars", "array", "chunked"],
)
def test_one_channel_of_every_kind(column):
    table = to_table(column)
    assert table.values.tolist() == [[1.0], [2.0]]
    assert table.channels is None


def test_results_come_back_in_the_callers_kind():
    scores = np.array([0.1, 0.2, 0.3])
    frame = pd.DataFrame(VALUES, columns=["a", "b"], index=TIMES)
    given = to_table(frame).column(scores, "score")
    assert isinstance(given, pd.Series)
    assert given.index.equals(frame.index)
    shares = to_table(frame).frame(np.ones((3, 2)), ["a", "b"])
    assert list(shares.columns) == ["a", "b"]
    assert shares.index.equals(frame.index)
    polars = to_table(pl.DataFrame(VALUES, schema=["a", "b"], orient="row"))
    assert isinstance(polars.column(scores, "score"), pl.Series)
    assert polars.frame(np.ones((3, 2)), ["a", "b"]).columns == ["a", "b"]
    arrow = to_table(pa.table({"a": [1.0, 2.0, 3.0]}))
    assert isinstance(arrow.column(scores, "score"), pa.Array)
    assert arrow.frame(np.ones((3, 1)), ["a"]).column_names == ["a"]
    assert to_table(np.array(VALUES)).column(scores, "score") is scores


def test_floats_are_not_copied_and_the_rest_becomes_the_smallest_float_that_holds_it():
    values = np.random.default_rng(0).random((4, 2)).astype(np.float32)
    assert np.shares_memory(to_table(values).values, values)
    frame = pd.DataFrame(values, columns=["a", "b"])
    assert np.shares_memory(to_table(frame).values, frame.to_numpy())
    assert to_table(np.array([[True], [False]])).values.dtype == np.float32
    assert to_table(np.array([[1], [2]], dtype=np.int16)).values.dtype == np.float32
    assert to_table(np.array([[2**40]])).values.tolist() == [[2.0**40]]
    mixed = pd.DataFrame({"on": [True, False], "count": [1, 2**40], "x": [0.5, None]})
    np.testing.assert_array_equal(to_table(mixed).values, [[1, 1, 0.5], [0, 2.0**40, np.nan]])


def test_masked_values_are_missing():
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(to_table(masked).values, [[1, np.nan], [3, 4]])


def test_nullable_columns_become_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean")})
    np.testing.assert_array_equal(to_table(frame).values, [[1, 1], [np.nan, np.nan]])
    np.testing.assert_array_equal(to_table(pl.DataFrame({"a": [1, None]})).values, [[1], [np.nan]])
    np.testing.assert_array_equal(to_table(pa.table({"a": [1.5, None]})).values, [[1.5], [np.nan]])


@pytest.mark.parametrize("name", ["time", "Timestamp", "DATE", "datetime"])
def test_a_time_column_is_found_by_its_usual_names(name):
    table = to_table(pd.DataFrame({"a": [1.0, 2.0, 3.0], name: [100, 200, 300]}))
    assert table.channels == ("a",)
    assert table.index.tolist() == [100, 200, 300]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-01-01 00:00:00", "2024-01-01 01:00:00", "2024-01-01 02:00:00"],
        ["2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z", "2024-01-01T02:00:00Z"],
        ["2024-01-01T01:00:00+01:00", "2024-01-01T02:00:00+01:00", "2024-01-01T03:00:00+01:00"],
        ["1/1/2024 0:00", "1/1/2024 1:00", "1/1/2024 2:00"],
        ["01.01.2024 00:00", "01.01.2024 01:00", "01.01.2024 02:00"],
        list(TIMES),
        pd.Series(list(TIMES.to_pydatetime()), dtype=object),
        list(TIMES.tz_localize("UTC").tz_convert("Asia/Tokyo")),
    ],
)
def test_the_only_column_that_reads_as_times_is_the_time(times):
    table = to_table(pd.DataFrame({"logged": times, "a": [1.0, 2.0, 3.0]}))
    assert table.channels == ("a",)
    np.testing.assert_array_equal(table.index.astype("datetime64[s]"), TIMES.to_numpy().astype("datetime64[s]"))


def test_words_that_could_be_dates_are_not_times():
    table = to_table(pd.DataFrame({"mode": ["may", "sun", "monday"], "a": [1.0, 2.0, 3.0]}))
    assert table.index is None
    assert table.texts["mode"].names == ("may", "sun", "monday")


def test_days_may_come_before_months():
    table = to_table(pd.DataFrame({"when": ["13.01.2024 10:00", "14.01.2024 10:00"], "a": [1.0, 2.0]}))
    assert table.index.astype("datetime64[D]").astype(str).tolist() == ["2024-01-13", "2024-01-14"]


def test_a_time_index_counts_and_a_plain_index_does_not():
    frame = pd.DataFrame(VALUES, columns=["a", "b"])
    assert to_table(frame.set_index(TIMES)).index is not None
    assert to_table(frame.set_index(TIMES.tz_localize("Europe/Berlin"))).index.dtype.kind == "M"
    assert to_table(frame.set_index(TIMES.to_period("h"))).index.dtype.kind == "M"
    assert to_table(frame.set_index(pd.Index([7, 5, 9]))).index is None


def test_polars_and_arrow_times_are_found():
    assert to_table(pl.DataFrame({"t": list(TIMES.to_pydatetime()), "a": [1.0, 2.0, 3.0]})).channels == ("a",)
    assert to_table(pa.table({"t": pa.array(TIMES), "a": [1.0, 2.0, 3.0]})).index.dtype.kind == "M"


def test_an_asked_for_time_column_wins():
    frame = pd.DataFrame({"time": [5, 4, 3], "tick": [1, 2, 3], "a": [1.0, 2.0, 3.0]})
    assert to_table(frame, time="tick").channels == ("time", "a")
    with pytest.raises(InputError, match=r"no column 'when'.*'time', 'tick', 'a'"):
        to_table(frame, time="when")


@pytest.mark.parametrize("extra", [TIMES[0], pd.NaT, pd.Timedelta("1h"), "2024-01-01", TIMES[0].date()], ids=str)
@pytest.mark.parametrize("times", [{}, {"at": TIMES}])
def test_a_column_of_one_moment_or_none_is_not_the_time(extra, times):
    table = to_table(pd.DataFrame(VALUES, columns=["a", "b"]).assign(extra=extra, **times), only=("a", "b"))
    assert (table.channels, table.ignored) == (("a", "b"), ("extra",))
    assert (table.index is not None) == bool(times)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            pd.DataFrame({"a": [1.0, 2.0], "state": ["1.5", "bad"]}),
            "column 'state' has 'bad' in row 1, a number is needed",
        ),
        (pd.DataFrame({0: [1.0, 2.0], 1: ["ok", "bad"]}), "column 1 holds text, as 'ok'.*give the columns names"),
        (pd.DataFrame({"time": ["soon", "later"], "a": [1.0, 2.0]}), "column 'time' cannot be read as times"),
        (pd.DataFrame({"t": list(TIMES), "u": list(TIMES), "a": [1, 2, 3]}), "'t', 'u' all hold times"),
        (pd.DataFrame({"t": list(TIMES)}), "no channels, only the time column"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "a column name appears more than once"),
        (np.zeros((2, 2, 2)), r"shape \(time, channel\) or \(time,\), got \(2, 2, 2\)"),
        (np.array([[1 + 2j]]), "Complex data not supported"),
        (np.array(["a", "b"]), "numbers are needed"),
        (np.array([{}, {}], dtype=object), "not a number"),
        ([[1.0, 2.0], [3.0]], "ragged"),
        (pl.LazyFrame({"a": [1.0]}), "collect"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(bad, message):
    with pytest.raises(InputError, match=message):
        to_table(bad)


def test_a_list_of_series_is_not_a_nested_list():
    assert is_list_of_series([np.zeros((3, 2)), pd.DataFrame(VALUES)])
    assert not is_list_of_series([[1.0, 2.0], [3.0, 4.0]])
    assert not is_list_of_series([1.0, 2.0])
    assert not is_list_of_series(np.zeros((3, 2)))


def test_rows_are_taken_from_everything_that_has_rows():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "mode": ["on", "off", "on"]}, index=TIMES.tz_localize("Asia/Tokyo"))
    table = to_table(frame).take([2, 0])
    assert table.values.tolist() == [[3.0], [1.0]]
    assert table.texts["mode"].codes.tolist() == [0, 0]
    assert table.times.equals(frame.index[[2, 0]])
    assert table.native_index.equals(frame.index[[2, 0]])


def test_labels_must_be_numbers():
    table = to_table(pd.DataFrame({"a": [1.0, 2.0], "state": ["normal", "attack"]}))
    with pytest.raises(InputError, match="column 'state' holds text, as 'normal'"):
        table.without("state")


@pytest.mark.parametrize(("dtype", "words", "bits"), [("f4", "u4", 0x7F800001), ("f8", "u8", 0x7FF0000000000001)])
def test_a_signalling_nan_is_a_missing_value_like_any_other(dtype, words, bits):
    X = np.ones((50, 2), dtype=dtype)
    X[4, 0] = np.nan
    plain = to_table(X).values
    assert plain is X or np.shares_memory(plain, X), "no copy without need"
    X.view(words)[3, 1] = bits
    with np.errstate(all="raise"):
        values = to_table(X).values.astype(np.float64)
        assert np.isnan(np.diff(values, axis=0)).sum() == 4
    assert np.isnan(values).sum() == 2
    half = np.ones((50, 2), dtype=np.float16)
    half.view("u2")[3, 1] = 0x7C01
    with np.errstate(all="raise"):
        assert np.isnan(to_table(half).values.astype(np.float64)).sum() == 1

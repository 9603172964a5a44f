"""Rows as people and machines write them."""

from __future__ import annotations

import pandas as pd
import pytest

from patchad.errors import InputError
from patchad.live import rows
from patchad.live.rows import Columns, HeaderError, RowReader

COLUMNS = Columns(("flow", "mode"), texts=frozenset({"mode"}))


def read(*lines: bytes, columns: Columns = COLUMNS):
    reader = RowReader(columns)
    return [reader.read(line) for line in lines]


def test_empty_lines_are_no_rows():
    assert read(b"", b" \r") == [None, None]


def test_csv_with_missing_values_states_and_another_header():
    _, one, two, three = read(
        b"\xef\xbb\xbfkey\tDate\tflow\tmode\tnote\r\n",
        b"p1\t2026-01-01\t1,5\t1\thello\r",
        b"7\t\tNA\t\t2",
        b"key\tDate\tflow\tmode\tnote",
    )
    assert (one.key, one.time, one.values) == ("p1", "2026-01-01", {"flow": 1.5, "mode": "1", "note": None})
    assert (two.key, two.time, two.values["flow"], two.values["mode"]) == ("7", None, None, None)
    assert three is None


def test_of_columns_with_one_name_the_first_counts_as_in_a_file():
    _, row, header = read(b"time,flow,flow,mode,flow", b"1,2,3,on,4", b"time,flow,flow,mode,flow")
    assert row.values == {"flow": 2.0, "flow.1": 3.0, "mode": "on", "flow.2": 4.0}
    assert header is None
    unnamed = Columns(("channel_0", "channel_1"), named=False)
    _, row, header = read(b"a,a", b"1,2", b"a,a", columns=unnamed)
    assert row.values == {"channel_0": 1.0, "channel_1": 2.0}
    assert header is None


def test_json_flat_and_with_values_apart():
    flat, apart = read(b'{"Timestamp": 5, "flow": true, "mode": 3}', b' {"key": 3, "values": {"flow": null}}')
    assert (flat.key, flat.moment, flat.values) == (None, 5.0, {"flow": 1.0, "mode": "3"})
    assert (apart.key, apart.time, apart.values) == (3, None, {"flow": None})


def test_a_channel_may_have_the_name_of_a_key_a_time_or_values():
    (row,) = read(b'{"key": 1, "time": 2, "values": 3}', columns=Columns(("key", "time", "values")))
    assert (row.key, row.time, row.values) == (None, None, {"key": 1.0, "time": 2.0, "values": 3.0})


def test_the_only_column_of_dates_is_the_time():
    _, row = read(b"when,flow,note", b"2026-01-01 00:00,1,x")
    assert (row.time, row.values) == ("2026-01-01 00:00", {"flow": 1.0, "note": None})
    (two,) = read(b'{"from": "2026-01-01", "to": "2026-01-02", "flow": 1}')
    assert two.time is None


def test_the_first_number_says_whether_times_are_dates():
    dates = read(b'{"time": 1767225600}', b'{"time": 1767225660.5}', b'{"time": 5}')
    assert dates[0].moment == pd.Timestamp("2026-01-01", tz="UTC")
    assert dates[1].moment == pd.Timestamp("2026-01-01T00:01:00.5", tz="UTC")
    assert dates[2].moment == 5.0  # the stream refuses it, for it is of another kind
    counted = read(b'{"time": 5}', b'{"time": 1767225600}')
    assert counted[1].moment == 1767225600.0


def test_whole_numbers_of_csv_times_come_out_as_they_came():
    _, *rows = read(b"time,flow", b"1767225600000000001,1", b"1767225600000000002,1")
    assert [repr(row.time) for row in rows] == ["1767225600000000001", "1767225600000000002"]
    assert rows[0].moment < rows[1].moment


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"flow": "high"}', "'flow' is 'high'"),
        (b'{"flow": [1]}', "a number is needed"),
        (b'{"flow": 1' + b"0" * 400 + b"}", "too large"),
        (b'{"time": 1' + b"0" * 400 + b"}", "too large"),
        (b'{"time": NaN}', "finite"),
        (b'{"time": [1]}', "the time is"),
        (b'{"time": "\\ud800"}', "surrogate"),
        (b'{"mode": "\\ud800"}', "surrogate"),
        (b'{"key": true}', "the key is"),
        (b'{"key": 1.5}', "the key is"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff", "UTF-8"),
    ],
)
def test_rows_that_are_refused(line, message):
    reader = RowReader(COLUMNS)
    reader.read(b"{}")
    with pytest.raises(InputError, match=message):
        reader.read(line)


def test_lines_that_are_too_long_or_no_csv(monkeypatch):
    reader = RowReader(COLUMNS)
    reader.read(b"flow,mode")
    monkeypatch.setattr(rows, "LONGEST_LINE", 10)
    with pytest.raises(InputError, match="over 10 bytes"):
        reader.read(b"1" * 11)
    monkeypatch.undo()
    with pytest.raises(InputError, match="no csv"):
        reader.read(b"1" * 200_000 + b",on")
    with pytest.raises(InputError, match="'flow' is 'x'"):
        reader.read(b"x,on")


def test_a_header_needs_a_channel_and_a_model_without_names_as_many_columns():
    with pytest.raises(HeaderError, match="'a'"):
        read(b"a,b")
    unnamed = Columns(("channel_0", "channel_1"), named=False)
    with pytest.raises(HeaderError, match="'channel_0'"):
        read(b"a,b,c", columns=unnamed)
    _, row = read(b"time,a,b", b"1,2,3", columns=unnamed)
    assert row.values == {"channel_0": 2.0, "channel_1": 3.0}


def test_a_reader_goes_on():
    reader = RowReader(COLUMNS)
    reader.read(b"time;flow")
    reader.read(b"1;2")
    again = RowReader.restore(COLUMNS, reader.state)
    assert again.read(b"1767225600;2,5").values == {"flow": 2.5}
    assert again.state == reader.state

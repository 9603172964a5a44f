from __future__ import annotations

from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchad.data.preparing import Preparer
from patchad.data.series import check_observed, first_values, match_channels, prepare
from patchad.data.table import Table
from patchad.errors import InputError

NAN = np.nan


def test_clean_values_are_not_copied():
    values = np.random.default_rng(0).random((50, 3))
    found = prepare(values, ("a", "b", "c"))
    assert np.shares_memory(found.segments[0].values, values)
    assert found.notes == ()
    assert not found.muted.any()


def test_missing_values_are_held_at_the_last_one_seen():
    values = np.array([[1.0, NAN], [NAN, 5.0], [3.0, NAN], [NAN, NAN]])
    found = prepare(values, ("a", "b"), initial=np.array([9.0, 7.0]))
    assert found.segments[0].values.tolist() == [[1, 7], [1, 5], [3, 5], [3, 5]]
    assert found.muted.tolist() == [False, False, False, True]
    assert found.notes == ("filled 5 missing values in 4 rows (b 3, a 2)",)
    assert np.isnan(values[0, 1]), "the caller's array must stay as it was"


def test_filling_never_depends_on_later_rows():
    values = np.array([[1.0], [NAN], [NAN], [8.0]])
    later = values.copy()
    later[3] = -100
    first, second = (prepare(v, ("a",), initial=np.zeros(1)).segments[0].values[:3] for v in (values, later))
    np.testing.assert_array_equal(first, second)


def test_a_long_silence_ends_the_segment():
    values = np.arange(40.0)[:, None]
    values[10:30] = NAN
    found = prepare(values, ("a",), max_gap=5)
    assert [rows.tolist() for rows in found.rows] == [list(range(15)), list(range(30, 40))]
    assert any("long silences" in note for note in found.notes)
    assert found.muted[10:30].all()


def test_a_dead_sensor_among_living_ones_does_not_end_the_segment():
    values = np.random.default_rng(0).random((100, 2))
    values[10:, 1] = NAN
    found = prepare(values, ("a", "b"), max_gap=5)
    assert len(found.segments) == 1
    assert not found.muted.any(), "half of the row is there"


def test_drop_leaves_rows_out_and_bridges_short_gaps_only():
    values = np.arange(30.0)[:, None]
    values[5] = NAN
    values[10:25] = NAN
    found = prepare(values, ("a",), missing="drop", max_gap=5)
    assert [rows.tolist() for rows in found.rows] == [[0, 1, 2, 3, 4, 6, 7, 8, 9], list(range(25, 30))]
    assert found.notes == ("dropped 16 rows with missing values",)


def test_error_names_the_first_missing_value_and_the_remedy():
    with pytest.raises(InputError, match=r"1 missing value \(NaN\), the first in row 1, channel 'b'.*interpolate"):
        prepare(np.array([[1.0, 2.0], [3.0, NAN]]), ("a", "b"), missing="error")


@pytest.mark.parametrize("missing", ["interpolate", "drop", "error"])
def test_infinite_values_are_always_refused(missing):
    with pytest.raises(InputError, match=r"infinite value \(-?inf\) in row 1, channel 'b'"):
        prepare(np.array([[1.0, 2.0], [3.0, -np.inf]]), ("a", "b"), missing=missing)


def test_a_gap_in_time_starts_a_new_segment():
    times = np.array([0, 1, 2, 3, 60, 61, 62], dtype="datetime64[m]")
    found = prepare(np.zeros((7, 1)), ("a",), times, max_gap=10)
    assert [len(segment) for segment in found.segments] == [4, 3]
    assert found.segments[1].index[0] == times[4]
    assert found.notes == ("1 gap in time (over 10 usual steps): 2 segments",)


cells = st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=40, max_size=40)
"""For each row how many of its two values are missing."""


@settings(max_examples=200)
@given(
    steps=st.lists(st.sampled_from([1, 2, 30, 900]), min_size=39, max_size=39),
    missing=st.sampled_from(["interpolate", "drop"]),
    absent=cells,
    length=st.integers(1, 39),
    max_gap=st.integers(1, 12),
)
def test_where_a_table_ends_changes_nothing_before(steps, missing, absent, length, max_gap):
    values = np.arange(80.0).reshape(40, 2)
    for row, count in enumerate(absent):
        values[row, :count] = NAN
    if missing == "drop" and np.isnan(values[:length]).any(axis=1).all():
        return
    times = np.cumsum([0, *steps]).astype("datetime64[s]")
    whole, short = (
        prepare(v, ("a", "b"), t, missing=missing, max_gap=max_gap, initial=np.zeros(2))
        for v, t in ((values, times), (values[:length], times[:length]))
    )
    before = [rows[rows < length] for rows in whole.rows]
    assert [rows.tolist() for rows in short.rows] == [rows.tolist() for rows in before if len(rows)]
    for one, other in zip(short.segments, whole.segments, strict=False):
        np.testing.assert_array_equal(one.values, other.values[: len(one)])
    np.testing.assert_array_equal(short.muted, whole.muted[:length])


@settings(max_examples=200)
@given(
    steps=st.lists(st.sampled_from([1, 2, 30, 900]), min_size=39, max_size=39),
    missing=st.sampled_from(["interpolate", "drop"]),
    absent=cells,
    bounds=st.lists(st.integers(1, 39), max_size=6).map(lambda found: sorted(set(found))),
    max_gap=st.integers(1, 12),
)
def test_rows_pushed_in_any_parts_are_prepared_alike(steps, missing, absent, bounds, max_gap):
    values = np.arange(80.0).reshape(40, 2)
    for row, count in enumerate(absent):
        values[row, :count] = NAN
    times = np.cumsum([0, *steps]).astype("datetime64[s]")
    whole, parted = (Preparer(("a", "b"), np.full(2, 7.0), missing=missing, max_gap=max_gap) for _ in range(2))
    expected = whole.push(values, times)
    found = [parted.push(values[a:b], times[a:b]) for a, b in pairwise([0, *bounds, 40])]
    for name in ("muted", "kept"):
        np.testing.assert_array_equal(np.concatenate([getattr(one, name) for one in found]), getattr(expected, name))
    assert sum(one.gaps for one in found) == expected.gaps
    assert found[-1].ended == expected.ended
    segments: list[list[int]] = []
    for part in (part for one in found for part in one.parts):
        segments += [[]] if part.begins else []
        segments[-1] += part.rows.tolist()
    assert segments == [part.rows.tolist() for part in expected.parts]
    for one, other in zip(found, pairwise([0, *bounds, 40]), strict=True):
        assert not one.parts or other[0] <= one.parts[0].rows[0] <= one.parts[-1].rows[-1] < other[1]
    filled = [part.values for one in found for part in one.parts]
    if filled:
        np.testing.assert_array_equal(np.concatenate(filled), np.concatenate([p.values for p in expected.parts]))


def test_rows_that_are_refused_leave_everything_as_it_was():
    preparer = Preparer(("a",), np.zeros(1), missing="error")
    preparer.push(np.zeros((3, 1)), np.arange(3.0))
    before = {name: getattr(preparer, name) for name in Preparer.state}
    for values, times in ((NAN, 3.0), (np.inf, 3.0), (0.0, 2.0), (0.0, 1.0), (0.0, NAN)):
        with pytest.raises(InputError):
            preparer.push(np.full((1, 1), values), np.array([times]))
    assert all(np.array_equal(getattr(preparer, name), value) for name, value in before.items())
    preparer.push(np.zeros((1, 1)), np.array([3.0]))


def test_a_slower_rate_becomes_the_usual_one():
    times = np.cumsum([1] * 50 + [60] * 400)
    found = prepare(np.zeros((450, 1)), ("a",), times, max_gap=10)
    assert len(found.segments[-1]) > 300
    assert len(prepare(np.zeros((300, 1)), ("a",), times[100:400]).segments) == 1


def test_irregular_sampling_works_and_is_noted():
    times = np.cumsum(np.random.default_rng(0).uniform(0.1, 3, 200))
    found = prepare(np.zeros((200, 1)), ("a",), times)
    assert len(found.segments) == 1
    assert "irregular sampling" in found.notes[0]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 1.0, 1.0, 2.0], r"time repeats at row 2.*sort the rows"),
        ([0.0, 2.0, 1.0, 3.0], r"time goes back at row 2"),
        ([0.0, NAN, 1.0, 3.0], r"row 1 has no time"),
        ([0.0, 1.0, 1.5e308, 1.7e308], r"row 2 has the time 1\.5e\+308, which is too large"),
    ],
)
def test_times_must_increase(times, message):
    with pytest.raises(InputError, match=message):
        prepare(np.zeros((4, 1)), ("a",), np.array(times))


def test_no_rows_and_nothing_but_missing_values_are_refused():
    with pytest.raises(InputError, match="0 rows"):
        prepare(np.zeros((0, 2)), ("a", "b"))
    with pytest.raises(InputError, match="no value at all"):
        prepare(np.full((5, 1), NAN), ("a",))
    with pytest.raises(InputError, match="leaves none"):
        prepare(np.array([[1.0, NAN], [NAN, 1.0]]), ("a", "b"), missing="drop")


def test_channels_are_matched_by_name_where_both_have_names():
    table = Table(np.array([[1.0, 2.0, 3.0]]), ("c", "a", "b"))
    found = match_channels(table, ("a", "b"), named=True)
    values, ignored = found.values, found.ignored
    assert values.tolist() == [[2.0, 3.0]]
    assert ignored == ("c",)
    with pytest.raises(InputError, match="channel 'd' of the fit is missing; the columns are 'c', 'a', 'b'"):
        match_channels(table, ("a", "d"), named=True, complete=True)


def test_channels_are_matched_by_position_where_one_has_no_names():
    plain = Table(np.array([[1.0, 2.0]]))
    assert match_channels(plain, ("a", "b"), named=True).values.tolist() == [[1.0, 2.0]]
    named = Table(np.array([[1.0, 2.0]]), ("x", "y"))
    assert match_channels(named, ("channel_0", "channel_1"), named=False).values.tolist() == [[1.0, 2.0]]
    with pytest.raises(InputError, match="X has 2 features, but the detector is expecting 3 features"):
        match_channels(plain, ("a", "b", "c"), named=True)


def test_an_hour_back_without_a_zone_looks_like_the_end_of_daylight_saving_time():
    times = np.array(["2024-10-27T02:58", "2024-10-27T02:59", "2024-10-27T02:00"], "datetime64[m]")
    with pytest.raises(
        InputError, match=r"time goes back at row 2: .*daylight-saving time, write them with their offset"
    ):
        prepare(np.zeros((3, 1)), ("a",), times)
    with pytest.raises(InputError, match=r"2024-10-27 03:00:00\+01:00 after 2024-10-27 03:59:00\+01:00; .*so sort"):
        prepare(np.zeros((3, 1)), ("a",), times, zone=ZoneInfo("Europe/Berlin"))
    with pytest.raises(InputError, match=r"increase, so sort the rows \(--sort\) and drop duplicates"):
        prepare(np.zeros((3, 1)), ("a",), times - np.array([0, 0, 24], "timedelta64[h]"))


@pytest.mark.parametrize("value", [1.7e308, -1e301])
def test_values_that_overflow_in_sums_are_refused(value):
    values = np.array([[1.0, 2.0], [3.0, value]])
    for check in (lambda: prepare(values, ("a", "b")), lambda: check_observed(values, ("a", "b"))):
        with pytest.raises(InputError, match=r"too large to compute with, in row 1, channel 'b'"):
            check()


def test_of_no_rows_no_channel_has_a_value():
    assert first_values(np.empty((0, 2))).tolist() == [0, 0]

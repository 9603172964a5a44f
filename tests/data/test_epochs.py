from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from patchad.data.epochs import UNITS, times_of_numbers

MINUTES = np.datetime64("2024-04-01", "s") + 60 * np.arange(100)
SECONDS = MINUTES.astype(np.int64)


@pytest.mark.parametrize("unit", UNITS)
def test_times_since_1970_are_recognised_in_every_unit(unit):
    index, zone, notes = times_of_numbers(SECONDS * UNITS[unit])
    np.testing.assert_array_equal(index, MINUTES)
    assert zone is dt.UTC
    assert notes == ()


@pytest.mark.parametrize("unit", UNITS)
def test_floats_are_read_to_the_microsecond_and_missing_ones_are_missing(unit):
    numbers = (SECONDS[:3] + 0.25) * UNITS[unit]
    numbers[1] = np.nan
    index = times_of_numbers(numbers)[0].astype("datetime64[ms]")
    assert index.astype(str).tolist() == ["2024-04-01T00:00:00.250", "NaT", "2024-04-01T00:02:00.250"]


def test_nanoseconds_are_exact():
    stamps = 1_711_929_600_000_000_001 + np.arange(5)
    assert times_of_numbers(stamps)[0].astype(np.int64).tolist() == stamps.tolist()


@pytest.mark.parametrize(
    ("numbers", "first"),
    [
        ([20240401, 20240402], "2024-04-01T00:00"),
        ([202404011230, 202404011231], "2024-04-01T12:30"),
        ([20240401123000, 20240401123001], "2024-04-01T12:30"),
        ([20240401.0, np.nan], "2024-04-01T00:00"),
    ],
)
def test_compact_dates(numbers, first):
    index, zone, _ = times_of_numbers(np.array(numbers))
    assert str(index[0].astype("datetime64[m]")) == first
    assert zone is None


@pytest.mark.parametrize("step", [1 / 86_400, 1 / 1440, 1 / 96, 1 / 24])
def test_day_numbers_of_excel_are_dates_and_a_note_says_so(step):
    index, zone, notes = times_of_numbers(np.round(45_383 + step * np.arange(50), 9))
    assert str(index[0].astype("datetime64[s]")) == "2024-04-01T00:00:00"
    steps = np.diff(index).astype("timedelta64[ms]").astype(float)
    np.testing.assert_allclose(steps, step * 86_400_000, atol=2)
    assert zone is None
    assert "Excel" in notes[0]


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2],
        [0.5, 1.0],
        [45_383, 45_384, 45_385],
        [45_383.0, 45_383.1, 45_383.2],
        [45_383.04],
        [19_800_131, 19_800_132, 19_800_133],
        [20240401.5, 20240402.5],
        [1e10, 2e12],
        [-1.7e9, 1.7e9],
        [np.nan, np.nan],
        [],
    ],
)
def test_other_numbers_stay_numbers(numbers):
    index, zone, notes = times_of_numbers(np.array(numbers))
    np.testing.assert_array_equal(index, numbers)
    assert (zone, notes) == (None, ())

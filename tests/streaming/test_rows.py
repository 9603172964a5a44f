"""Rows and times as they come from outside."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from patchad.errors import InputError
from patchad.streaming.rows import read_times


@pytest.mark.parametrize(
    "time",
    [
        *("2026-01-01T00:00", "2026-01-01 00:00:01.5", "2026-06-01T12:00:00+02:00", "2026-01-01T00:00:00Z"),
        *("2026-01-01T00:00:00.123456789", "2026-01-01", "1500-01-01T00:00:00", "0001-01-01T00:00:00+02:00"),
        *(dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "2026-13-01T00:00", "2026-01-01T25:00"),
    ],
)
def test_a_time_alone_is_read_as_among_others(time):
    def read(times):
        try:
            return read_times(times, None, seen=False)
        except InputError as error:
            return type(error)

    alone, both = read([time]), read([time, time])
    if isinstance(both, type):
        assert alone is both
    else:
        np.testing.assert_array_equal(alone[0], both[0][:1])
        assert (alone[0].dtype, alone[1]) == (both[0].dtype, both[1])

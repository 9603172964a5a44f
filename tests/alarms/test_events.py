from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.alarms.events import find_events
from patchad.alarms.severity import Yardstick

CHANNELS = ("a", "b", "c")


def events_of(scores, *, level=1.0, shares=None, **settings):
    scores = np.asarray(scores, dtype=float)
    shares = np.tile([0.2, 0.5, 0.3], (len(scores), 1)) if shares is None else shares
    levels = np.full(len(scores), level)
    return find_events(scores, levels, scores > levels, shares, CHANNELS, Yardstick(0.0, 1.0), **settings)


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 5), st.integers(1, 5))
def test_events_are_the_runs_of_alarms(alarms, merge_gap, min_duration):
    found = events_of(np.array(alarms, dtype=float) * 2, merge_gap=merge_gap, min_duration=min_duration)
    rows = np.flatnonzero(alarms)
    covered = np.zeros(len(alarms), dtype=bool)
    for event in found:
        assert alarms[event.start]
        assert alarms[event.stop - 1]
        assert len(event) >= min_duration
        covered[event.start : event.stop] = True
    for one, other in pairwise(found):
        assert other.start - one.stop > merge_gap
    if min_duration == 1:
        assert covered[rows].all()


def test_an_event_knows_its_peak_its_times_and_who_is_to_blame():
    times = np.arange(6).astype("datetime64[h]")
    shares = np.array([[1, 0, 0]] * 3 + [[0, 0, 1]] * 3, dtype=float)
    (event,) = events_of([0, 2, 3, 9, 0, 0], shares=shares, index=times)
    assert (event.start, event.stop, event.peak, event.peak_score) == (1, 4, 3, 9.0)
    assert (event.start_time, event.stop_time) == (times[1], times[3])
    assert [name for name, _ in event.channels] == ["c", "a"], "the strongest rows weigh most"
    assert sum(share for _, share in event.channels) == pytest.approx(1)

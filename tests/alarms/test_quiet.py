"""Periods without events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import small, waves

from patchad import make
from patchad.alarms.quiet import Quiet
from patchad.errors import InputError

NAMES = ["pump", "flow", "heat"]
WINDOW = 30


@pytest.fixture(scope="module", params=["patchad", "sub_knn"])
def detector(request):
    train = pd.DataFrame(waves(3000, seed=2), columns=NAMES)
    return (small(max_steps=60) if request.param == "patchad" else make("sub_knn", window=WINDOW)).fit(train)


def today(*faults: tuple[int, int, str]) -> pd.DataFrame:
    rows = pd.DataFrame(waves(2000, seed=1), columns=NAMES)
    for start, stop, name in faults:
        rows.loc[start : stop - 1, name] += 3.0
    return rows


def events(detector, rows, quiet):
    found = detector.detect(rows, quiet=quiet)
    return [(event.start, event.stop, event.channels[0][0]) for event in found.events], found


def test_a_period_raises_no_events_and_leaves_none_beside_it(detector):
    rows = today((600, 700, "flow"), (1200, 1240, "heat"))
    loud, _ = events(detector, rows, ())
    assert [name for _, _, name in loud] == ["flow", "heat"]
    listed, found = events(detector, rows, [(600, 700)])
    assert listed == loud[1:]
    assert not found.alarms[:1100].any()


def test_a_fault_of_another_time_is_told_as_without_periods(detector):
    rows = today((600, 700, "flow"))
    assert events(detector, rows, [(900, 1000)])[0] == events(detector, rows, ())[0]


def test_what_is_strange_before_and_after_a_period_is_told(detector):
    rows = today((500, 1500, "flow"))
    listed, found = events(detector, rows, [(800, 1100)])
    assert [name for _, _, name in listed] == ["flow", "flow"]
    (start, stop, _), (again, until, _) = listed
    assert (abs(start - 500) < 6, stop <= 800, until >= 1495) == (True, True, True)
    assert 1100 <= again <= 1100 + WINDOW + 1
    assert not found.alarms[800:1100].any()


def test_a_period_no_longer_than_a_pause_does_not_cut_an_event(detector):
    listed, _ = events(detector, today((600, 700, "flow")), [(640, 645)])
    assert len(listed) == 1


def test_a_short_period_beside_a_fault_or_in_it_hides_it_as_little_as_it_covers(detector):
    rows = today((600, 640, "flow"))
    loud, _ = events(detector, rows, ())
    for quiet in [(610, 611), (645, 660), (570, 595)]:
        assert events(detector, rows, [quiet])[0] == loud


def test_a_period_of_one_channel_hushes_what_it_leads(detector):
    rows = today((600, 640, "flow"), (1200, 1240, "heat"))
    quiet = [(550, 1300, "flow")]
    listed, found = events(detector, rows, quiet)
    assert [name for _, _, name in listed] == ["heat"]
    assert not found.alarms[500:1100].any()


def test_broken_sensors_are_told_as_far_as_it_is_not_quiet(detector):
    rows = today()
    rows.loc[600:899, "flow"] = rows.loc[599, "flow"]
    (start, stop, _), *more = events(detector, rows, ())[0]
    assert (start, stop, more) == (599, 900, [])
    assert events(detector, rows, [(599, 900)])[0] == []
    assert events(detector, rows, [(590, 950, "flow")])[0] == []
    assert events(detector, rows, [(500, 700)])[0] == [(700, 900, "flow")]
    assert events(detector, rows, [(500, 900, "heat")])[0] == [(start, stop, "flow")]


def test_periods_are_times_where_there_are_any():
    index = pd.date_range("2024-05-01", periods=2000, freq="min", tz="Europe/Berlin")
    detector = make("moving_zscore").fit(pd.DataFrame(waves(2000, seed=2), columns=NAMES, index=index))
    rows = today((600, 603, "flow")).set_index(index)
    assert len(detector.detect(rows).events) == 1
    night = ("2024-05-01 09:50", "2024-05-01 10:10")  # row 600 is at 10:00 in Berlin
    assert detector.detect(rows, quiet=[night]).events == ()
    assert detector.detect([rows], quiet=[night])[0].events == ()
    assert detector.detect(rows, quiet=[("2024-05-01T07:50Z", index[610])]).events == ()
    assert len(detector.detect(rows, quiet=[("2024-05-01 07:50", "2024-05-01 08:10")]).events) == 1
    with pytest.raises(InputError, match="names a channel that is not there; there are 'pump', 'flow', 'heat'"):
        detector.detect(rows, quiet=[(*night, "valve")])


def test_a_channel_that_the_fit_left_out_may_be_quiet():
    detector = make("moving_zscore", ignore=("flow",)).fit(pd.DataFrame(waves(500), columns=NAMES))
    assert detector.detect(today(), quiet=[(0, 10, "flow")]).channels == ("pump", "heat")


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 5), st.integers(0, 5))
def test_rows_are_still_where_their_scores_reach_a_period(marked, before, after):
    rows = np.flatnonzero(marked)
    expected = [any(-before <= row - one <= after for one in rows) for row in range(len(marked))]
    quiet = Quiet(1, before=before, after=after)
    quiet.push(np.array(marked)[:, None])
    numbers = np.arange(len(marked))
    assert quiet.stills(numbers, None, np.ones(len(marked))).tolist() == expected
    assert quiet.stills(numbers, 2.0 * np.ones(len(marked)), np.ones(len(marked))).tolist() == marked

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.alarms.severity import severity

EXCESS = st.floats(0, 1e300)
ROWS = st.integers(1, 10**9)
CHANNELS = st.integers(1, 1000)


def even(channels: int) -> list[float]:
    """Return shares of channels that are equally to blame."""
    return [1 / channels] * channels


@given(EXCESS, EXCESS, ROWS, CHANNELS)
def test_the_further_over_the_level_the_more_severe(one, other, rows, channels):
    low, high = sorted([one, other])
    assert severity(low, rows, even(channels)) <= severity(high, rows, even(channels))


@given(EXCESS, ROWS, ROWS, CHANNELS)
def test_the_longer_the_more_severe(excess, one, other, channels):
    short, long = sorted([one, other])
    assert severity(excess, short, even(channels)) <= severity(excess, long, even(channels))


@given(EXCESS, ROWS, CHANNELS, CHANNELS)
def test_the_more_channels_the_more_severe(excess, rows, one, other):
    few, many = sorted([one, other])
    assert severity(excess, rows, even(few)) <= severity(excess, rows, even(many))


@given(EXCESS, ROWS, st.lists(st.floats(0, 1), max_size=50))
def test_severity_lies_between_0_and_100(excess, rows, weights):
    total = sum(weights)
    shares = [weight / total for weight in weights] if total > 0 else []
    assert 0 <= severity(excess, rows, shares) <= 100


def test_a_channel_that_hardly_shares_the_blame_hardly_counts():
    alone, hardly, half = (severity(4, 30, shares) for shares in ([1.0], [0.99, 0.01], [0.5, 0.5]))
    assert alone < hardly < alone + 0.25 * (half - alone)


def test_no_attribution_counts_as_one_channel():
    assert severity(4, 30, []) == severity(4, 30, [1.0])


@pytest.mark.parametrize("argument", range(3))
def test_severity_is_strictly_monotone_where_events_usually_lie(argument):
    grid = ([1.0, 1.5, 2, 4, 16, 100], [1, 2, 10, 100, 1000], [1, 2, 5, 20])[argument]
    usual = [4, 30, 2]
    ratings = []
    for value in grid:
        arguments = [*usual[:argument], value, *usual[argument + 1 :]]
        ratings.append(severity(arguments[0], arguments[1], even(arguments[2])))
    assert (np.diff(ratings) > 0.1).all()


def test_events_spread_over_the_scale():
    """A blip just over the level is worth little, and nothing plain is worth so much that nothing could be worse."""
    assert severity(1.1, 1, even(1)) < 10
    assert 40 < severity(4, 30, even(1)) < 60
    assert severity(8, 300, even(3)) < 85
    assert severity(100, 1000, even(20)) > 90
    ratings = [severity(x, rows, even(n)) for x in (1.2, 2, 5, 20) for rows in (1, 30, 500) for n in (1, 5)]
    assert np.ptp(ratings) > 70
    assert (np.histogram(ratings, bins=5, range=(0, 100))[0] > 0).all()

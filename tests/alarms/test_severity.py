from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchad.alarms.severity import severity

excesses = st.floats(0, 1e9)
rows = st.integers(1, 100_000)
shares = st.lists(st.floats(0.01, 1), max_size=20).map(lambda parts: [part / sum(parts) for part in parts])


@given(excesses, rows, shares)
def test_severity_lies_between_0_and_100(excess, length, parts):
    assert 0 <= severity(excess, length, parts) <= 100


@given(excesses, excesses, rows, shares)
def test_severity_grows_with_the_height(one, other, length, parts):
    low, high = sorted([one, other])
    assert severity(low, length, parts) <= severity(high, length, parts)


@given(excesses, rows, rows, shares)
def test_severity_grows_with_the_length(excess, one, other, parts):
    short, long = sorted([one, other])
    assert severity(excess, short, parts) <= severity(excess, long, parts)


def test_severity_grows_with_the_channels_that_share_the_blame():
    ratings = [severity(4, 30, [1 / count] * count) for count in (1, 2, 4, 8)]
    assert ratings == sorted(set(ratings))
    assert severity(4, 30, [0.97, 0.01, 0.01, 0.01]) < ratings[1], "a channel counts by its share"

"""Messages of a broker come out in the order of their rows, each once, whenever the broker sends them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchad.live.sources import ordering
from patchad.live.sources.ordering import PACKETS, Received, Sequence


def message(packet: int, connection: int = 1, *, again: bool = False, payload: bytes = b"", qos: int = 1) -> Received:
    return Received(connection, packet, qos, again, again, "rows", payload)


def numbered(one: Received) -> int | None:
    return int(one.payload) if one.payload else None


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A clock that stands still until its `now` is set: a busy machine may stop a test for longer than it waits."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(ordering, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@settings(max_examples=1000)
@given(
    start=st.integers(1, PACKETS),
    stored=st.integers(0, 5),
    flying=st.integers(0, 6),
    new=st.integers(1, 6),
    data=st.data(),
)
def test_whatever_was_on_its_way_comes_in_order(start, stored, flying, new, data):
    """`stored` were stored and their acknowledgement lost, `flying` were not; in any order, with new ones between."""
    packets = [(start + step - 1) % PACKETS + 1 for step in range(stored + flying + new)]
    order = Sequence(packets[stored], 60.0, numbered)
    again = [message(packet, again=True) for packet in packets[: stored + flying]]
    rest = [message(packet) for packet in packets[stored + flying :]]
    if data.draw(st.booleans()):
        again = data.draw(st.permutations(again))
    while again or rest:
        own = again if not rest or (again and data.draw(st.booleans())) else rest
        order.push(own.pop(0))
    took = [one.packet for one in iter_taken(order)]
    assert [one for one in took if one in packets[stored:]] == packets[stored:]
    assert order.following == packets[-1] % PACKETS + 1


def iter_taken(order: Sequence, most: int = 3) -> list[Received]:
    taken = []
    while part := order.take(most):
        taken += part
    return taken


def test_what_is_missing_stays_missing_when_an_earlier_one_comes():
    order = Sequence(1, 60.0, numbered)
    for packet in (4, 2, 1, 3):
        order.push(message(packet, again=True))
    order.push(message(5))
    assert [one.packet for one in iter_taken(order)] == [1, 2, 3, 4, 5]


def test_numbers_that_begin_anew_are_put_in_order_of_time(clock):
    order = Sequence(900, 35.0, numbered)
    for packet, payload in ((1, b"12"), (2, b"10"), (3, b"11"), (4, b"10"), (5, b"")):
        order.push(message(packet, payload=payload))
    order.push(message(0, payload=b"99", qos=0))
    assert [one.payload for one in order.take(9)] == [b"99"]
    assert order.following == 900
    clock.now = 34.9
    assert order.take(3) == []
    clock.now = 35.0
    assert [one.payload for one in order.take(3)] == [b"10", b"", b"11"]
    assert order.following == 0  # not all is stored yet
    assert [one.payload for one in order.take(3)] == [b"12"]
    assert order.following == 6
    order.push(message(6))
    assert [one.packet for one in order.take(3)] == [6]


def test_connections_are_not_mixed_in_a_batch():
    order = Sequence(1, 60.0, numbered)
    order.push(message(1))
    order.push(message(2, connection=2))
    assert [one.packet for one in order.take(9)] == [1]
    assert [one.packet for one in order.take(9)] == [2]


def test_times_that_cannot_be_compared_stay_as_they_came():
    order = Sequence(0, 0.0, lambda one: numbered(one) if one.payload != b"1" else 1.5)
    for packet, payload in ((1, b"3"), (2, b"1"), (3, b"2")):
        order.push(message(packet, payload=payload))
    assert [one.packet for one in order.take(9)] == [1, 2, 3]


def test_where_no_number_is_known_what_is_sent_again_is_held_back_too(clock):
    """A broker may send again what was on its way in another order, before anything new."""
    order = Sequence(0, 35.0, numbered)
    for packet in (8, 9, 5, 6, 7):
        order.push(message(packet, again=True, payload=str(packet).encode()))
    clock.now = 34.9
    assert order.take(9) == []
    clock.now = 35.0
    assert [one.packet for one in order.take(9)] == [5, 6, 7, 8, 9]
    assert order.following == 10
    order.push(message(10, payload=b"10"))
    assert [one.packet for one in order.take(9)] == [10]

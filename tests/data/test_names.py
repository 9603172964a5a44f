from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchad.data.names import visible


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("flow", "flow"),
        ("Zulauf Höhe 水位", "Zulauf Höhe 水位"),
        ("a\tb\nc\x00", r"a\tb\nc\x00"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202eexe.gpj\u2066", r"\u202eexe.gpj\u2066"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("lone\ud800", r"lone\ud800"),
        ("line\u2028end", r"line\u2028end"),
    ],
)
def test_what_hides_or_deceives_is_written_out(name, shown):
    assert visible(name) == shown


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_left_and_all_can_be_encoded(name):
    shown = visible(name)
    shown.encode()
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in shown)
    assert visible(shown) == shown

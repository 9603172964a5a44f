from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchad.fleet.names import LONGEST, file_names


@given(st.lists(st.text(max_size=250), unique=True, max_size=20))
def test_every_series_has_a_file_of_its_own(names):
    found = file_names(names)
    assert len({name.casefold() for name in found.values()}) == len(names)
    for one in found.values():
        assert one
        assert not one.startswith(".")
        assert not set(one) & set("/\\\0:")
        assert len(one.encode()) <= LONGEST + 9


def test_names_that_file_systems_cannot_hold():
    assert file_names(["..", "a/../b", "nul", "x.", "", "é", "-1"]) == {
        "..": "%2E%2E",
        "a/../b": "a%2F..%2Fb",
        "nul": "%6Eul",
        "x.": "x%2E",
        "": "~e3b0c442",
        "é": "é",
        "-1": "-1",
    }
    assert len(set(file_names(["é", "e\u0301"]).values())) == 2

from __future__ import annotations

from patchad.live.lines import Splitter


def test_a_line_that_is_too_long_costs_no_memory_and_no_other_line():
    splitter = Splitter(longest=4)
    assert splitter.push(b"a\nbbbbbb") == [b"a", b"bbbbb"]
    assert splitter.push(b"bbbbbbbbbb") == []
    assert splitter.pending == 16
    assert splitter.push(b"bb\nc\nd") == [b"c"]
    assert splitter.pending == 1
    assert splitter.flush() == [b"d"]
    assert splitter.flush() == []

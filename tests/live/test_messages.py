"""Lines of messages are rows, whatever a payload looks like."""

from __future__ import annotations

import pytest

from patchad.errors import InputError
from patchad.live.messages import Message, MessageReader, lines_of
from patchad.live.rows import Columns

COLUMNS = Columns(("flow", "heat"))


def test_a_payload_that_is_no_json_as_a_whole_has_several_lines():
    assert lines_of(b'{"flow": 1}\n{"flow": 2}\n') == [b'{"flow": 1}', b'{"flow": 2}']
    assert lines_of(b'{"flow": 1}') == [b'{"flow": 1}']


def test_json_and_csv_may_come_in_turns():
    reader = MessageReader(COLUMNS)
    assert reader.read(b"flow,heat") is None
    assert reader.read(b'{"flow": 1}').values == {"flow": 1.0}
    assert MessageReader(COLUMNS, reader.state).read(b"2,3").values == {"flow": 2.0, "heat": 3.0}


def test_what_is_known_to_be_wrong_is_refused():
    line = Message(b"x")
    line.error = "it is broken"
    with pytest.raises(InputError, match="it is broken"):
        MessageReader(COLUMNS).read(line)


def test_a_topic_without_a_header_is_not_remembered():
    reader = MessageReader(COLUMNS)
    for text in (b"hello", b"", b"  "):
        if text.strip():
            with pytest.raises(InputError, match="neither JSON nor a csv header"):
                reader.read(text)
        else:
            assert reader.read(text) is None
    assert reader.state["tables"] == {}

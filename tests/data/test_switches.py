from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from patchad.data.switches import MAX_STATES, UNSEEN, Switches
from patchad.data.table import to_table
from patchad.errors import InputError


def table(**columns):
    return to_table(pd.DataFrame({"flow": np.arange(3.0)} | columns))


def learned(**columns):
    return Switches.learn([table(**columns)])[0]


def test_two_states_are_one_channel_and_more_are_one_each():
    train = table(valve=["OFF", "ON", None], mode=["auto", "hand", "test"])
    encoded = learned(valve=["OFF", "ON", None], mode=["auto", "hand", "test"]).encode(train)
    assert encoded.channels == ("flow", "valve", "mode=auto", "mode=hand", "mode=test")
    np.testing.assert_array_equal(encoded.values, [[0, 0, 1, 0, 0], [1, 1, 0, 1, 0], [2, np.nan, 0, 0, 1]])
    assert encoded.texts == {}
    assert encoded.notes == ()


def test_states_of_several_series_are_learned_together():
    switches, notes = Switches.learn([table(valve=["a", "a", "a"]), table(valve=["b", "c", None])])
    assert switches == Switches(("valve",), (("a", "b", "c"),))
    assert notes == ()


def test_a_column_of_many_states_is_ignored_and_named():
    rows = MAX_STATES + 1
    many = to_table(pd.DataFrame({"flow": np.zeros(rows), "comment": [f"note {i}" for i in range(rows)]}))
    switches, notes = Switches.learn([many])
    assert notes == ("ignored text columns of over 20 states: 'comment'",)
    assert switches.encode(many).channels == ("flow",)
    assert switches.encode(many).ignored == ("comment",)


def test_an_unseen_state_is_out_of_range_and_noted():
    for states, width in ((["on", "off", "on"], 1), (["a", "b", "c"], 3), (["on", "on", "on"], 1)):
        encoded = learned(mode=states).encode(table(mode=[states[0], "FAULT", "FAULT"]))
        assert (encoded.values[1:, 1:] == UNSEEN).all()
        assert encoded.values.shape[1] == 1 + width
        assert encoded.notes == (
            "column 'mode' is in a state that was not in the fit: 'FAULT' (rows: 2, the first: 1)",
        )


def test_text_that_is_missing_or_reads_as_numbers():
    switches = learned(mode=["on", "off", "on"])
    silent = switches.encode(table(mode=[np.nan, np.nan, np.nan]))
    assert silent.channels == ("flow", "mode")
    assert np.isnan(silent.values[:, 1]).all()
    numbers = switches.encode(table(mode=[1, 0, np.nan]))
    np.testing.assert_array_equal(numbers.values[:, 1], [UNSEEN, UNSEEN, np.nan])
    assert "'0', '1'" in numbers.notes[0]


def test_what_is_not_there_stays_away():
    switches = learned(mode=["on", "off", "on"])
    assert switches.encode(table()).channels == ("flow",)
    other = switches.encode(table(door=["open", "shut", "open"]))
    assert (other.channels, other.ignored) == (("flow",), ("door",))
    plain = to_table(np.zeros((3, 2)))
    assert switches.encode(plain) is plain
    assert Switches().encode(plain) is plain


def test_channels_know_their_columns():
    switches = learned(mode=["a", "b", "c"], valve=["on", "off", "on"])
    channels = ("flow", "mode=a", "mode=b", "mode=c", "valve")
    assert switches.sources(channels) == ("flow", "mode", "valve")
    assert switches.mask(channels).tolist() == [False, True, True, True, True]


def test_a_name_that_is_taken_is_refused():
    frame = pl.DataFrame({"mode": ["a", "b", "c"], "mode=a": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="column 'mode=a' has the name of a state's channel"):
        Switches.learn([to_table(frame)])[0].encode(to_table(frame))

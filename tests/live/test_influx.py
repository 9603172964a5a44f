"""Points of the Influx line protocol, with all that may be in them, and how they become rows."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from patchad.errors import InputError
from patchad.live.influx import Grouping, Point, read_point, time_text
from patchad.live.rows import Columns


@pytest.mark.parametrize(
    ("line", "point"),
    [
        ("a b=1", Point("a", {}, {"b": 1.0}, None)),
        (" a b=1 5 \r", Point("a", {}, {"b": 1.0}, 5)),
        (
            "a,c=d b=1i,e=2u,f=-3i,g=1e3,h=.5 -5",
            Point("a", {"c": "d"}, {"b": 1, "e": 2, "f": -3, "g": 1e3, "h": 0.5}, -5),
        ),
        ("a b=t,c=F,d=true,e=FALSE", Point("a", {}, {"b": True, "c": False, "d": True, "e": False}, None)),
        (r'a b="x, y=z \"q\" \\ #",c=1', Point("a", {}, {"b": r'x, y=z "q" \ #', "c": 1.0}, None)),
        (
            r"my\ pump\,1,si\ te=no\=rth\,\ x fi\ eld=1 7",
            Point("my pump,1", {"si te": "no=rth, x"}, {"fi eld": 1.0}, 7),
        ),
        (r"a\b,c\d=e\f g\h=1", Point(r"a\b", {r"c\d": r"e\f"}, {r"g\h": 1.0}, None)),
        ('a,host="x b=1', Point("a", {"host": '"x'}, {"b": 1.0}, None)),
        ('"a",b==c d="=" 1', Point('"a"', {"b": "=c"}, {"d": "="}, 1)),
        ('a b=""', Point("a", {}, {"b": ""}, None)),
    ],
)
def test_points(line, point):
    assert read_point(line) == point


@pytest.mark.parametrize("line", ["", "   ", "# a b=1"])
def test_lines_without_a_point(line):
    assert read_point(line) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a", "no point"),
        ("a b=1 5 6", "no point"),
        (",c=d b=1", "no measurement"),
        ("a,c b=1", "'c'; write name=value"),
        ("a b", "'b'; write name=value"),
        ("a b=", "write name=value"),
        ('a b="x', "does not end"),
        ("a b=x", "field 'b' is 'x'"),
        ("a b=1.5i", "field 'b' is '1.5i'"),
        ("a b=-1u", "field 'b' is '-1u'"),
        ("a b=nan", "field 'b' is 'nan'"),
        ("a b=1 x", "the time of the point is 'x'"),
        ("a b=1 99999999999999999999", "the time of the point"),
    ],
)
def test_what_is_no_point(line, message):
    with pytest.raises(InputError, match=message):
        read_point(line)


@given(st.text(',= "\\\nai1#', max_size=40))
def test_any_text_is_a_point_or_refused(text):
    with contextlib.suppress(InputError):
        read_point(text)


NAME = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=8).filter(
    lambda name: not name.endswith("\\") and name.strip() == name and name[0] != "#" and "\\" not in name
)


@given(
    NAME,
    st.dictionaries(NAME, NAME, max_size=3),
    st.dictionaries(
        NAME,
        st.floats(allow_nan=False, allow_infinity=False)
        | st.booleans()
        | st.text(max_size=5).map(lambda text: text.replace("\\", "").replace("\n", "").replace("\r", "")),
        min_size=1,
        max_size=3,
    ),
)
@example("0", {}, {'="': " "})
def test_what_was_written_is_read(measurement, tags, fields):
    def escaped(text: str) -> str:
        return "".join(f"\\{letter}" if letter in ", =" else letter for letter in text)

    def written(value) -> str:
        if isinstance(value, str):
            return '"' + value.replace('"', '\\"') + '"'
        return str(value)

    head = ",".join([escaped(measurement), *(f"{escaped(name)}={escaped(value)}" for name, value in tags.items())])
    body = ",".join(f"{escaped(name)}={written(value)}" for name, value in fields.items())
    assert read_point(f"{head} {body} 12", "ms") == Point(measurement, tags, fields, 12 * 10**6)


def test_times_have_as_many_digits_as_they_need():
    assert time_text(1_500_000) == "1970-01-01T00:00:00.001500Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999999999Z"


def rows(columns: tuple[str, ...], keys, *lines: str) -> list[dict]:
    grouping = Grouping(Columns(columns), keys)
    done = [group for line in lines for group in grouping.push(read_point(line))]
    return [group.row() for group in [*done, *grouping.release()]]


def test_points_of_a_key_and_time_are_a_row():
    found = rows(
        ("flow", "heat"), None, "a,host=x flow=1 5", "b,host=x heat=2 5", "a,host=y flow=3 5", "a,host=x flow=4 6"
    )
    assert [(one["key"], one["values"]) for one in found] == [
        ("x", {"flow": 1.0, "heat": 2.0}),
        ("x", {"flow": 4.0}),
        ("y", {"flow": 3.0}),
    ]
    assert found[0] == {"key": "x", "time": "1970-01-01T00:00:00.000000005Z", "values": {"flow": 1.0, "heat": 2.0}}


def test_points_without_a_time_are_rows_each():
    assert [one["values"] for one in rows(("flow",), None, "a flow=1", "a flow=2")] == [{"flow": 1.0}, {"flow": 2.0}]


def test_several_tags_are_one_key_and_the_others_tell_channels_apart():
    assert rows(("flow",), None, "a,c=d,b=e flow=1")[0]["key"] == "b=e,c=d"
    assert rows(("usage.cpu1",), ("host",), "cpu,cpu=cpu1,host=x usage=1,idle=2")[0] == {
        "key": "x",
        "values": {"usage.cpu1": 1.0, "idle.cpu1": 2.0},
    }
    assert rows(("flow",), ("host",), "a,b=c flow=1")[0] == {"key": "", "values": {"flow": 1.0}}
    assert rows(("flow",), (), "a,b=c flow=1")[0] == {"key": None, "values": {"flow": 1.0}}


@pytest.mark.parametrize("channel", ["usage", "cpu.usage", "cpu_usage"])
def test_a_channel_is_known_by_any_of_its_names(channel):
    assert rows((channel,), None, "cpu usage=1")[0]["values"] == {channel: 1.0}
    assert rows(("flow",), None, "flow value=1")[0]["values"] == {"flow": 1.0}
    assert rows(("flow",), None, "cpu usage=1")[0]["values"] == {"cpu.usage": 1.0}

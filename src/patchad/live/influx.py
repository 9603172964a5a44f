r"""Influx line protocol: points as text, and how they become rows.

`weather,site=north temp=21.5,rain=0i,open=t,sky="clear" 1465839830100400200` is a point: a measurement, tags, fields
and a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from patchad.errors import InputError
from patchad.live.rows import Columns

MICRO, MILLI, SECOND = 10**3, 10**6, 10**9
PRECISIONS = {"ns": 1, "n": 1, "us": MICRO, "u": MICRO, "ms": MILLI, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
"""Nanoseconds of one, by the name of a unit of time."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
TRUTH = dict.fromkeys(("t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("f", "F", "false", "False", "FALSE"), False
)
ESCAPED = re.compile(r"\\([, =\\])")


@dataclass(frozen=True, slots=True)
class Point:
    """A point as it was written."""

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, Any]
    time: int | None
    """Nanoseconds since 1970."""


def read_point(line: str, precision: str = "ns") -> Point | None:
    r"""Read a line; None for an empty one or a comment. `InputError` says what is wrong with it.

    Examples
    --------
    >>> point = read_point('pump,site=north\\ one flow=1.5,runs=t,count=3i 1465839830', "s")
    >>> point.measurement, point.tags, point.fields, point.time
    ('pump', {'site': 'north one'}, {'flow': 1.5, 'runs': True, 'count': 3}, 1465839830000000000)
    """
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    head, *behind = _split(text, " ", quotes=False, most=1)
    fields, *times = [one for one in _split(behind[0] if behind else "", " ") if one] or [""]
    if not fields or len(times) > 1:
        raise InputError(
            "the line is no point of Influx line protocol; write measurement,tag=value field=1.5 1465839830000000000"
        )
    measurement, *tags = _split(head, ",", quotes=False)
    if not measurement:
        raise InputError("the point has no measurement; write its name first")
    return Point(
        _plain(measurement),
        {name: _plain(value) for name, value in (_pair(one, quotes=False) for one in tags)},
        {name: _value(name, value) for name, value in map(_pair, _split(fields, ","))},
        _time(times[0], precision) if times else None,
    )


def time_text(nanoseconds: int) -> str:
    """Write a time as ISO 8601 in UTC, with as many digits as it needs.

    Examples
    --------
    >>> time_text(1465839830100400200), time_text(1465839830000000000)
    ('2016-06-13T17:43:50.100400200Z', '2016-06-13T17:43:50Z')
    """
    whole, rest = divmod(nanoseconds, SECOND)
    digits = f"{rest:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{np.datetime64(whole, 's')}{'.' * bool(digits)}{digits}Z"


@dataclass(slots=True)
class Group:
    """Points of one key and time: a row."""

    key: str | None
    time: int | None
    values: dict[str, Any] = field(default_factory=dict)
    since: float = 0.0
    """When its first point came."""

    def row(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        time = {} if self.time is None else {"time": time_text(self.time)}
        return {"key": self.key} | time | {"values": self.values}


class Grouping:
    """Put points together that are of one key and time, under the names of the model's channels.

    Parameters
    ----------
    columns
        What the model knows of rows.
    keys
        Tags whose values are the key; None: all tags.
    """

    def __init__(self, columns: Columns, keys: tuple[str, ...] | None) -> None:
        self._columns, self._keys = columns, keys
        self._open: dict[str | None, Group] = {}

    def push(self, point: Point, now: float = 0.0) -> Iterator[Group]:
        """Add a point; return the rows that no further point belongs to, as the next of their key begins."""
        own = point.tags if self._keys is None else {name: point.tags.get(name, "") for name in self._keys}
        rest = [value for name, value in point.tags.items() if name not in own]
        key = None if not own else next(iter(own.values())) if len(own) == 1 else _listed(own)
        group = self._open.get(key)
        if group is None or group.time != point.time or point.time is None:
            if group is not None:
                yield group
            group = self._open[key] = Group(key, point.time, {}, now)
        for name, value in point.fields.items():
            group.values[self._channel(point.measurement, name, rest)] = value

    def release(self, before: float = float("inf")) -> list[Group]:
        """Return the rows whose first point came before a time, as they are."""
        found = [group for group in self._open.values() if group.since < before]
        self._open = {key: group for key, group in self._open.items() if group.since >= before}
        return found

    def _channel(self, measurement: str, name: str, rest: list[str]) -> str:
        """Return the name of a channel of the model, as plain as it may be; else the longest name."""
        plain = [name, f"{measurement}.{name}", f"{measurement}_{name}"]
        if name == "value":
            plain.append(measurement)
        more = [".".join([one, *rest]) for one in plain] if rest else []
        names = more + plain
        return next((one for one in names if one in self._columns.channels), names[0] if rest else plain[1])


def _split(text: str, separator: str, *, quotes: bool = True, most: int = -1) -> list[str]:
    """Cut at separators that are neither escaped nor inside the quotes of a field's text."""
    parts: list[str] = []
    begin, quoted, place, equals = 0, False, 0, -2
    while place < len(text) and len(parts) != most:
        letter = text[place]
        if letter == "\\":
            place += 1
        elif letter == '"' and quotes and (quoted or place == equals + 1):
            quoted = not quoted
        elif letter == separator and not quoted:
            parts.append(text[begin:place])
            begin = place + 1
        equals = place if letter == "=" else equals  # one that is escaped is part of a name
        place += 1
    if quoted:
        raise InputError("the point has a text that does not end; write its second quote")
    return [*parts, text[begin:]]


def _pair(text: str, *, quotes: bool = True) -> tuple[str, str]:
    name, *values = _split(text, "=", quotes=quotes, most=1)
    if not values or not name or not values[0]:
        raise InputError(f"the point has {text!r}; write name=value")
    return _plain(name), values[0]


def _plain(text: str) -> str:
    return ESCAPED.sub(r"\1", text)


def _value(name: str, text: str) -> Any:
    """Read the value of a field."""
    if text[0] == '"' and text[-1] == '"' and len(text) > 1:
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    if text in TRUTH:
        return TRUTH[text]
    whole = text[:-1].lstrip("+-") if text[-1] in "iu" else ""
    if whole.isdecimal() and not (text[-1] == "u" and text[0] == "-"):
        return int(text[:-1])
    if NUMBER.match(text):
        return float(text)
    raise InputError(
        f"field {name!r} is {text!r}; a number, a whole number as 3i or 3u, true, false or a text is needed"
    )


def _time(text: str, precision: str) -> int:
    if not text.removeprefix("-").isdecimal() or abs(int(text) * PRECISIONS[precision]) >= 2**63:
        raise InputError(f"the time of the point is {text!r}; a whole number of {precision} since 1970 is needed")
    return int(text) * PRECISIONS[precision]


def _listed(tags: Mapping[str, str]) -> str:
    return ",".join(f"{name}={tags[name]}" for name in sorted(tags))

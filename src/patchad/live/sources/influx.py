"""Rows from points of the Influx line protocol, on standard input."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.influx import PRECISIONS, Grouping, read_point
from patchad.live.messages import Message, MessageReader
from patchad.live.rows import Columns
from patchad.live.sources.stdin import StdinSource

HELD = 1.0
"""Seconds that a row waits for further points of its time where nothing follows."""


class Points:
    """Lines of points to messages, a row each.

    Parameters
    ----------
    address
        Has the options: `key`, `precision`.
    """

    def __init__(self, address: Address) -> None:
        keys = address.options.get("key")
        self._keys = None if keys is None else tuple(name for name in keys.split(",") if name)
        self.precision = check_precision(address.options.get("precision", "ns"))

    def begin(self, columns: Columns) -> None:
        """Name the channels of the model."""
        self._grouping = Grouping(columns, self._keys)

    def push(self, lines: Iterable[bytes], precision: str) -> list[Message]:
        """Return the rows that are complete, and the lines that are no points."""
        now, found = time.monotonic(), list[Message]()
        for line in lines:
            try:
                point = read_point(line.decode(), precision)
            except UnicodeDecodeError:
                found.append(_wrong(line, "the line is no UTF-8; write text as UTF-8"))
            except InputError as error:
                found.append(_wrong(line, str(error)))
            else:
                if point is not None:
                    found += [_message(group.row()) for group in self._grouping.push(point, now)]
        return found

    def release(self, before: float = float("inf")) -> list[Message]:
        """Return the rows whose first points came before a time."""
        return [_message(group.row()) for group in self._grouping.release(before)]


class InfluxSource(StdinSource):
    """Points on standard input, as Telegraf's `outputs.execd` and `file` write them.

    Points of one key and time are a row. A row ends when the next of its key begins, or when nothing follows.
    """

    name = "influx:-"

    def __init__(self, address: Address) -> None:
        if address.place != "-":
            raise InputError(
                f"{address.text!r} is no source; write influx:- for standard input, or influx+http://HOST:PORT"
            )
        address.check_options(["key", "precision"])
        super().__init__(Address("-", "-"))
        self._points = Points(address)

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> MessageReader:  # type: ignore[override]
        """Return what reads the rows."""
        self._points.begin(columns)
        return MessageReader(columns, state)

    def poll(self) -> list[bytes]:
        """Return the rows that are complete."""
        found = self._points.push(super().poll(), self._points.precision)
        found += self._points.release(float("inf") if self.ended else time.monotonic() - HELD)
        return list[bytes](found)


def check_precision(name: str) -> str:
    """Refuse a unit of time that is unknown."""
    if name not in PRECISIONS:
        raise InputError(f"precision={name} is unknown; use one of: {', '.join(PRECISIONS)}")
    return name


def _message(row: Mapping[str, Any]) -> Message:
    return Message(json.dumps(row).encode())


def _wrong(line: bytes, error: str) -> Message:
    message = Message(line)
    message.error = error
    return message

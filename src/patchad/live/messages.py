"""Messages: what brokers and servers deliver, as lines that know their key, and how rows are read from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchad.errors import InputError
from patchad.live.rows import Columns, HeaderError, Key, Row, RowReader


class Message(bytes):
    """A line of a message."""

    key: Key = None
    """The key of a row that has none itself."""
    origin: str = ""
    """What the message came on; csv lines have a header for each origin."""
    again: bool = False
    """Whether it may have come before."""
    error: str = ""
    """What is wrong with it, where that is known before it is read."""
    timed: bool = False
    """Whether a row was read from it that has a time."""


def lines_of(payload: bytes) -> list[bytes]:
    r"""Cut a payload into lines; a JSON object that is written over several is one.

    Examples
    --------
    >>> lines_of(b'flow,heat\n1,2\n\n3,4\n')
    [b'flow,heat', b'1,2', b'3,4']
    >>> lines_of(b'{"flow": 1,\n "heat": 2}')
    [b'{"flow": 1,\n "heat": 2}']
    """
    if b"\n" not in payload:
        return [payload]
    if payload.lstrip().startswith(b"{"):
        try:
            json.loads(payload)
        except (ValueError, RecursionError):
            pass
        else:
            return [payload]
    return [line for line in payload.split(b"\n") if line.strip()]


class MessageReader:
    r"""Read lines of messages: JSON objects, or csv under a header that came before on the same origin.

    Parameters
    ----------
    columns
        What the model knows of rows.
    state
        Of another reader, to go on as that would.

    Examples
    --------
    >>> reader, line = MessageReader(Columns(("flow",))), Message(b'{"flow": 1.5}')
    >>> line.key = "pump"
    >>> reader.read(line)
    Row(key='pump', time=None, moment=None, values={'flow': 1.5})
    """

    def __init__(self, columns: Columns, state: Mapping[str, Any] | None = None) -> None:
        self._columns = columns
        self._json = RowReader(columns)
        self._tables: dict[str, RowReader] = {}
        if state is not None:
            self._json = RowReader.restore(columns, state["json"])
            self._tables = {name: RowReader.restore(columns, one) for name, one in state["tables"].items()}

    @property
    def state(self) -> dict[str, Any]:
        """What has to be known to go on."""
        return {"json": self._json.state, "tables": {name: one.state for name, one in self._tables.items()}}

    def read(self, line: bytes) -> Row | None:
        """Read a line; None for one that is empty or a header. `InputError` says what is wrong with it."""
        message = line if isinstance(line, Message) else Message(line)
        if message.error:
            raise InputError(message.error)
        row = self._json.read(message) if message.lstrip().startswith(b"{") else self._from_table(message)
        if row is None:
            return None
        message.timed = row.time is not None
        return row if row.key is not None else replace(row, key=message.key)

    def _from_table(self, message: Message) -> Row | None:
        reader = self._tables.get(message.origin)
        if reader is None:
            reader = RowReader(self._columns)
        try:
            row = reader.read(message)
        except HeaderError as error:
            raise InputError(str(error)) from None
        if message.strip():
            self._tables[message.origin] = reader
        return row

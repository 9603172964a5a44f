"""Lines of a file, followed as it grows."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.lines import Splitter
from patchad.live.rows import Columns, RowReader
from patchad.live.sources.base import Position

logger = logging.getLogger(__name__)

CHUNK = 2**15
"""Bytes that are read at once: a transaction's worth of rows."""
HEAD = 1024
"""Bytes at the beginning by which a file is known again."""


class FileSource:
    """A file that is followed as it grows; `?follow=0` ends at its end.

    A file that is replaced by another, or gets shorter, is read from its beginning, after what was left of the old one.
    A last line without a line break is a row if the file is not followed; else it waits for the rest.
    """

    def __init__(self, address: Address) -> None:
        address.check_options(["follow"])
        follow = address.options.get("follow", "1")
        if follow not in ("0", "1"):
            raise InputError(f"{address.text!r} has follow={follow}; use follow=0 or follow=1")
        if not address.place:
            raise InputError(f"{address.text!r} names no file; write file:PATH")
        self.path: Path = Path(address.place)
        if not self.path.is_file():
            raise InputError(f"there is no file {str(self.path)!r}; give the path of a file of rows")
        self.name = f"file:{self.path.resolve()}"
        self.resumed, self.ended = False, False
        self._follow = follow == "1"
        self._known = 0
        """Bytes at the beginning of the file that `_head` is a hash of."""

    def open(self, position: Position | None) -> None:
        """Open the file, at a position if it is the file that the position is of."""
        self._begin()
        if position is None:
            return
        offset = int(position["offset"])
        if _head_of(self._file, offset) != position["head"]:
            logger.warning("%s is another file than before, and is read from its beginning", self.path)
            return
        self.resumed = True
        self._read = offset
        self._file.seek(offset)

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> RowReader:
        """Return what reads JSON or csv, as the first line says."""
        if self.resumed and state is not None:
            return RowReader.restore(columns, state)
        return RowReader(columns)

    def connect(self, owner: str | None) -> None:
        """Nothing is to be reached."""

    def poll(self) -> list[bytes]:
        """Return the lines that are there now."""
        if self.ended:
            return []
        data = self._file.read(CHUNK)
        if data:
            self._read += len(data)
            return self._splitter.push(data)
        if not self._follow:
            self.ended = True
            return self._splitter.flush()
        return self._reopened() if self._replaced() else []

    @property
    def position(self) -> Position:
        """The end of the last line, and the beginning of the file to know it by."""
        offset = self._read - self._splitter.pending
        if self._known < min(offset, HEAD):
            self._head = _head_of(self._file, offset)
            self._known = min(offset, HEAD)
            self._file.seek(self._read)
        return {"offset": offset, "head": self._head}

    def acknowledge(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin(self) -> None:
        self._file: BinaryIO = self.path.open("rb", buffering=0)
        self._splitter = Splitter()
        self._read = 0
        self._head, self._known = _head_of(self._file, 0), 0

    def _replaced(self) -> bool:
        """Return whether the path leads to another file now, or the file was cut."""
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return False  # moved away; another may follow
        own = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino) or now.st_size < self._read

    def _reopened(self) -> list[bytes]:
        logger.warning("%s was replaced, and is read from its beginning", self.path)
        rest = self._splitter.flush()
        self._file.close()
        self._begin()
        return rest


def _head_of(file: BinaryIO, offset: int) -> str:
    """Return a hash of the first bytes of a file, of those before `offset`."""
    file.seek(0)
    head = hashlib.sha256(file.read(min(offset, HEAD)))
    file.seek(0, os.SEEK_END)
    if file.tell() < offset:
        head.update(b"shorter than it was")
    file.seek(0)
    return head.hexdigest()
